//! The new directory takes the old one's place, and the old one goes to quarantine. Each rename is done once or is found done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{FOLDER, Journal, Mode};
use crate::supervise::folder::{Folder, name, rename_if_there, sync};

/// The places of one recovery.
#[derive(Debug)]
pub struct Places {
    /// etcd's data-dir.
    pub data: PathBuf,
    /// The agent's folder.
    pub ours: PathBuf,
    /// The data-dir of the isolated etcd.
    pub work: PathBuf,
    /// The data-dir that `etcdutl` makes.
    pub restored: PathBuf,
}

impl Places {
    /// Below the agent's folder.
    #[must_use]
    pub fn new(data: PathBuf, ours: PathBuf) -> Self {
        let folder = ours.join(FOLDER);
        Self {
            data,
            work: folder.join("work"),
            restored: folder.join("restored"),
            ours,
        }
    }

    /// The folder it all is in.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.ours.join(FOLDER)
    }
}

/// The facts about the old directory that go aside with it. The nonce first: without it nothing is taken for this
/// directory.
const FACTS: [&str; 4] = [name::NONCE, name::IDENTITY, name::STARTED, name::FENCE];

/// Does it, or what is left of it.
pub fn swap(places: &Places, folder: &Folder, journal: &Journal) -> io::Result<()> {
    let quarantine = places.ours.join(name::QUARANTINE);
    let aside = quarantine.join(&journal.aside);
    fs::create_dir_all(&aside)?;
    sync(&quarantine)?;
    sync(&places.ours)?;
    let new = places.data.join("member");
    let restored = places.restored.join("member");
    // Until the new one is in its place all that is found there is the old one's.
    if fs::exists(&restored)? {
        for fact in FACTS {
            rename_if_there(&places.ours.join(fact), &aside.join(fact))?;
        }
        let old = match journal.mode {
            Some(Mode::InPlace) => places.work.join("member"),
            Some(Mode::Copy) | None => new.clone(),
        };
        if !fs::exists(aside.join("member"))? {
            rename_if_there(&old, &aside.join("member"))?;
        }
        sync(&aside)?;
        sync(&places.ours)?;
        sync(&places.data)?;
        fs::rename(&restored, &new)?;
        sync(&places.data)?;
        sync(&places.restored)?;
    }
    let identity = journal.order.identity.to_json()?;
    folder.write_identity(&identity)?;
    folder.note_started()?;
    // Written last: with it the directory is one that may be started on.
    folder.write_nonce(journal.order.identity.nonce.as_str())
}

/// Makes a whole tree durable.
pub fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    sync(path)
}
