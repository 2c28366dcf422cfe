//! What the status says, in the situations that people are woken up by.

use crds::{
    conditions::{self, ConditionType},
    etcdcluster::EtcdClusterStatus,
};
use jiff::SignedDuration;
use operator::plan::{
    self,
    facts::{Link, Medium},
    status,
    view::View,
};
use tests::model::{Sim, SimProcess};

fn status_of(sim: &Sim, old: &EtcdClusterStatus) -> EtcdClusterStatus {
    let facts = sim.facts();
    let plan = plan::plan(&facts);
    status::cluster(&View::new(&facts), &plan, old).0
}

/// (status, reason) of a condition.
fn said(status: &EtcdClusterStatus, type_: ConditionType) -> (String, String) {
    let condition = conditions::find(&status.conditions, type_).unwrap_or_else(|| panic!("no condition {type_}"));
    (condition.status.clone(), condition.reason.clone())
}

fn says(status: &EtcdClusterStatus, type_: ConditionType, is: &str, reason: &str) {
    assert_eq!(
        said(status, type_),
        (is.to_owned(), reason.to_owned()),
        "{type_}: {:?}",
        status.conditions
    );
}

fn formed(medium: Medium) -> (Sim, EtcdClusterStatus) {
    let mut sim = Sim::new(3, "3.6.16", medium);
    sim.settle();
    let status = status_of(&sim, &EtcdClusterStatus::default());
    (sim, status)
}

#[test]
fn a_whole_cluster_says_so_and_writes_nothing_more() {
    let (sim, status) = formed(Medium::Disk);
    says(&status, ConditionType::Available, "True", "QuorumHealthy");
    says(&status, ConditionType::Progressing, "False", "Reconciled");
    says(&status, ConditionType::Degraded, "False", "QuorumHealthy");
    assert_eq!(status.ready_members, 3);
    assert_eq!(status.summary, "3 of 3 voters healthy");
    assert_eq!(status.progress_deadline, None);
    assert_eq!(status_of(&sim, &status), status, "zero writes in steady state");
}

#[test]
fn u21_nothing_is_said_of_members_that_were_only_just_dialled() {
    let (sim, _) = formed(Medium::Disk);
    let mut facts = sim.facts();
    assert_eq!(View::new(&facts).only_dialling(), None, "all are heard");
    let since = facts.now;
    facts.members[0].link = Link::Down {
        since,
        why: "not answered yet".into(),
        last: None,
    };
    assert!(View::new(&facts).only_dialling().is_some());
    facts.now += SignedDuration::from_secs(6);
    assert_eq!(View::new(&facts).only_dialling(), None, "a blocked link is said (U16)");
    facts.now = since;
    facts.cluster.record.cluster_id = None;
    assert_eq!(
        View::new(&facts).only_dialling(),
        None,
        "a cluster that forms is told of at once"
    );
}

#[test]
fn a_cluster_that_forms_waits_for_its_seed() {
    let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
    sim.run(3);
    let status = status_of(&sim, &EtcdClusterStatus::default());
    says(&status, ConditionType::Available, "False", "WaitingForSeed");
    says(&status, ConditionType::Progressing, "True", "WaitingForSeed");
}

#[test]
fn one_lost_member_degrades_and_does_not_end_availability() {
    let (mut sim, old) = formed(Medium::Memory);
    let names = sim.names();
    sim.kill_pod(&names[2]);
    sim.refresh();
    let status = status_of(&sim, &old);
    says(&status, ConditionType::Available, "True", "QuorumAvailable");
    says(&status, ConditionType::Degraded, "True", "MembersUnhealthy");
    let message = &conditions::find(&status.conditions, ConditionType::Degraded)
        .unwrap()
        .message;
    assert!(message.contains(&names[2]), "{message}");
}

#[test]
fn two_of_three_lost_is_said_at_once_and_names_them() {
    let (mut sim, old) = formed(Medium::Memory);
    let names = sim.names();
    sim.kill_pod(&names[0]);
    sim.kill_pod(&names[1]);
    sim.refresh();
    let status = status_of(&sim, &old);
    says(&status, ConditionType::Available, "False", "QuorumLost");
    says(&status, ConditionType::Degraded, "True", "QuorumLost");
    assert!(names[..2].iter().all(|name| {
        conditions::find(&status.conditions, ConditionType::Available)
            .unwrap()
            .message
            .contains(name)
    }));
}

#[test]
fn d18_a_memory_cluster_without_any_pod_left_has_lost_all() {
    let (mut sim, old) = formed(Medium::Memory);
    for name in sim.names() {
        sim.kill_pod(&name);
    }
    sim.run(30);
    let status = status_of(&sim, &old);
    says(&status, ConditionType::Available, "False", "AllMembersLost");
    assert_eq!(sim.members.len(), 3, "nothing is rebuilt silently");
}

#[test]
fn m06_an_unschedulable_member_is_named_and_nothing_else_is_wrong() {
    let (mut sim, old) = formed(Medium::Disk);
    sim.unschedulable = true;
    sim.scale(5);
    sim.run(20);
    let status = status_of(&sim, &old);
    says(&status, ConditionType::Available, "True", "QuorumHealthy");
    says(&status, ConditionType::Progressing, "True", "SpecChanged");
    assert!(status.summary.contains("Unschedulable"), "{}", status.summary);
}

#[test]
fn m22_a_missed_deadline_is_said_and_clears_by_itself() {
    let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
    sim.unschedulable = true;
    sim.run(20);
    let mut status = status_of(&sim, &EtcdClusterStatus::default());
    sim.now += std::time::Duration::from_secs(700);
    status = status_of(&sim, &status);
    says(&status, ConditionType::Progressing, "False", "BootstrapFailed");
    sim.unschedulable = false;
    sim.settle();
    status = status_of(&sim, &status);
    says(&status, ConditionType::Progressing, "False", "Reconciled");
    says(&status, ConditionType::Available, "True", "QuorumHealthy");
}

#[test]
fn m19_a_paused_cluster_says_paused_and_resuming_is_not_a_lost_quorum() {
    let (mut sim, old) = formed(Medium::Disk);
    sim.scale(0);
    sim.settle();
    let paused = status_of(&sim, &old);
    says(&paused, ConditionType::Available, "False", "Paused");
    says(&paused, ConditionType::Progressing, "False", "Paused");
    sim.scale(3);
    sim.run(3);
    let resuming = status_of(&sim, &paused);
    says(&resuming, ConditionType::Available, "False", "Paused");
    sim.settle();
    says(
        &status_of(&sim, &resuming),
        ConditionType::Available,
        "True",
        "QuorumHealthy",
    );
}

#[test]
fn a_restarted_operator_does_not_make_a_healthy_cluster_blink() {
    let (mut sim, old) = formed(Medium::Disk);
    sim.links_down = true;
    let status = status_of(&sim, &old);
    assert_eq!(
        said(&status, ConditionType::Available),
        said(&old, ConditionType::Available)
    );
}

#[test]
fn a_spec_that_cannot_be_worked_on_is_said_and_touches_nothing() {
    let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
    sim.spec.invalid.push("version 3.4.1 of etcd is not served".into());
    sim.run(5);
    assert!(sim.members.is_empty());
    assert_eq!(sim.steps, 0);
    let status = status_of(&sim, &EtcdClusterStatus::default());
    assert!(status.summary.contains("3.4.1"), "{}", status.summary);
}

#[test]
fn a_cluster_that_needs_tls_is_not_formed_without_it() {
    let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
    sim.spec.blocks_formation.push("spec.tls".into());
    sim.spec.unsupported.push("spec.tls".into());
    sim.run(5);
    assert_eq!(sim.steps, 0);
    let status = status_of(&sim, &EtcdClusterStatus::default());
    says(&status, ConditionType::NotImplemented, "True", "NotImplemented");
}

/// Made by another operator: recorded votes, no bindings, Pods without agents.
fn adopted() -> Sim {
    let (mut sim, _) = formed(Medium::Disk);
    for member in &mut sim.members {
        member.record.binding = None;
        member.record.heard = false;
        member.pod.as_mut().unwrap().has_agent = false;
    }
    sim.refresh();
    sim
}

#[test]
fn a_healthy_cluster_without_agents_is_healthy_by_its_pods_readiness() {
    let mut sim = adopted();
    let status = status_of(&sim, &EtcdClusterStatus::default());
    says(&status, ConditionType::Available, "True", "QuorumHealthy");
    says(&status, ConditionType::Degraded, "False", "QuorumHealthy");
    says(&status, ConditionType::AgentsMissing, "True", "PodWithoutAgent");
    assert_eq!((status.ready_members, status.quorum.as_ref().unwrap().healthy), (3, 3));
    // One that is not ready is named.
    let names = sim.names();
    sim.member(&names[1]).pod.as_mut().unwrap().process = SimProcess::Held;
    sim.refresh();
    let worse = status_of(&sim, &status);
    says(&worse, ConditionType::Degraded, "True", "MembersUnhealthy");
    assert!(worse.summary.starts_with("2 of 3"), "{}", worse.summary);
    // Readiness alone proves no quorum and ends none: where etcd cannot be asked, what was said last stands.
    let mut sim = adopted();
    sim.links_down = true;
    sim.run(200);
    says(
        &status_of(&sim, &status),
        ConditionType::Available,
        "True",
        "QuorumHealthy",
    );
}

#[test]
fn an_adopted_cluster_that_lost_a_pod_says_that_none_is_made() {
    let mut sim = adopted();
    let names = sim.names();
    sim.kill_pod(&names[2]);
    sim.refresh();
    let status = status_of(&sim, &EtcdClusterStatus::default());
    let condition = conditions::find(&status.conditions, ConditionType::AgentsMissing).unwrap();
    assert!(
        condition.message.contains(&format!("{} has no Pod", names[2])),
        "{}",
        condition.message
    );
}

#[test]
fn names_that_strangers_chose_are_cut() {
    let (mut sim, old) = formed(Medium::Disk);
    let mut stranger = sim.etcd.list[0].clone();
    stranger.id = operator::plan::facts::Id(0x77);
    stranger.name = "x\n".repeat(20_000);
    stranger.peer_url = "http://elsewhere:2380".into();
    sim.etcd.list.push(stranger);
    let status = status_of(&sim, &old);
    for condition in &status.conditions {
        assert!(condition.message.len() < 1024 && !condition.message.contains('\n'));
    }
    assert!(status.summary.len() < 1024);
}

#[test]
fn an_agent_that_cannot_be_reached_is_told_in_the_same_words_whatever_the_cause() {
    let (mut sim, old) = formed(Medium::Disk);
    let names = sim.names();
    sim.cut_off = vec![names[1].clone()];
    sim.run(100);
    let mut said = Vec::new();
    for cause in ["timed out", "connection refused", "lost"] {
        sim.cause = cause.into();
        said.push(status_of(&sim, &old).conditions);
    }
    let message = &conditions::find(&said[0], ConditionType::AgentUnreachable)
        .unwrap()
        .message;
    assert!(message.contains(&names[1]), "{message}");
    assert!(said.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn one_transition_is_one_event() {
    let (mut sim, old) = formed(Medium::Memory);
    let names = sim.names();
    let told = |sim: &Sim, old: &EtcdClusterStatus| {
        let facts = sim.facts();
        let (status, events) = status::cluster(&View::new(&facts), &plan::plan(&facts), old);
        let reasons: Vec<String> = events.into_iter().map(|event| event.reason).collect();
        (status, reasons)
    };
    sim.kill_pod(&names[0]);
    sim.kill_pod(&names[1]);
    sim.refresh();
    let (lost, reasons) = told(&sim, &old);
    // The second one is another piece of news: that a person has to decide, and who holds what.
    assert_eq!(reasons, ["QuorumLost", "WaitingForDecision"]);
    assert!(told(&sim, &lost).1.is_empty());
}

#[test]
fn only_what_changes_for_a_reader_is_written_at_once() {
    let (mut sim, old) = formed(Medium::Disk);
    let old = EtcdClusterStatus {
        cluster_id: Some("1".into()),
        ..old
    };
    assert!(!status::is_urgent(&old, &old));
    // Words, versions and states of members can wait.
    let mut later = old.clone();
    later.summary = "other words".into();
    later.members[0].version = Some("3.6.17".into());
    later.members[0].state = crds::etcdcluster::MemberState::Starting;
    later.conditions[0].message = "other words".into();
    assert!(!status::is_urgent(&old, &later));
    // A transition, another member or another quorum cannot.
    let names = sim.names();
    sim.kill_pod(&names[2]);
    sim.refresh();
    assert!(status::is_urgent(&old, &status_of(&sim, &old)));
    let mut fewer = old.clone();
    fewer.members.pop();
    assert!(status::is_urgent(&old, &fewer));
    // Nothing waits while a cluster is being formed.
    let forming = EtcdClusterStatus {
        cluster_id: None,
        ..old.clone()
    };
    assert!(status::is_urgent(&old, &forming));
}
