//! What people do behind the operator's back.

use crds::{conditions::ConditionType, etcdcluster::EtcdClusterStatus};
use jiff::SignedDuration;
use operator::plan::{
    self,
    facts::{Fact, Facts, Id, Link, Listed, Medium},
    quorum::{self, Quorum},
    status,
    step::{Plan, Step},
    view::View,
};
use tests::model::Sim;

use super::{at_every_step, formed};

fn delete_all(sim: &mut Sim) {
    for member in &mut sim.members {
        member.deleting = true;
    }
}

#[test]
fn m12_when_all_objects_are_deleted_every_claim_is_kept_and_nothing_is_rebuilt() {
    for target in [3, 0] {
        at_every_step(
            || {
                let mut sim = formed(3, "3.6.16", Medium::Disk);
                sim.scale(target);
                sim.run(20);
                sim
            },
            |sim| {
                let names = sim.names();
                let calls = sim.consensus_calls;
                delete_all(sim);
                sim.run(30);
                assert!(sim.members.is_empty(), "{}", sim.describe());
                let claims: Vec<String> = names.iter().map(|name| format!("data-{name}")).collect();
                let mut kept = sim.retained.clone();
                kept.sort();
                kept.dedup();
                assert_eq!(kept, claims);
                assert_eq!(sim.consensus_calls, calls, "etcd was called");
                let facts = sim.facts();
                let view = View::new(&facts);
                assert_eq!(quorum::judge(&view), Quorum::AllLost);
                let (status, _) = status::cluster(&view, &plan::plan(&facts), &EtcdClusterStatus::default());
                let available = crds::conditions::find(&status.conditions, ConditionType::Available).unwrap();
                assert_eq!(available.reason, "AllMembersLost");
                assert!(
                    claims.iter().all(|claim| available.message.contains(claim)),
                    "{available:?}"
                );
                assert!(status.summary.starts_with("All members lost; "), "{}", status.summary);
            },
        );
    }
}

#[test]
fn m12_members_deleted_one_after_the_other_are_not_taken_for_one_deletion() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let mut facts = sim.facts();
    facts.members[1].deleting = true;
    facts.members[1].deleted_just_now = true;
    let plan = plan::plan(&facts);
    assert!(plan.chains.is_empty(), "{plan:?}");
    assert!(plan.again.is_some());
    facts.members[1].deleted_just_now = false;
    let kinds: Vec<&str> = plan::plan(&facts).steps().map(Step::kind).collect();
    assert!(
        kinds.contains(&"Remove") && kinds.contains(&"CreateMembers"),
        "{kinds:?}"
    );
}

#[test]
fn m12_the_last_claims_are_kept_also_when_one_member_was_replaced_before() {
    for turns in 0..60 {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        let names = sim.names();
        sim.member(&names[0]).deleting = true;
        sim.run(turns);
        let left: Vec<String> = sim.names().into_iter().filter(|name| *name != names[0]).collect();
        delete_all(&mut sim);
        sim.run(40);
        // Those that etcd did not list any more, or not yet, had nothing to keep.
        for name in names[1..].iter().filter(|name| left.contains(name)) {
            assert!(
                sim.retained.contains(&format!("data-{name}")),
                "{turns}: {}",
                sim.story()
            );
        }
    }
}

#[test]
fn m11_m19_members_deleted_while_paused_come_back_until_etcd_has_forgotten_them() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.scale(0);
    sim.settle();
    let names = sim.names();
    sim.member(&names[0]).deleting = true;
    sim.member(&names[1]).deleting = true;
    sim.run(20);
    sim.scale(3);
    sim.settle();
    assert!(sim.names().contains(&names[2]));
    assert!(!sim.names().contains(&names[0]) && !sim.names().contains(&names[1]));
}

fn status_of(facts: &Facts, old: &EtcdClusterStatus) -> EtcdClusterStatus {
    status::cluster(&View::new(facts), &plan::plan(facts), old).0
}

#[test]
fn m14_a_foreign_member_is_reported_by_name_and_stays() {
    for learner in [true, false] {
        let mut sim = formed(3, "3.6.16", Medium::Disk);
        let mut stranger = sim.etcd.list[0].clone();
        stranger.id = Id(0x77);
        stranger.name = "by-hand".into();
        stranger.peer_url = "http://elsewhere:2380".into();
        stranger.learner = learner;
        sim.etcd.list.push(stranger);
        sim.run(100);
        assert!(sim.etcd.entry(Id(0x77)).is_some());
        let status = status_of(&sim.facts(), &EtcdClusterStatus::default());
        let degraded = crds::conditions::find(&status.conditions, ConditionType::Degraded).unwrap();
        assert_eq!(degraded.status, "True");
        for text in [&degraded.message, &status.summary] {
            assert!(text.contains("by-hand") && text.contains("0000000000000077"), "{text}");
        }
    }
}

#[test]
fn m14_a_foreign_voter_does_not_keep_our_own_from_voting() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.etcd.list[2].learner = true;
    sim.refresh();
    let mut facts = sim.facts();
    let Fact::Known { value, .. } = &mut facts.list else {
        panic!("no list")
    };
    value.members.push(Listed {
        id: Id(0x77),
        name: "by-hand".into(),
        peer_urls: vec!["http://elsewhere:2380".into()],
        learner: false,
    });
    let plan = plan::plan(&facts);
    assert!(plan.steps().any(|step| step.kind() == "Promote"), "{plan:?}");
}

fn with_foreign_cluster(sim: &Sim) -> Facts {
    let mut facts = sim.facts();
    let Link::Up { report, .. } = &mut facts.members[2].link else {
        panic!("not up")
    };
    report.etcd.as_mut().unwrap().cluster_id = Id(0xbad);
    facts
}

#[test]
fn m15_a_member_that_answers_for_another_cluster_is_not_counted_and_said() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let facts = with_foreign_cluster(&sim);
    let name = facts.members[2].name.clone();
    let view = View::new(&facts);
    assert_eq!((view.voters(), view.healthy_voters()), (3, 2));
    assert!(view.leader().is_none_or(|leader| leader.fact.name != name));
    let plan: Plan = plan::plan(&facts);
    assert!(!plan.has_consensus_step(), "{plan:?}");
    assert!(
        plan.waits
            .iter()
            .any(|wait| wait.member.as_deref() == Some(&name) && wait.message.contains("0000000000000bad"))
    );
    let status = status_of(&facts, &EtcdClusterStatus::default());
    for (type_, is) in [
        (ConditionType::ForeignData, "True"),
        (ConditionType::Degraded, "True"),
        (ConditionType::Available, "True"),
    ] {
        let condition = crds::conditions::find(&status.conditions, type_).unwrap();
        assert_eq!(condition.status, is, "{condition:?}");
    }
    assert_eq!(status.ready_members, 2);
}

#[test]
fn m15_a_list_of_another_cluster_changes_nothing() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let mut facts = sim.facts();
    let Fact::Known { value, .. } = &mut facts.list else {
        panic!("no list")
    };
    value.cluster_id = Some(Id(0xbad));
    value.members.push(Listed {
        id: Id(1),
        name: "x".into(),
        peer_urls: vec!["http://x:2380".into()],
        learner: false,
    });
    assert!(!plan::plan(&facts).has_consensus_step());
}

#[test]
fn m10_leadership_goes_to_a_member_that_stays() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    let names = sim.names();
    // The youngest leads, and the object of the oldest is being deleted as well.
    sim.etcd.leader = Some(sim.etcd.list[2].id);
    sim.member(&names[2]).deleting = true;
    let facts = sim.facts();
    let plan = plan::plan(&facts);
    let moved = plan.steps().find_map(|step| match step {
        Step::MoveLeader { via, member, .. } => Some((via.clone(), member.clone())),
        _ => None,
    });
    assert_eq!(moved, Some((names[2].clone(), names[0].clone())), "{plan:?}");
    sim.settle();
    assert!(!sim.names().contains(&names[2]));
}

#[test]
fn the_summary_says_since_when_and_on_which_member() {
    let mut sim = formed(3, "3.6.16", Medium::Disk);
    sim.unschedulable = true;
    sim.scale(5);
    sim.run(30);
    let first = status_of(&sim.facts(), &EtcdClusterStatus::default());
    let names = sim.names();
    assert!(first.summary.contains(&names[3]), "{}", first.summary);
    assert!(first.summary.contains("(since 20"), "{}", first.summary);
    sim.now += SignedDuration::from_mins(5);
    assert_eq!(status_of(&sim.facts(), &first).summary, first.summary);
    sim.unschedulable = false;
    sim.settle();
    assert_eq!(status_of(&sim.facts(), &first).summary, "5 of 5 voters healthy");
}
