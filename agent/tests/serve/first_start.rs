//! First starts: the seed, and a joiner.

use std::process::Command;
use std::time::Duration;

use proto::agent as wire;
use proto::agent::data_directory::State as Directory;
use proto::agent::process::State as Process;
use tonic::Code;

use crate::support::cluster::{add_learner, keys, promote, remove, seeded};
use crate::support::operator::assert_refused;
use crate::support::pod::Pod;
use crate::support::read::{directory, exit, is_unborn, member_id, nonce, process, serves};
use crate::support::test;

#[test]
fn a_seed_starts_with_the_ids_that_both_ends_have_computed() {
    test::run(async |net, ca| {
        for minor in ["3.5", "3.6", "3.7"] {
            let pod = Pod::started(&net, &ca, "c-a", minor);
            let operator = pod.link().await;
            let held = operator.until("a nonce", |report| !nonce(report).is_empty()).await;
            assert_eq!((directory(&held), process(&held)), (Directory::Unborn, Process::Held));
            assert_eq!(held.waiting_for, "a Seed or Join from the operator");
            operator.direct(1, 1, &nonce(&held), pod.seed("token-1")).await.unwrap();
            let report = operator.until("etcd serves", serves).await;
            let (member_id, cluster_id) = pod.seed_ids("token-1");
            let etcd = report.etcd.unwrap();
            assert_eq!(
                (etcd.member_id, etcd.cluster_id),
                (member_id, cluster_id),
                "etcd {minor}"
            );
            assert!(etcd.version.starts_with(minor), "{}", etcd.version);
            let identity = report.data_directory.unwrap().identity.unwrap();
            assert_eq!(
                (identity.member_id, identity.cluster_id, identity.nonce),
                (member_id, cluster_id, nonce(&held))
            );
        }
    });
}

#[test]
fn a_joiner_starts_as_a_learner_and_its_promotion_is_told() {
    test::run(async |net, ca| {
        for minor in ["3.5", "3.6", "3.7"] {
            let (seed, joiner) = (
                Pod::started(&net, &ca, "c-a", minor),
                Pod::started(&net, &ca, "c-b", minor),
            );
            seeded(&seed, "t").await;
            let operator = joiner.link().await;
            let unborn = operator.until("an unborn directory", is_unborn).await;
            let (id, join) = add_learner(&seed, &joiner, "t").await;
            operator.direct(1, 1, &nonce(&unborn), join).await.unwrap();
            let learner = operator.until("a learner that serves", serves).await;
            let etcd = learner.etcd.clone().unwrap();
            assert!(
                etcd.is_learner && etcd.member_id == id.0 && etcd.applied_index > 0,
                "{etcd:?}"
            );
            promote(&seed, id).await;
            operator
                .until("a voter", |report| {
                    report.etcd.as_ref().is_some_and(|etcd| !etcd.is_learner)
                })
                .await;
        }
    });
}

#[test]
fn a_learners_indexes_are_told_as_they_grow_and_a_voters_are_not() {
    test::run(async |net, ca| {
        let (seed, joiner) = (
            Pod::started(&net, &ca, "c-a", "3.6"),
            Pod::started(&net, &ca, "c-b", "3.6"),
        );
        let voter = seeded(&seed, "t").await;
        let operator = joiner.link().await;
        let unborn = operator.until("an unborn directory", is_unborn).await;
        let (_, join) = add_learner(&seed, &joiner, "t").await;
        operator.direct(1, 1, &nonce(&unborn), join).await.unwrap();
        let before = operator
            .until("a learner that serves", serves)
            .await
            .etcd
            .unwrap()
            .applied_index;
        // The member list changes with the learner's start: after that the voter has nothing to tell.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let mut steady = voter.watch().await;
        steady.message().await.unwrap().unwrap();
        let mut keys = keys(&seed).await;
        for number in 0..50 {
            keys.put(format!("k{number}"), "v", None).await.unwrap();
        }
        let after = |report: &wire::Report| {
            report
                .etcd
                .as_ref()
                .is_some_and(|etcd| etcd.applied_index >= before + 50)
        };
        operator.until("fifty more entries at the learner", after).await;
        let told = tokio::time::timeout(Duration::from_secs(3), steady.message()).await;
        assert!(told.is_err(), "a voter tells of writes: {told:?}");
        let fresh = voter.status().await.etcd.unwrap();
        assert!(fresh.commit_index >= before + 50, "Status is read now: {fresh:?}");
    });
}

#[test]
fn d25_a_join_without_a_reachable_peer_stays_unborn_and_starts_again() {
    test::run(async |net, ca| {
        for minor in ["3.5", "3.6", "3.7"] {
            let (mut seed, joiner) = (
                Pod::started(&net, &ca, "c-a", minor),
                Pod::started(&net, &ca, "c-b", minor),
            );
            let seeds = seeded(&seed, "t").await;
            let operator = joiner.link().await;
            let unborn = operator.until("an unborn directory", is_unborn).await;
            let (id, join) = add_learner(&seed, &joiner, "t").await;
            seed.kill_container();
            seeds
                .until("no supervisor", |report| process(report) == Process::Absent)
                .await;
            operator.direct(1, 1, &nonce(&unborn), join).await.unwrap();
            let failed = operator
                .until("an end of etcd", |report| exit(report) == "NoPeers")
                .await;
            assert_ne!(directory(&failed), Directory::Damaged);
            seed.start_container();
            let report = operator.until("a learner that serves", serves).await;
            assert_eq!((member_id(&report), nonce(&report)), (id.0, nonce(&unborn)));
            assert!(
                joiner.etcd_log().contains("never came to its WAL"),
                "etcd {minor} leaves a db without WAL"
            );
        }
    });
}

#[test]
fn d26_a_join_for_a_directory_that_was_emptied_is_refused() {
    test::run(async |net, ca| {
        let (seed, mut joiner) = (
            Pod::started(&net, &ca, "c-a", "3.6"),
            Pod::started(&net, &ca, "c-b", "3.6"),
        );
        seeded(&seed, "t").await;
        let operator = joiner.link().await;
        let first = nonce(&operator.until("an unborn directory", is_unborn).await);
        let (id, join) = add_learner(&seed, &joiner, "t").await;
        operator.direct(1, 1, &first, join.clone()).await.unwrap();
        operator.until("a learner that serves", serves).await;

        joiner.kill_container();
        std::fs::remove_dir_all(joiner.volume("data")).unwrap();
        std::fs::create_dir(joiner.volume("data")).unwrap();
        joiner.start_container();
        let emptied = operator.until("an unborn directory", is_unborn).await;
        let second = nonce(&emptied);
        assert_ne!(first, second);
        // The operator was restarted and sends it again: the same ID must not start on this directory.
        assert_refused(
            operator.direct(2, 1, &first, join.clone()).await,
            Code::FailedPrecondition,
            &[&first, &second, "c-b"],
        );
        // Even the very same message does nothing.
        assert_eq!(operator.direct(1, 1, &first, join).await.unwrap(), 1);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(joiner.etcd_pid(), None);

        // Removed and replaced by a new ID, it starts.
        remove(&seed, id).await;
        let (new, join) = add_learner(&seed, &joiner, "t").await;
        operator.direct(2, 1, &second, join).await.unwrap();
        let report = operator.until("a learner that serves", serves).await;
        assert_eq!(member_id(&report), new.0);
    });
}

#[test]
fn data_that_are_lost_while_the_markers_stay_get_a_new_nonce() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let first = nonce(
            &operator
                .until("the start is recorded", |report| {
                    report
                        .data_directory
                        .as_ref()
                        .is_some_and(|directory| directory.started)
                })
                .await,
        );
        pod.kill_container();
        std::fs::remove_dir_all(pod.volume("data").join("member")).unwrap();
        pod.start_container();
        let lost = operator
            .until("a new nonce", |report| is_unborn(report) && nonce(report) != first)
            .await;
        let directory = lost.data_directory.unwrap();
        assert!(directory.identity.is_none() && !directory.started, "{directory:?}");
        assert_eq!(pod.etcd_pid(), None);
    });
}

#[test]
fn a_database_without_its_wal_is_damaged_and_set_aside_on_the_operators_word_only() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let first = nonce(&operator.status().await);
        pod.kill_container();
        std::fs::remove_dir_all(pod.volume("data").join("member/wal")).unwrap();
        pod.start_container();
        let held = operator
            .until("a damaged directory", |report| directory(report) == Directory::Damaged)
            .await;
        assert!(held.waiting_for.contains("no log is there"), "{}", held.waiting_for);
        assert!(!pod.ours("quarantine").exists());
        let removed_member_id = held.data_directory.unwrap().identity.unwrap().member_id;
        let order = wire::directive::Order::Quarantine(wire::Quarantine { removed_member_id });
        operator.direct(2, 1, "", order).await.unwrap();
        let clean = operator
            .until("a new nonce", |report| is_unborn(report) && nonce(report) != first)
            .await;
        assert_eq!(clean.data_directory.unwrap().quarantined.len(), 1, "it is listed");
        let quarantine: Vec<_> = std::fs::read_dir(pod.ours("quarantine")).unwrap().flatten().collect();
        assert_eq!(quarantine.len(), 1);
        assert!(quarantine[0].path().join("member/snap/db").exists());
    });
}

#[test]
fn an_order_sent_before_the_supervisor_is_there_waits_for_it() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = pod.link().await;
        let unborn = operator.until("an unborn directory", is_unborn).await;
        pod.kill_container();
        operator
            .until("no supervisor", |report| process(report) == Process::Absent)
            .await;
        operator.direct(1, 1, &nonce(&unborn), pod.seed("t")).await.unwrap();
        pod.start_container();
        let report = operator.until("the seed serves", serves).await;
        assert_eq!(report.directive, 1);
        let stored = std::fs::read_to_string(pod.ours("directive.json")).unwrap();
        assert!(stored.contains("\"number\": 1"), "{stored}");
    });
}

#[test]
fn the_first_report_that_etcd_serves_has_the_size_that_its_files_then_have() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let told = operator
            .until("etcd serves", serves)
            .await
            .data_directory
            .unwrap()
            .bytes;
        let output = Command::new("du")
            .args(["-sb", "--apparent-size"])
            .arg(pod.volume("data").join("member"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let there: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
        // Less than a step apart, so nothing is left to be told when the size is read next.
        assert!(told.abs_diff(there) < 128 << 20, "told {told}, there are {there}");
    });
}
