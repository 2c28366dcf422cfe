//! A lost quorum: one member's log becomes a new history, whatever is killed meanwhile.

use std::time::Duration;

use proto::agent::data_directory::State as Directory;
use proto::agent::recovery::Phase;
use tonic::Code;

use crate::support::cluster::{add_learner, admin, keys, promote};
use crate::support::operator::assert_refused;
use crate::support::pod::Pod;
use crate::support::quorum::{fence, fenced, is_fenced, log, phase, read_all, recover, three, wipe};
use crate::support::read::{directory, is_unborn, member_id, nonce, serves};
use crate::support::test;

async fn put(pod: &Pod, count: usize) {
    let mut keys = keys(pod).await;
    for number in 0..count {
        keys.put(format!("k{number:05}"), "v", None).await.unwrap();
    }
}

#[test]
fn d13_the_survivor_of_two_lost_disks_begins_a_new_history_that_the_others_join() {
    test::run(async |net, ca| {
        for minor in ["3.5", "3.6", "3.7"] {
            let mut pods = three(&net, &ca, minor).await;
            put(&pods[0], 300).await;
            let old = pods[2]
                .link()
                .await
                .status()
                .await
                .data_directory
                .unwrap()
                .identity
                .unwrap();
            for pod in &mut pods[..2] {
                wipe(pod);
            }
            let survivor = &pods[2];
            let operator = survivor.link().await;
            let before = fenced(&operator, 2).await;
            let end = log(&before).unwrap();
            assert!(
                end.index >= 300 && end.commit <= end.index && !end.is_learner,
                "{end:?}"
            );
            let order = recover(survivor, "t-2", 'b');
            operator.direct(3, 2, &nonce(&before), order.clone()).await.unwrap();
            let after = operator.until("the new history serves", serves).await;

            let (id, cluster) = survivor.seed_ids("t-2");
            let etcd = after.etcd.clone().unwrap();
            assert_eq!((etcd.member_id, etcd.cluster_id), (id, cluster), "etcd {minor}");
            assert!(id != old.member_id && cluster != old.cluster_id);
            assert_eq!(phase(&after), Phase::Done);
            let recovery = after.recovery.clone().unwrap();
            assert_eq!((recovery.last_term, recovery.last_index), (end.term, end.index));
            assert_eq!((recovery.mode.as_str(), recovery.incarnation), ("Copy", 2));
            assert_eq!(nonce(&after), "b".repeat(32));
            assert_eq!(read_all(survivor).await.len(), 300);
            assert_eq!(recovery.revision, after.etcd.unwrap().revision);
            // What was there is kept, as it was.
            let quarantine: Vec<_> = std::fs::read_dir(survivor.ours("quarantine"))
                .unwrap()
                .flatten()
                .collect();
            assert_eq!(quarantine.len(), 1);
            for file in ["member/snap/db", "identity.json", "nonce", "fence"] {
                assert!(quarantine[0].path().join(file).exists(), "{file}");
            }
            assert!(!survivor.ours("recovery").exists() && !survivor.ours("fence").exists());

            for (number, joiner) in pods[..2].iter().enumerate() {
                let operator = joiner.link().await;
                let unborn = operator.until("an unborn directory", is_unborn).await;
                let (id, join) = add_learner(survivor, joiner, "t-2").await;
                let number = 5 + u64::try_from(number).unwrap();
                operator.direct(number, 2, &nonce(&unborn), join).await.unwrap();
                operator.until("a learner that serves", serves).await;
                promote(survivor, id).await;
            }
            assert_eq!(admin(survivor).await.members().await.unwrap().members.len(), 3);
            assert_eq!(read_all(&pods[0]).await.len(), 300);
            // It is an old order by now, in any words.
            let again = operator.direct(4, 2, &nonce(&before), order).await;
            assert_refused(again, Code::FailedPrecondition, &["directory"]);
        }
    });
}

#[test]
fn d27_a_recovery_killed_at_any_moment_ends_the_same() {
    test::run(async |net, ca| {
        for milliseconds in [0, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 1000, 1200, 1500] {
            let mut pods = three(&net, &ca, "3.6").await;
            put(&pods[0], 50).await;
            for pod in &mut pods[..2] {
                wipe(pod);
            }
            let survivor = &mut pods[2];
            let operator = survivor.link().await;
            let before = fenced(&operator, 2).await;
            let order = recover(survivor, "t-2", 'b');
            operator.direct(3, 2, &nonce(&before), order).await.unwrap();
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            let agent_too = milliseconds % 200 == 0;
            if agent_too {
                survivor.kill_agent();
            }
            survivor.kill_container();
            survivor.start_container();
            if agent_too {
                survivor.start_agent();
            }
            let operator = survivor.link().await;
            let after = operator.until("the new history serves", serves).await;
            assert_eq!(member_id(&after), survivor.seed_ids("t-2").0, "after {milliseconds} ms");
            assert_eq!(nonce(&after), "b".repeat(32));
            assert_eq!(read_all(survivor).await.len(), 50);
            assert_eq!(std::fs::read_dir(survivor.ours("quarantine")).unwrap().count(), 1);
        }
    });
}

#[test]
fn a_fence_outlives_agent_and_container_and_is_lifted_by_resume() {
    test::run(async |net, ca| {
        let mut pods = three(&net, &ca, "3.6").await;
        let pod = &mut pods[2];
        let operator = pod.link().await;
        fenced(&operator, 2).await;
        pod.kill_agent();
        pod.kill_container();
        pod.start_container();
        pod.start_agent();
        let operator = pod.link().await;
        operator.until("the fence", is_fenced).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(pod.etcd_pid(), None);
        let resume = proto::agent::directive::Order::Resume(proto::agent::Resume::default());
        operator.direct(3, 1, "", resume).await.unwrap();
        let report = operator.until("etcd serves again", serves).await;
        assert!(!report.data_directory.unwrap().fenced);
    });
}

#[test]
fn d20_an_old_majority_that_comes_back_is_held_and_nothing_of_it_is_lost() {
    test::run(async |net, ca| {
        let mut pods = three(&net, &ca, "3.6").await;
        put(&pods[0], 20).await;
        for pod in &mut pods[..2] {
            pod.kill_agent();
            pod.kill_container();
        }
        let survivor = &pods[2];
        let operator = survivor.link().await;
        let before = fenced(&operator, 2).await;
        let order = recover(survivor, "t-2", 'b');
        operator.direct(3, 2, &nonce(&before), order).await.unwrap();
        operator.until("the new history serves", serves).await;
        for pod in &mut pods[..2] {
            pod.start_agent();
            pod.start_container();
        }
        // By themselves they find a quorum, until the operator is heard.
        let old = pods[0].link().await;
        old.until("the old majority serves", serves).await;
        for pod in &pods[..2] {
            let operator = pod.link().await;
            operator.direct(9, 2, "", fence()).await.unwrap();
            let held = operator
                .until("foreign and fenced", |report| {
                    is_fenced(report) && directory(report) == Directory::Foreign
                })
                .await;
            assert!(held.data_directory.unwrap().detail.contains("incarnation"));
            assert!(pod.volume("data").join("member/snap/db").exists());
            assert!(!pod.ours("quarantine").exists());
        }
        assert_eq!(admin(&pods[2]).await.members().await.unwrap().members.len(), 1);
    });
}
