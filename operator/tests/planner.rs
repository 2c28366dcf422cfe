//! The planner against a model of Kubernetes, agents and etcd: every scenario ends in the same state, also when the
//! operator is killed at any of its steps, or the answer to any of its calls is lost.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod simulator;

use operator::plan::facts::{Budget, Medium};
use simulator::{Faults, Sim};

const VERSIONS: [&str; 3] = ["3.5.35", "3.6.16", "3.7.3"];
const MEDIA: [Medium; 2] = [Medium::Disk, Medium::Memory];

fn formed(replicas: u32, version: &str, medium: Medium) -> Sim {
    let mut sim = Sim::new(replicas, version, medium);
    sim.settle();
    sim
}

/// Runs a scenario once without faults, then once for each of its steps and each kind of fault at that step.
fn at_every_step(make: impl Fn() -> Sim, scenario: impl Fn(&mut Sim)) {
    let mut plain = make();
    plain.steps = 0;
    scenario(&mut plain);
    let steps = plain.steps;
    assert!(steps > 0);
    for step in 0..steps {
        for faults in [
            Faults {
                crash_before: Some(step),
                ..Faults::default()
            },
            Faults {
                crash_after: Some(step),
                ..Faults::default()
            },
            Faults {
                lose_answer: Some(step),
                ..Faults::default()
            },
        ] {
            let mut sim = make();
            sim.steps = 0;
            sim.faults = faults;
            sim.log.push(format!("{faults:?}"));
            scenario(&mut sim);
        }
    }
}

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
    // The model's leader is the first running voter: make the youngest member that one.
    sim.etcd.list.rotate_right(1);
    let leader = sim.etcd.list[0].name.clone();
    sim.scale(1);
    sim.settle();
    assert_eq!(sim.names(), [leader]);
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

#[test]
fn an_answer_that_is_lost_for_good_or_for_a_while_leads_to_no_second_change() {
    // 7 s is as long as etcd goes on with a proposal that nobody waits for any more.
    for medium in MEDIA {
        let scenario = |sim: &mut Sim| {
            for target in [3, 5, 3, 1] {
                sim.scale(target);
                sim.settle();
            }
        };
        let make = || formed(1, "3.6.16", medium);
        let mut plain = make();
        plain.steps = 0;
        scenario(&mut plain);
        for step in 0..plain.steps {
            for turns in [1, 60] {
                let mut sim = make();
                sim.steps = 0;
                sim.faults.apply_later = Some((step, turns));
                scenario(&mut sim);
                assert_eq!(sim.voters(), 1);
            }
        }
    }
}

#[test]
fn nothing_else_is_changed_while_the_outcome_of_a_call_is_not_known() {
    // A removal got no answer; then the member that was to go leads, so another one would be chosen.
    let mut sim = formed(5, "3.6.16", Medium::Disk);
    sim.scale(3);
    sim.faults.apply_later = Some((sim.steps + 1, 50));
    sim.run(3);
    assert_eq!(sim.proposals.len(), 1, "{}", sim.story());
    sim.etcd.list.rotate_right(1);
    sim.settle();
    assert_eq!(sim.voters(), 3, "the target is not overshot");
}

#[test]
fn no_recorded_target_never_pauses_a_formed_cluster() {
    for invalid in [vec!["3.4 is not served".to_owned()], Vec::new()] {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        sim.record.replicas = None;
        sim.spec.is_observed = false;
        sim.spec.invalid.clone_from(&invalid);
        sim.run(100);
        assert!(sim.members.iter().all(|member| member.pod.is_some() && !member.dormant));
        assert_eq!(sim.record.replicas.is_none(), !invalid.is_empty());
        assert_eq!(sim.voters(), 3);
    }
}

#[test]
fn a_listed_voter_whose_directory_is_unreadable_is_removed_from_etcd_before_its_object_goes() {
    for target in [2, 1] {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        let victim = sim.names()[0].clone();
        let member = sim.member(&victim);
        member.disk.as_mut().unwrap().unreadable = true;
        member.pod.as_mut().unwrap().process = simulator::SimProcess::Held;
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
    sim.member(&names[0]).pod.as_mut().unwrap().process = simulator::SimProcess::Held;
    sim.unschedulable = true;
    sim.kill_pod(&names[1]);
    sim.refresh();
    sim.scale(2);
    sim.run(100);
    assert_eq!(sim.names(), names);
    assert_eq!(sim.etcd.list.len(), 3);
}

#[test]
fn m11_members_deleted_without_a_quorum_keep_their_pods_until_etcd_forgets_them() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let names = sim.names();
    // The third cannot run, and two objects are deleted by hand.
    sim.member(&names[2]).disk.as_mut().unwrap().unreadable = true;
    sim.member(&names[2]).pod.as_mut().unwrap().process = simulator::SimProcess::Held;
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

/// As another operator left it: IDs and votes are recorded, bindings are not, and no Pod has an agent.
fn adopted(pods: usize) -> Sim {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    for (index, member) in sim.members.iter_mut().enumerate() {
        member.record.binding = None;
        member.record.directive = 0;
        member.record.heard = false;
        match &mut member.pod {
            Some(pod) if index < pods => pod.has_agent = false,
            _ => member.pod = None,
        }
    }
    sim.refresh();
    sim
}

#[test]
fn no_pod_of_ours_is_made_for_a_cluster_that_was_made_without_agents() {
    for pods in 0..=3 {
        for target in [3, 5, 0] {
            let mut sim = adopted(pods);
            sim.scale(target);
            let names = sim.names();
            sim.run(100);
            let left = sim.members.iter().filter(|member| member.pod.is_some()).count();
            assert_eq!((sim.names(), left), (names, pods), "{}", sim.story());
            let plan = sim.plan_now();
            assert!(
                plan.waits
                    .iter()
                    .any(|wait| wait.message.contains("made without an agent")),
                "{plan:?}"
            );
        }
    }
}

#[test]
fn no_pod_of_ours_is_made_for_a_formed_cluster_with_fields_that_we_could_not_have_formed_it_with() {
    let mut sim = adopted(0);
    sim.spec.blocks_formation = vec!["spec.tls".into()];
    for member in &mut sim.members {
        member.record = operator::plan::facts::MemberRecord::default();
    }
    sim.run(50);
    assert!(sim.members.iter().all(|member| member.pod.is_none()));
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
fn hostile_numbers_in_reports_stop_nothing() {
    use operator::plan::facts::Link;
    for (number, time) in [(u64::MAX, i64::MIN), (u64::MAX, i64::MAX), (0, i64::MIN)] {
        for turns in 0..40 {
            let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
            sim.run(turns);
            let mut facts = sim.facts();
            for member in &mut facts.members {
                let Link::Up { report, .. } = &mut member.link else {
                    continue;
                };
                report.directive = number;
                report.directory.bytes = number;
                report.process.started_at = time;
                if let Some(etcd) = &mut report.etcd {
                    etcd.commit = number;
                    etcd.applied = number;
                    etcd.db_size = time;
                }
            }
            let plan = operator::plan::plan(&facts);
            let view = operator::plan::view::View::new(&facts);
            let old = crds::etcdcluster::EtcdClusterStatus::default();
            let (status, _) = operator::plan::status::cluster(&view, &plan, &old);
            assert_eq!(status.members.len(), facts.members.len());
        }
    }
}

#[test]
fn a_learner_is_promoted_also_when_only_the_leaders_agent_is_cut_off() {
    for readable in [true, false] {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        let leader = sim.etcd.list[0].name.clone();
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
fn a_refusal_is_said_as_long_as_it_lasts() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.etcd.refuses = Some("not enough started members".into());
    sim.scale(5);
    sim.run(20);
    for _ in 0..200 {
        sim.turn();
        let plan = sim.plan_now();
        assert!(
            plan.waits
                .iter()
                .any(|wait| wait.message.contains("not enough started members")),
            "{plan:?}"
        );
    }
    assert!(sim.consensus_calls < 200, "{}", sim.consensus_calls);
    sim.etcd.refuses = None;
    sim.settle();
    assert!(sim.plan_now().waits.is_empty());
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

#[test]
fn a_missing_permission_is_said() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.missing_verbs = vec!["create poddisruptionbudgets.policy".into()];
    let plan = sim.plan_now();
    assert!(
        plan.waits
            .iter()
            .any(|wait| wait.message.contains("create poddisruptionbudgets.policy"))
    );
}
