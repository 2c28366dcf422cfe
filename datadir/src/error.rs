//! Why a directory could not be read or written.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error of the operating system, or a write that was refused. Damaged content is no error of a reading: it is
/// [`crate::State::Damaged`].
#[derive(Debug, Error)]
pub enum Error {
    /// The disk or its permissions are at fault; nothing may be concluded about the data. Try again later.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's word.
        source: io::Error,
    },
    /// Nothing was written.
    #[error("the commit index of {} is not moved: {why}", path.display())]
    Refused {
        /// The WAL.
        path: PathBuf,
        /// In one sentence.
        why: String,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Unreadable { source, .. } => source.kind(),
            Error::Refused { .. } => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error.to_string())
    }
}

impl Error {
    /// The same with the path it is about.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }

    /// The file is not there (any more): etcd deletes old files while it runs.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
