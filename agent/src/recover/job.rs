//! The steps of a recovery, one after the other.

use std::fs;
use std::io;
use std::path::Path;

use super::journal::{FILE, Journal, Kept, Mode, Phase};
use super::swap::{Places, swap, sync_tree};
use super::{Args, Error, isolated, space, tools};
use crate::supervise::folder::{Folder, rename_if_there, sync};
use datadir::{Options, Use};

/// What is needed for all of them.
struct Job {
    args: Args,
    places: Places,
    folder: Folder,
    journal: Journal,
}

/// Goes on with what is ordered, to its end, or until there is no room for it. What fails stands in the journal too.
pub fn run(args: Args) -> Result<(), Error> {
    let ours = args.paths.agent_folder();
    let journal = Journal::read(&ours)?.ok_or_else(|| Error::Journal("nothing was ordered".to_owned()))?;
    let mut job = Job {
        places: Places::new(args.paths.data_dir(), ours),
        folder: Folder::new(&args.paths),
        journal,
        args,
    };
    let result = job.go_on();
    if let Err(error) = &result {
        job.journal.detail = error.to_string();
        job.note()?;
    }
    result
}

impl Job {
    fn go_on(&mut self) -> Result<(), Error> {
        loop {
            match self.journal.phase {
                Phase::Ordered | Phase::NeedsSpace => {
                    if !self.prepare()? {
                        return Ok(());
                    }
                    self.apply()?;
                    self.reach(Phase::Applied)?;
                }
                Phase::Applied => {
                    self.restore()?;
                    self.reach(Phase::Restored)?;
                }
                Phase::Restored => {
                    self.journal.aside = format!(
                        "recovered-{}-{}",
                        self.journal.order.number,
                        jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")
                    );
                    self.reach(Phase::Swapping)?;
                }
                Phase::Swapping => {
                    swap(&self.places, &self.folder, &self.journal)?;
                    self.reach(Phase::Done)?;
                }
                Phase::Done => {
                    clear(&self.places.folder())?;
                    return Ok(());
                }
            }
        }
    }

    fn reach(&mut self, phase: Phase) -> Result<(), Error> {
        self.journal.phase = phase;
        self.journal.detail.clear();
        self.note()
    }

    fn note(&self) -> Result<(), Error> {
        let content = serde_json::to_vec_pretty(&self.journal).map_err(io::Error::from)?;
        Ok(self.folder.write_journal(FILE, &content)?)
    }

    /// A working directory with all the log in it. False: there is no room for one.
    fn prepare(&mut self) -> Result<bool, Error> {
        let (member, work) = (self.places.data.join("member"), self.places.work.join("member"));
        clear(&self.places.restored)?;
        isolated::end_leftovers(&self.args.etcd, &self.places.work)?;
        if self.journal.mode == Some(Mode::InPlace) && fs::exists(&work)? {
            // It was moved there, and perhaps worked on. It is the only one.
            return Ok(true);
        }
        clear(&self.places.work)?;
        let mode = match space::mode(space::measure(&member, &self.args.paths.data_volume)?) {
            Ok(mode) => mode,
            Err(needed) => {
                self.journal.needed_bytes = needed;
                self.reach(Phase::NeedsSpace)?;
                return Ok(false);
            }
        };
        self.journal.mode = Some(mode);
        self.reach(Phase::Ordered)?;
        fs::create_dir_all(&self.places.work)?;
        sync(&self.places.folder())?;
        sync(&self.places.ours)?;
        match mode {
            Mode::Copy => copy(&member, &work)?,
            Mode::InPlace => {
                rename_if_there(&member, &work)?;
                sync(&self.places.work)?;
                sync(&self.places.data)?;
            }
        }
        Ok(true)
    }

    /// The whole log counts as committed, and goes into the database.
    fn apply(&mut self) -> Result<(), Error> {
        let wal = self.places.work.join("member/wal");
        let log = |error: &dyn std::fmt::Display| Error::Log {
            path: wal.clone(),
            detail: error.to_string(),
        };
        let extended = datadir::wal::extend_commit(&wal).map_err(|error| log(&error))?;
        let kept = Kept {
            term: extended.to.term,
            index: extended.to.index,
        };
        // In place, what an earlier try has added is no more than that.
        self.journal.kept = self.journal.kept.or(Some(kept));
        let order = &self.journal.order;
        isolated::apply_all(
            &self.args.etcd,
            &self.places.work,
            &order.identity.member_name,
            order.quota_backend_bytes,
            kept.index,
        )?;
        self.prove_applied(kept.index)?;
        let db = self.places.work.join("member/snap/db");
        self.journal.revision = tools::revision(&self.args.etcdutl(), &db)?;
        Ok(())
    }

    /// The database is taken for the whole of the log from here on, so it must be.
    fn prove_applied(&self, index: u64) -> Result<(), Error> {
        let work = &self.places.work;
        let used = Use::Known { running: false };
        let inspection = datadir::inspect(work, &Options { used }).map_err(|error| Error::Log {
            path: work.clone(),
            detail: error.to_string(),
        })?;
        match inspection.facts.applied {
            Some(applied) if applied >= index => Ok(()),
            applied => Err(Error::NotProven(format!(
                "the database has applied its log to entry {}, not to {index}",
                applied.unwrap_or_default()
            ))),
        }
    }

    fn restore(&self) -> Result<(), Error> {
        clear(&self.places.restored)?;
        let (etcdutl, db) = (self.args.etcdutl(), self.places.work.join("member/snap/db"));
        tools::restore(&etcdutl, &db, &self.journal.order, &self.places.restored)?;
        let restored = tools::revision(&etcdutl, &self.places.restored.join("member/snap/db"))?;
        if restored != self.journal.revision {
            return Err(Error::NotProven(format!(
                "the restored database is at revision {restored}, not at {}",
                self.journal.revision
            )));
        }
        Ok(sync_tree(&self.places.restored)?)
    }
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Copies a `member/`. Segments of the log that nobody writes to any more are shared.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.join("wal"))?;
    fs::create_dir_all(to.join("snap"))?;
    let segments = space::segments(&from.join("wal"))?;
    for segment in &segments {
        let Some(name) = segment.file_name() else { continue };
        let target = to.join("wal").join(name);
        let shared = segments.last() != Some(segment) && fs::hard_link(segment, &target).is_ok();
        if !shared {
            fs::copy(segment, &target)?;
        }
    }
    for entry in fs::read_dir(from.join("snap"))? {
        let entry = entry?;
        let name = entry.file_name();
        let wanted = name == "db" || Path::new(&name).extension().is_some_and(|e| e == "snap" || e == "db");
        if wanted && entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join("snap").join(&name))?;
        }
    }
    Ok(())
}
