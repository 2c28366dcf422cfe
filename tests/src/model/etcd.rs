//! etcd's membership as one truth, and what it refuses.
//!
//! Time is not in it: that members have been connected for long enough is said by [`Etcd::grow_old`]. Every method is
//! deterministic, and the whole of it can be compared and hashed, so that a search can tell states apart.

use etcd::Refusal;
use operator::plan::facts::Id;

/// One member of the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its ID.
    pub id: Id,
    /// Its name; empty until it has published itself.
    pub name: String,
    /// Its peer URL.
    pub peer_url: String,
    /// It does not vote.
    pub learner: bool,
}

/// Why a call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum No {
    /// etcd said so.
    Refused(Refusal),
    /// There is no quorum to carry it out, and so no answer.
    NoAnswer,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Etcd {
    /// `None` until the first member has started.
    pub cluster_id: Option<Id>,
    /// The committed membership.
    pub list: Vec<Entry>,
    /// The leader's index.
    pub index: u64,
    /// How many IDs were given.
    pub next_id: u64,
    /// `max-learners` of the leader.
    pub max_learners: usize,
    /// Every change of membership is refused so.
    pub refuses: Option<Refusal>,
    /// IDs that run, serve and are connected now.
    pub running: Vec<Id>,
    /// Those of them which have not been for 5 s yet.
    pub young: Vec<Id>,
    /// Who leads.
    pub leader: Option<Id>,
}

impl Etcd {
    /// There is a cluster.
    #[must_use]
    pub fn formed(&self) -> bool {
        self.cluster_id.is_some()
    }

    /// Members that vote.
    #[must_use]
    pub fn voters(&self) -> usize {
        self.list.iter().filter(|entry| !entry.learner).count()
    }

    /// Voters that run and are connected.
    #[must_use]
    pub fn healthy(&self) -> usize {
        self.list
            .iter()
            .filter(|entry| !entry.learner && self.running.contains(&entry.id))
            .count()
    }

    /// Changes can be made.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.formed() && self.healthy() > self.voters() / 2
    }

    /// The entry of that ID.
    #[must_use]
    pub fn entry(&self, id: Id) -> Option<&Entry> {
        self.list.iter().find(|entry| entry.id == id)
    }

    /// Who runs and is connected has changed: leadership stays where it is as long as it can.
    pub fn set_running(&mut self, running: Vec<Id>) {
        let new = |id: &Id| !self.running.contains(id) || self.young.contains(id);
        self.young = running.iter().copied().filter(new).collect();
        self.running = running;
        self.elect();
    }

    /// Those who run have been connected for longer than 5 s.
    pub fn grow_old(&mut self) {
        self.young.clear();
    }

    fn elect(&mut self) {
        let votes = |id: Id| self.running.contains(&id) && self.entry(id).is_some_and(|entry| !entry.learner);
        self.leader = if self.has_quorum() {
            self.leader
                .filter(|id| votes(*id))
                .or_else(|| self.list.iter().map(|entry| entry.id).find(|id| votes(*id)))
        } else {
            None
        };
    }

    /// A member announces itself; the first one makes the cluster.
    pub fn publish(&mut self, id: Id, cluster: Id, name: &str, peer_url: &str) {
        if self.cluster_id.is_none() {
            self.cluster_id = Some(cluster);
            self.index = 10;
            self.list.push(Entry {
                id,
                name: name.into(),
                peer_url: peer_url.into(),
                learner: false,
            });
        }
        if let Some(entry) = self.list.iter_mut().find(|entry| entry.id == id) {
            name.clone_into(&mut entry.name);
        }
    }

    /// `MemberAddAsLearner`.
    pub fn add_learner(&mut self, peer_url: &str) -> Result<Id, No> {
        self.writable()?;
        if self.list.iter().filter(|entry| entry.learner).count() >= self.max_learners {
            return Err(No::Refused(Refusal::TooManyLearners));
        }
        if self.list.iter().any(|entry| entry.peer_url == peer_url) {
            return Err(No::Refused(Refusal::PeerUrlExists));
        }
        let connected =
            |entry: &&Entry| !entry.learner && self.running.contains(&entry.id) && !self.young.contains(&entry.id);
        let needed = self.voters().div_ceil(2) + usize::from(self.voters().is_multiple_of(2));
        if self.voters() > 1 && self.list.iter().filter(connected).count() < needed {
            return Err(No::Refused(Refusal::UnhealthyCluster));
        }
        self.next_id += 1;
        let id = Id(0xa000 + self.next_id);
        self.list.push(Entry {
            id,
            name: String::new(),
            peer_url: peer_url.into(),
            learner: true,
        });
        self.index += 1;
        Ok(id)
    }

    /// `MemberPromote` of a learner that has applied so much.
    pub fn promote(&mut self, id: Id, applied: u64) -> Result<(), No> {
        self.writable()?;
        let running = self.running.contains(&id);
        let in_sync = applied.saturating_mul(10) >= self.index.saturating_mul(9);
        let entry = self
            .list
            .iter_mut()
            .find(|entry| entry.id == id)
            .ok_or(No::Refused(Refusal::MemberNotFound))?;
        if !entry.learner {
            return Err(No::Refused(Refusal::NotALearner));
        }
        if entry.name.is_empty() || !running || !in_sync {
            return Err(No::Refused(Refusal::LearnerNotReady));
        }
        entry.learner = false;
        self.index += 1;
        self.elect();
        Ok(())
    }

    /// `MemberRemove`.
    pub fn remove(&mut self, id: Id) -> Result<(), No> {
        self.writable()?;
        let entry = self.entry(id).ok_or(No::Refused(Refusal::MemberNotFound))?;
        if !entry.learner {
            let left = self.voters() - 1;
            let healthy = self.healthy() - usize::from(self.running.contains(&id));
            if left == 0 || healthy <= left / 2 {
                return Err(No::Refused(Refusal::UnhealthyCluster));
            }
        }
        self.list.retain(|entry| entry.id != id);
        self.index += 1;
        self.elect();
        Ok(())
    }

    /// `MoveLeader`, to a voter that runs.
    pub fn move_leader(&mut self, id: Id) -> Result<(), No> {
        if !self.has_quorum() {
            return Err(No::NoAnswer);
        }
        if !self.running.contains(&id) || self.entry(id).is_none_or(|entry| entry.learner) {
            return Err(No::Refused(Refusal::BadTransferee));
        }
        self.leader = Some(id);
        Ok(())
    }

    fn writable(&self) -> Result<(), No> {
        if let Some(refusal) = self.refuses {
            return Err(No::Refused(refusal));
        }
        if self.has_quorum() { Ok(()) } else { Err(No::NoAnswer) }
    }
}
