//! When a quorum is said to be lost: as soon as it is known, and never for an election.

use jiff::SignedDuration;
use operator::plan::{
    facts::{Fact, Facts, Link, Medium, PodFact},
    quorum::{self, Quorum},
    report::ProcessState,
    view::View,
};
use tests::model::Sim;

/// A formed cluster whose list nobody can give any more.
fn formed(size: u32, medium: Medium) -> Facts {
    let mut sim = Sim::new(size, "3.6.16", medium);
    sim.settle();
    let mut facts = sim.facts();
    facts.list = Fact::Unknown {
        why: "nobody gives it".into(),
    };
    facts
}

fn judge(facts: &Facts) -> Quorum {
    quorum::judge(&View::new(facts))
}

fn is_lost(facts: &Facts) -> bool {
    matches!(judge(facts), Quorum::Lost { .. })
}

/// The agent is heard, and says that its etcd knows no leader.
fn misses_its_leader(facts: &mut Facts, member: usize) {
    match &mut facts.members[member].link {
        Link::Up { report, .. } => report.etcd.as_mut().unwrap().leader = None,
        other => panic!("{other:?}"),
    }
}

fn falls_silent(facts: &mut Facts, member: usize) {
    let last = facts.members[member].link.last().cloned().unwrap();
    facts.members[member].link = Link::Down {
        since: facts.now,
        why: "no answer".into(),
        last: Some((Box::new(last), facts.now)),
    };
}

/// The agent says that its etcd has ended.
fn ends(facts: &mut Facts, member: usize) {
    match &mut facts.members[member].link {
        Link::Up { report, .. } => {
            report.process.state = ProcessState::Stopped;
            report.etcd = None;
        }
        other => panic!("{other:?}"),
    }
}

/// The time that nobody has proven a quorum for until its loss is said, in milliseconds.
fn said_after(facts: &mut Facts) -> Option<i64> {
    let since = facts.now;
    facts.unproven_since = Some(since);
    let said = (0..100).map(|n| n * 100).find(|ms| {
        facts.now = since + SignedDuration::from_millis(*ms);
        is_lost(facts)
    });
    facts.now = since;
    said
}

#[test]
fn two_of_three_that_fall_silent_while_the_third_misses_its_leader_are_a_lost_quorum_after_a_second() {
    let mut facts = formed(3, Medium::Disk);
    misses_its_leader(&mut facts, 0);
    falls_silent(&mut facts, 1);
    falls_silent(&mut facts, 2);
    assert_eq!(said_after(&mut facts), Some(1000));
}

#[test]
fn an_election_after_the_leader_was_killed_or_cut_off_is_no_lost_quorum_for_three_seconds() {
    for size in [3, 5, 7] {
        let mut killed = formed(size, Medium::Disk);
        let mut cut_off = killed.clone();
        ends(&mut killed, 0);
        falls_silent(&mut cut_off, 0);
        for facts in [&mut killed, &mut cut_off] {
            (1..size as usize).for_each(|member| misses_its_leader(facts, member));
            assert_eq!(said_after(facts), Some(3000), "of {size}");
            // Until then, what was said last stands.
            facts.unproven_since = Some(facts.now);
            assert_eq!(judge(facts), Quorum::Undecided);
        }
    }
}

#[test]
fn silence_alone_is_no_lost_quorum() {
    let mut facts = formed(3, Medium::Disk);
    (0..3).for_each(|member| falls_silent(&mut facts, member));
    assert_eq!(said_after(&mut facts), None);
}

#[test]
fn whoever_gives_the_list_proves_a_quorum_whatever_the_links_say() {
    let mut facts = formed(3, Medium::Disk);
    let mut sim = Sim::new(3, "3.6.16", Medium::Disk);
    sim.settle();
    facts.list = sim.facts().list;
    misses_its_leader(&mut facts, 0);
    falls_silent(&mut facts, 1);
    falls_silent(&mut facts, 2);
    assert_eq!(said_after(&mut facts), None);
}

#[test]
fn a_voter_that_still_names_a_leader_is_not_believed_when_the_others_have_ended() {
    let mut facts = formed(3, Medium::Memory);
    ends(&mut facts, 1);
    assert!(matches!(judge(&facts), Quorum::Serving { .. }));
    ends(&mut facts, 2);
    assert!(is_lost(&facts), "{:?}", judge(&facts));
}

/// Its Pod is being deleted, and etcd has closed its client port.
fn is_asked_to_end(facts: &mut Facts, member: usize) {
    match &mut facts.members[member].link {
        Link::Up { report, .. } => report.etcd.as_mut().unwrap().serving = false,
        other => panic!("{other:?}"),
    }
    pod_goes(facts, member);
}

fn pod_goes(facts: &mut Facts, member: usize) {
    match &mut facts.members[member].pod {
        PodFact::Ours(pod) => pod.deleting = true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_of_three_whose_memory_goes_with_their_pods_are_a_lost_quorum_although_one_still_leads() {
    for (medium, lost) in [(Medium::Memory, true), (Medium::Disk, false)] {
        let mut sim = Sim::new(3, "3.6.16", medium);
        sim.settle();
        let mut facts = sim.facts();
        ends(&mut facts, 1);
        pod_goes(&mut facts, 1);
        pod_goes(&mut facts, 0);
        assert!(!is_lost(&facts), "one serves");
        is_asked_to_end(&mut facts, 0);
        assert_eq!(is_lost(&facts), lost, "a disk comes back: {:?}", judge(&facts));
    }
}

#[test]
fn a_member_whose_pod_goes_and_whose_etcd_has_ended_is_down_when_its_agent_ends_too() {
    let mut facts = formed(3, Medium::Memory);
    for member in [1, 2] {
        ends(&mut facts, member);
        falls_silent(&mut facts, member);
    }
    assert!(!is_lost(&facts), "the supervisor may have started them again");
    pod_goes(&mut facts, 1);
    pod_goes(&mut facts, 2);
    assert!(is_lost(&facts), "{:?}", judge(&facts));
}
