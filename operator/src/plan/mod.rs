//! Pure: facts in, one plan out. No clock, no client, nothing asynchronous.
//!
//! [`plan`] decides everything; whoever carries a plan out makes no choice. The order of its phases is the order of
//! importance: what ends goes first, then what must be recorded before it is acted on, then Kubernetes objects, then
//! etcd's membership (repair, promote, add, remove: at most one such step in a plan).
//!
//! Every phase derives what it does from the facts alone, never from what an earlier plan meant to do: a crash between
//! any two steps leaves facts from which the next plan goes on.

pub mod alarms;
mod choices;
mod deletion;
pub mod divergence;
pub mod facts;
mod formation;
mod growth;
mod join;
pub mod member_status;
mod membership;
mod node_loss;
mod objects;
pub mod order;
mod orders;
mod pause;
pub mod place;
mod pods;
pub mod quorum;
pub mod recovery;
mod repair;
pub mod report;
pub mod rollout;
mod shrink;
pub mod status;
pub mod step;
mod summary;
mod target;
pub mod unanswered;
pub mod version;
pub mod view;
pub mod volumes;
pub mod wait;

use std::time::Duration;

use facts::Facts;
use step::{Plan, WaitReason};
use view::View;

/// How long a fact that justifies a membership step may be old.
pub const FRESH: Duration = Duration::from_secs(2);

/// Decides what to do now.
#[must_use]
pub fn plan(facts: &Facts) -> Plan {
    let mut plan = Plan::default();
    let view = View::new(facts);
    if facts.cluster.ending {
        deletion::release_all(&view, &mut plan);
        return plan;
    }
    if facts.cluster.hands_off {
        plan.wait(
            WaitReason::HandsOff,
            None,
            "the operator keeps its hands off: remove the annotation to go on",
        );
        return plan;
    }
    if !target::latch(&view, &mut plan) {
        return plan;
    }
    target::wake_at_deadline(&view, &mut plan);
    obstacles(facts, &mut plan);
    deletion::hold(&view, &mut plan);
    if made_without_agents(&view, &mut plan) {
        return plan;
    }
    if view.target() > 0 || facts.cluster.record.cluster_id.is_some() {
        objects::services(&view, &mut plan);
    }
    alarms::full_volumes(&view, &mut plan);
    volumes::grow(&view, &mut plan);
    if deletion::retain_all(&view, &mut plan) {
        objects::budget(&view, &mut plan);
        return plan;
    }
    pods::all(&view, &mut plan);
    if view.is_paused() {
        pause::pause(&view, &mut plan);
        objects::budget(&view, &mut plan);
        return plan;
    }
    pause::resume(&view, &mut plan);
    if facts.cluster.record.cluster_id.is_none() {
        formation::form(&view, &mut plan);
        rollout::agents(&view, &mut plan);
    } else if !recovery::carry_out(&view, &mut plan) {
        membership::steer(&view, &mut plan);
        rollout::agents(&view, &mut plan);
    }
    objects::voter_labels(&view, &mut plan);
    objects::budget(&view, &mut plan);
    plan
}

/// A cluster that was made without agents is left as it is until adoption is there: its Pods cannot be made again as
/// they were, and one of ours on such a directory would not start, or would serve without the cluster's TLS.
fn made_without_agents(view: &View, plan: &mut Plan) -> bool {
    let agentless: Vec<&str> = view
        .members
        .iter()
        .filter(|member| member.agentless)
        .map(|member| member.fact.name.as_str())
        .collect();
    // No cluster with these is formed by us, and neither can be set later.
    let formed = view.facts.cluster.record.cluster_id.is_some();
    let needed = if formed {
        view.facts.cluster.spec.blocks_formation.as_slice()
    } else {
        &[]
    };
    if agentless.is_empty() && needed.is_empty() {
        return false;
    }
    let because = if agentless.is_empty() {
        format!("{} is not acted on yet", needed.join(", "))
    } else {
        format!("made without an agent: {}", agentless.join(", "))
    };
    let absent: Vec<&str> = view
        .members
        .iter()
        .filter(|member| !member.fact.deleting && !member.fact.dormant && member.fact.pod.ours().is_none())
        .map(|member| member.fact.name.as_str())
        .collect();
    let gone = if absent.is_empty() {
        String::new()
    } else {
        format!("; {} has no Pod, and none is made in its place", absent.join(", "))
    };
    plan.wait(
        WaitReason::HandsOff,
        None,
        format!("{because}, so this version touches nothing of this cluster{gone}"),
    );
    // No link tells how it is.
    plan.look_again(Duration::from_secs(10));
    true
}

/// What keeps the operator from acting at all, for the conditions.
fn obstacles(facts: &Facts, plan: &mut Plan) {
    if !facts.missing_verbs.is_empty() {
        plan.look_again(Duration::from_secs(30));
        plan.wait(
            WaitReason::NotPermitted,
            None,
            format!(
                "the operator's ClusterRole does not grant: {}; apply the role of this version",
                facts.missing_verbs.join(", ")
            ),
        );
    }
    for failure in &facts.failed {
        plan.wait(WaitReason::StepFailed, None, failure.clone());
    }
}
