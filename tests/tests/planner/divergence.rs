//! Members that hold different data, and what etcd and the volumes raise alarm about.

use crds::{
    conditions::{self, ConditionType},
    etcdcluster::EtcdClusterStatus,
};
use jiff::SignedDuration;
use operator::plan::{
    self,
    divergence::{Answer, Asked, Hashes, Look},
    facts::{Facts, Id, Link, Medium},
    report::{Disk, Exit, ProcessState, Report},
    status,
    step::{Plan, Step},
    view::View,
};
use tests::model::Sim;

use super::formed;

/// What each member holds, by place.
fn look(facts: &Facts, hashes: &[u32], age: i64) -> Look {
    let asked: Vec<Asked> = facts
        .members
        .iter()
        .map(|member| {
            let report = member.link.live().unwrap();
            Asked {
                member: member.name.clone(),
                id: report.etcd.as_ref().unwrap().member_id,
                started_at: report.process.started_at,
            }
        })
        .collect();
    let answers = asked.iter().zip(hashes).map(|(asked, hash)| Answer {
        id: asked.id,
        revision: 100,
        compact: 1,
        hash: *hash,
    });
    Look {
        at: facts.now - SignedDuration::from_secs(age),
        took: std::time::Duration::ZERO,
        answers: answers.collect(),
        asked: asked.clone(),
    }
}

fn with_looks(sim: &Sim, looks: &[(&[u32], i64)]) -> Facts {
    let mut facts = sim.facts();
    facts.hashes = Hashes {
        since: Some(facts.now - SignedDuration::from_hours(1)),
        looks: looks.iter().map(|(hashes, age)| look(&facts, hashes, *age)).collect(),
        ..Hashes::default()
    };
    facts
}

fn id(facts: &Facts, place: usize) -> Id {
    let report = facts.members[place].link.live().unwrap();
    report.etcd.as_ref().unwrap().member_id
}

fn removed(plan: &Plan) -> Vec<Id> {
    let id = |step: &Step| match step {
        Step::Remove { id, .. } => Some(*id),
        _ => None,
    };
    plan.steps().filter_map(id).collect()
}

fn compares(plan: &Plan) -> bool {
    plan.steps().any(|step| matches!(step, Step::CompareHashes { .. }))
}

fn report(facts: &mut Facts, place: usize) -> &mut Report {
    match &mut facts.members[place].link {
        Link::Up { report, .. } => report,
        Link::None | Link::Down { .. } => panic!("it is not heard"),
    }
}

/// (status, reason, message) of a condition that is there only when it applies.
fn said(facts: &Facts, type_: ConditionType) -> Option<(String, String)> {
    let view = View::new(facts);
    let plan = plan::plan(facts);
    let status = status::cluster(&view, &plan, &EtcdClusterStatus::default()).0;
    let condition = conditions::find(&status.conditions, type_)?;
    assert_eq!(condition.status, "True");
    Some((condition.reason.clone(), condition.message.clone()))
}

fn follower(facts: &Facts) -> usize {
    let leader = report(&mut facts.clone(), 0).etcd.as_ref().unwrap().leader.unwrap();
    (0..facts.members.len())
        .find(|place| id(facts, *place) != leader)
        .unwrap()
}

#[test]
fn d19_a_member_that_differs_twice_from_the_majority_is_removed_and_once_it_is_looked_at_again() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let bad = follower(&sim.facts());
    let mut hashes = [7, 7, 7];
    hashes[bad] = 8;
    let once = with_looks(&sim, &[(&[7, 7, 7], 60), (&hashes, 6)]);
    assert!(compares(&plan::plan(&once)) && removed(&plan::plan(&once)).is_empty());
    assert_eq!(said(&once, ConditionType::DataDiverged), None);
    let twice = with_looks(&sim, &[(&hashes, 12), (&hashes, 6)]);
    assert_eq!(removed(&plan::plan(&twice)), [id(&twice, bad)]);
    let (reason, message) = said(&twice, ConditionType::DataDiverged).unwrap();
    assert_eq!(reason, "MinorityDiffers");
    assert!(message.contains(&twice.members[bad].name), "{message}");
    let old = with_looks(&sim, &[(&hashes, 900), (&hashes, 800)]);
    assert!(
        removed(&plan::plan(&old)).is_empty() && compares(&plan::plan(&old)),
        "looked at again first"
    );
}

#[test]
fn d19_leadership_moves_away_from_a_leader_that_differs_before_it_is_removed() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let facts = sim.facts();
    let bad = (0..3).find(|place| *place != follower(&facts)).unwrap();
    let bad = (0..3)
        .find(|place| report(&mut facts.clone(), *place).etcd.as_ref().unwrap().leader == Some(id(&facts, *place)))
        .unwrap_or(bad);
    let mut hashes = [7, 7, 7];
    hashes[bad] = 8;
    let plan = plan::plan(&with_looks(&sim, &[(&hashes, 12), (&hashes, 6)]));
    assert!(
        plan.steps().any(|step| matches!(step, Step::MoveLeader { .. })),
        "{plan:#?}"
    );
    assert!(removed(&plan).is_empty());
}

#[test]
fn d19_nobody_is_removed_without_a_majority_or_without_a_quorum_that_stands() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let all = with_looks(&sim, &[(&[7, 8, 9], 12), (&[7, 8, 9], 6)]);
    assert!(!plan::plan(&all).has_consensus_step());
    let (reason, message) = said(&all, ConditionType::DataDiverged).unwrap();
    assert_eq!(reason, "NoMajority");
    assert!(
        all.members.iter().all(|member| message.contains(&member.name)),
        "{message}"
    );
    let two = formed(2, "3.6.16", Medium::Disk);
    let two = with_looks(&two, &[(&[7, 8], 12), (&[7, 8], 6)]);
    assert!(!plan::plan(&two).has_consensus_step());

    let bad = follower(&sim.facts());
    let mut hashes = [7, 7, 7];
    hashes[bad] = 8;
    let mut facts = with_looks(&sim, &[(&hashes, 12), (&hashes, 6)]);
    // One of the good ones stops serving: two are left, and the bad one is needed.
    let leader = report(&mut facts, bad).etcd.as_ref().unwrap().leader;
    let down = (0..3)
        .find(|place| *place != bad && Some(id(&facts, *place)) != leader)
        .unwrap();
    report(&mut facts, down).etcd.as_mut().unwrap().serving = false;
    let plan = plan::plan(&facts);
    assert!(!plan.has_consensus_step(), "{plan:#?}");
    assert!(
        plan.waits
            .iter()
            .any(|wait| wait.message.contains("no quorum stands without it"))
    );
}

#[test]
fn a_look_is_due_after_a_start_of_etcd_and_now_and_then_and_not_while_one_is_under_way() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let good: &[u32] = &[7, 7, 7];
    assert!(
        !compares(&plan::plan(&with_looks(&sim, &[(good, 300)]))),
        "looked at five minutes ago"
    );
    assert!(compares(&plan::plan(&with_looks(&sim, &[(good, 601)]))));
    let mut slow = with_looks(&sim, &[(good, 601)]);
    slow.hashes.looks[0].took = std::time::Duration::from_secs(3);
    assert!(!compares(&plan::plan(&slow)), "a large database is read less often");
    let mut restarted = with_looks(&sim, &[(good, 30)]);
    report(&mut restarted, 1).process.started_at += 20;
    assert!(compares(&plan::plan(&restarted)));
    restarted.hashes.under_way = true;
    assert!(!compares(&plan::plan(&restarted)));
    let mut anew = with_looks(&sim, &[]);
    anew.hashes.since = Some(anew.now);
    for place in 0..3 {
        report(&mut anew, place).process.started_at = anew.now.as_second() - 3600;
    }
    assert!(
        !compares(&plan::plan(&anew)),
        "an operator that takes over does not ask all clusters at once"
    );
    report(&mut anew, 2).process.started_at = anew.now.as_second() + 1;
    assert!(compares(&plan::plan(&anew)), "it has seen this one start");
    let one = formed(1, "3.6.16", Medium::Disk);
    assert!(!compares(&plan::plan(&with_looks(&one, &[]))));
}

#[test]
fn d19_a_corrupt_alarm_is_disarmed_only_once_all_were_found_equal_after_it() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let disarms = |facts: &Facts| {
        let plan = plan::plan(facts);
        plan.steps().any(|step| matches!(step, Step::DisarmCorrupt { .. }))
    };
    let raised = |looks: &[(&[u32], i64)], since: i64| {
        let mut facts = with_looks(&sim, looks);
        facts.hashes.corrupt_since = Some(facts.now - SignedDuration::from_secs(since));
        report(&mut facts, 0).etcd.as_mut().unwrap().alarms = vec!["CORRUPT".to_owned()];
        facts
    };
    let before = raised(&[(&[7, 7, 7], 60)], 20);
    assert!(!disarms(&before) && compares(&plan::plan(&before)));
    assert_eq!(said(&before, ConditionType::DataDiverged).unwrap().0, "CorruptAlarm");
    assert!(disarms(&raised(&[(&[7, 7, 7], 5)], 20)));
    assert!(!disarms(&raised(&[(&[7, 7], 5)], 20)), "one was not heard");
    assert!(!disarms(&raised(&[(&[7, 7, 8], 5)], 20)));
    assert!(!disarms(&with_looks(&sim, &[(&[7, 7, 7], 5)])));
}

#[test]
fn d11_a_full_volume_is_said_of_its_member_and_nobody_is_replaced_for_it() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let mut facts = sim.facts();
    let place = follower(&facts);
    let name = facts.members[place].name.clone();
    assert_eq!(said(&facts, ConditionType::DiskFull), None);
    let member = report(&mut facts, place);
    member.disk = Disk {
        total_bytes: 1 << 30,
        free_bytes: 4 << 20,
        total_inodes: 1000,
        free_inodes: 500,
    };
    let (reason, message) = said(&facts, ConditionType::DiskFull).unwrap();
    assert_eq!(reason, "NoSpaceLeft");
    assert!(
        message.contains(&name) && message.contains("spec.storage.size"),
        "{message}"
    );
    let member = report(&mut facts, place);
    member.disk.free_bytes = 1 << 29;
    member.disk.free_inodes = 0;
    assert_eq!(said(&facts, ConditionType::DiskFull).unwrap().0, "NoInodesLeft");
    let member = report(&mut facts, place);
    member.disk.free_inodes = 500;
    member.etcd = None;
    member.process.state = ProcessState::Held;
    member.process.exit = Some(Exit {
        code: 1,
        class: "DiskFull".to_owned(),
        last_lines: Vec::new(),
        at: 0,
    });
    let (_, message) = said(&facts, ConditionType::DiskFull).unwrap();
    assert!(message.contains("etcd has ended"), "{message}");
    assert!(!plan::plan(&facts).has_consensus_step());
    let plan = plan::plan(&facts);
    let summary = status::cluster(&View::new(&facts), &plan, &EtcdClusterStatus::default())
        .0
        .summary;
    assert!(summary.contains(&name) && summary.contains("full"), "{summary}");
}

#[test]
fn u08_a_database_near_its_quota_is_said_before_the_alarm_and_until_it_is_well_below() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let quota = 2_i64 << 30;
    let with_size = |hundredths: i64| {
        let mut facts = sim.facts();
        report(&mut facts, 1).etcd.as_mut().unwrap().db_size = quota / 100 * hundredths + (1 << 20);
        facts
    };
    assert_eq!(said(&with_size(94), ConditionType::QuotaPressure), None);
    assert_eq!(
        said(&with_size(95), ConditionType::QuotaPressure).unwrap().0,
        "QuotaNearlyReached"
    );
    let told = |facts: &Facts, old: &EtcdClusterStatus| status::cluster(&View::new(facts), &plan::plan(facts), old).0;
    let before = told(&with_size(96), &EtcdClusterStatus::default());
    let is = |status: &EtcdClusterStatus| conditions::is_true(&status.conditions, ConditionType::QuotaPressure);
    assert!(is(&told(&with_size(93), &before)), "not back and forth");
    assert!(!is(&told(&with_size(88), &before)));
    let mut raised = with_size(96);
    report(&mut raised, 0).etcd.as_mut().unwrap().alarms = vec!["NOSPACE".to_owned()];
    let (reason, message) = said(&raised, ConditionType::QuotaPressure).unwrap();
    assert_eq!(reason, "NoSpaceAlarm");
    assert!(message.contains("2048 MiB") && message.contains("compact"), "{message}");
}

#[test]
fn u05_volumes_grow_with_the_spec_and_a_refusal_is_said_and_tried_again_later() {
    let sim = formed(3, "3.6.16", Medium::Disk);
    let mut facts = sim.facts();
    facts.cluster.spec.volume = plan::volumes::Size {
        text: "2Gi".to_owned(),
        bytes: 2 << 30,
    };
    let grows = |facts: &Facts| {
        let plan = plan::plan(facts);
        plan.steps()
            .filter(|step| matches!(step, Step::GrowVolume { .. }))
            .count()
    };
    let sized = |facts: &mut Facts, claim: u64| {
        for member in &mut facts.members {
            member.volume = plan::volumes::Volume { claim, spec: 2 << 30 };
        }
    };
    sized(&mut facts, 1 << 30);
    assert_eq!(grows(&facts), 3);
    facts.growth_refused = Some(plan::volumes::Refused {
        bytes: 2 << 30,
        at: facts.now,
        message: "the class does not allow it".to_owned(),
    });
    assert_eq!(grows(&facts), 0);
    let (reason, message) = said(&facts, ConditionType::VolumeExpansionBlocked).unwrap();
    assert_eq!(reason, "ExpansionRefused");
    assert!(message.contains("the class does not allow it"), "{message}");
    facts.now += SignedDuration::from_mins(6);
    assert_eq!(grows(&facts), 3);
    assert!(
        said(&facts, ConditionType::VolumeExpansionBlocked).is_some(),
        "until it has grown"
    );
    sized(&mut facts, 2 << 30);
    assert_eq!(grows(&facts), 0);
    assert_eq!(said(&facts, ConditionType::VolumeExpansionBlocked), None);
}
