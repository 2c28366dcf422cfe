//! Orders after the first start, and numbers.

use std::time::Duration;

use proto::agent as wire;
use proto::agent::data_directory::State as Directory;
use proto::agent::directive::Order;
use proto::agent::process::State as Process;
use tonic::Code;

use crate::support::cluster::{add_learner, promote, remove, seeded};
use crate::support::operator::{PATIENCE, assert_refused};
use crate::support::pod::{CLUSTER_UID, Pod};
use crate::support::read::{directory, exit, is_unborn, member_id, nonce, pid, process, serves};
use crate::support::test;

fn hold(reason: &str) -> Order {
    Order::Hold(wire::Hold {
        reason: reason.to_owned(),
    })
}

fn resume() -> Order {
    Order::Resume(wire::Resume::default())
}

#[test]
fn a_hold_outlives_agent_and_container_until_it_is_lifted() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        operator.direct(2, 1, "", hold("moved to another rack")).await.unwrap();
        let held = operator
            .until("etcd held and its directory read", |report| {
                process(report) == Process::Held && directory(report) != Directory::InUse
            })
            .await;
        assert!(
            held.waiting_for.contains("moved to another rack"),
            "{}",
            held.waiting_for
        );
        assert_eq!((directory(&held), exit(&held).as_str()), (Directory::Intact, "Clean"));
        pod.kill_agent();
        pod.kill_container();
        pod.start_container();
        pod.start_agent();
        let operator = pod.link().await;
        let held = operator
            .until("etcd held for the same reason", |report| {
                process(report) == Process::Held && report.waiting_for.contains("moved to another rack")
            })
            .await;
        assert_eq!((held.directive, pod.etcd_pid()), (2, None));
        operator.direct(3, 1, "", resume()).await.unwrap();
        operator.until("etcd serves", serves).await;
    });
}

#[test]
fn numbers_are_remembered_by_an_agent_that_was_killed() {
    test::run(async |net, ca| {
        let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        operator.direct(7, 1, "", resume()).await.unwrap();
        pod.kill_agent();
        pod.start_agent();
        let operator = pod.link().await;
        operator.until("the number", |report| report.directive == 7).await;
        assert_refused(
            operator.direct(6, 1, "", hold("x")).await,
            Code::FailedPrecondition,
            &["directive 6", "higher than 7", "c-a"],
        );
        assert_eq!(
            operator.direct(7, 1, "", resume()).await.unwrap(),
            7,
            "the same one is answered again"
        );
        assert_refused(
            operator.direct(7, 1, "", hold("x")).await,
            Code::FailedPrecondition,
            &["higher than 7"],
        );
    });
}

#[test]
fn orders_for_somebody_else_are_refused_by_both_values() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let mut operator = seeded(&pod, "t").await;
        let report = operator.status().await;
        assert_refused(
            operator.direct(2, 0, &"f".repeat(32), hold("x")).await,
            Code::FailedPrecondition,
            &[&"f".repeat(32), &nonce(&report)],
        );
        operator.direct(2, 3, "", resume()).await.unwrap();
        assert_refused(
            operator.direct(3, 2, "", hold("x")).await,
            Code::FailedPrecondition,
            &["incarnation 2", "incarnation 3"],
        );
        assert_refused(
            operator.direct(3, 3, &nonce(&report), pod.seed("other")).await,
            Code::FailedPrecondition,
            &["\"other\"", "\"t\""],
        );
        operator.cluster_uid = "another".to_owned();
        assert_refused(
            operator.direct(3, 3, "", hold("x")).await,
            Code::FailedPrecondition,
            &["another", CLUSTER_UID],
        );
        operator.cluster_uid = CLUSTER_UID.to_owned();
        for (order, name) in [
            (Order::Restore(wire::Restore::default()), "Restore"),
            (Order::Credentials(wire::Credentials {}), "Credentials"),
        ] {
            assert_refused(
                operator.direct(4, 3, &nonce(&report), order).await,
                Code::Unimplemented,
                &[name],
            );
        }
        assert_eq!(pid(&operator.status().await), pid(&report), "etcd was not touched");
    });
}

#[test]
fn options_change_the_next_start_and_restart_nothing() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let before = pid(&operator.status().await);
        let options = wire::Options {
            quota_backend_bytes: 512 << 20,
            ..wire::Options::default()
        };
        let order = Order::Reconfigure(wire::Reconfigure { options: Some(options) });
        operator.direct(2, 1, "", order).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(pid(&operator.status().await), before);
        pod.kill_etcd();
        operator
            .until("etcd serves", |report| serves(report) && pid(report) != before)
            .await;
        let config = std::fs::read_to_string(pod.volume("run").join("etcd.yaml")).unwrap();
        assert!(config.contains("quota-backend-bytes: 536870912"), "{config}");
    });
}

#[test]
fn a_removed_member_is_held_set_aside_and_joins_again_under_a_new_id() {
    test::run(async |net, ca| {
        for medium in ["Disk", "Memory"] {
            let seed = Pod::started(&net, &ca, "c-a", "3.6");
            let mut joiner = Pod::new(&net, &ca, "c-b", "3.6");
            joiner.medium = medium;
            joiner.start_agent();
            joiner.start_container();
            seeded(&seed, "t").await;
            let operator = joiner.link().await;
            let first = nonce(&operator.until("an unborn directory", is_unborn).await);
            let (id, join) = add_learner(&seed, &joiner, "t").await;
            operator.direct(1, 1, &first, join).await.unwrap();
            operator.until("a learner that serves", serves).await;
            promote(&seed, id).await;
            operator
                .until("a voter", |report| {
                    report.etcd.as_ref().is_some_and(|etcd| !etcd.is_learner)
                })
                .await;

            remove(&seed, id).await;
            let removed = operator.until("etcd removed", |report| exit(report) == "Removed").await;
            let removed = if process(&removed) == Process::Held {
                removed
            } else {
                operator
                    .until("etcd held", |report| process(report) == Process::Held)
                    .await
            };
            assert!(
                removed.waiting_for.contains("removed from the cluster"),
                "{}",
                removed.waiting_for
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(joiner.etcd_pid(), None, "it is not started again");

            let quarantine = |removed_member_id| Order::Quarantine(wire::Quarantine { removed_member_id });
            assert_refused(
                operator.direct(2, 1, "", quarantine(1)).await,
                Code::FailedPrecondition,
                &["0000000000000001", &id.to_string()],
            );
            operator.direct(2, 1, "", quarantine(id.0)).await.unwrap();
            let clean = operator
                .until("a new nonce", |report| is_unborn(report) && nonce(report) != first)
                .await;
            assert_eq!(joiner.ours("quarantine").exists(), medium == "Disk");

            let (new, join) = add_learner(&seed, &joiner, "t").await;
            operator.direct(3, 1, &nonce(&clean), join).await.unwrap();
            let report = operator.until("a learner that serves", serves).await;
            assert_eq!(member_id(&report), new.0);
        }
    });
}

#[test]
fn leadership_is_moved_and_a_refusal_is_told() {
    test::run(async |net, ca| {
        let (seed, joiner) = (
            Pod::started(&net, &ca, "c-a", "3.6"),
            Pod::started(&net, &ca, "c-b", "3.6"),
        );
        let seeds = seeded(&seed, "t").await;
        let operator = joiner.link().await;
        let unborn = operator.until("an unborn directory", is_unborn).await;
        let (id, join) = add_learner(&seed, &joiner, "t").await;
        operator.direct(1, 1, &nonce(&unborn), join).await.unwrap();
        operator.until("a learner that serves", serves).await;
        promote(&seed, id).await;
        operator
            .until("a voter", |report| {
                report.etcd.as_ref().is_some_and(|etcd| !etcd.is_learner)
            })
            .await;
        let request = wire::MoveLeaderRequest { target_member_id: id.0 };
        let deadline = std::time::Instant::now() + PATIENCE;
        // A voter this young may not be able to take over yet; etcd then gives no answer at all.
        while let Err(error) = seeds.client.clone().move_leader(request).await {
            assert!(std::time::Instant::now() < deadline, "{error}");
        }
        let leads = |report: &wire::Report| report.etcd.as_ref().is_some_and(|etcd| etcd.leader == id.0);
        operator.until("the new leader", leads).await;
        seeds.until("the new leader", leads).await;
        let error = seeds.client.clone().move_leader(request).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "worth a try at the leader: {error}");
        assert!(error.message().contains("not leader"), "{error}");
    });
}

#[test]
fn a_lost_leader_is_told() {
    test::run(async |net, ca| {
        let (seed, mut joiner) = (
            Pod::started(&net, &ca, "c-a", "3.6"),
            Pod::started(&net, &ca, "c-b", "3.6"),
        );
        let seeds = seeded(&seed, "t").await;
        let operator = joiner.link().await;
        let unborn = operator.until("an unborn directory", is_unborn).await;
        let (id, join) = add_learner(&seed, &joiner, "t").await;
        operator.direct(1, 1, &nonce(&unborn), join).await.unwrap();
        operator.until("a learner that serves", serves).await;
        promote(&seed, id).await;
        operator
            .until("a voter", |report| {
                report.etcd.as_ref().is_some_and(|etcd| !etcd.is_learner)
            })
            .await;
        let killed = std::time::Instant::now();
        joiner.kill_container();
        seeds
            .until("no leader", |report| {
                report.etcd.as_ref().is_some_and(|etcd| etcd.leader == 0)
            })
            .await;
        // etcd itself takes an election timeout (1 s, up to 2) to notice; then 1.5 s.
        assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    });
}

#[test]
fn the_last_lines_of_etcd_are_given() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let logs = async |lines| {
            operator
                .client
                .clone()
                .logs(wire::LogsRequest { lines })
                .await
                .unwrap()
                .into_inner()
                .lines
        };
        assert_eq!(logs(3).await.len(), 3);
        assert!(
            logs(0)
                .await
                .iter()
                .any(|line| line.contains("starting an etcd server"))
        );
    });
}
