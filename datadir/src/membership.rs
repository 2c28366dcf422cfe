//! Who is in the cluster: from the newest snapshot and the changes in the log after it up to 3.5, from the db since 3.6
//! (etcd `server/etcdserver/api/membership/cluster.go`).

use std::collections::BTreeMap;

use crate::db::Contents;
use crate::inspection::{Id, Member, Membership, Schema, Source};
use crate::snap::Snapshot;
use crate::wal::{Change, ChangeKind, Log};

/// `None` when it is not known. `snapshot`: the one that etcd would start from, and its index.
pub(crate) fn membership(
    log: &Log,
    db: &Contents,
    snapshot: Option<(u64, Snapshot)>,
    commit: u64,
) -> Option<Membership> {
    if matches!(db.schema, Some(Schema::Recorded(_))) {
        return Some(Membership {
            source: Source::Db,
            members: db.members.values().cloned().collect(),
            removed: db.removed.clone(),
        });
    }
    let (index, snapshot) = snapshot.unwrap_or_default();
    let mut roll = Roll {
        members: snapshot.members,
        removed: snapshot.removed,
    };
    for change in log.changes_after(index, commit)? {
        roll.apply(change)?;
    }
    roll.fill_in_names(&db.members);
    Some(Membership {
        source: Source::Log,
        members: roll.members.into_values().collect(),
        removed: roll.removed,
    })
}

struct Roll {
    members: BTreeMap<Id, Member>,
    removed: Vec<Id>,
}

impl Roll {
    /// A change that etcd refuses when it applies it (`ValidateConfigurationChange`) changes nothing.
    fn apply(&mut self, change: &Change) -> Option<()> {
        match &change.kind {
            ChangeKind::Unknown => return None,
            ChangeKind::Remove(id) => {
                if self.members.remove(id).is_some() {
                    let at = self.removed.partition_point(|removed| removed < id);
                    self.removed.insert(at, *id);
                }
            }
            ChangeKind::Add { member, promote: true } => {
                if let Some(known) = self.members.get_mut(&member.id) {
                    known.learner = false;
                }
            }
            ChangeKind::Add { member, promote: false } => {
                let known = self.removed.contains(&member.id) || self.members.contains_key(&member.id);
                if !known && !self.has_url_of(member) {
                    self.members.insert(member.id, member.clone());
                }
            }
            ChangeKind::Update(member) => {
                if !self.has_url_of(member)
                    && let Some(known) = self.members.get_mut(&member.id)
                {
                    known.peer_urls.clone_from(&member.peer_urls);
                    known.learner = member.learner;
                }
            }
        }
        Some(())
    }

    /// Another member has one of its peer URLs.
    fn has_url_of(&self, member: &Member) -> bool {
        self.members
            .values()
            .any(|other| other.id != member.id && other.peer_urls.iter().any(|url| member.peer_urls.contains(url)))
    }

    /// Names are entries of the key space's kind, not changes of the membership; the db has the newest.
    fn fill_in_names(&mut self, db: &BTreeMap<Id, Member>) {
        for member in self.members.values_mut() {
            if let Some(known) = db.get(&member.id).filter(|known| !known.name.is_empty()) {
                member.name.clone_from(&known.name);
                member.client_urls.clone_from(&known.client_urls);
            }
        }
    }
}
