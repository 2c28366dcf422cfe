//! Restarts of etcd, of the container, of the agent; none of them needs the operator.

use std::time::{Duration, Instant};

use proto::agent as wire;
use proto::agent::data_directory::State as Directory;
use proto::agent::process::State as Process;

use crate::support::cluster::{keys, seeded};
use crate::support::operator::await_report;
use crate::support::pod::Pod;
use crate::support::read::{directory, exit, member_id, nonce, pid, process, serves};
use crate::support::test;

#[test]
fn d22_an_intact_member_starts_by_itself_with_no_operator_linked() {
    test::run(async |net, ca| {
        for minor in ["3.5", "3.6", "3.7"] {
            let mut pod = Pod::started(&net, &ca, "c-a", minor);
            let operator = seeded(&pod, "t").await;
            keys(&pod).await.put("k", "v", None).await.unwrap();
            let before = operator.status().await;
            drop(operator);
            pod.kill_container();
            pod.kill_agent();
            pod.start_container();
            pod.start_agent();
            let mut keys = keys(&pod).await;
            let deadline = Instant::now() + Duration::from_secs(30);
            let read = loop {
                match keys.get("k", None).await {
                    Ok(read) => break read,
                    Err(error) => assert!(Instant::now() < deadline, "etcd {minor} does not serve: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            assert_eq!(read.kvs()[0].value(), b"v");
            let after = pod.link().await.until("etcd serves", serves).await;
            assert_eq!((member_id(&after), nonce(&after)), (member_id(&before), nonce(&before)));
        }
    });
}

#[test]
fn d21_the_agent_killed_leaves_etcd_alone_and_is_attached_again() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let before = operator.status().await;
        let mut keys = keys(&pod).await;
        pod.kill_agent();
        for number in 0..20 {
            keys.put(format!("k{number}"), "v", None).await.unwrap();
        }
        pod.start_agent();
        let after = pod.link().await.until("etcd serves", serves).await;
        assert_eq!(pid(&after), pid(&before), "etcd runs on");
        assert_eq!((nonce(&after), after.directive), (nonce(&before), 1));
        assert_eq!(after.process.unwrap().restarts, 0);
        assert_eq!(after.etcd.unwrap().revision, 21);
    });
}

#[test]
fn an_etcd_that_is_killed_starts_again_at_once_and_the_operator_hears_of_it() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let before = pid(&operator.status().await);
        let mut stream = operator.watch().await;
        pod.kill_etcd();
        let killed = Instant::now();
        await_report(&mut stream, "the end of etcd", |report| exit(report) == "Killed").await;
        let heard = killed.elapsed();
        let again = await_report(&mut stream, "etcd serves", |report| {
            serves(report) && pid(report) != before
        })
        .await;
        assert_eq!(again.process.unwrap().restarts, 1);
        // The budget is 100 ms; a loaded machine gets some more.
        assert!(heard < Duration::from_millis(500), "the report took {heard:?}");
    });
}

#[test]
fn a_steady_agent_logs_nothing_and_reports_nothing() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        // The version of the cluster is settled a moment after the start.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut stream = operator.watch().await;
        stream.message().await.unwrap().unwrap();
        let log = pod.agent_log();
        let mut keys = keys(&pod).await;
        for number in 0..200 {
            keys.put(format!("k{number}"), "v", None).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(pod.agent_log(), log);
        let more = tokio::time::timeout(Duration::from_millis(1), stream.message()).await;
        assert!(more.is_err(), "{more:?}");
    });
}

#[test]
fn etcd_restarts_without_the_agent_with_the_configuration_it_was_given() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let before = operator.status().await;
        let config = pod.volume("run").join("etcd.yaml");
        pod.kill_agent();
        pod.kill_etcd();
        pod.start_agent();
        let after = pod
            .link()
            .await
            .until("etcd serves", |report| serves(report) && pid(report) != pid(&before))
            .await;
        assert_eq!(member_id(&after), member_id(&before));
        let config = std::fs::read_to_string(config).unwrap();
        assert!(!config.contains("initial-cluster"), "{config}");
    });
}

#[test]
fn a_log_of_other_ids_than_recorded_is_held_as_foreign_before_etcd_starts_on_it() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let real = format!("{:016x}", member_id(&operator.status().await));
        pod.kill_container();
        let identity = std::fs::read_to_string(pod.ours("identity.json")).unwrap();
        std::fs::write(pod.ours("identity.json"), identity.replace(&real, "00000000000000ab")).unwrap();
        pod.start_container();
        let held = |report: &wire::Report| process(report) == Process::Held && directory(report) == Directory::Foreign;
        let report = operator.until("etcd held", held).await;
        for id in [real.as_str(), "00000000000000ab"] {
            assert!(
                report.waiting_for.contains(id),
                "{} does not name {id}",
                report.waiting_for
            );
        }
        assert_eq!(pod.etcd_pid(), None);
    });
}
