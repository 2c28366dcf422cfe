//! Nodes that die, volumes that are lost, and new images of the agent.

use std::time::Duration;

use jiff::SignedDuration;
use operator::plan::{
    facts::{Id, Link, Medium},
    place::{Node, Place, Volume},
    rollout::Permit,
    step::{Step, WaitReason},
};
use tests::model::Sim;

use super::at_every_step;

const PATIENCE: Duration = Duration::from_secs(30);

fn formed(replicas: u32, medium: Medium) -> Sim {
    let mut sim = Sim::new(replicas, "3.6.16", medium);
    sim.spec.node_loss = PATIENCE;
    sim.settle();
    sim
}

fn ids(sim: &Sim) -> Vec<Id> {
    sim.etcd.list.iter().map(|entry| entry.id).collect()
}

fn waits(sim: &mut Sim, reason: WaitReason) -> Vec<String> {
    let plan = sim.plan_now();
    let found = plan.waits.into_iter().filter(|wait| wait.reason == reason);
    found.map(|wait| wait.message).collect()
}

/// Runs for a while longer than a lost node is waited for.
fn wait_out(sim: &mut Sim) {
    sim.run(350);
}

#[test]
fn n01_n02_a_member_whose_node_is_dead_is_replaced_by_a_new_one_and_its_object_waits_for_its_pod() {
    for (medium, volume) in [(Medium::Memory, Volume::Unknown), (Medium::Disk, Volume::Stranded)] {
        at_every_step(
            || formed(3, medium),
            |sim| {
                let names = sim.names();
                let lost = ids(sim)[1];
                sim.lose_node(&names[1], volume);
                let before = ids(sim);
                sim.run(250);
                assert_eq!(
                    ids(sim),
                    before,
                    "within nodeLossSeconds nothing is changed\n{}",
                    sim.story()
                );
                assert_eq!(waits(sim, WaitReason::NodeLost).len(), 1);
                sim.settle();
                assert!(!ids(sim).contains(&lost));
                assert_eq!(sim.voters(), 3);
                // The old object is there, on its way out, and its Pod with it.
                let old = sim.member(&names[1]);
                assert!(old.deleting && old.finalizer && old.pod.as_ref().unwrap().deleting);
                let new = ids(sim);
                // N04: the node is back.
                sim.node_returns(&names[1]);
                sim.settle();
                assert!(!sim.names().contains(&names[1]));
                assert_eq!(ids(sim), new, "nothing else happens");
            },
        );
    }
}

#[test]
fn a_node_that_returns_in_time_costs_no_member() {
    for medium in [Medium::Memory, Medium::Disk] {
        let mut sim = formed(3, medium);
        let names = sim.names();
        sim.lose_node(&names[1], Volume::Stranded);
        sim.run(200);
        sim.node_returns(&names[1]);
        sim.settle();
        assert_eq!(sim.names(), names);
    }
}

#[test]
fn n03_a_member_whose_volume_can_move_is_never_replaced() {
    // Nor one whose volume nothing is known of.
    for volume in [Volume::Movable, Volume::Unknown] {
        let mut sim = formed(3, Medium::Disk);
        let (names, list) = (sim.names(), ids(&sim));
        sim.lose_node(&names[0], volume);
        wait_out(&mut sim);
        assert_eq!((sim.names(), ids(&sim)), (names.clone(), list.clone()));
        let told = waits(&mut sim, WaitReason::NodeLost);
        assert!(told[0].contains(&names[0]), "{told:?}");
        assert_eq!(told[0].contains("out-of-service"), volume == Volume::Movable);
        // Tainted: Kubernetes takes the Pod away, and its successor finds the volume on another node.
        sim.member(&names[0]).place = Place::default();
        sim.kill_pod(&names[0]);
        sim.settle();
        assert_eq!((sim.names(), ids(&sim)), (names, list));
    }
}

#[test]
fn nobody_is_replaced_while_no_quorum_stands_without_them() {
    let mut sim = formed(3, Medium::Memory);
    let (names, list) = (sim.names(), ids(&sim));
    sim.lose_node(&names[0], Volume::Unknown);
    sim.lose_node(&names[1], Volume::Unknown);
    wait_out(&mut sim);
    assert_eq!((sim.names(), ids(&sim)), (names, list));
}

#[test]
fn two_of_five_lost_members_are_replaced_one_after_the_other() {
    let mut sim = formed(5, Medium::Memory);
    let names = sim.names();
    for name in &names[..2] {
        sim.lose_node(name, Volume::Unknown);
    }
    sim.settle_within(1500);
    assert_eq!(sim.voters(), 5);
    assert_eq!(sim.names().len(), 7, "both old objects wait for their Pods");
    for name in &names[..2] {
        sim.node_returns(name);
    }
    sim.settle();
    assert_eq!(sim.names().len(), 5);
}

#[test]
fn a_member_that_serves_is_not_replaced_whatever_kubernetes_makes_of_its_node() {
    let mut sim = formed(3, Medium::Memory);
    let (names, list) = (sim.names(), ids(&sim));
    let since = sim.now;
    for node in [Node::Lost { since }, Node::Gone { since }, Node::OutOfService { since }] {
        sim.member(&names[0]).place.node = node;
        wait_out(&mut sim);
        assert_eq!((sim.names(), ids(&sim)), (names.clone(), list.clone()), "{node:?}");
    }
}

#[test]
fn a_volume_that_is_lost_or_stranded_or_does_not_mount_is_replaced_after_the_same_time() {
    let troubles: [fn(&mut Place, jiff::Timestamp); 4] = [
        |place, since| place.volume = Volume::Gone { since },
        |place, since| place.unprepared = Some(since),
        |place, since| (place.unplaced, place.volume) = (Some(since), Volume::Stranded),
        |place, since| (place.ends, place.volume) = (Some(since), Volume::Stranded),
    ];
    for trouble in troubles {
        let mut sim = formed(3, Medium::Disk);
        let names = sim.names();
        sim.lose_node(&names[2], Volume::Unknown);
        let now = sim.now;
        sim.member(&names[2]).place = Place::default();
        trouble(&mut sim.member(&names[2]).place, now);
        let ended = ids(&sim)[2];
        // The model would start the Pod again.
        let run = |sim: &mut Sim, turns: u32| {
            for _ in 0..turns {
                let member = sim.members.iter_mut().find(|member| member.name == names[2]);
                if let Some(pod) = member.and_then(|member| member.pod.as_mut()) {
                    (pod.up, pod.age) = (false, 0);
                }
                sim.turn();
            }
        };
        run(&mut sim, 290);
        assert!(ids(&sim).contains(&ended), "not before its time");
        run(&mut sim, 60);
        sim.settle();
        assert!(!sim.names().contains(&names[2]) && !ids(&sim).contains(&ended));
        assert_eq!(sim.voters(), 3);
    }
}

#[test]
fn a_member_that_is_to_be_replaced_gets_another_volume_at_once() {
    for medium in [Medium::Memory, Medium::Disk] {
        at_every_step(
            || formed(3, medium),
            |sim| {
                let names = sim.names();
                sim.member(&names[0]).place.replace = true;
                let old = ids(sim)[0];
                sim.settle();
                assert!(!sim.names().contains(&names[0]) && !ids(sim).contains(&old));
                assert_eq!(sim.voters(), 3);
            },
        );
    }
}

#[test]
fn the_only_member_is_never_replaced() {
    let mut sim = formed(1, Medium::Disk);
    let (names, list) = (sim.names(), ids(&sim));
    sim.member(&names[0]).place.replace = true;
    sim.run(100);
    assert_eq!((sim.names(), ids(&sim)), (names, list));
}

#[test]
fn a_seed_on_a_dead_node_does_not_keep_a_cluster_from_being_formed() {
    let mut sim = Sim::new(3, "3.6.16", Medium::Memory);
    sim.spec.node_loss = PATIENCE;
    while sim.record.seed.is_none() {
        sim.turn();
    }
    let seed = sim.record.seed.clone().unwrap().member;
    sim.lose_node(&seed, Volume::Unknown);
    sim.settle();
    assert_eq!(sim.voters(), 3);
}

/// Every agent should have this image from now on.
fn roll_out(sim: &mut Sim, image: &str) {
    image.clone_into(&mut sim.rollout.agent_image);
}

fn images(sim: &Sim) -> Vec<&str> {
    let pods = sim.members.iter().map(|member| member.pod.as_ref().unwrap());
    pods.map(|pod| pod.agent_image.as_str()).collect()
}

fn formed_with(image: &str) -> Sim {
    let mut sim = Sim::new(3, "3.6.16", Medium::Memory);
    roll_out(&mut sim, image);
    sim.settle();
    sim
}

#[test]
fn a_new_agent_image_comes_to_one_member_after_the_other_and_costs_no_membership_call() {
    at_every_step(
        || formed_with("agent:1"),
        |sim| {
            let (names, list) = (sim.names(), ids(sim));
            roll_out(sim, "agent:2");
            for _ in 0..200 {
                sim.turn();
                let restarting = sim
                    .members
                    .iter()
                    .filter(|member| member.pod.as_ref().unwrap().agent_starts > 0);
                assert!(restarting.count() <= 1, "{}", sim.story());
            }
            assert_eq!(images(sim), ["agent:2"; 3]);
            assert_eq!((sim.names(), ids(sim)), (names, list));
        },
    );
}

#[test]
fn u23_a_bad_agent_image_stays_on_one_member_until_a_good_one_comes() {
    let mut sim = formed_with("agent:1");
    sim.bad_images = vec!["agent:bad".into(), "agent:worse".into()];
    roll_out(&mut sim, "agent:bad");
    sim.run(600);
    assert_eq!(images(&sim).iter().filter(|image| **image == "agent:bad").count(), 1);
    assert_eq!(sim.voters(), 3);
    let told = waits(&mut sim, WaitReason::RolloutHalted);
    assert!(
        told[0].contains("agent:bad") && told[0].contains("2 other members"),
        "{told:?}"
    );
    // Another bad one comes to the same member, and to no other.
    roll_out(&mut sim, "agent:worse");
    sim.run(600);
    let mut now = images(&sim);
    now.sort_unstable();
    assert_eq!(now, ["agent:1", "agent:1", "agent:worse"]);
    roll_out(&mut sim, "agent:3");
    sim.settle();
    assert_eq!(images(&sim), ["agent:3"; 3]);
    assert!(waits(&mut sim, WaitReason::RolloutHalted).is_empty());
}

#[test]
fn no_agent_image_is_changed_while_paused_or_out_of_turn_or_while_a_member_is_not_well() {
    let mut sim = formed_with("agent:1");
    roll_out(&mut sim, "agent:2");
    let nothing = |sim: &mut Sim, why: &str| {
        sim.run(50);
        assert_eq!(images(sim), ["agent:1"; 3], "{why}");
        let told = waits(sim, WaitReason::AgentImage);
        assert!(told[0].contains(why), "{told:?}");
    };
    sim.spec.rollout_paused = true;
    nothing(&mut sim, "paused");
    sim.spec.rollout_paused = false;
    sim.rollout.permit = Permit::Busy { clusters: 10 };
    nothing(&mut sim, "10 other clusters");
    sim.rollout.permit = Permit::Halted { pod: "ns/x".into() };
    nothing(&mut sim, "ns/x");
    sim.rollout.permit = Permit::Granted;
    let name = sim.names()[0].clone();
    sim.lose_node(&name, Volume::Unknown);
    nothing(&mut sim, "every member is well");
    sim.node_returns(&name);
    sim.settle();
    assert_eq!(images(&sim), ["agent:2"; 3]);
}

#[test]
fn u23_an_operator_that_has_only_begun_to_dial_takes_no_agent_for_broken() {
    let mut sim = formed_with("agent:1");
    roll_out(&mut sim, "agent:2");
    let mut facts = sim.facts();
    for member in &mut facts.members {
        member.link = Link::Down {
            since: facts.now,
            why: "it is being dialled".into(),
            last: None,
        };
    }
    let steps = |facts: &operator::plan::facts::Facts| {
        let plan = operator::plan::plan(facts);
        let images = plan.steps().filter(|step| matches!(step, Step::SetAgentImage { .. }));
        images.count()
    };
    assert_eq!(steps(&facts), 0);
    // One whose agent Kubernetes itself sees fail is given the new image, whoever else is at it.
    facts.rollout.permit = Permit::Busy { clusters: 1 };
    if let operator::plan::facts::PodFact::Ours(pod) = &mut facts.members[0].pod {
        pod.agent_fails = true;
    }
    assert_eq!(steps(&facts), 1);
}

#[test]
fn u19_an_agent_that_is_too_old_is_named() {
    use operator::plan::{facts::Version, rollout, view::View};
    let mut sim = formed_with("agent:1");
    let name = sim.names()[1].clone();
    sim.rollout.version = Version::parse("0.3.0");
    let mut facts = sim.facts();
    let mut told = |agent: &str| {
        for member in facts.members.iter_mut().filter(|member| member.name == name) {
            let Link::Up { report, .. } = &mut member.link else {
                panic!("not heard")
            };
            agent.clone_into(&mut report.agent_version);
        }
        rollout::too_old(&View::new(&facts))
    };
    assert!(told("0.1.0").is_empty() && told("0.9.0").is_empty());
    assert_eq!(told("0.0.9"), [format!("{name} (0.0.9)")]);
}

#[test]
fn a_pod_that_ends_in_time_is_waited_for_without_a_word() {
    let mut sim = formed(3, Medium::Disk);
    let name = sim.names()[0].clone();
    let ends = sim.now + SignedDuration::from_secs(30);
    sim.lose_node(&name, Volume::Stranded);
    sim.member(&name).place = Place {
        ends: Some(ends),
        volume: Volume::Stranded,
        ..Place::default()
    };
    let plan = sim.plan_now();
    assert!(plan.waits.iter().all(|wait| wait.reason != WaitReason::NodeLost));
    assert!(plan.again.is_some_and(|again| again <= Duration::from_secs(30)));
    assert!(!plan.steps().any(|step| matches!(step, Step::Remove { .. })));
}
