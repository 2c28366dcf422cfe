//! What the status says, in the situations that people are woken up by.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod simulator;

use crds::{
    conditions::{self, ConditionType},
    etcdcluster::EtcdClusterStatus,
};
use operator::plan::{self, facts::Medium, status, view::View};
use simulator::Sim;

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
