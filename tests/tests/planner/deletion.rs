//! Objects that go away.

use operator::plan::facts::Medium;
use tests::model::{Sim, SimProcess};

use super::{at_every_step, formed};

#[test]
fn m11_a_deleted_member_object_leaves_etcd_and_is_replaced() {
    at_every_step(
        || formed(3, "3.6.16", Medium::Disk),
        |sim| {
            let victim = sim.names()[0].clone();
            sim.member(&victim).deleting = true;
            sim.settle();
            assert!(!sim.names().contains(&victim));
        },
    );
}

#[test]
fn m16_a_cluster_that_ends_is_released_at_any_moment_without_a_call_to_etcd() {
    for turns in 0..60 {
        let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
        sim.run(turns);
        sim.ending = true;
        for member in &mut sim.members {
            member.deleting = true;
        }
        let calls = sim.consensus_calls;
        sim.settle_within(100);
        assert!(sim.members.is_empty());
        assert_eq!(sim.consensus_calls, calls);
    }
}

#[test]
fn m11_members_deleted_without_a_quorum_keep_their_pods_until_etcd_forgets_them() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let names = sim.names();
    // The third cannot run, and two objects are deleted by hand.
    sim.member(&names[2]).disk.as_mut().unwrap().unreadable = true;
    sim.member(&names[2]).pod.as_mut().unwrap().process = SimProcess::Held;
    sim.member(&names[0]).deleting = true;
    sim.member(&names[1]).deleting = true;
    sim.kill_pod(&names[0]);
    sim.kill_pod(&names[1]);
    sim.refresh();
    sim.run(20);
    for name in &names[..2] {
        if let Some(member) = sim.members.iter().find(|member| member.name == *name) {
            assert!(member.pod.is_some() || sim.etcd.list.len() < 3, "{}", sim.story());
        }
    }
    sim.run(100);
    assert!(sim.etcd.has_quorum(), "{}", sim.story());
}

#[test]
fn a_member_without_our_finalizer_gets_it_back() {
    at_every_step(
        || {
            let mut sim = formed(3, "3.6.16", Medium::Disk);
            for member in &mut sim.members {
                member.finalizer = false;
            }
            sim
        },
        |sim| {
            sim.settle();
            assert!(sim.members.iter().all(|member| member.finalizer));
            // Only then is a deletion held until etcd has forgotten the member.
            let victim = sim.names()[1].clone();
            sim.member(&victim).deleting = true;
            sim.settle();
            assert!(!sim.names().contains(&victim));
        },
    );
}
