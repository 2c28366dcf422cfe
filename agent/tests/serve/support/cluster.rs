//! What the operator does to a cluster: seed, add a learner, remove a member.

use std::time::{Duration, Instant};

use etcd::{Access, Admin, MemberId};
use proto::agent as wire;
use proto::agent::directive::Order;

use super::operator::{Operator, PATIENCE};
use super::pod::Pod;
use super::read;

/// A started Pod, seeded and serving.
pub async fn seeded(pod: &Pod, token: &str) -> Operator {
    let operator = pod.link().await;
    let unborn = operator.until("an unborn directory", read::is_unborn).await;
    operator
        .direct(1, 1, &read::nonce(&unborn), pod.seed(token))
        .await
        .unwrap();
    operator.until("the seed serves", read::serves).await;
    operator
}

/// etcd's own API of a Pod.
pub async fn admin(pod: &Pod) -> Admin {
    Admin::new(&pod.client_url(), &Access::Plain, Duration::from_secs(5))
        .await
        .unwrap()
}

/// Adds a learner as soon as etcd takes one, and gives the Join for it.
pub async fn add_learner(voter: &Pod, joiner: &Pod, token: &str) -> (MemberId, Order) {
    let admin = admin(voter).await;
    let deadline = Instant::now() + PATIENCE;
    let (id, list) = loop {
        match admin.add_learner(&[joiner.peer_url()]).await {
            Ok(added) => break added,
            // For 5 s after any member's start etcd refuses to add one.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let members = list
        .members
        .iter()
        .map(|member| wire::Peer {
            name: member.name.clone(),
            id: member.id.0,
            peer_urls: member.peer_urls.iter().cloned().collect(),
        })
        .collect();
    let join = wire::Join {
        token: token.to_owned(),
        member_id: id.0,
        cluster_id: list.cluster_id.0,
        members,
        options: None,
    };
    (id, Order::Join(join))
}

/// Promotes it as soon as etcd finds it in sync.
pub async fn promote(voter: &Pod, id: MemberId) {
    let admin = admin(voter).await;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = admin.promote(id).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Removes it as soon as etcd lets it go.
pub async fn remove(voter: &Pod, id: MemberId) {
    let admin = admin(voter).await;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = admin.remove(id).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A client for keys.
pub async fn keys(pod: &Pod) -> etcd_client::Client {
    etcd_client::Client::connect([pod.client_url()], None).await.unwrap()
}
