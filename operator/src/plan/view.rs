//! Facts put together: what each member is to etcd, and who stands.

use std::time::Duration;

use super::{
    facts::{Cluster, Fact, Facts, Id, Link, Listed, Member, MemberList, PodFact},
    pods::AGENT_PATIENCE,
    report::{Directory, DirectoryState, ProcessState, Report},
};

/// What a member is, by etcd's list and its own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing may be concluded: the list is unknown.
    Unknown,
    /// A voter of the list. Whether it is well is another matter.
    Voter(Id),
    /// A learner of the list that has started, or that has not been heard.
    Learner(Id),
    /// Listed under its peer URL, and its ID is bound to no directory: the one that recorded the add has died.
    Unbound(Id),
    /// Listed and bound to the directory it has; etcd has not started there yet.
    Joining(Id),
    /// Listed, and its data are gone.
    Lost(Id),
    /// Listed, and its data are damaged.
    Damaged(Id),
    /// Not listed, though its directory was: set it aside.
    Removed(Id),
    /// Not listed, with an empty directory of this nonce: can be admitted.
    Ready(String),
    /// Not listed, and not ready.
    Absent,
    /// Its directory belongs to another cluster or history.
    Foreign,
    /// Its directory cannot be read.
    Unreadable,
}

/// One member with its standing.
#[derive(Clone, Debug)]
pub struct MemberView<'a> {
    /// The facts.
    pub fact: &'a Member,
    /// Its entry of etcd's list.
    pub listed: Option<&'a Listed>,
    /// What it is.
    pub standing: Standing,
    /// It was made without an agent and has never had one: nothing of it may be touched yet.
    pub agentless: bool,
    voter: bool,
}

impl MemberView<'_> {
    /// Its ID in etcd's list, whatever its directory is like.
    #[must_use]
    pub fn listed_id(&self) -> Option<Id> {
        self.listed.map(|listed| listed.id)
    }

    /// etcd serves on it, and it knows a leader. Where no agent can tell, the Pod's readiness is the word.
    #[must_use]
    pub fn healthy(&self) -> bool {
        if self.agentless {
            return self.fact.pod.ours().is_some_and(|pod| pod.ready && !pod.deleting);
        }
        !matches!(
            self.standing,
            Standing::Lost(_) | Standing::Damaged(_) | Standing::Foreign
        ) && self.fact.link.live().is_some_and(serves)
    }

    /// It votes: by etcd's list when that is known, else by what was last seen.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        self.voter
    }

    /// Its directory holds what this cluster's history wrote.
    #[must_use]
    pub fn has_data(&self) -> Option<bool> {
        let directory = &self.fact.link.live()?.directory;
        if self.standing == Standing::Foreign {
            return Some(false);
        }
        match directory.state {
            DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::InUse => Some(true),
            DirectoryState::Unborn | DirectoryState::Damaged | DirectoryState::Foreign => Some(false),
            DirectoryState::Unspecified | DirectoryState::Unreadable => None,
        }
    }
}

/// etcd answers on it and knows a leader: a leader that is heard has a quorum behind it (etcd checks it).
#[must_use]
pub fn serves(report: &Report) -> bool {
    matches!(report.process.state, ProcessState::Running | ProcessState::Starting)
        && report
            .etcd
            .as_ref()
            .is_some_and(|etcd| etcd.serving && etcd.leader.is_some())
}

/// All members, and what follows from them together.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The facts.
    pub facts: &'a Facts,
    /// Members, oldest first.
    pub members: Vec<MemberView<'a>>,
}

impl<'a> View<'a> {
    /// Puts the facts together.
    #[must_use]
    pub fn new(facts: &'a Facts) -> Self {
        let list = facts.list.known();
        // A cluster that was formed a moment ago may not have its first voter reported yet.
        let reported = facts.members.iter().any(|member| member.record.voter);
        let mut members: Vec<_> = facts
            .members
            .iter()
            .map(|fact| {
                let listed = list.and_then(|list| find(list, fact, &facts.members));
                MemberView {
                    fact,
                    listed,
                    standing: if answers_for_another(&facts.cluster, fact) {
                        Standing::Foreign
                    } else {
                        standing(fact, &facts.cluster, &facts.list, listed)
                    },
                    agentless: agentless(&facts.cluster, fact),
                    voter: match list {
                        Some(_) => listed.is_some_and(|listed| !listed.learner),
                        None if reported => fact.record.voter,
                        None => fact.record.binding.is_some(),
                    },
                }
            })
            .collect();
        members.sort_by(|a, b| (a.fact.created, &a.fact.name).cmp(&(b.fact.created, &b.fact.name)));
        Self { facts, members }
    }

    /// Voters: etcd's list when it is known, else what was last seen.
    #[must_use]
    pub fn voters(&self) -> usize {
        match self.facts.list.known() {
            Some(list) => list.members.iter().filter(|member| !member.learner).count(),
            None => self.members.iter().filter(|member| member.is_voter()).count(),
        }
    }

    /// No voter has its data, by its own word; also when no voter's object is left, or no object at all: nobody is there
    /// who could have them.
    #[must_use]
    pub fn all_lost(&self) -> bool {
        let empty = |member: &MemberView| member.has_data() == Some(false);
        let mut voters = self.members.iter().filter(|member| member.is_voter()).peekable();
        if voters.peek().is_none() {
            return self.members.iter().all(empty);
        }
        voters.all(empty)
    }

    /// Voters that serve and know a leader.
    #[must_use]
    pub fn healthy_voters(&self) -> usize {
        self.members
            .iter()
            .filter(|member| member.is_voter() && member.healthy())
            .count()
    }

    /// What a quorum of the present voters takes.
    #[must_use]
    pub fn needed(&self) -> usize {
        quorum(self.voters())
    }

    /// A quorum of voters serves, this one left out.
    #[must_use]
    pub fn stands_without(&self, id: Id) -> bool {
        let others = self
            .members
            .iter()
            .filter(|member| member.is_voter() && member.healthy() && member.listed_id() != Some(id))
            .count();
        let is_voter = self
            .facts
            .list
            .known()
            .is_some_and(|list| list.members.iter().any(|member| member.id == id && !member.learner));
        let left = if is_voter {
            self.voters().saturating_sub(1)
        } else {
            self.voters()
        };
        left > 0 && others >= quorum(left)
    }

    /// The member that leads, by the word of those who serve.
    #[must_use]
    pub fn leader(&self) -> Option<&MemberView<'a>> {
        self.members.iter().find(|member| {
            member.healthy()
                && member
                    .fact
                    .link
                    .live()
                    .and_then(|report| report.etcd.as_ref())
                    .is_some_and(|etcd| etcd.leader == Some(etcd.member_id))
        })
    }

    /// The voter to send membership calls to: the leader when it is known, else any that serves.
    #[must_use]
    pub fn via(&self) -> Option<&'a str> {
        self.leader()
            .or_else(|| self.members.iter().find(|member| member.is_voter() && member.healthy()))
            .map(|member| member.fact.name.as_str())
    }

    /// A formed cluster has members whose Pods are ready and whose agents this process has never heard, because it has
    /// only just begun to dial them (it was started, or took over). Nothing is to be said of such a cluster: what
    /// stands in the status was said by someone who had heard them (U21). For how long yet, at most.
    #[must_use]
    pub fn only_dialling(&self) -> Option<Duration> {
        self.facts.cluster.record.cluster_id?;
        let left = |member: &MemberView| {
            let pod = member.fact.pod.ours()?;
            if !(pod.ready && pod.has_agent) {
                return None;
            }
            match &member.fact.link {
                Link::None => Some(AGENT_PATIENCE),
                Link::Down { since, last: None, .. } => Some(AGENT_PATIENCE - self.facts.now.duration_since(*since)),
                Link::Down { last: Some(_), .. } | Link::Up { .. } => None,
            }
        };
        let longest = self.members.iter().filter_map(left).max()?;
        Duration::try_from(longest).ok().filter(|left| !left.is_zero())
    }

    /// As [`Self::via`], but not that member.
    #[must_use]
    pub fn via_other_than(&self, name: &str) -> Option<&'a str> {
        self.members
            .iter()
            .find(|member| member.fact.name != name && member.is_voter() && member.healthy())
            .map(|member| member.fact.name.as_str())
    }

    /// The member of that name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&MemberView<'a>> {
        self.members.iter().find(|member| member.fact.name == name)
    }

    /// It has a peer URL as only members of this cluster have: its object is gone.
    #[must_use]
    pub fn is_orphan(&self, listed: &Listed) -> bool {
        let suffix = self.facts.cluster.peer_suffix.as_str();
        !listed.peer_urls.is_empty() && listed.peer_urls.iter().all(|url| url.ends_with(suffix))
    }

    /// Entries of etcd's list that no member object stands for.
    pub fn strangers(&self) -> impl Iterator<Item = &'a Listed> {
        let ours: Vec<Id> = self
            .members
            .iter()
            .filter_map(|member| member.listed.map(|listed| listed.id))
            .collect();
        self.facts
            .list
            .known()
            .into_iter()
            .flat_map(|list| &list.members)
            .filter(move |listed| !ours.contains(&listed.id))
    }
}

/// How many of `voters` make a quorum.
#[must_use]
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// A Pod without an agent, or a voter that no binding of ours was ever recorded for: it was made by another operator,
/// also when its Pod is not there at the moment.
fn agentless(cluster: &Cluster, member: &Member) -> bool {
    let record = &member.record;
    let never_bound = cluster.record.cluster_id.is_some() && record.binding.is_none();
    match &member.pod {
        PodFact::Ours(pod) => !pod.has_agent || (never_bound && record.voter),
        PodFact::Absent | PodFact::Foreign { .. } => {
            // A member of ours that was admitted a moment ago has an ID and no binding, but its agent was heard.
            never_bound && (record.voter || (record.member_id.is_some() && !record.heard))
        }
    }
}

/// Its etcd runs, and in another cluster: whatever it answers is of no meaning here (M15).
fn answers_for_another(cluster: &Cluster, member: &Member) -> bool {
    let running = member.link.live().and_then(|report| report.etcd.as_ref());
    let of = running.map(|etcd| etcd.cluster_id).filter(|id| id.0 != 0);
    cluster.cluster_differs(of)
}

/// The entry of the list that stands for a member: by the ID it is bound to, else by its peer URL (which holds its
/// name), as long as no other member is bound to that ID.
fn find<'a>(list: &'a MemberList, member: &Member, all: &[Member]) -> Option<&'a Listed> {
    let bound = |id: Id| {
        all.iter()
            .any(|other| other.record.binding.as_ref().is_some_and(|binding| binding.id == id))
    };
    let own = member
        .record
        .binding
        .as_ref()
        .map(|binding| binding.id)
        .or(member.record.member_id);
    list.members.iter().find(|listed| Some(listed.id) == own).or_else(|| {
        list.members
            .iter()
            .find(|listed| listed.peer_urls.contains(&member.peer_url) && !bound(listed.id))
    })
}

fn standing(member: &Member, cluster: &Cluster, list: &Fact<MemberList>, listed: Option<&Listed>) -> Standing {
    let directory = member.link.live().map(|report| &report.directory);
    match (list, listed) {
        (Fact::Unknown { .. }, _) => match directory.map(|directory| directory.state) {
            Some(DirectoryState::Foreign) => Standing::Foreign,
            Some(DirectoryState::Unreadable) => Standing::Unreadable,
            _ => Standing::Unknown,
        },
        (Fact::Known { .. }, Some(listed)) => listed_standing(member, directory, listed),
        (Fact::Known { .. }, None) => unlisted_standing(member, cluster, directory),
    }
}

fn listed_standing(member: &Member, directory: Option<&Directory>, listed: &Listed) -> Standing {
    let id = listed.id;
    let as_listed = if listed.learner {
        Standing::Learner(id)
    } else {
        Standing::Voter(id)
    };
    let bound = member.record.binding.as_ref().filter(|binding| binding.id == id);
    let Some(directory) = directory else { return as_listed };
    match directory.state {
        DirectoryState::Unspecified => as_listed,
        DirectoryState::Unborn if directory.nonce.is_empty() => as_listed,
        DirectoryState::Unborn => match bound {
            // Its name is known to etcd only after it has started once.
            Some(binding) if binding.nonce == directory.nonce && !directory.started && listed.name.is_empty() => {
                Standing::Joining(id)
            }
            None if listed.name.is_empty() => Standing::Unbound(id),
            Some(_) | None => Standing::Lost(id),
        },
        DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::InUse => {
            match directory.identity.as_ref().map(|identity| identity.member_id) {
                Some(recorded) if recorded != id => Standing::Foreign,
                Some(_) | None => as_listed,
            }
        }
        DirectoryState::Damaged => Standing::Damaged(id),
        DirectoryState::Foreign => Standing::Foreign,
        DirectoryState::Unreadable => Standing::Unreadable,
    }
}

fn unlisted_standing(member: &Member, cluster: &Cluster, directory: Option<&Directory>) -> Standing {
    let Some(directory) = directory else {
        return Standing::Absent;
    };
    // It was not fenced when its history was given up, so it may hold what the new one lacks: for a person to look at.
    // One that was fenced then is shorter than the one that was chosen.
    let older = directory
        .identity
        .as_ref()
        .is_some_and(|identity| identity.incarnation < cluster.record.incarnation);
    if older && !directory.fenced {
        return Standing::Foreign;
    }
    match directory.state {
        DirectoryState::Unspecified => Standing::Absent,
        // The agent is about to give a directory whose data are gone a new nonce.
        DirectoryState::Unborn if directory.nonce.is_empty() || directory.started => Standing::Absent,
        DirectoryState::Unborn => Standing::Ready(directory.nonce.clone()),
        DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::InUse | DirectoryState::Damaged => {
            match (&directory.identity, &member.record.binding) {
                (Some(identity), _) => Standing::Removed(identity.member_id),
                (None, Some(binding)) => Standing::Removed(binding.id),
                (None, None) => Standing::Foreign,
            }
        }
        DirectoryState::Foreign => Standing::Foreign,
        DirectoryState::Unreadable => Standing::Unreadable,
    }
}
