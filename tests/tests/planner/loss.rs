//! Members that lose their Pod or their data.

use operator::plan::facts::Medium;
use tests::model::SimProcess;

use super::{VERSIONS, at_every_step, formed};

#[test]
fn m01_a_lost_pod_of_a_disk_member_comes_back_without_a_membership_call() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    for name in sim.names() {
        let ids: Vec<_> = sim.etcd.list.iter().map(|entry| entry.id).collect();
        sim.kill_pod(&name);
        sim.settle();
        let after: Vec<_> = sim.etcd.list.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, after);
    }
}

#[test]
fn d17_a_lost_pod_of_a_memory_member_is_refilled_with_a_fault_at_any_step() {
    for version in VERSIONS {
        at_every_step(
            || formed(3, version, Medium::Memory),
            |sim| {
                let names = sim.names();
                sim.kill_pod(&names[0]);
                sim.settle();
                assert_eq!(sim.names(), names, "same objects, same names");
            },
        );
    }
}

#[test]
fn d01_d02_an_emptied_disk_is_refilled_with_a_fault_at_any_step() {
    for victim in [0, 2] {
        at_every_step(
            || formed(3, "3.6.16", Medium::Disk),
            |sim| {
                let names = sim.names();
                let ids: Vec<_> = sim.etcd.list.iter().map(|entry| entry.id).collect();
                sim.lose_disk(&names[victim]);
                sim.settle();
                assert_eq!(sim.names(), names);
                let kept = sim.etcd.list.iter().filter(|entry| ids.contains(&entry.id)).count();
                assert_eq!(kept, 2, "the lost one has a new ID");
            },
        );
    }
}

#[test]
fn two_of_three_memory_pods_lost_changes_nothing() {
    let mut sim = formed(3, "3.6.16", Medium::Memory);
    let names = sim.names();
    sim.kill_pod(&names[0]);
    sim.kill_pod(&names[1]);
    let list: Vec<_> = sim.etcd.list.iter().map(|entry| entry.id).collect();
    sim.run(100);
    let after: Vec<_> = sim.etcd.list.iter().map(|entry| entry.id).collect();
    assert_eq!(list, after);
    let facts = sim.facts();
    let view = operator::plan::view::View::new(&facts);
    let quorum = operator::plan::quorum::judge(&view);
    assert!(
        matches!(quorum, operator::plan::quorum::Quorum::Lost { .. }),
        "{quorum:?}"
    );
}

#[test]
fn a_listed_voter_whose_directory_is_unreadable_is_removed_from_etcd_before_its_object_goes() {
    for target in [2, 1] {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        let victim = sim.names()[0].clone();
        let member = sim.member(&victim);
        member.disk.as_mut().unwrap().unreadable = true;
        member.pod.as_mut().unwrap().process = SimProcess::Held;
        sim.refresh();
        sim.scale(target);
        // The model refuses to delete an object that etcd lists.
        sim.run(200);
        assert!(!sim.names().contains(&victim));
    }
    // And not at all when no quorum stands without it.
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let names = sim.names();
    sim.member(&names[0]).disk.as_mut().unwrap().unreadable = true;
    sim.member(&names[0]).pod.as_mut().unwrap().process = SimProcess::Held;
    sim.unschedulable = true;
    sim.kill_pod(&names[1]);
    sim.refresh();
    sim.scale(2);
    sim.run(100);
    assert_eq!(sim.names(), names);
    assert_eq!(sim.etcd.list.len(), 3);
}
