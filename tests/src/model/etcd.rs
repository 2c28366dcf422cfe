//! etcd's membership as one truth, and what it refuses: the rules of `server.go` (`mayAddMember`, `mayRemoveMember`,
//! `isLearnerReady`) and of `membership/cluster.go` (`ValidateConfigurationChange`), which etcd 3.5, 3.6 and 3.7 share.
//! `tests/tests/conformance` holds it against real ones.
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

/// A change of membership that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// `MemberAddAsLearner` with that peer URL.
    AddLearner(String),
    /// `MemberAdd` with that peer URL.
    AddVoter(String),
    /// `MemberPromote`.
    Promote {
        /// Whom.
        id: Id,
        /// The index that it had reached when the leader last heard of it.
        reached: u64,
    },
    /// `MemberRemove`.
    Remove(Id),
    /// `MemberUpdate` to that peer URL.
    Update(Id, String),
}

/// The network is cut in two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cut {
    /// Members on one side.
    far: Vec<Id>,
    /// The list as it was then: the side without a quorum knows no newer one.
    list: Vec<Entry>,
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
    /// `max-learners` of every member.
    pub max_learners: usize,
    /// Every change of membership is refused so.
    pub refuses: Option<Refusal>,
    /// IDs that run and serve now.
    pub running: Vec<Id>,
    /// Pairs of them that have not been connected for 5 s yet, each with the lower ID first.
    pub young: Vec<(Id, Id)>,
    /// Who leads.
    pub leader: Option<Id>,
    /// Whom the leader has heard since it leads: only of these it knows how far they have got.
    heard: Vec<Id>,
    cut: Option<Cut>,
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
        voters(&self.list).count()
    }

    /// Voters that run and are connected with each other.
    #[must_use]
    pub fn healthy(&self) -> usize {
        let on = |far: bool| {
            let here = |entry: &&Entry| self.runs(entry.id) && self.is_far(entry.id) == far;
            voters(&self.list).filter(here).count()
        };
        on(false).max(on(true))
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

    fn runs(&self, id: Id) -> bool {
        self.running.contains(&id)
    }

    fn is_far(&self, id: Id) -> bool {
        self.cut.as_ref().is_some_and(|cut| cut.far.contains(&id))
    }

    /// Both run, and nothing is between them.
    #[must_use]
    pub fn connected(&self, one: Id, other: Id) -> bool {
        self.runs(one) && self.runs(other) && self.is_far(one) == self.is_far(other)
    }

    /// It reaches the leader.
    #[must_use]
    pub fn follows(&self, id: Id) -> bool {
        self.leader.is_some_and(|leader| self.connected(id, leader))
    }

    /// Who runs has changed: leadership stays where it is as long as it can.
    pub fn set_running(&mut self, running: Vec<Id>) {
        if self.running == running {
            return self.elect();
        }
        self.connect(|etcd| etcd.running = running);
    }

    /// Those are cut off from all others.
    pub fn cut(&mut self, far: Vec<Id>) {
        let list = self.list.clone();
        self.connect(|etcd| etcd.cut = Some(Cut { far, list }));
    }

    /// Everyone reaches everyone again.
    pub fn heal(&mut self) {
        self.connect(|etcd| etcd.cut = None);
    }

    /// Those who run have been connected for longer than 5 s.
    pub fn grow_old(&mut self) {
        self.young.clear();
    }

    fn connect(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.pairs();
        change(self);
        let young = std::mem::take(&mut self.young);
        let mut now = self.pairs();
        now.retain(|pair| !before.contains(pair) || young.contains(pair));
        self.young = now;
        self.elect();
    }

    fn pairs(&self) -> Vec<(Id, Id)> {
        let mut pairs = Vec::new();
        for one in &self.running {
            for other in &self.running {
                if one < other && self.connected(*one, *other) {
                    pairs.push((*one, *other));
                }
            }
        }
        pairs
    }

    /// What is beside the list, into a hash: the same for clusters that differ in nothing but their IDs, which `id` is
    /// shown in the order in which they come.
    pub(super) fn hash_rest<H: std::hash::Hasher>(&self, to: &mut H, id: &mut dyn FnMut(Id)) {
        use std::hash::Hash;
        let far = self.cut.as_ref().map_or(&[][..], |cut| &cut.far);
        for ids in [&self.running, &self.heard, far, self.leader.as_slice()] {
            ids.len().hash(to);
            ids.iter().copied().for_each(&mut *id);
        }
        for (one, other) in &self.young {
            id(*one);
            id(*other);
        }
        if let Some(cut) = &self.cut {
            for entry in &cut.list {
                (entry.learner, entry.name.is_empty()).hash(to);
                id(entry.id);
            }
        }
        (self.max_learners, self.refuses, self.young.len()).hash(to);
    }

    /// May that member lead now?
    #[must_use]
    pub fn may_lead(&self, id: Id) -> bool {
        let here = |entry: &&Entry| self.connected(entry.id, id);
        self.entry(id).is_some_and(|entry| !entry.learner)
            && voters(&self.list).filter(here).count() > self.voters() / 2
    }

    /// It leads: an election that nobody asked for.
    pub fn lead(&mut self, id: Id) {
        if self.leader != Some(id) {
            self.leader = Some(id);
            self.heard.clear();
        }
        let reached: Vec<Id> = self
            .running
            .iter()
            .copied()
            .filter(|one| self.connected(*one, id))
            .collect();
        let news = reached
            .into_iter()
            .filter(|one| !self.heard.contains(one))
            .collect::<Vec<_>>();
        self.heard.extend(news);
        self.heard.sort_unstable();
    }

    fn elect(&mut self) {
        let stays = self.leader.filter(|id| self.may_lead(*id));
        let ids = self.list.iter().map(|entry| entry.id);
        if let Some(leader) = stays.or_else(|| ids.into_iter().find(|id| self.may_lead(*id))) {
            self.lead(leader);
        } else {
            self.leader = None;
            self.heard.clear();
        }
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

    /// `MemberAddAsLearner`, asked of the leader.
    pub fn add_learner(&mut self, peer_url: &str) -> Result<Id, No> {
        self.ask_leader(&Change::AddLearner(peer_url.into()))?;
        Ok(Id(0xa000 + self.next_id))
    }

    /// `MemberPromote` of a learner that has reached that index, asked of the leader.
    pub fn promote(&mut self, id: Id, reached: u64) -> Result<(), No> {
        self.ask_leader(&Change::Promote { id, reached })
    }

    /// `MemberRemove`, asked of the leader.
    pub fn remove(&mut self, id: Id) -> Result<(), No> {
        self.ask_leader(&Change::Remove(id))
    }

    /// `MoveLeader`, asked of the leader.
    pub fn move_leader(&mut self, id: Id) -> Result<(), No> {
        self.move_leader_at(self.leader.ok_or(No::NoAnswer)?, id)
    }

    fn ask_leader(&mut self, change: &Change) -> Result<(), No> {
        self.ask(self.leader.ok_or(No::NoAnswer)?, change)
    }

    /// `MoveLeader`, asked of a voter.
    pub fn move_leader_at(&mut self, via: Id, id: Id) -> Result<(), No> {
        self.asked_a_voter(via)?;
        if self.leader != Some(via) {
            return Err(No::Refused(Refusal::NotLeader));
        }
        if self.entry(id).is_none_or(|entry| entry.learner) {
            return Err(No::Refused(Refusal::BadTransferee));
        }
        if !self.connected(via, id) {
            return Err(No::NoAnswer);
        }
        self.lead(id);
        Ok(())
    }

    /// The member list, read linearizably.
    pub fn members_at(&self, via: Id) -> Result<&[Entry], No> {
        self.asked_a_voter(via)?;
        if self.follows(via) {
            Ok(&self.list)
        } else {
            Err(No::NoAnswer)
        }
    }

    /// Asks a member, which runs and serves, for a change.
    pub fn ask(&mut self, via: Id, change: &Change) -> Result<(), No> {
        if let Some(refusal) = self.refuses {
            return Err(No::Refused(refusal));
        }
        self.asked_a_voter(via)?;
        self.may(via, change)?;
        if !self.follows(via) {
            return Err(No::NoAnswer);
        }
        self.apply(change).map_err(No::Refused)?;
        self.index += 1;
        self.elect();
        Ok(())
    }

    /// The list that a member knows.
    #[must_use]
    pub fn view(&self, via: Id) -> &[Entry] {
        match &self.cut {
            Some(cut) if !self.follows(via) => &cut.list,
            Some(_) | None => &self.list,
        }
    }

    fn asked_a_voter(&self, via: Id) -> Result<(), No> {
        let own = self.view(via).iter().find(|entry| entry.id == via);
        match own {
            Some(own) if own.learner => Err(No::Refused(Refusal::AskedALearner)),
            Some(_) | None => Ok(()),
        }
    }

    /// What the asked member itself looks at before it proposes anything (`strict-reconfig-check`).
    fn may(&self, via: Id, change: &Change) -> Result<(), No> {
        let view = self.view(via);
        let count = voters(view).count();
        let started = |but: Option<Id>| voters(view).filter(|e| Some(e.id) != but && !e.name.is_empty()).count();
        let connected = voters(view)
            .filter(|entry| self.connected_for_long(via, entry.id))
            .count();
        let refuse = |refusal, unless: bool| if unless { Ok(()) } else { Err(No::Refused(refusal)) };
        match change {
            Change::AddLearner(_) => refuse(Refusal::UnhealthyCluster, count == 1 || connected >= quorum(count + 1)),
            Change::AddVoter(_) => {
                let enough = (count, started(None)) == (1, 1) || started(None) >= quorum(count + 1);
                refuse(Refusal::NotEnoughStarted, enough)?;
                refuse(Refusal::UnhealthyCluster, count == 1 || connected >= quorum(count + 1))
            }
            Change::Promote { id, reached } => {
                // Only the leader knows; a follower passes the call on, and passes these two answers back.
                if !self.follows(via) {
                    return Err(No::NoAnswer);
                }
                refuse(Refusal::MemberNotFound, self.entry(*id).is_some())?;
                refuse(Refusal::LearnerNotReady, self.is_in_sync(*id, *reached))?;
                match refuse(Refusal::NotEnoughStarted, started(None) + 1 >= quorum(count + 1)) {
                    // This one it takes for a failure, and asks on.
                    Err(_) if self.leader != Some(via) => Err(No::NoAnswer),
                    answer => answer,
                }
            }
            Change::Remove(id) => {
                if view.iter().any(|entry| entry.id == *id && entry.learner) {
                    return Ok(());
                }
                let left = voters(view).filter(|entry| entry.id != *id).count();
                refuse(Refusal::NotEnoughStarted, started(Some(*id)) >= quorum(left))?;
                if *id != via && !self.connected(via, *id) {
                    return Ok(());
                }
                refuse(Refusal::UnhealthyCluster, connected > 1 + count.saturating_sub(1) / 2)
            }
            Change::Update(..) => Ok(()),
        }
    }

    fn connected_for_long(&self, via: Id, id: Id) -> bool {
        let pair = (via.min(id), via.max(id));
        via == id || self.connected(via, id) && !self.young.contains(&pair)
    }

    /// At nine tenths of the leader's index, by what the leader knows of it, whether or not it still runs.
    fn is_in_sync(&self, id: Id, reached: u64) -> bool {
        let known = if self.leader == Some(id) {
            self.index
        } else if self.heard.contains(&id) {
            reached
        } else {
            0
        };
        known.saturating_mul(10) >= self.index.saturating_mul(9)
    }

    /// What every member looks at when it applies the change.
    fn apply(&mut self, change: &Change) -> Result<(), Refusal> {
        match change {
            Change::AddLearner(url) | Change::AddVoter(url) => {
                let learner = matches!(change, Change::AddLearner(_));
                self.is_free(url, None)?;
                let learners = self.list.iter().filter(|entry| entry.learner).count();
                if learner && learners >= self.max_learners {
                    return Err(Refusal::TooManyLearners);
                }
                self.next_id += 1;
                self.list.push(Entry {
                    id: Id(0xa000 + self.next_id),
                    name: String::new(),
                    peer_url: url.clone(),
                    learner,
                });
            }
            Change::Promote { id, .. } => {
                let entry = self.entry_mut(*id)?;
                if !entry.learner {
                    return Err(Refusal::NotALearner);
                }
                entry.learner = false;
            }
            Change::Remove(id) => {
                self.entry_mut(*id)?;
                self.list.retain(|entry| entry.id != *id);
            }
            Change::Update(id, url) => {
                self.entry_mut(*id)?;
                self.is_free(url, Some(*id))?;
                self.entry_mut(*id)?.peer_url.clone_from(url);
            }
        }
        Ok(())
    }

    fn is_free(&self, url: &str, but_of: Option<Id>) -> Result<(), Refusal> {
        let taken = |entry: &Entry| Some(entry.id) != but_of && entry.peer_url == url;
        if self.list.iter().any(taken) {
            Err(Refusal::PeerUrlExists)
        } else {
            Ok(())
        }
    }

    fn entry_mut(&mut self, id: Id) -> Result<&mut Entry, Refusal> {
        let entry = self.list.iter_mut().find(|entry| entry.id == id);
        entry.ok_or(Refusal::MemberNotFound)
    }
}

fn voters(list: &[Entry]) -> impl Iterator<Item = &Entry> {
    list.iter().filter(|entry| !entry.learner)
}

const fn quorum(members: usize) -> usize {
    members / 2 + 1
}
