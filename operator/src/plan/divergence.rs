//! Silent divergence: members that serve, and hold different data (etcd raises no error for it). Found by comparing hashes
//! over all keys at one revision: on a schedule, after each start of a voter's etcd, and on a CORRUPT alarm.
//!
//! Hashes are equal or not only where revision and compact revision are equal. A member is taken for the bad one when a
//! majority of all voters holds the same and it does not, in two looks in a row. Without such a majority nobody knows
//! whose data are right, and nothing is touched.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::conditions::Reason;
use jiff::{SignedDuration, Timestamp};

use super::{
    facts::Id,
    step::{Plan, Step, WaitReason},
    view::{MemberView, View},
};

/// What this process has found out by comparing hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Since when this process looks after the cluster; `None`: nothing is compared.
    pub since: Option<Timestamp>,
    /// Members are being asked.
    pub under_way: bool,
    /// The last two looks, the newest one last.
    pub looks: Vec<Look>,
    /// Since when a member has told of a CORRUPT alarm.
    pub corrupt_since: Option<Timestamp>,
}

/// Members were asked for their hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// When it began.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Who was asked.
    pub asked: Vec<Asked>,
    /// Who answered.
    pub answers: Vec<Answer>,
}

/// A voter that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name.
    pub member: String,
    /// Its ID.
    pub id: Id,
    /// When its etcd was started, in seconds since 1970: which run of it.
    pub started_at: i64,
}

/// What a voter answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its ID.
    pub id: Id,
    /// Up to which revision.
    pub revision: i64,
    /// From which revision on history is kept.
    pub compact: i64,
    /// The hash.
    pub hash: u32,
}

/// What one look says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All voters hold the same.
    Equal,
    /// Nothing differs, as far as it could be compared.
    Incomplete,
    /// These differ from a majority of all voters.
    Minority(Vec<Id>),
    /// These differ from each other, and no majority of all voters holds the same.
    NoMajority(Vec<Id>),
}

/// Between two looks when nothing has happened.
const EVERY: SignedDuration = SignedDuration::from_mins(10);
/// A look takes no more than this part of the time: hashing a large database stops its member from applying.
const PART: u32 = 1000;
/// After the start of a voter's etcd, or on an alarm, a look is made so long after the last one at the earliest.
const AFTER_TROUBLE: SignedDuration = SignedDuration::from_secs(10);
/// The second look, that confirms the first.
const CONFIRM: SignedDuration = SignedDuration::from_secs(5);
/// Further ones while members differ, or when one has not answered.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// What was found is acted on for so long.
const VALID: SignedDuration = SignedDuration::from_mins(2);

/// Asks for a look when one is due.
pub(super) fn compare(view: &View, plan: &mut Plan) {
    let hashes = &view.facts.hashes;
    let Some(since) = hashes.since else { return };
    let Some(leader) = view.leader().filter(|leader| leader.is_voter()) else {
        return;
    };
    let name = &leader.fact.name;
    let others = view.members.iter().filter(|member| member.fact.name != *name);
    let asked: Vec<Asked> = std::iter::once(leader).chain(others).filter_map(asked).collect();
    if asked.len() < 2 || hashes.under_way {
        return;
    }
    let left = due(view, since, &asked).duration_since(view.facts.now);
    if left > SignedDuration::ZERO {
        plan.look_again(left.unsigned_abs());
    } else {
        plan.step(Step::CompareHashes { asked });
    }
}

fn asked(member: &MemberView) -> Option<Asked> {
    let report = member.fact.link.live()?;
    (member.is_voter() && member.healthy() && !member.fact.deleting).then_some(())?;
    Some(Asked {
        member: member.fact.name.clone(),
        id: report.etcd.as_ref()?.member_id,
        started_at: report.process.started_at,
    })
}

fn due(view: &View, since: Timestamp, asked: &[Asked]) -> Timestamp {
    let hashes = &view.facts.hashes;
    let Some(last) = hashes.looks.last() else {
        // Runs that this process has seen begin; all others are looked at some time within the usual one.
        let fresh = asked.iter().any(|asked| asked.started_at >= since.as_second());
        return if fresh || hashes.corrupt_since.is_some() {
            view.facts.now
        } else {
            since + EVERY.mul_f64(share(&view.facts.cluster.uid))
        };
    };
    let trouble = asked.iter().any(|asked| !last.asked.contains(asked))
        || hashes.corrupt_since.is_some_and(|since| since > last.at);
    let all_asked = asked.len() == view.voters();
    let pause = match (verdict(view, last), found(view)) {
        (Verdict::Minority(_) | Verdict::NoMajority(_), None) => CONFIRM,
        (Verdict::Minority(_) | Verdict::NoMajority(_), Some(_)) => AGAIN,
        _ if trouble => AFTER_TROUBLE,
        (Verdict::Incomplete, _) if all_asked => AGAIN,
        (Verdict::Equal | Verdict::Incomplete, _) => {
            let bounded = SignedDuration::try_from(last.took.saturating_mul(PART)).unwrap_or(EVERY);
            EVERY.max(bounded)
        }
    };
    last.at + SignedDuration::try_from(last.took).unwrap_or_default() + pause
}

/// A part of the whole, the same each time for one cluster: many must not ask their members at the same moment.
fn share(uid: &str) -> f64 {
    let sum = uid
        .bytes()
        .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    f64::from(sum % 1000) / 1000.0
}

fn voters(view: &View) -> Vec<Id> {
    let list = view.facts.list.known();
    list.into_iter()
        .flat_map(|list| &list.members)
        .filter(|listed| !listed.learner)
        .map(|listed| listed.id)
        .collect()
}

/// What a look says of those who vote now.
#[must_use]
pub fn verdict(view: &View, look: &Look) -> Verdict {
    judge(look, &voters(view))
}

fn judge(look: &Look, voters: &[Id]) -> Verdict {
    let mut groups: BTreeMap<(i64, i64), BTreeMap<u32, Vec<Id>>> = BTreeMap::new();
    for answer in look.answers.iter().filter(|answer| voters.contains(&answer.id)) {
        let of_revision = groups.entry((answer.revision, answer.compact)).or_default();
        of_revision.entry(answer.hash).or_default().push(answer.id);
    }
    let size = |group: &BTreeMap<u32, Vec<Id>>| group.values().map(Vec::len).sum::<usize>();
    let Some(group) = groups.into_values().max_by_key(size) else {
        return Verdict::Incomplete;
    };
    if group.len() == 1 {
        return if size(&group) == voters.len() {
            Verdict::Equal
        } else {
            Verdict::Incomplete
        };
    }
    let majority = group.values().find(|same| same.len() * 2 > voters.len());
    let mut others: Vec<Id> = group
        .values()
        .filter(|same| Some(*same) != majority)
        .flatten()
        .copied()
        .collect();
    others.sort_unstable();
    match majority {
        Some(_) => Verdict::Minority(others),
        None => Verdict::NoMajority(others),
    }
}

/// Found twice in a row, and lately.
enum Found {
    Minority(Vec<Id>),
    NoMajority(Vec<Id>),
}

fn found(view: &View) -> Option<Found> {
    let [.., before, last] = view.facts.hashes.looks.as_slice() else {
        return None;
    };
    if view.facts.now.duration_since(last.at) > VALID {
        return None;
    }
    let both = |one: Vec<Id>, other: &[Id]| -> Vec<Id> { one.into_iter().filter(|id| other.contains(id)).collect() };
    match (verdict(view, last), verdict(view, before)) {
        (Verdict::Minority(last), Verdict::Minority(before)) => Some(both(last, &before))
            .filter(|ids| !ids.is_empty())
            .map(Found::Minority),
        (Verdict::NoMajority(last), Verdict::NoMajority(_)) => Some(Found::NoMajority(last)),
        _ => None,
    }
}

/// Does its data differ from those of a majority, without doubt?
#[must_use]
pub fn is_in_minority(view: &View, member: &MemberView) -> bool {
    matches!(found(view), Some(Found::Minority(ids)) if member.listed_id().is_some_and(|id| ids.contains(&id)))
}

/// All voters were found to hold the same, by a look that began after that moment.
#[must_use]
pub(super) fn are_equal_since(view: &View, moment: Timestamp) -> bool {
    let last = view.facts.hashes.looks.last();
    last.is_some_and(|last| last.at >= moment && verdict(view, last) == Verdict::Equal)
}

/// The condition, while members differ.
#[must_use]
pub fn condition(view: &View) -> Option<(Reason, String)> {
    let names = |ids: &[Id]| {
        let of = |id: &Id| {
            let member = view.members.iter().find(|member| member.listed_id() == Some(*id));
            member.map_or_else(|| id.to_string(), |member| format!("{} ({id})", member.fact.name))
        };
        ids.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    match found(view)? {
        Found::Minority(ids) => Some((
            Reason::MinorityDiffers,
            format!(
                "{} holds other data than the majority at the same revision: it is replaced while a quorum stands without it",
                names(&ids)
            ),
        )),
        Found::NoMajority(ids) => Some((
            Reason::NoMajority,
            format!(
                "{} hold different data at the same revision, and no majority holds the same, so nobody can tell whose are \
                 right and nothing is replaced: compare them, and delete the EtcdMember with the wrong ones",
                names(&ids)
            ),
        )),
    }
}

/// Says it among what is waited for.
pub(super) fn say(view: &View, plan: &mut Plan) {
    if let Some((_, message)) = condition(view) {
        plan.wait(WaitReason::Diverged, None, message);
    }
}

#[cfg(test)]
#[path = "divergence_tests.rs"]
mod tests;
