#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use std::time::Instant;

use super::*;
use crate::serve::etcd_metrics::Metrics;

fn status() -> etcd::Status {
    etcd::Status {
        member_id: etcd::MemberId(1),
        cluster_id: etcd::ClusterId(2),
        leader: Some(etcd::MemberId(3)),
        term: 4,
        commit_index: 50,
        applied_index: 49,
        is_learner: false,
        version: "3.6.16".to_owned(),
        db_size: 20_480,
        db_size_in_use: 16_384,
        revision: 7,
        errors: vec![
            "memberID:1 alarm:NOSPACE ".to_owned(),
            "memberID:3 alarm:NOSPACE ".to_owned(),
            "etcdserver: no leader".to_owned(),
        ],
    }
}

fn polled(status: Result<etcd::Status, String>, metrics: Option<Metrics>) -> Polled {
    Polled {
        asked: Instant::now(),
        status,
        metrics,
    }
}

fn silent(metrics: Option<Metrics>) -> Polled {
    polled(Err("no answer".to_owned()), metrics)
}

#[test]
fn a_status_is_told_as_it_is_with_the_names_of_its_alarms() {
    let seen = view(&polled(Ok(status()), None), None, None).expect("etcd");
    assert_eq!(
        (seen.member_id, seen.cluster_id, seen.leader, seen.term, seen.revision),
        (1, 2, 3, 4, 7)
    );
    assert!(seen.serving);
    assert_eq!(seen.alarms, ["NOSPACE"]);
    let leaderless = etcd::Status {
        leader: None,
        ..status()
    };
    assert_eq!(view(&polled(Ok(leaderless), None), None, None).expect("etcd").leader, 0);
}

#[test]
fn m24_a_joiner_whose_client_port_is_dead_is_seen_by_its_metrics() {
    let metrics = Metrics {
        has_leader: true,
        is_learner: Some(true),
        member_id: Some(9),
        committed: 6001,
        applied: 6000,
        receiving_snapshot: true,
        ..Metrics::default()
    };
    let seen = view(&silent(Some(metrics)), None, None).expect("etcd");
    assert_eq!((seen.member_id, seen.commit_index, seen.applied_index), (9, 6001, 6000));
    assert!(seen.is_learner && seen.receiving_snapshot && !seen.serving);
}

#[test]
fn a_leader_lost_while_the_client_port_hangs_is_lost() {
    let before = view(&polled(Ok(status()), None), None, None);
    let lost = view(&silent(Some(Metrics::default())), before.as_ref(), None).expect("etcd");
    assert_eq!((lost.leader, lost.version.as_str(), lost.serving), (0, "3.6.16", false));
    let kept = view(
        &silent(Some(Metrics {
            has_leader: true,
            ..Metrics::default()
        })),
        before.as_ref(),
        None,
    );
    assert_eq!(kept.expect("etcd").leader, 3);
    let own = Metrics {
        has_leader: true,
        is_leader: true,
        member_id: Some(1),
        ..Metrics::default()
    };
    assert_eq!(view(&silent(Some(own)), before.as_ref(), None).expect("etcd").leader, 1);
}

#[test]
fn an_etcd_that_was_never_heard_is_absent_and_one_that_fell_silent_is_not() {
    assert_eq!(view(&silent(None), None, None), None);
    let before = view(&polled(Ok(status()), None), None, None);
    let seen = view(&silent(None), before.as_ref(), None).expect("etcd");
    assert_eq!((seen.serving, seen.member_id), (false, 1));
}
