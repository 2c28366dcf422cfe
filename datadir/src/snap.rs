//! v2 snapshots: `member/snap/<term>-<index>.snap`, in which etcd up to 3.6 keeps the membership that it believes.
//!
//! Format: `Snapshot{crc = 1, data = 2}` around raft's `Snapshot{data = 1, metadata = 2}`, whose data is the v2 store in
//! JSON (etcd `server/etcdserver/api/snap`, `server/etcdserver/api/v2store`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Error;
use crate::input::Input;
use crate::inspection::{Id, Member, Position};
use crate::protobuf::{Field, Fields, numbers};
use crate::wal::hex;

/// Larger ones are not read: they hold keys of the v2 API, which 3.5 and later refuse to start with.
const MOST: u64 = 4 * 1024 * 1024;

/// The files of `member/snap`.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// `.snap` files, newest first.
    pub(crate) snapshots: Vec<(Position, PathBuf)>,
    /// Indexes of databases that a leader has sent and that are not in use yet.
    pub(crate) received: Vec<u64>,
    /// The db itself.
    pub(crate) db: PathBuf,
}

/// Lists them. Nothing is there when the folder is not.
pub(crate) fn files(folder: &Path) -> Result<Files, Error> {
    let mut files = Files {
        db: folder.join("db"),
        ..Files::default()
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries.map_err(Error::at(folder))?,
    };
    for entry in entries {
        let name = entry.map_err(Error::at(folder))?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(index) = name.strip_suffix(".snap.db").and_then(hex) {
            files.received.push(index);
        } else if let Some((term, index)) = name.strip_suffix(".snap").and_then(|name| name.split_once('-'))
            && let (Some(term), Some(index)) = (hex(term), hex(index))
        {
            files.snapshots.push((Position { term, index }, folder.join(name)));
        }
    }
    files.snapshots.sort_by(|a, b| b.cmp(a));
    Ok(files)
}

/// The membership in a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) members: BTreeMap<Id, Member>,
    pub(crate) removed: Vec<Id>,
}

/// Why a file is no snapshot.
pub(crate) type Bad = &'static str;

/// Reads one file.
pub(crate) fn read(path: &Path) -> Result<Result<(Position, Snapshot), Bad>, Error> {
    let input = Input::open(path)?;
    if input.len > MOST {
        return Ok(Err("it is too large to hold a membership only"));
    }
    let mut bytes = vec![0; usize::try_from(input.len).unwrap_or(0)];
    let filled = input.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Result<(Position, Snapshot), Bad> {
    const NO_MESSAGE: Bad = "it is no message";
    let (mut crc, mut data) = (0, &[][..]);
    for field in Fields(bytes) {
        match field.map_err(|_| NO_MESSAGE)? {
            Field::Number(1, value) => crc = value,
            Field::Bytes(2, value) => data = value,
            Field::Number(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    if crc == 0 || data.is_empty() {
        return Err("it is empty");
    }
    if u64::from(crc32c::crc32c(data)) != crc {
        return Err("its checksum is wrong");
    }
    let (mut store, mut metadata) = (&[][..], &[][..]);
    for field in Fields(data) {
        match field.map_err(|_| NO_MESSAGE)? {
            Field::Bytes(1, value) => store = value,
            Field::Bytes(2, value) => metadata = value,
            Field::Number(..) | Field::Bytes(..) | Field::Other => {}
        }
    }
    let [_, index, term] = numbers(metadata).map_err(|_| NO_MESSAGE)?;
    let snapshot = membership(store).ok_or("its content is no v2 store")?;
    Ok((Position { term, index }, snapshot))
}

#[derive(Deserialize)]
struct Store {
    #[serde(rename = "Root")]
    root: Node,
}

#[derive(Deserialize, Default)]
struct Node {
    #[serde(default, rename = "Value")]
    value: String,
    #[serde(default, rename = "Children")]
    children: Option<BTreeMap<String, Node>>,
}

impl Node {
    fn child(&self, name: &str) -> Option<&Self> {
        self.children.as_ref()?.get(name)
    }

    fn each(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.children.iter().flatten()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RaftAttributes {
    #[serde(rename = "peerURLs")]
    peer_urls: Option<Vec<String>>,
    #[serde(rename = "isLearner")]
    learner: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Attributes {
    name: String,
    #[serde(rename = "clientURLs")]
    client_urls: Option<Vec<String>>,
}

/// `/0/members/<id>/{raftAttributes,attributes}` and `/0/removed_members/<id>`.
fn membership(json: &[u8]) -> Option<Snapshot> {
    let store: Store = serde_json::from_slice(json).ok()?;
    let mut snapshot = Snapshot::default();
    let Some(cluster) = store.root.child("0") else {
        return Some(snapshot);
    };
    for (name, node) in cluster.child("members").into_iter().flat_map(Node::each) {
        let id = id(name)?;
        let raft: RaftAttributes = serde_json::from_str(&node.child("raftAttributes")?.value).ok()?;
        let attributes: Attributes = match node.child("attributes") {
            Some(node) => serde_json::from_str(&node.value).ok()?,
            None => Attributes::default(),
        };
        snapshot.members.insert(
            id,
            Member {
                id,
                name: attributes.name,
                peer_urls: raft.peer_urls.unwrap_or_default(),
                client_urls: attributes.client_urls.unwrap_or_default(),
                learner: raft.learner,
            },
        );
    }
    for (name, _) in cluster.child("removed_members").into_iter().flat_map(Node::each) {
        snapshot.removed.push(id(name)?);
    }
    snapshot.removed.sort_unstable();
    Some(snapshot)
}

fn id(name: &str) -> Option<Id> {
    u64::from_str_radix(name, 16).ok().map(Id)
}
