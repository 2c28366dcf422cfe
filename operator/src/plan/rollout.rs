//! The agents' image: brought to every member in place, one member of a cluster at a time, the next only when the last
//! one is up again. etcd runs on meanwhile; its Pod is not ready for a moment, because its agent counts for that.
//!
//! Nothing is remembered: a member that has the new image and is not up is the one that the rollout is at.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    facts::{Link, Version},
    step::{Plan, Step, WaitReason},
    view::{MemberView, Standing, View},
};

/// An agent that is not heard for so long after its image was changed has failed.
const COMES_UP: SignedDuration = SignedDuration::from_secs(45);
/// Other clusters tell nobody when they are done.
const TURN: Duration = Duration::from_secs(5);
/// So many minor versions before the operator's own are served.
const SERVED_MINORS: u32 = 2;

/// What is wanted of all agents, and what the rest of the fleet is at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The image; empty: whatever they have.
    pub agent_image: String,
    /// Whether this cluster may change an agent's image now.
    pub permit: Permit,
    /// The operator's own version.
    pub version: Option<Version>,
}

/// A cluster's turn, among all clusters of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    #[default]
    Granted,
    /// As many as may be are at it.
    Busy {
        /// So many.
        clusters: usize,
    },
    /// The image has failed somewhere.
    Halted {
        /// On this Pod (`namespace/name`).
        pod: String,
    },
}

/// Changes the image of one agent, when its turn has come.
pub(super) fn agents(view: &View, plan: &mut Plan) {
    let image = view.facts.rollout.agent_image.as_str();
    let behind: Vec<&MemberView> = view.staying().filter(|member| is_behind(member, image)).collect();
    if image.is_empty() || behind.is_empty() {
        return;
    }
    if let Some(at) = view
        .staying()
        .find(|member| has(member, image) && !is_up(member) && has_a_place(member))
    {
        return waits_for(view, at, behind.len(), plan);
    }
    // One that has no agent to lose is not waited with: another image is what it needs.
    let fails = |member: &&&MemberView| member.fact.pod.ours().is_some_and(|pod| pod.agent_fails);
    let broken = behind.iter().filter(|member| has_a_place(member)).find(fails);
    let next = match broken {
        Some(broken) => broken,
        None => match turn(view, plan, image, &behind) {
            Some(next) => next,
            None => return,
        },
    };
    if let Some(pod) = next.fact.pod.ours() {
        plan.step(Step::SetAgentImage {
            member: next.fact.name.clone(),
            uid: pod.uid.clone(),
            image: image.to_owned(),
        });
    }
}

/// The next member with a working agent, when all is well and nothing stands in the way.
fn turn<'v, 'a>(
    view: &View,
    plan: &mut Plan,
    image: &str,
    behind: &[&'v MemberView<'a>],
) -> Option<&'v MemberView<'a>> {
    let waits = |plan: &mut Plan, why: String| {
        plan.wait(WaitReason::AgentImage, None, format!("agent image {image}: {why}"));
        None
    };
    if view.facts.cluster.spec.rollout_paused {
        return waits(plan, "spec.rollout.paused is set".into());
    }
    // It may hang where nobody but we can see it.
    let hangs = |member: &&&MemberView| has_a_place(member) && silence(view, member) >= COMES_UP;
    let hanging = behind.iter().find(hangs).copied();
    let formed = view.facts.cluster.record.cluster_id.is_some();
    let whole = view.staying().count() == view.target()
        && view
            .staying()
            .all(|member| matches!(member.standing, Standing::Voter(_)) && member.healthy() && is_up(member));
    if hanging.is_none() && (!formed || !whole || plan.has_consensus_step()) {
        return waits(plan, "comes when every member is well".into());
    }
    match &view.facts.rollout.permit {
        Permit::Granted => {}
        Permit::Busy { clusters } => {
            plan.look_again(TURN);
            return waits(plan, format!("comes after {clusters} other clusters"));
        }
        Permit::Halted { pod } => {
            plan.look_again(TURN);
            return waits(plan, format!("halted, because it fails on Pod {pod}"));
        }
    }
    let leader = view.leader().map(|leader| leader.fact.name.as_str());
    let followers_first = |member: &&MemberView| leader == Some(member.fact.name.as_str());
    hanging.or_else(|| {
        let all = behind.iter().copied();
        all.min_by_key(|member| (followers_first(member), member.fact.name.as_str()))
    })
}

fn waits_for(view: &View, at: &MemberView, behind: usize, plan: &mut Plan) {
    let name = at.fact.name.as_str();
    let image = &view.facts.rollout.agent_image;
    let trouble = at.fact.pod.ours().and_then(|pod| pod.trouble.as_ref());
    let silent = silence(view, at);
    let why = match trouble {
        Some(trouble) => format!("{}: {}", trouble.reason, trouble.message),
        None if silent >= COMES_UP => "its agent is not heard".to_owned(),
        None => {
            plan.look_again(TURN);
            plan.wait(
                WaitReason::AgentImage,
                Some(name),
                format!("{name} starts with agent image {image}"),
            );
            return;
        }
    };
    plan.wait(
        WaitReason::RolloutHalted,
        Some(name),
        format!(
            "agent image {image} fails on {name} ({why}): the rollout is halted, {behind} other members keep theirs; \
             correct the operator's --agent-image"
        ),
    );
}

/// How long its agent has not been heard by this process.
fn silence(view: &View, member: &MemberView) -> SignedDuration {
    match &member.fact.link {
        Link::Down { since, .. } => view.facts.now.duration_since(*since),
        Link::Up { .. } | Link::None => SignedDuration::ZERO,
    }
}

fn image_of<'a>(member: &MemberView<'a>) -> Option<&'a str> {
    let pod = member
        .fact
        .pod
        .ours()
        .filter(|pod| pod.has_agent && !pod.deleting && !pod.ended)?;
    pod.agent_image.as_deref()
}

fn is_behind(member: &MemberView, image: &str) -> bool {
    image_of(member).is_some_and(|own| own != image)
}

fn has(member: &MemberView, image: &str) -> bool {
    image_of(member) == Some(image)
}

fn is_up(member: &MemberView) -> bool {
    member.fact.link.live().is_some() && member.fact.pod.ours().is_some_and(|pod| pod.ready)
}

/// Its Pod is on a node that could carry a change out.
fn has_a_place(member: &MemberView) -> bool {
    let on_a_node = member.fact.pod.ours().is_some_and(|pod| pod.node.is_some());
    on_a_node && member.fact.place.node.lost_since().is_none()
}

/// Agents that are older than this operator serves, as `name (version)`.
#[must_use]
pub fn too_old(view: &View) -> Vec<String> {
    let Some(own) = view.facts.rollout.version else {
        return Vec::new();
    };
    let version = |member: &MemberView| Some(member.fact.link.live()?.agent_version.clone());
    view.members
        .iter()
        .filter_map(|member| {
            let version = version(member)?;
            let old = is_too_old(own, Version::parse(release(&version))?);
            old.then(|| format!("{} ({version})", member.fact.name))
        })
        .collect()
}

/// The oldest version of an agent that an operator of this version serves.
#[must_use]
pub fn oldest_served(own: Version) -> Version {
    Version {
        minor: own.minor.saturating_sub(SERVED_MINORS),
        patch: 0,
        ..own
    }
}

fn is_too_old(own: Version, agent: Version) -> bool {
    agent < oldest_served(own)
}

/// A version without what comes after its three numbers.
#[must_use]
pub fn release(version: &str) -> &str {
    version.split(['-', '+']).next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u19_agents_of_this_and_of_the_two_minor_versions_before_are_served_and_newer_ones_too() {
        let version = |text| Version::parse(release(text)).unwrap();
        let old = |own, agent| is_too_old(version(own), version(agent));
        assert!(!old("1.4.0", "1.4.0") && !old("1.4.0", "1.3.9") && !old("1.4.0", "1.2.0-rc.1"));
        assert!(!old("1.4.0", "1.5.0") && !old("1.4.0", "2.0.0"));
        assert!(old("1.4.0", "1.1.9") && old("2.0.0", "1.9.0"));
        assert!(!old("0.1.0", "0.1.0") && !old("0.1.0", "0.0.1"));
    }
}
