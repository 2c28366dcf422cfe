//! From nothing to a whole cluster, and pauses of one.

use operator::plan::facts::{Budget, Medium};
use tests::model::Sim;

use super::{MEDIA, VERSIONS, at_every_step, formed};

#[test]
fn clusters_of_every_size_version_and_medium_form() {
    for version in VERSIONS {
        for medium in MEDIA {
            for replicas in [1, 3, 5, 7] {
                let sim = formed(replicas, version, medium);
                assert_eq!(sim.voters(), replicas as usize);
                let expected = operator::resources::min_available(replicas, replicas);
                assert_eq!(
                    sim.budget,
                    Budget::Ours {
                        min_available: expected,
                        current: true
                    }
                );
            }
        }
    }
}

#[test]
fn m23_formation_ends_the_same_with_a_crash_at_any_step() {
    for version in VERSIONS {
        at_every_step(|| Sim::new(3, version, Medium::Disk), Sim::settle);
    }
}

#[test]
fn m19_a_paused_disk_cluster_keeps_members_and_ids_and_resumes_with_them() {
    for target in [3, 1] {
        at_every_step(
            || formed(3, "3.6.16", Medium::Disk),
            |sim| {
                let ids: Vec<_> = sim.etcd.list.iter().map(|entry| entry.id).collect();
                let names = sim.names();
                sim.scale(0);
                sim.settle();
                assert_eq!(sim.names(), names);
                sim.scale(target);
                sim.settle();
                assert!(sim.etcd.list.iter().all(|entry| ids.contains(&entry.id)));
            },
        );
    }
}

#[test]
fn m20_nothing_is_made_while_replicas_is_zero_from_birth() {
    let mut sim = Sim::new(0, "3.6.16", Medium::Disk);
    sim.run(20);
    assert!(sim.members.is_empty());
    assert_eq!(
        sim.headless,
        operator::plan::facts::ServiceState::Stale,
        "no Service either"
    );
    sim.scale(3);
    sim.settle();
    assert_eq!(sim.voters(), 3);
}

#[test]
fn a_seed_lost_before_it_was_recorded_leads_to_another_incarnation() {
    for turns in 0..30 {
        let mut sim = Sim::new(3, "3.6.16", Medium::Memory);
        sim.run(turns);
        if sim.record.cluster_id.is_none()
            && let Some(seed) = sim.record.seed.clone()
        {
            sim.kill_pod(&seed.member);
        }
        sim.settle();
        assert_eq!(sim.voters(), 3);
    }
}

#[test]
fn m18_a_headless_service_of_somebody_else_is_not_taken_over_and_no_member_is_made() {
    let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
    sim.headless = operator::plan::facts::ServiceState::Foreign;
    sim.run(20);
    assert!(sim.members.is_empty());
    let plan = sim.plan_now();
    assert!(
        plan.waits
            .iter()
            .any(|wait| wait.message.contains("Service c belongs to somebody else")),
        "{plan:?}"
    );
    assert!(plan.again.is_some(), "nothing would tell that the name is free again");
}
