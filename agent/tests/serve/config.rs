//! etcd ignores keys it does not know, in silence: so that each key works is shown by what etcd does with it.

use std::net::Ipv4Addr;

use proto::agent as wire;
use proto::agent::directive::Order;
use tokio::net::TcpStream;

use crate::support::cluster::{admin, seeded};
use crate::support::pod::Pod;
use crate::support::read::{is_unborn, nonce, pid, serves};
use crate::support::test;

const MINORS: [&str; 3] = ["3.5", "3.6", "3.7"];

#[test]
fn every_option_takes_effect_at_the_first_start_and_at_the_next() {
    test::run(async |net, ca| {
        for minor in MINORS {
            let pod = Pod::started(&net, &ca, "c-a", minor);
            let operator = pod.link().await;
            let unborn = operator.until("an unborn directory", is_unborn).await;
            let Order::Seed(mut seed) = pod.seed("t") else {
                panic!("a seed")
            };
            seed.options = Some(wire::Options {
                quota_backend_bytes: 123 << 20,
                auto_compaction_mode: "revision".to_owned(),
                auto_compaction_retention: "4321".to_owned(),
                snapshot_count: 7777,
            });
            operator.direct(1, 1, &nonce(&unborn), Order::Seed(seed)).await.unwrap();
            let mut report = operator.until("etcd serves", serves).await;
            for start in ["first", "next"] {
                let logs = operator
                    .client
                    .clone()
                    .logs(wire::LogsRequest::default())
                    .await
                    .unwrap()
                    .into_inner()
                    .lines;
                let line = logs
                    .iter()
                    .rev()
                    .find(|line| line.contains("starting an etcd server"))
                    .unwrap();
                let said: serde_json::Value = serde_json::from_str(line).unwrap();
                let at = |key: &str| said[key].to_string();
                assert_eq!(
                    at("quota-backend-bytes"),
                    (123 << 20).to_string(),
                    "etcd {minor}, {start} start"
                );
                assert_eq!(
                    at("auto-compaction-mode"),
                    "\"revision\"",
                    "etcd {minor}, {start} start"
                );
                assert!(line.contains("4.321µs"), "etcd {minor}, {start} start: {line}");
                assert_eq!(at("snapshot-count"), "7777", "etcd {minor}, {start} start");
                assert_eq!(at("name"), "\"c-a\"");
                assert_eq!(said["advertise-client-urls"][0], pod.client_url());
                assert_eq!(said["initial-advertise-peer-urls"][0], pod.peer_url());
                if start == "first" {
                    pod.kill_etcd();
                    let before = pid(&report);
                    report = operator
                        .until("etcd serves", |report| serves(report) && pid(report) != before)
                        .await;
                }
            }
        }
    });
}

#[test]
fn several_learners_are_taken_at_once_where_the_version_can() {
    test::run(async |net, ca| {
        for minor in ["3.6", "3.7"] {
            let pod = Pod::started(&net, &ca, "c-a", minor);
            seeded(&pod, "t").await;
            let admin = admin(&pod).await;
            for number in 1..=8 {
                admin
                    .add_learner(&[format!("http://10.77.0.2{number}:2380")])
                    .await
                    .unwrap();
            }
            admin
                .add_learner(&["http://10.77.0.29:2380".to_owned()])
                .await
                .unwrap_err();
        }
    });
}

#[test]
fn etcd_and_the_agent_listen_on_both_families() {
    test::run(async |net, ca| {
        let pod = Pod::new(&net, &ca, "c-a", "3.6");
        // In the Pod's namespace there are both loopback addresses; from here it has one IPv4 address.
        let mut pod = pod;
        pod.start_agent();
        pod.start_container();
        seeded(&pod, "t").await;
        for port in 2379..=2383 {
            TcpStream::connect((pod.address, port)).await.unwrap();
            assert_ne!(pod.address, Ipv4Addr::LOCALHOST);
            let over_ipv6 = pod
                .namespace
                .command()
                .args(["bash", "-c", &format!("exec 3<>/dev/tcp/::1/{port}")])
                .status()
                .unwrap();
            assert!(over_ipv6.success(), "port {port} over IPv6");
        }
    });
}
