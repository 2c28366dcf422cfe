//! Kills at any moment of a first start.

use std::time::Duration;

use proto::agent::directive::Order;

use crate::support::cluster::{add_learner, admin, remove, seeded};
use crate::support::pod::Pod;
use crate::support::read::{is_unborn, member_id, nonce, serves};
use crate::support::test;

/// Sends the order and kills after so long, then starts all again; the operator sends its order again if it is not held.
async fn killed_after(pod: &mut Pod, order: &Order, wait: Duration, agent_too: bool) -> u64 {
    let operator = pod.link().await;
    let unborn = operator.until("an unborn directory", is_unborn).await;
    operator.direct(1, 1, &nonce(&unborn), order.clone()).await.unwrap();
    tokio::time::sleep(wait).await;
    if agent_too {
        pod.kill_agent();
    }
    pod.kill_container();
    pod.start_container();
    if agent_too {
        pod.start_agent();
    }
    let operator = pod.link().await;
    let report = operator.until("etcd serves", serves).await;
    assert_eq!(nonce(&report), nonce(&unborn), "it is the same directory");
    member_id(&report)
}

#[test]
fn d25_d27_a_seed_killed_at_any_moment_of_its_first_start_ends_as_the_same_member() {
    test::run(async |net, ca| {
        for milliseconds in [0, 5, 10, 20, 40, 60, 80, 100, 130, 160, 200, 300] {
            let mut pod = Pod::started(&net, &ca, "c-a", "3.6");
            let order = pod.seed("t");
            let wait = Duration::from_millis(milliseconds);
            let id = killed_after(&mut pod, &order, wait, milliseconds % 20 == 0).await;
            assert_eq!(id, pod.seed_ids("t").0);
            assert_eq!(admin(&pod).await.members().await.unwrap().members.len(), 1);
        }
    });
}

#[test]
fn d25_d27_a_joiner_killed_at_any_moment_of_its_first_start_ends_as_the_same_member() {
    test::run(async |net, ca| {
        let seed = Pod::started(&net, &ca, "c-a", "3.7");
        seeded(&seed, "t").await;
        for milliseconds in [0, 30, 60, 100, 150, 250] {
            let mut joiner = Pod::started(&net, &ca, "c-b", "3.7");
            let (id, order) = add_learner(&seed, &joiner, "t").await;
            let wait = Duration::from_millis(milliseconds);
            assert_eq!(
                killed_after(&mut joiner, &order, wait, milliseconds % 20 == 0).await,
                id.0
            );
            remove(&seed, id).await;
        }
    });
}
