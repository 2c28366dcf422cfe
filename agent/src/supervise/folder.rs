//! The data volume: etcd's `member/` and the agent's folder beside it. All that is written there is written here.
//!
//! What must outlive a crash is written in this order: content, fsync, rename, fsync of the folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use datadir::wal;

use super::rules::Ground;
use crate::cli::Paths;
use crate::recover::journal::{self, Journal};

/// Names in the agent's folder that the supervisor itself knows.
pub(crate) mod name {
    /// While it is there, etcd is not started.
    pub(crate) const FENCE: &str = "fence";
    pub(crate) const IDENTITY: &str = "identity.json";
    /// Which directory this is; made by the agent.
    pub(crate) const NONCE: &str = "nonce";
    /// etcd has once written its WAL here.
    pub(crate) const STARTED: &str = "started";
    /// The highest Once order used here.
    pub(super) const USED: &str = "once-order";
    /// What is being deleted.
    pub(super) const DELETING: &str = "deleting";
    /// What was set aside.
    pub(crate) const QUARANTINE: &str = "quarantine";
}

/// The facts about one directory. They go where its data go: an order for it must never meet another one.
/// The nonce goes first: without it nothing is taken for this directory.
/// A fence on them goes last: until then they are fenced.
const OF_THE_DIRECTORY: [&str; 4] = [name::NONCE, name::IDENTITY, name::STARTED, name::FENCE];

/// etcd's data directory and the agent's folder.
#[derive(Debug, Clone)]
pub struct Folder {
    data: PathBuf,
    ours: PathBuf,
}

impl Folder {
    /// As the Pod has mounted them. Nothing is touched yet.
    #[must_use]
    pub fn new(paths: &Paths) -> Self {
        Self {
            data: paths.data_dir(),
            ours: paths.agent_folder(),
        }
    }

    /// What a start is judged by.
    pub fn ground(&self) -> io::Result<Ground> {
        let (folder, wal) = (self.wal(), wal::is_born(&self.wal())?);
        Ok(Ground {
            fenced: self.exists(name::FENCE)?,
            recovering: self.recovery()?.is_some_and(|journal| journal.is_open()),
            wal,
            rest: !wal && at(&folder, fs::exists(&folder))?,
            identity: self.exists(name::IDENTITY)?,
            started: self.exists(name::STARTED)?,
            used: self.used()?,
        })
    }

    /// Records that etcd has saved something in its WAL here, if it has. True when that is recorded.
    pub fn note_started(&self) -> io::Result<bool> {
        self.note(wal::is_born(&self.wal())?)
    }

    /// The same while etcd runs, see [`wal::has_saved`].
    pub fn note_saved(&self) -> io::Result<bool> {
        self.note(wal::has_saved(&self.wal())?)
    }

    fn note(&self, born: bool) -> io::Result<bool> {
        if born && !self.exists(name::STARTED)? {
            self.write(name::STARTED, b"etcd has written its WAL in this directory\n")?;
        }
        Ok(born)
    }

    /// Records whose data etcd is about to write.
    pub fn write_identity(&self, identity: &[u8]) -> io::Result<()> {
        self.write(name::IDENTITY, identity)
    }

    /// Records that this Once order is about to be used.
    pub fn write_used(&self, order: u64) -> io::Result<()> {
        self.write(name::USED, order.to_string().as_bytes())
    }

    /// The recovery that was ordered here last.
    pub fn recovery(&self) -> io::Result<Option<Journal>> {
        Journal::read(&self.ours).map_err(io::Error::other)
    }

    /// Writes the journal of a recovery.
    pub(crate) fn write_journal(&self, file: &str, content: &[u8]) -> io::Result<()> {
        self.write(file, content)
    }

    /// Says which directory this is.
    pub(crate) fn write_nonce(&self, nonce: &str) -> io::Result<()> {
        self.write(name::NONCE, nonce.as_bytes())
    }

    /// Writes a file on the agent's word; empty content removes it.
    pub fn write_for_agent(&self, file: &str, content: &[u8]) -> io::Result<()> {
        let own = [
            name::STARTED,
            name::USED,
            name::DELETING,
            name::QUARANTINE,
            journal::FILE,
            journal::FOLDER,
        ];
        if file.is_empty() || file.contains('/') || file.starts_with('.') || own.contains(&file) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{file:?} is not a file of the agent's; name one without '/', leading '.', and not {own:?}"),
            ));
        }
        if content.is_empty() {
            self.remove(file)
        } else {
            self.write(file, content)
        }
    }

    /// Sets etcd's data and the facts about them aside, under `quarantine/<label>-<time>/`. What is not there is
    /// passed over, so it can be asked for again after a crash half-way.
    pub fn set_aside(&self, label: &str, time: &str) -> io::Result<PathBuf> {
        if label.is_empty() || !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("label {label:?} must be letters, digits and '-'"),
            ));
        }
        self.make()?;
        let quarantine = self.ours.join(name::QUARANTINE);
        at(&quarantine, fs::create_dir_all(&quarantine))?;
        let aside = (0..)
            .map(|again| match again {
                0 => quarantine.join(format!("{label}-{time}")),
                _ => quarantine.join(format!("{label}-{time}-{again}")),
            })
            .find_map(|path| match fs::create_dir(&path) {
                Ok(()) => Some(Ok(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                Err(error) => Some(at(&path, Err(error))),
            })
            .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        sync(&quarantine)?;
        sync(&self.ours)?;
        rename_if_there(&self.ours.join(name::NONCE), &aside.join(name::NONCE))?;
        sync(&self.ours)?;
        if rename_if_there(&self.member(), &aside.join("member"))? {
            sync(&self.data)?;
        }
        for file in [name::IDENTITY, name::STARTED, name::FENCE] {
            rename_if_there(&self.ours.join(file), &aside.join(file))?;
        }
        sync(&aside)?;
        sync(&self.ours)?;
        Ok(aside)
    }

    /// Deletes etcd's data. A directory on which etcd had started is another one afterwards, so the facts about it go
    /// too; one on which it never did stays the same.
    pub fn delete(&self) -> io::Result<()> {
        if self.note_started()? || self.exists(name::STARTED)? {
            self.remove(name::NONCE)?;
        }
        // At once and as a whole: half of a data directory must never be taken for one.
        self.finish_deleting()?;
        self.make()?;
        if rename_if_there(&self.member(), &self.ours.join(name::DELETING))? {
            sync(&self.data)?;
            sync(&self.ours)?;
        }
        if self.exists(name::STARTED)? {
            for file in OF_THE_DIRECTORY {
                self.remove(file)?;
            }
        }
        self.finish_deleting()
    }

    /// Deletes a directory that was set aside.
    pub fn remove_quarantined(&self, aside: &str) -> io::Result<()> {
        if aside.is_empty() || aside.contains('/') || aside.starts_with('.') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{aside:?} is not the name of a directory in quarantine"),
            ));
        }
        let path = self.ours.join(name::QUARANTINE).join(aside);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => at(&path, result),
        }
    }

    /// Why etcd must not be started on what is there: etcd itself would start on some of it, and lose what it held.
    pub fn damage(&self) -> io::Result<Option<String>> {
        let options = datadir::Options {
            used: datadir::Use::Known { running: false },
        };
        Ok(match datadir::inspect(&self.data, &options)?.state {
            datadir::State::Damaged(damage) => Some(damage.to_string()),
            datadir::State::Unborn
            | datadir::State::Intact
            | datadir::State::TornTail
            | datadir::State::TooOld
            | datadir::State::InUse => None,
        })
    }

    /// Deletes what a crash has kept from being deleted.
    pub fn finish_deleting(&self) -> io::Result<()> {
        let rest = self.ours.join(name::DELETING);
        match fs::remove_dir_all(&rest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => at(&rest, result),
        }
    }

    fn member(&self) -> PathBuf {
        self.data.join("member")
    }

    fn wal(&self) -> PathBuf {
        self.member().join("wal")
    }

    fn used(&self) -> io::Result<u64> {
        let path = self.ours.join(name::USED);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            text => at(&path, text)?
                .trim()
                .parse()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))),
        }
    }

    fn exists(&self, file: &str) -> io::Result<bool> {
        let path = self.ours.join(file);
        at(&path, fs::exists(&path))
    }

    /// Makes our folder, so that it outlives a crash with what is in it.
    fn make(&self) -> io::Result<()> {
        match fs::create_dir(&self.ours) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => {
                at(&self.ours, result)?;
                self.ours.parent().map_or(Ok(()), sync)
            }
        }
    }

    fn write(&self, file: &str, content: &[u8]) -> io::Result<()> {
        self.make()?;
        let path = self.ours.join(file);
        // Only the supervisor writes here, one file at a time; no name of the agent's begins with a dot.
        let temporary = self.ours.join(".new");
        let written = File::create(&temporary).and_then(|mut new| {
            new.write_all(content)?;
            new.sync_all()
        });
        at(&temporary, written)?;
        at(&path, fs::rename(&temporary, &path))?;
        sync(&self.ours)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        let path = self.ours.join(file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => {
                at(&path, result)?;
                sync(&self.ours)
            }
        }
    }
}

/// True when there was something to rename.
pub(crate) fn rename_if_there(from: &Path, to: &Path) -> io::Result<bool> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => at(from, result).map(|()| true),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    at(folder, File::open(folder).and_then(|folder| folder.sync_all()))
}

/// The error with the path it is about.
fn at<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
