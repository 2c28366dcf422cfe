//! Puts what the parts say together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::bolt::Damaged;
use crate::db::{self, Contents, Reading};
use crate::inspection::{Damage, Facts, Inspection, Part, Position, Schema, Sizes, State};
use crate::lock::is_locked;
use crate::membership::membership;
use crate::snap::{self, Files, Snapshot};
use crate::wal::{self, Fault, Log};

/// How to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Does etcd run on it?
    pub used: Use,
}

/// Whether etcd runs on a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Use {
    /// The lock of the db tells, before the reading and after it.
    #[default]
    AskLock,
    /// Whoever asks has started it, or would have.
    Known {
        /// It does.
        running: bool,
    },
}

/// A db that etcd has only just made is not larger; one that is, and cannot be read, may have held data.
const NEW_DB: u64 = 64 * 1024;

/// Reads the data directory (the folder that holds `member/`). A directory that is not there is [`State::Unborn`].
pub fn inspect(path: &Path, options: &Options) -> Result<Inspection, Error> {
    let member = path.join("member");
    let db = member.join("snap/db");
    let in_use = || match options.used {
        Use::AskLock => is_locked(&db),
        Use::Known { running } => Ok(running),
    };
    let before = in_use()?;
    let mut inspection = read(path, &member, before)?;
    if before || in_use()? {
        inspection.state = State::InUse;
    }
    Ok(inspection)
}

fn read(root: &Path, member: &Path, live: bool) -> Result<Inspection, Error> {
    let (wal, snap) = (member.join("wal"), member.join("snap"));
    let log = wal::read(&wal)?;
    let files = snap::files(&snap)?;
    let reading = db::read(&files.db, live)?;
    let contents = match &reading {
        Reading::Read(contents) => Contents::clone(contents),
        Reading::Missing | Reading::Damaged(_) => Contents::default(),
    };
    let start = Start::find(&log, &files, contents.schema.as_ref())?;
    let sizes = Sizes {
        wal: size(&wal, None)?,
        snapshots: size(&snap, Some(&files.db))?,
        db: file_size(&files.db)?,
    };
    let state = Judge {
        root,
        log: &log,
        files: &files,
        reading: &reading,
        contents: &contents,
        start: &start,
        sizes,
    }
    .state();
    Ok(Inspection {
        state,
        facts: facts(&log, contents, start, sizes),
    })
}

fn facts(log: &Log, contents: Contents, start: Start, sizes: Sizes) -> Facts {
    let born = log.is_born();
    let commit = log.state.map(|state| state.commit).max(contents.applied);
    let v2 = start.v2.map(|(position, snapshot)| (position.index, snapshot));
    let membership = born
        .then(|| membership(log, &contents, v2, commit.unwrap_or_default()))
        .flatten();
    Facts {
        identity: log.identity,
        hard_state: log.state,
        commit,
        last: born.then(|| log.last()),
        snapshot: born.then(|| log.snapshot()),
        applied: contents.applied,
        membership,
        schema: contents.schema,
        cluster_version: contents.cluster_version,
        revision: contents.revision,
        auth_enabled: contents.auth_enabled,
        alarms: contents.alarms,
        sizes,
    }
}

/// From which snapshot etcd would start.
#[derive(Default)]
struct Start {
    index: u64,
    /// The newest `.snap` file that the log knows; etcd up to 3.6 starts from that one.
    v2: Option<(Position, Snapshot)>,
    /// Files that etcd would pass over.
    bad: Vec<(PathBuf, &'static str)>,
}

impl Start {
    fn find(log: &Log, files: &Files, schema: Option<&Schema>) -> Result<Self, Error> {
        let mut start = Self::default();
        for (position, path) in &files.snapshots {
            // A file that the log does not know was written and the process killed before the record was.
            if !log.snapshots().any(|known| known == *position) {
                continue;
            }
            match snap::read(path) {
                Ok(Ok(found)) if found.0 == *position => {
                    start.v2 = Some(found);
                    break;
                }
                Ok(Ok(_)) => start
                    .bad
                    .push((path.clone(), "its content is of another index than its name")),
                Ok(Err(bad)) => start.bad.push((path.clone(), bad)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        start.index = if reads_v2(schema) {
            start.v2.as_ref().map_or(0, |(position, _)| position.index)
        } else {
            log.snapshot().index
        };
        Ok(start)
    }
}

/// etcd up to 3.6 starts from the newest `.snap` file, 3.7 from the newest record in the log.
fn reads_v2(schema: Option<&Schema>) -> bool {
    match schema {
        None | Some(Schema::V3_5) => true,
        Some(Schema::Recorded(version)) => version.starts_with("3.6."),
    }
}

struct Judge<'a> {
    root: &'a Path,
    log: &'a Log,
    files: &'a Files,
    reading: &'a Reading,
    contents: &'a Contents,
    start: &'a Start,
    sizes: Sizes,
}

impl Judge<'_> {
    fn state(&self) -> State {
        if self.contents.too_old {
            return State::TooOld;
        }
        if self.log.fault.is_none() && !self.log.is_born() {
            return self.unborn();
        }
        match self.damage() {
            Some(damage) => State::Damaged(damage),
            None if self.log.tail.as_ref().is_some_and(|tail| tail.torn) => State::TornTail,
            None => State::Intact,
        }
    }

    /// Without a saved WAL there must be no data either.
    fn unborn(&self) -> State {
        let applied = self.contents.applied.unwrap_or_default();
        let detail = if applied > 0 {
            format!("the db holds data (applied up to {applied}), and no log is there")
        } else if let (Reading::Damaged(damaged), true) = (self.reading, self.sizes.db > NEW_DB) {
            format!("no log is there, and the db cannot be read: {}", damaged.why)
        } else if let Some((position, _)) = self.files.snapshots.first() {
            format!("a snapshot of index {} is there, and no log", position.index)
        } else if self.log.tail.as_ref().is_some_and(|tail| tail.rest || tail.torn) {
            "its first write is destroyed".to_owned()
        } else {
            return State::Unborn;
        };
        State::Damaged(Damage {
            part: Part::Wal,
            file: None,
            offset: None,
            detail,
        })
    }

    fn damage(&self) -> Option<Damage> {
        let log = self.log;
        log.fault
            .as_ref()
            .map(|fault| self.wal(fault))
            .or_else(|| self.db_itself())
            .or_else(|| {
                log.cannot_start_from(log.snapshot().index)
                    .map(|fault| self.wal(&fault))
            })
            .or_else(|| log.is_inconsistent().map(|fault| self.wal(&fault)))
            .or_else(|| self.db_and_log())
            .or_else(|| self.snapshot())
    }

    fn wal(&self, fault: &Fault) -> Damage {
        Damage {
            part: Part::Wal,
            file: fault.place.as_ref().map(|place| self.below(&place.path)),
            offset: fault.place.as_ref().map(|place| place.offset),
            detail: fault.why.clone(),
        }
    }

    fn db_itself(&self) -> Option<Damage> {
        let (file, offset, detail) = match self.reading {
            Reading::Read(_) => return None,
            Reading::Missing => (None, None, "it is missing or empty".to_owned()),
            Reading::Damaged(Damaged { offset, why }) => {
                (Some(self.below(&self.files.db)), Some(*offset), (*why).to_owned())
            }
        };
        Some(Damage {
            part: Part::Db,
            file,
            offset,
            detail,
        })
    }

    fn db_and_log(&self) -> Option<Damage> {
        let (applied, last, snapshot) = (
            self.contents.applied.unwrap_or_default(),
            self.log.last().index,
            self.log.snapshot().index,
        );
        if applied > last {
            return Some(Damage {
                part: Part::Wal,
                file: self.log.tail.as_ref().map(|tail| self.below(&tail.place.path)),
                offset: self.log.tail.as_ref().map(|tail| tail.place.offset),
                detail: format!(
                    "it ends with entry {last}, and the db has applied {applied}: etcd would start and ignore what is \
                     written next"
                ),
            });
        }
        (applied < snapshot && !self.files.received.contains(&snapshot)).then(|| Damage {
            part: Part::Db,
            file: Some(self.below(&self.files.db)),
            offset: None,
            detail: format!("it has applied {applied}, and the log begins after the snapshot of index {snapshot}"),
        })
    }

    /// Up to 3.6 a `.snap` file is needed once the log has lost its beginning.
    fn snapshot(&self) -> Option<Damage> {
        let fault = self.log.cannot_start_from(self.start.index)?;
        let bad = self.start.bad.first();
        Some(Damage {
            part: Part::Snapshot,
            file: bad.map(|(path, _)| self.below(path)),
            offset: None,
            detail: match bad {
                Some((_, why)) => format!("{why}; without it {}", fault.why),
                None => format!("none is there that the log could go on from: {}", fault.why),
            },
        })
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.root).unwrap_or(path).to_owned()
    }
}

/// Bytes of the files in a folder. Files that vanish meanwhile (etcd purges) count nothing.
fn size(folder: &Path, except: Option<&Path>) -> Result<u64, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(Error::at(folder))?,
    };
    let mut bytes = 0_u64;
    for entry in entries {
        let path = entry.map_err(Error::at(folder))?.path();
        if except != Some(path.as_path()) {
            bytes = bytes.saturating_add(file_size(&path)?);
        }
    }
    Ok(bytes)
}

fn file_size(path: &Path) -> Result<u64, Error> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok(metadata.map_err(Error::at(path))?.len()),
    }
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
