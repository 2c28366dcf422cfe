//! More members: objects first, then learners, then votes. Capacity comes before membership.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    FRESH,
    facts::{Link, Member},
    join,
    report::{DirectoryState, Etcd, ProcessState},
    step::{Plan, Step, WaitReason},
    view::{MemberView, Standing, View, quorum},
};

/// How far behind the leader a learner may be: entries.
const LAG: u64 = 500;
/// The same, as a part of the leader's index: one in a thousand.
const LAG_PART: u64 = 1000;
/// How soon a learner is looked at again.
const CATCH_UP_POLL: Duration = Duration::from_millis(100);
/// A lone voter's learners wait this long for members whose Pods are on their way: after the first promotion etcd
/// refuses the next add until all voters have been connected for 5 s.
const COMPANY: SignedDuration = SignedDuration::from_secs(10);
/// A name that is not in the `EndpointSlice` for so long is not waited for any longer.
const NAME_PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// All missing member objects at once. One that was deleted by hand a moment ago is not replaced before it is known what
/// else was.
pub(super) fn create_members(view: &View, plan: &mut Plan) {
    let leaving = |member: &&MemberView| member.fact.deleting && member.fact.deleted_just_now && member.is_voter();
    let counted = view.staying().count() + view.members.iter().filter(leaving).count();
    let missing = view.target().saturating_sub(counted);
    if missing > 0 {
        let known = view.members.iter().map(|member| member.fact.name.clone()).collect();
        plan.step(Step::CreateMembers { count: missing, known });
    }
}

/// A lone voter whose object is being deleted: no quorum stands without it before another one votes.
fn leaves_after_another(view: &View, member: &MemberView) -> bool {
    member.fact.deleting && member.is_voter() && view.voters() == 1
}

/// Promotes a learner that has caught up. True: a consensus step is in the plan, or must be waited for.
pub(super) fn promote(view: &View, via: &str, plan: &mut Plan) -> bool {
    let voters = view.voters();
    let own_voters = view
        .members
        .iter()
        .filter(|member| member.is_voter() && !leaves_after_another(view, member))
        .count();
    let lone_and_expecting = voters == 1 && company_expected(view);
    for member in &view.members {
        let Standing::Learner(id) = member.standing else {
            continue;
        };
        let name = member.fact.name.as_str();
        if member.fact.deleting || own_voters >= view.target() {
            continue;
        }
        match caught_up(view, member) {
            Ok(()) if lone_and_expecting => {
                plan.look_again(CATCH_UP_POLL);
                plan.wait(
                    WaitReason::PodStarting,
                    Some(name),
                    format!("learner {name} is ready; others join first"),
                );
            }
            Ok(()) if view.healthy_voters() + 1 < quorum(voters + 1) => {
                plan.wait(
                    WaitReason::Quorum,
                    Some(name),
                    format!("too few voters are well to promote learner {name}"),
                );
            }
            Ok(()) => {
                plan.step(Step::Promote {
                    via: via.to_owned(),
                    member: name.to_owned(),
                    id,
                });
                return true;
            }
            Err(why) => {
                plan.look_again(CATCH_UP_POLL);
                plan.wait(WaitReason::CatchingUp, Some(name), format!("learner {name}: {why}"));
            }
        }
    }
    false
}

/// With a lone voter: is there another member that will be ready to join in a moment?
fn company_expected(view: &View) -> bool {
    view.staying().any(|member| {
        let on_its_way = match &member.standing {
            Standing::Absent | Standing::Ready(_) => true,
            Standing::Unknown
            | Standing::Voter(_)
            | Standing::Learner(_)
            | Standing::Unbound(_)
            | Standing::Joining(_)
            | Standing::Lost(_)
            | Standing::Damaged(_)
            | Standing::Removed(_)
            | Standing::Foreign
            | Standing::Unreadable => false,
        };
        on_its_way
            && view
                .facts
                .cluster
                .record
                .version
                .is_some_and(|version| version.max_learners() > 1)
            && member.fact.pod.ours().is_some_and(|pod| {
                pod.node.is_some() && pod.trouble.is_none() && view.facts.now.duration_since(pod.created) < COMPANY
            })
    })
}

fn caught_up(view: &View, member: &MemberView) -> Result<(), &'static str> {
    let own = fresh(view, member.fact).ok_or("its indexes are not known freshly")?;
    let commit = leader_index(view)
        .ok_or("how far the leader is, is not known: neither its agent nor its etcd (port 2379) tells the operator")?;
    if !own.serving {
        return Err("it does not serve yet");
    }
    // Its index says nothing of whether the others reach it: a voter that they do not reach takes the quorum away.
    if own.leader.is_none() {
        return Err("it knows no leader");
    }
    if own.receiving_snapshot {
        return Err("it is receiving a snapshot");
    }
    let allowed = LAG.max(commit / LAG_PART);
    if commit.saturating_sub(own.applied) > allowed {
        return Err("it is catching up with the leader's log");
    }
    Ok(())
}

/// By its agent, else by etcd's own word.
fn leader_index(view: &View) -> Option<u64> {
    let by_agent = view.leader().and_then(|leader| fresh(view, leader.fact));
    by_agent.map(|etcd| etcd.commit).or_else(|| {
        let leader = view.facts.leader?;
        let age = view.facts.now.duration_since(leader.at);
        (age <= SignedDuration::try_from(FRESH).ok()?).then_some(leader.commit)
    })
}

fn fresh<'f>(view: &View, member: &'f Member) -> Option<&'f Etcd> {
    match &member.link {
        Link::Up { report, at } if view.facts.now.duration_since(*at) <= SignedDuration::try_from(FRESH).ok()? => {
            report.etcd.as_ref()
        }
        Link::Up { .. } | Link::Down { .. } | Link::None => None,
    }
}

/// Admits a member that is ready. True: a consensus step is in the plan.
pub(super) fn add(view: &View, via: &str, plan: &mut Plan) -> bool {
    let Some(list) = view.facts.list.known() else {
        return false;
    };
    let learners = list.members.iter().filter(|member| member.learner).count();
    let voters = view.voters();
    let listed = view
        .members
        .iter()
        .filter(|member| member.listed.is_some() && !leaves_after_another(view, member))
        .count();
    if listed >= view.target() {
        return false;
    }
    let room = match view.facts.cluster.record.version {
        Some(version) if voters == 1 => version.max_learners(),
        Some(_) | None => 1,
    };
    for member in view.staying() {
        if !matches!(member.standing, Standing::Ready(_)) {
            continue;
        }
        let name = member.fact.name.as_str();
        if let Err((reason, why)) = can_join(view, member.fact) {
            plan.wait(reason, Some(name), why);
            continue;
        }
        if learners >= room {
            plan.wait(
                WaitReason::CatchingUp,
                Some(name),
                format!("{name} joins when the present learner votes"),
            );
            return false;
        }
        if view.healthy_voters() < quorum(voters + 1) && voters > 1 {
            let sick = view
                .members
                .iter()
                .find(|member| member.is_voter() && !member.healthy());
            let sick = sick.map_or("a voter", |member| member.fact.name.as_str());
            plan.wait(
                WaitReason::Quorum,
                Some(name),
                format!("{sick} is not well: it is repaired before {name} joins"),
            );
            return false;
        }
        if let Some(entering) = join::entering(view) {
            // Its start fails when the list becomes another one meanwhile.
            plan.look_again(CATCH_UP_POLL);
            plan.wait(
                WaitReason::EtcdStarting,
                Some(entering),
                format!("{entering} is starting; others are admitted when it is in"),
            );
            return false;
        }
        plan.step(Step::AddLearner {
            via: via.to_owned(),
            member: name.to_owned(),
            peer_url: member.fact.peer_url.clone(),
        });
        return true;
    }
    false
}

/// Scheduled, bound, its supervisor waiting, and its name known to the others.
fn can_join(view: &View, member: &Member) -> Result<(), (WaitReason, String)> {
    let name = &member.name;
    let report = member.link.live();
    let Some(report) = report.filter(|report| report.directory.state == DirectoryState::Unborn) else {
        return Err((WaitReason::PodStarting, format!("the agent of {name} is not heard")));
    };
    if !matches!(report.process.state, ProcessState::Held | ProcessState::Stopped) {
        return Err((
            WaitReason::PodStarting,
            format!("the etcd container of {name} is not there yet"),
        ));
    }
    let Some(pod) = member.pod.ours().filter(|pod| !pod.deleting && pod.ip.is_some()) else {
        return Err((WaitReason::PodStarting, format!("Pod {name} has no address yet")));
    };
    // A look-up that comes too early is remembered as a failure for the whole cache time of the DNS server.
    if !member.resolvable && view.facts.now.duration_since(pod.created) < NAME_PATIENCE {
        return Err((
            WaitReason::Name,
            format!("the name of {name} is not in the EndpointSlice of the headless Service yet"),
        ));
    }
    Ok(())
}
