//! What etcd keeps in its db beside the keys (etcd `server/storage/schema`).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::bolt::{Bucket, Damaged, Db, Failure};
use crate::input::Input;
use crate::inspection::{Alarm, AlarmKind, Id, Member, Schema};
use crate::protobuf::numbers;

/// A running etcd commits each 100 ms, and pages of an older transaction are used again: read again, so often.
const TRIES: usize = 8;

/// What the db holds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    /// `consistent_index`; `None` until the first entry is applied.
    pub(crate) applied: Option<u64>,
    pub(crate) schema: Option<Schema>,
    /// Neither a version nor a field that 3.5 has added, though entries were applied.
    pub(crate) too_old: bool,
    pub(crate) cluster_version: Option<String>,
    pub(crate) members: BTreeMap<Id, Member>,
    pub(crate) removed: Vec<Id>,
    pub(crate) revision: Option<u64>,
    pub(crate) auth_enabled: Option<bool>,
    pub(crate) alarms: Vec<Alarm>,
}

/// What became of reading it.
#[derive(Debug)]
pub(crate) enum Reading {
    /// There is no such file, or it is empty (etcd makes a new one then).
    Missing,
    /// Read.
    Read(Box<Contents>),
    /// The content is wrong there.
    Damaged(Damaged),
}

/// Reads the db. `live`: etcd may be writing to it.
pub(crate) fn read(path: &Path, live: bool) -> Result<Reading, Error> {
    let mut tries = if live { TRIES } else { 1 };
    loop {
        tries -= 1;
        let input = match Input::open(path) {
            Err(error) if error.is_not_found() => return Ok(Reading::Missing),
            input => input?,
        };
        if input.len == 0 {
            return Ok(Reading::Missing);
        }
        let result = Db::open(&input).and_then(|db| {
            let contents = contents(&db)?;
            let same = !live || Db::open(&input)?.meta.transaction == db.meta.transaction;
            Ok((contents, same))
        });
        match result {
            Ok((contents, true)) => return Ok(Reading::Read(Box::new(contents))),
            Err(Failure::Io(error)) => return Err(error),
            Err(Failure::Damaged(damaged)) if tries == 0 => return Ok(Reading::Damaged(damaged)),
            Ok((contents, false)) if tries == 0 => return Ok(Reading::Read(Box::new(contents))),
            Ok(_) | Err(Failure::Damaged(_)) => {}
        }
    }
}

fn contents(db: &Db<'_>) -> Result<Contents, Failure> {
    let mut contents = Contents::default();
    let bucket = |name: &str| db.bucket(name.as_bytes());
    let mut compacted = None;
    if let Some(meta) = bucket("meta")? {
        let mut term = false;
        db.pairs(meta, &mut |key, value| match key {
            b"consistent_index" => contents.applied = big_endian(value),
            b"term" | b"confState" => term = true,
            b"storageVersion" => {
                contents.schema = std::str::from_utf8(value)
                    .ok()
                    .map(|version| Schema::Recorded(version.to_owned()));
            }
            b"finishedCompactRev" => compacted = big_endian(value),
            _ => {}
        })?;
        if term && contents.schema.is_none() {
            contents.schema = Some(Schema::V3_5);
        }
    }
    if let Some(cluster) = bucket("cluster")? {
        db.pairs(cluster, &mut |key, value| {
            if key == b"clusterVersion" {
                contents.cluster_version = std::str::from_utf8(value).ok().map(str::to_owned);
            }
        })?;
    }
    let applied = contents.applied.is_some_and(|applied| applied > 0);
    contents.too_old =
        applied && contents.schema.is_none() && contents.cluster_version.as_deref().is_none_or(before_3_5);
    if let Some(members) = bucket("members")? {
        db.pairs(members, &mut |key, value| {
            if let Some(member) = id(key).and_then(|id| member(id, value)) {
                contents.members.insert(member.id, member);
            }
        })?;
    }
    if let Some(removed) = bucket("members_removed")? {
        db.pairs(removed, &mut |key, _| contents.removed.extend(id(key)))?;
    }
    contents.removed.sort_unstable();
    if let Some(auth) = bucket("auth")? {
        db.pairs(auth, &mut |key, value| {
            if key == b"authEnabled" {
                contents.auth_enabled = Some(value == [1]);
            }
        })?;
    }
    if let Some(alarms) = bucket("alarm")? {
        db.pairs(alarms, &mut |key, _| contents.alarms.extend(alarm(key)))?;
    }
    if let Some(keys) = bucket("key")? {
        contents.revision = revision(db, keys, compacted)?;
    }
    Ok(contents)
}

/// As etcd takes it from its keys when it starts (`server/storage/mvcc/kvstore.go`, `restore`).
fn revision(db: &Db<'_>, keys: Bucket, compacted: Option<u64>) -> Result<Option<u64>, Failure> {
    let last = db.last_key(keys)?;
    let newest = last.as_deref().and_then(big_endian);
    Ok(Some(newest.max(compacted).unwrap_or(1).max(1)))
}

/// The first 8 bytes: a number, or the main part of a revision.
fn big_endian(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().copied().map(u64::from_be_bytes)
}

fn id(key: &[u8]) -> Option<Id> {
    let text = std::str::from_utf8(key).ok()?;
    u64::from_str_radix(text, 16).ok().map(Id)
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(default, rename = "peerURLs")]
    peer_urls: Option<Vec<String>>,
    #[serde(default, rename = "isLearner")]
    learner: bool,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "clientURLs")]
    client_urls: Option<Vec<String>>,
}

fn member(id: Id, json: &[u8]) -> Option<Member> {
    let attributes: Attributes = serde_json::from_slice(json).ok()?;
    Some(Member {
        id,
        name: attributes.name,
        peer_urls: attributes.peer_urls.unwrap_or_default(),
        client_urls: attributes.client_urls.unwrap_or_default(),
        learner: attributes.learner,
    })
}

fn alarm(key: &[u8]) -> Option<Alarm> {
    let [member, kind] = numbers(key).ok()?;
    let kind = match kind {
        1 => AlarmKind::NoSpace,
        2 => AlarmKind::Corrupt,
        other => AlarmKind::Other(other),
    };
    Some(Alarm {
        member_id: Id(member),
        kind,
    })
}

fn before_3_5(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0_u64));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (3, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_3_5_are_told() {
        for (version, before) in [
            ("3.4.0", true),
            ("2.3.7", true),
            ("3.5.0", false),
            ("3.10.0", false),
            ("4.0", false),
        ] {
            assert_eq!(before_3_5(version), before, "{version}");
        }
    }
}
