//! What the data directory is. Reads only: the sidecar mounts the data volume read-only.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use datadir::{is_locked, wal};

use super::identity::{Identity, Nonce};
use super::quarantine::Quarantined;
use super::reading::Reading;
use super::recover_log::Log;
use super::space::Space;
use super::standing::Standing;
use crate::cli::Paths;
use crate::recover::journal::Journal;

/// Names in the agent's folder.
pub mod name {
    /// The directory nonce.
    pub const NONCE: &str = "nonce";
    /// The recorded identity.
    pub const IDENTITY: &str = "identity.json";
    /// Put there by the supervisor as soon as etcd has saved something in its WAL.
    pub const STARTED: &str = "started";
    /// The last directive and what stands.
    pub const STANDING: &str = "directive.json";
    /// While it is there, etcd does not run.
    pub const FENCE: &str = "fence";
    /// What was set aside.
    pub const QUARANTINE: &str = "quarantine";
}

/// A file of the agent's folder is small; a larger one is not ours.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The same for the identity, which goes into each report as a whole.
const MAX_IDENTITY_BYTES: u64 = 4 * 1024;

/// The states of a data directory (design: agent.md, "Data-directory states").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No WAL in which anything was saved: etcd never ran here, or (when it has once started) its data are gone.
    Unborn,
    /// A whole log and a whole database.
    Intact,
    /// Only the last record of the last WAL file is incomplete: etcd repairs this by itself.
    TornTail,
    /// Not to be started on.
    Damaged {
        /// What is damaged, in one sentence.
        detail: String,
    },
    /// Whole, but of another cluster, member or history.
    Foreign {
        /// What was found and what was expected.
        detail: String,
    },
    /// etcd runs on it.
    InUse,
    /// Cannot be read: never treated as empty.
    Unreadable {
        /// The error and the path.
        error: String,
    },
}

/// What one inspection has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Directory {
    /// The state of etcd's data.
    pub state: State,
    /// Which directory this is; `None` until one is made.
    pub nonce: Option<Nonce>,
    /// What is recorded; `None` when nothing is.
    pub identity: Option<Identity>,
    /// etcd has once saved something in its WAL here.
    pub started: bool,
    /// A WAL is there in which something was saved, see [`wal::is_born`].
    pub has_wal: bool,
    /// `member/` is there, with or without such a WAL.
    pub has_member: bool,
    /// A fence stands.
    pub fenced: bool,
    /// The recovery that was ordered here last.
    pub recovery: Option<Journal>,
    /// What its log holds, when it was read.
    pub log: Option<Log>,
    /// What etcd's files hold, by the last reading while etcd did not run.
    pub reading: Option<Arc<Reading>>,
    /// What was set aside, the oldest first.
    pub quarantined: Vec<Quarantined>,
    /// Bytes under `member/`.
    pub bytes: u64,
    /// What is left on the volume.
    pub space: Space,
}

impl Directory {
    /// Nothing could be read, for this reason.
    #[must_use]
    pub fn unreadable(error: String) -> Self {
        Self {
            state: State::Unreadable { error },
            nonce: None,
            identity: None,
            started: false,
            has_wal: false,
            has_member: false,
            fenced: false,
            recovery: None,
            log: None,
            reading: None,
            quarantined: Vec::new(),
            bytes: 0,
            space: Space::default(),
        }
    }
}

/// For whom the directory should be.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// UID of the `EtcdCluster` object.
    pub cluster_uid: &'a str,
    /// Name of the member.
    pub member: &'a str,
    /// The newest history the agent knows of.
    pub incarnation: u64,
}

/// Looks at the directory. `running` is what the supervisor says of etcd; `None` while none is connected, and then
/// the lock on the db tells. `last`: the reading of etcd's files that the look before has made.
#[must_use]
pub fn inspect(paths: &Paths, expected: Expected<'_>, running: Option<bool>, last: Option<Arc<Reading>>) -> Directory {
    read(paths, expected, running, last).unwrap_or_else(Directory::unreadable)
}

/// The last directive and what it left standing; the default when nothing was recorded.
pub fn read_standing(paths: &Paths) -> Result<Standing, String> {
    let path = paths.agent_folder().join(name::STANDING);
    match read_file(&path, MAX_FILE_BYTES)? {
        None => Ok(Standing::default()),
        Some(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display())),
    }
}

fn read(
    paths: &Paths,
    expected: Expected<'_>,
    running: Option<bool>,
    last: Option<Arc<Reading>>,
) -> Result<Directory, String> {
    let (data, ours) = (paths.data_dir(), paths.agent_folder());
    let nonce = match read_file(&ours.join(name::NONCE), MAX_FILE_BYTES)? {
        None => None,
        Some(text) => Some(Nonce::try_from(text.trim().to_owned())?),
    };
    let identity: Option<Identity> = match read_file(&ours.join(name::IDENTITY), MAX_IDENTITY_BYTES)? {
        None => None,
        Some(text) => {
            let path = ours.join(name::IDENTITY);
            Some(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
        }
    };
    let started = exists(&ours.join(name::STARTED))?;
    let fenced = exists(&ours.join(name::FENCE))?;
    let recovery = Journal::read(&ours).map_err(|error| error.to_string())?;
    let member = data.join("member");
    let has_member = exists(&member)?;
    let in_use = match running {
        Some(running) => running,
        None => is_locked(&member.join("snap/db")).map_err(|error| error.to_string())?,
    };
    let wal = member.join("wal");
    let born = if in_use {
        wal::has_saved(&wal)
    } else {
        wal::is_born(&wal)
    };
    let has_wal = born.map_err(|error| error.to_string())?;
    // The file was lost, the directory is known all the same.
    let nonce = nonce.or_else(|| {
        identity
            .as_ref()
            .filter(|_| has_wal)
            .map(|identity| identity.nonce.clone())
    });
    let space = Space::read(&paths.data_volume)?;
    let reading = if in_use { last } else { Some(Reading::of(&data, last)?) };
    let state = match &reading {
        Some(reading) if !in_use => state(&reading.inspection, identity.as_ref(), nonce.as_ref(), expected),
        Some(_) | None => State::InUse,
    };
    let bytes = size(&member)?;
    let quarantined = quarantined(&ours.join(name::QUARANTINE))?;
    Ok(Directory {
        state,
        nonce,
        identity,
        started,
        has_wal,
        has_member,
        fenced,
        recovery,
        log: None,
        reading,
        quarantined,
        bytes,
        space,
    })
}

/// Whose data they are comes before how they are: data of somebody else are never replaced, damaged or not.
fn state(
    inspection: &datadir::Inspection,
    identity: Option<&Identity>,
    nonce: Option<&Nonce>,
    expected: Expected<'_>,
) -> State {
    use datadir::State as Files;
    let is_theirs = identity.and_then(|identity| {
        foreign(identity, nonce, expected).or_else(|| written_by_another(identity, inspection.facts.identity?))
    });
    match (&inspection.state, is_theirs) {
        (Files::Unborn, _) => State::Unborn,
        (Files::TooOld, _) => State::Foreign {
            detail: "it was written by etcd 3.4 or older; 3.5 and later are served".to_owned(),
        },
        (Files::Intact | Files::TornTail | Files::Damaged(_), Some(detail)) => State::Foreign { detail },
        (Files::Intact, None) => State::Intact,
        (Files::TornTail, None) => State::TornTail,
        (Files::Damaged(damage), None) => State::Damaged {
            detail: damage.to_string(),
        },
        (Files::InUse, _) => State::InUse,
    }
}

/// The log itself says who has written it: a directory that was put beside our identity is not ours.
fn written_by_another(identity: &Identity, found: datadir::Identity) -> Option<String> {
    let (member, cluster) = (found.member_id.0, found.cluster_id.0);
    ((member, cluster) != (identity.member_id.0, identity.cluster_id.0)).then(|| {
        format!(
            "its log was written by member {} of cluster {}, recorded are {} of {}",
            found.member_id, found.cluster_id, identity.member_id, identity.cluster_id
        )
    })
}

/// What was set aside, the oldest first.
fn quarantined(folder: &Path) -> Result<Vec<Quarantined>, String> {
    let at = |error: io::Error| format!("{}: {error}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at)?;
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = size(&entry.path())?;
        found.push((age, Quarantined { name, bytes }));
    }
    found.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    Ok(found.into_iter().map(|(_, aside)| aside).collect())
}

/// Why the identity is not ours; `None` when it is.
#[must_use]
pub fn foreign(identity: &Identity, nonce: Option<&Nonce>, expected: Expected<'_>) -> Option<String> {
    if identity.cluster_uid != expected.cluster_uid {
        return Some(format!(
            "it was written for the cluster object with UID {}, this Pod serves {}",
            identity.cluster_uid, expected.cluster_uid
        ));
    }
    if identity.member_name != expected.member {
        return Some(format!(
            "it was written by member {}, this is {}",
            identity.member_name, expected.member
        ));
    }
    if identity.incarnation < expected.incarnation {
        return Some(format!(
            "it is of incarnation {} of the cluster, the present one is {}",
            identity.incarnation, expected.incarnation
        ));
    }
    if nonce.is_some_and(|nonce| *nonce != identity.nonce) {
        return Some(format!(
            "its identity was recorded for directory {}, this one is {}",
            identity.nonce,
            nonce.map(ToString::to_string).unwrap_or_default()
        ));
    }
    None
}

/// The text of a file of ours; `None` when it is not there.
fn read_file(path: &Path, most: u64) -> Result<Option<String>, String> {
    let at = |error: io::Error| format!("{}: {error}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(error)),
        Ok(metadata) if metadata.len() > most => Err(format!("{} is too large to be ours", path.display())),
        Ok(_) => fs::read_to_string(path).map(Some).map_err(at),
    }
}

fn exists(path: &Path) -> Result<bool, String> {
    path.try_exists()
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Bytes of all files below. Files that vanish meanwhile (etcd purges) count nothing.
fn size(path: &Path) -> Result<u64, String> {
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other.map_err(at)?,
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.map_err(at)?;
        match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(error)),
            Ok(metadata) if metadata.is_dir() => bytes += size(&entry.path())?,
            Ok(metadata) => bytes += metadata.len(),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
