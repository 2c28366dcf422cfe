//! Calls without an answer, refusals, and facts that cannot be trusted.

use operator::plan::facts::Medium;
use tests::model::Sim;

use super::{MEDIA, formed};

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
    let heir = sim.etcd.list[4].id;
    sim.etcd.move_leader(heir).unwrap();
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
fn a_refusal_is_said_as_long_as_it_lasts() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.etcd.refuses = Some(etcd::Refusal::NotEnoughStarted);
    sim.scale(5);
    sim.run(20);
    for _ in 0..200 {
        sim.turn();
        let plan = sim.plan_now();
        assert!(
            plan.waits.iter().any(|wait| wait.message.contains("NotEnoughStarted")),
            "{plan:?}"
        );
    }
    assert!(sim.consensus_calls < 200, "{}", sim.consensus_calls);
    sim.etcd.refuses = None;
    sim.settle();
    assert!(sim.plan_now().waits.is_empty());
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
