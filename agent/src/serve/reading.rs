//! A reading of etcd's files that is kept as long as the files are the same: the directory is looked at on each event.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datadir::{Inspection, Options, Use};

/// What etcd's files hold, and which files these were.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading {
    files: Vec<Mark>,
    /// What was found.
    pub inspection: Inspection,
}

/// A file is the same as long as all of this is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    path: PathBuf,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl Reading {
    /// Reads the files of a directory on which etcd does not run, unless `last` was made of the same ones.
    pub fn of(data_dir: &Path, last: Option<Arc<Self>>) -> Result<Arc<Self>, String> {
        let text = |error: io::Error| format!("{}: {error}", data_dir.display());
        // Before the reading: what changes meanwhile makes another one due.
        let files = marks(data_dir).map_err(text)?;
        if let Some(last) = last.filter(|last| last.files == files) {
            return Ok(last);
        }
        let options = Options {
            used: Use::Known { running: false },
        };
        let inspection = datadir::inspect(data_dir, &options).map_err(|error| error.to_string())?;
        Ok(Arc::new(Self { files, inspection }))
    }
}

fn marks(data_dir: &Path) -> io::Result<Vec<Mark>> {
    let mut marks = Vec::new();
    for folder in ["member/wal", "member/snap"] {
        let entries = match fs::read_dir(data_dir.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let metadata = entry.metadata()?;
            marks.push(Mark {
                path: entry.path(),
                inode: metadata.ino(),
                len: metadata.len(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            });
        }
    }
    marks.sort();
    Ok(marks)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_only_when_they_have_changed() {
        let folder = tempfile::tempdir().unwrap();
        datadir::testing::intact(folder.path(), 7, 9).unwrap();
        let first = Reading::of(folder.path(), None).unwrap();
        assert_eq!(first.inspection.state, datadir::State::Intact);
        let again = Reading::of(folder.path(), Some(Arc::clone(&first))).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        fs::remove_dir_all(folder.path().join("member/wal")).unwrap();
        let other = Reading::of(folder.path(), Some(first)).unwrap();
        assert!(matches!(other.inspection.state, datadir::State::Damaged(_)));
    }
}
