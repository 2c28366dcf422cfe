//! Three voters, the loss of their quorum, and what the operator orders then.

use std::time::Duration;

use proto::agent as wire;
use proto::agent::directive::Order;
use proto::agent::recovery::Phase;

use super::cluster::{add_learner, promote, seeded};
use super::net::Net;
use super::operator::Operator;
use super::pki::Ca;
use super::pod::Pod;
use super::read::{self, is_unborn, nonce, serves};

/// Three Pods whose etcds vote.
pub async fn three(net: &Net, ca: &Ca, minor: &'static str) -> [Pod; 3] {
    let pods = ["c-a", "c-b", "c-c"].map(|name| Pod::started(net, ca, name, minor));
    seeded(&pods[0], "t").await;
    let mut learners = Vec::new();
    for pod in &pods[1..] {
        let operator = pod.link().await;
        let unborn = operator.until("an unborn directory", is_unborn).await;
        let (id, join) = add_learner(&pods[0], pod, "t").await;
        operator.direct(1, 1, &nonce(&unborn), join).await.unwrap();
        operator.until("a learner that serves", serves).await;
        if minor == "3.5" {
            promote(&pods[0], id).await;
        } else {
            learners.push(id);
        }
    }
    for id in learners {
        promote(&pods[0], id).await;
    }
    pods
}

pub fn fence() -> Order {
    Order::Fence(wire::Fence {
        reason: "the quorum is lost".to_owned(),
    })
}

/// A new history of this Pod's directory.
pub fn recover(pod: &Pod, token: &str, digit: char) -> Order {
    let (member_id, cluster_id) = pod.seed_ids(token);
    Order::Recover(wire::Recover {
        token: token.to_owned(),
        member_id,
        cluster_id,
        new_nonce: digit.to_string().repeat(32),
        options: None,
    })
}

pub fn log(report: &wire::Report) -> Option<wire::Log> {
    report.data_directory.as_ref()?.log
}

/// A fence is on disk, and etcd has ended.
pub fn is_fenced(report: &wire::Report) -> bool {
    let held = read::process(report) == wire::process::State::Held;
    held && report.data_directory.as_ref().is_some_and(|directory| directory.fenced)
}

pub fn phase(report: &wire::Report) -> Phase {
    report.recovery.as_ref().map(wire::Recovery::phase).unwrap_or_default()
}

/// Fences a member and gives its log, as its agent has read it then.
pub async fn fenced(operator: &Operator, number: u64) -> wire::Report {
    operator.direct(number, 1, "", fence()).await.unwrap();
    operator
        .until("a fence and the log behind it", |report| {
            is_fenced(report) && log(report).is_some()
        })
        .await
}

/// What is on its volume is lost.
pub fn wipe(pod: &mut Pod) {
    pod.kill_container();
    std::fs::remove_dir_all(pod.volume("data")).unwrap();
    std::fs::create_dir(pod.volume("data")).unwrap();
    pod.start_container();
}

/// A client for keys of a member that serves alone.
pub async fn read_all(pod: &Pod) -> Vec<String> {
    let mut keys = super::cluster::keys(pod).await;
    let options = etcd_client::GetOptions::new().with_prefix().with_keys_only();
    let all = tokio::time::timeout(Duration::from_secs(20), keys.get("k", Some(options)));
    let all = all.await.expect("it answers").unwrap();
    all.kvs()
        .iter()
        .map(|pair| pair.key_str().unwrap().to_owned())
        .collect()
}
