//! Growth, shrinking, and what may happen meanwhile.

use operator::plan::facts::Medium;
use tests::model::Sim;

use super::{VERSIONS, at_every_step, formed};

#[test]
fn m02_m04_m05_growth_and_shrinking_end_the_same_with_a_fault_at_any_step() {
    for version in VERSIONS {
        at_every_step(
            || formed(1, version, Medium::Disk),
            |sim| {
                for target in [3, 5, 3, 1] {
                    sim.scale(target);
                    sim.settle();
                    assert_eq!(sim.voters(), target as usize);
                    assert_eq!(sim.members.len(), target as usize);
                }
            },
        );
    }
}

#[test]
fn m03_a_target_that_goes_back_while_the_fourth_is_a_learner_leaves_nothing_behind() {
    // Back after every possible number of turns.
    for turns in 0..60 {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        sim.scale(5);
        sim.run(turns);
        sim.scale(3);
        sim.settle();
        assert_eq!(sim.etcd.list.len(), 3);
        assert_eq!(sim.members.len(), 3);
    }
}

#[test]
fn m06_a_member_that_cannot_be_scheduled_never_enters_the_list() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.unschedulable = true;
    sim.scale(5);
    sim.run(100);
    assert_eq!(sim.etcd.list.len(), 3);
    let plan = sim.plan_now();
    let wait = plan
        .waits
        .iter()
        .find(|wait| wait.message.contains("Unschedulable"))
        .unwrap();
    assert!(wait.member.is_some(), "{wait:?}");
    let calls = sim.consensus_calls;
    sim.scale(3);
    sim.settle();
    assert_eq!(sim.consensus_calls, calls);
}

#[test]
fn m07_a_learner_whose_pod_dies_before_it_started_is_replaced() {
    for turns in 1..40 {
        let mut sim = formed(3, "3.6.16", Medium::Memory);
        sim.scale(5);
        sim.run(turns);
        let newest = sim.names().last().unwrap().clone();
        if sim.member(&newest).pod.is_some() {
            sim.kill_pod(&newest);
        }
        sim.settle();
    }
}

#[test]
fn m09_the_unhealthy_member_is_the_one_that_leaves() {
    let mut sim = formed(5, "3.6.16", Medium::Disk);
    let names = sim.names();
    sim.unschedulable = true;
    sim.kill_pod(&names[1]);
    sim.run(5);
    sim.scale(3);
    sim.settle();
    assert!(!sim.names().contains(&names[1]));
    assert_eq!(sim.voters(), 3);
}

#[test]
fn m10_the_leader_is_not_the_one_that_leaves() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let youngest = sim.etcd.list[2].clone();
    sim.etcd.move_leader(youngest.id).unwrap();
    sim.scale(1);
    sim.settle();
    assert_eq!(sim.names(), [youngest.name]);
}

#[test]
fn m13_a_member_removed_by_hand_is_admitted_again_on_a_clean_directory() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let names = sim.names();
    let id = sim.etcd.list[2].id;
    sim.etcd.list.retain(|entry| entry.id != id);
    sim.settle();
    assert_eq!(sim.names(), names);
    assert!(sim.etcd.list.iter().all(|entry| entry.id != id));
}

#[test]
fn m14_a_foreign_member_is_not_removed() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let mut stranger = sim.etcd.list[0].clone();
    stranger.id = operator::plan::facts::Id(0x77);
    stranger.peer_url = "http://elsewhere:2380".into();
    stranger.learner = true;
    sim.etcd.list.push(stranger);
    sim.run(100);
    assert_eq!(sim.etcd.list.len(), 4);
}

#[test]
fn an_admitted_member_of_ours_is_never_taken_for_one_without_an_agent() {
    // Its ID is recorded before its binding; its Pod is lost at any moment in between.
    for turns in 0..60 {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        sim.scale(5);
        sim.run(turns);
        for name in sim.names().split_off(3) {
            sim.kill_pod(&name);
        }
        sim.settle();
        assert_eq!(sim.voters(), 5);
    }
}

#[test]
fn a_learner_is_promoted_also_when_only_the_leaders_agent_is_cut_off() {
    for readable in [true, false] {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        let leader = sim.etcd.entry(sim.etcd.leader.unwrap()).unwrap().name.clone();
        sim.leader_index = readable;
        sim.scale(4);
        while sim.etcd.list.len() < 4 {
            sim.turn();
        }
        sim.cut_off = vec![leader];
        sim.run(300);
        assert_eq!(sim.voters(), if readable { 4 } else { 3 }, "{}", sim.story());
        let plan = sim.plan_now();
        let said = plan
            .waits
            .iter()
            .any(|wait| wait.message.contains("how far the leader is, is not known"));
        assert_eq!(said, !readable, "{plan:?}");
    }
}

#[test]
fn m24_nudges_become_rare_for_a_joiner_that_never_serves() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.etcd.index = 10_000;
    sim.never_serves = true;
    sim.scale(4);
    let nudges = |sim: &mut Sim, turns| {
        let mut count = 0;
        for _ in 0..turns {
            count += sim.plan_now().steps().filter(|step| step.kind() == "Nudge").count();
            sim.turn();
        }
        count
    };
    let early = nudges(&mut sim, 200);
    nudges(&mut sim, 200);
    let late = nudges(&mut sim, 600);
    assert!(early > 20, "{early}");
    assert!((4..=8).contains(&late), "{late} in a minute");
}
