//! Does a quorum stand? By the word of etcd itself, with unknown as a state of its own.

use jiff::SignedDuration;

use super::{
    facts::{Link, Listed, Medium, PodFact},
    report::{ProcessState, Report},
    view::{MemberView, View},
};

/// How long voters may be without a leader, enough of them heard to elect one, before it means more than an election.
const ELECTION: SignedDuration = SignedDuration::from_secs(3);
/// The same when so many voters are silent that those who are heard cannot elect one: two facts that have nothing to do
/// with each other, and say the same.
const ELECTION_OF_TOO_FEW: SignedDuration = SignedDuration::from_secs(1);
/// How long nobody may be heard before it is said.
const SILENCE: SignedDuration = SignedDuration::from_secs(8);

/// What is known of the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// The cluster was never formed.
    NotFormed,
    /// Every voter serves.
    Healthy,
    /// A quorum serves; these voters do not, as far as is known.
    Serving {
        /// Names, with what is wrong.
        missing: Vec<String>,
    },
    /// It is lost; these voters do not serve.
    Lost {
        /// Names, with what is wrong.
        missing: Vec<String>,
    },
    /// No voter has its data any more.
    AllLost,
    /// No voter is heard.
    Unreachable,
    /// Not known at the moment, and not for long: what was said last stands.
    Undecided,
}

/// What one voter is known to be.
enum Word {
    Well,
    NoLeader,
    /// It does not vote now, and may again.
    Down(String),
    /// It does not vote, and its data are gone, or go at this moment: nothing brings this voter back.
    Gone(String),
    Silent,
}

/// A name that somebody else has chosen, cut to what a status can hold.
fn cut(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

fn described(listed: &Listed) -> String {
    let name = match listed.name.as_str() {
        "" => "one that has not started",
        name => name,
    };
    let url = listed.peer_urls.first().map_or("no peer URL", String::as_str);
    format!("{} ({}, {})", cut(name), listed.id, cut(url))
}

/// Members of etcd's list that somebody else has put there, for a person; they are never removed without one (M14).
#[must_use]
pub fn strangers(view: &View) -> Option<String> {
    let others = view.strangers().filter(|listed| !view.is_orphan(listed));
    let names: Vec<String> = others.take(4).map(described).collect();
    (!names.is_empty()).then(|| {
        format!(
            "etcd lists {}, which is no member of this cluster and is not removed by the operator: if nobody needs it, \
             remove it with etcdctl member remove",
            names.join("; ")
        )
    })
}

/// A quorum is proven to serve right now: by the list, which was read through it, or by a voter that knows a leader.
#[must_use]
pub fn proven(view: &View) -> bool {
    // Readiness of a Pod says nothing of a quorum.
    let heard = |member: &MemberView| member.is_voter() && !member.agentless && member.healthy();
    view.facts.list.known().is_some() || view.members.iter().any(heard)
}

/// What is known of the quorum.
#[must_use]
pub fn judge(view: &View) -> Quorum {
    if view.facts.cluster.record.cluster_id.is_none() {
        return Quorum::NotFormed;
    }
    let voters: Vec<&MemberView> = view.members.iter().filter(|member| member.is_voter()).collect();
    let words: Vec<(&str, Word)> = voters
        .iter()
        .map(|member| (member.fact.name.as_str(), word(view, member)))
        .collect();
    let mut missing: Vec<String> = words.iter().filter_map(|(name, word)| describe(name, word)).collect();
    missing.extend(
        view.strangers()
            .filter(|listed| !listed.learner)
            .map(|listed| format!("{} is no member of ours", described(listed))),
    );
    let read = view.facts.list.known().is_some();
    if !read && view.all_lost() {
        return Quorum::AllLost;
    }
    let count = |of: fn(&Word) -> bool| words.iter().filter(|(_, word)| of(word)).count();
    let gone = count(|word| matches!(word, Word::Gone(_)));
    let down = gone + count(|word| matches!(word, Word::Down(_)));
    // So many may be missing.
    let spare = view.voters().saturating_sub(view.needed());
    // Also while the last of those that go still serves: that can be for seconds, and cannot be undone. And before a voter
    // is believed that names a leader: it goes on naming one that has ended until it misses it.
    if gone > spare || (!read && down > spare) {
        return Quorum::Lost { missing };
    }
    if proven(view) {
        return if missing.is_empty() {
            Quorum::Healthy
        } else {
            Quorum::Serving { missing }
        };
    }
    // Nobody is there to ask, and their Pods are ready: what was said last stands.
    let ready = voters
        .iter()
        .filter(|member| member.agentless && member.healthy())
        .count();
    if ready > 0 && ready >= view.needed() {
        return Quorum::Undecided;
    }
    let since = view.facts.unproven_since;
    let unproven = since.map_or(SignedDuration::ZERO, |since| view.facts.now.duration_since(since));
    let electors = count(|word| matches!(word, Word::NoLeader));
    let heard = electors + down > 0;
    let patience = match electors {
        0 => ELECTION,
        few if few < view.needed() => ELECTION_OF_TOO_FEW,
        _ => ELECTION,
    };
    match (heard, unproven) {
        (true, time) if time >= patience => Quorum::Lost { missing },
        (false, time) if time >= SILENCE => Quorum::Unreachable,
        _ => Quorum::Undecided,
    }
}

fn word(view: &View, member: &MemberView) -> Word {
    if member.healthy() {
        return Word::Well;
    }
    let in_memory = view.facts.cluster.spec.medium == Medium::Memory;
    // With its Pod, or its directory, go its data.
    let lost = |why: &str| {
        if in_memory {
            Word::Gone(why.into())
        } else {
            Word::Down(why.into())
        }
    };
    let pod = match &member.fact.pod {
        PodFact::Absent => return lost("has no Pod"),
        PodFact::Foreign { .. } => return lost("has no Pod of its own"),
        PodFact::Ours(pod) if pod.ended => return lost("has a Pod that ended"),
        PodFact::Ours(pod) if pod.node.is_none() => return lost("has a Pod without a node"),
        PodFact::Ours(pod) => pod,
    };
    if member.agentless {
        return Word::Down("has a Pod that is not ready".into());
    }
    // Where the Pod goes, nothing starts etcd again.
    if pod.deleting && member.fact.link.last().is_some_and(has_stopped) {
        return lost("is being deleted, and its etcd serves no more");
    }
    match &member.fact.link {
        Link::Up { report, .. } => match (&report.etcd, member.has_data()) {
            (Some(etcd), _) if view.facts.cluster.cluster_differs(Some(etcd.cluster_id)) => {
                Word::Down(format!("answers for another cluster ({})", etcd.cluster_id))
            }
            (_, Some(false)) => lost(&format!("has a directory that is {}", report.directory.state.as_str())),
            (Some(etcd), _) if etcd.leader.is_none() => Word::NoLeader,
            (Some(_) | None, _) => Word::Down("runs no serving etcd".into()),
        },
        // In memory a Pod made after the data were is an empty one.
        Link::Down { .. } | Link::None => {
            if in_memory && Some(pod.uid.as_str()) != member.fact.record.pod_uid.as_deref() {
                Word::Gone("has a new Pod, and its data went with the old one".into())
            } else {
                Word::Silent
            }
        }
    }
}

/// etcd has ended, or serves no clients any more, which is the first thing it does when it is asked to end.
fn has_stopped(report: &Report) -> bool {
    let serves = report.etcd.as_ref().is_some_and(|etcd| etcd.serving);
    match report.process.state {
        ProcessState::Absent | ProcessState::Held | ProcessState::Stopped => true,
        ProcessState::Running => !serves,
        ProcessState::Unspecified | ProcessState::Starting => false,
    }
}

fn describe(name: &str, word: &Word) -> Option<String> {
    match word {
        Word::Well => None,
        Word::NoLeader => Some(format!("{name} knows no leader")),
        Word::Down(why) | Word::Gone(why) => Some(format!("{name} {why}")),
        Word::Silent => Some(format!("{name} is not heard")),
    }
}
