//! Who may call, and certificates that change.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use proto::agent as wire;
use proto::names;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_stream::StreamExt as _;

use crate::support::cluster::seeded;
use crate::support::net::STRANGER;
use crate::support::operator::{PATIENCE, await_report};
use crate::support::pki::{Ca, Leaf};
use crate::support::pod::{CLUSTER_UID, Pod};
use crate::support::test;

/// Can a caller with this certificate get an answer? With TLS 1.3 a refusal may come after the dial.
async fn gets_in(pod: &Pod, leaf: &Leaf, ca: &str) -> bool {
    match pod.dial(leaf, ca).await {
        Ok(operator) => operator
            .client
            .clone()
            .hello(wire::HelloRequest::default())
            .await
            .is_ok(),
        Err(_) => false,
    }
}

#[test]
fn t06_only_the_operators_certificate_opens_the_link() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        pod.link().await;
        let roots = ca.pem();
        assert!(gets_in(&pod, &ca.operator(), &roots).await);
        let another_ca = Ca::new();
        for (leaf, who) in [
            (ca.agent("c-b", CLUSTER_UID), "another member's agent"),
            (ca.agent("c-a", CLUSTER_UID), "this agent's own key"),
            (
                ca.leaf(names::OPERATOR, &[ServerAuth]),
                "the right name, meant for servers",
            ),
            (ca.leaf(names::OPERATOR, &[]), "the right name, meant for nothing"),
            (ca.leaf("c-b.agent", &[ClientAuth]), "a client of another name"),
            (ca.leaf("*.etcd-operator.cozystack.io", &[ClientAuth]), "a wildcard"),
            (another_ca.operator(), "another CA's operator"),
        ] {
            assert!(!gets_in(&pod, &leaf, &roots).await, "{who} got in");
        }
        assert!(gets_in(&pod, &ca.operator(), &roots).await);
    });
}

#[test]
fn t07_certificates_and_ca_rotate_while_a_watch_stands() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let mut stream = operator.watch().await;
        let fingerprint = |report: &wire::Report| report.certificate.clone().unwrap_or_default().fingerprint;
        let first = fingerprint(&stream.message().await.unwrap().unwrap());
        assert_eq!(first.len(), 64);

        ca.agent("c-a", CLUSTER_UID).mount(&ca.pem(), &pod.volume("tls"));
        let second = await_report(&mut stream, "the new leaf", |report| fingerprint(report) != first).await;

        // Both CAs, then the new one alone.
        let new = Ca::new();
        let bundle = format!("{}{}", ca.pem(), new.pem());
        new.agent("c-a", CLUSTER_UID).mount(&bundle, &pod.volume("tls"));
        let changed = |report: &wire::Report| fingerprint(report) != fingerprint(&second);
        let third = await_report(&mut stream, "a leaf of the new CA", changed).await;
        assert!(
            gets_in(&pod, &ca.operator(), &new.pem()).await,
            "the old operator while both are trusted"
        );
        assert!(gets_in(&pod, &new.operator(), &new.pem()).await);
        new.agent("c-a", CLUSTER_UID).mount(&new.pem(), &pod.volume("tls"));
        await_report(&mut stream, "the last leaf", |report| {
            fingerprint(report) != fingerprint(&third)
        })
        .await;
        assert!(
            !gets_in(&pod, &ca.operator(), &new.pem()).await,
            "the old CA is not trusted any more"
        );
        assert!(gets_in(&pod, &new.operator(), &new.pem()).await);

        // A broken Secret changes nothing.
        let broken = Leaf {
            chain: "none".to_owned(),
            key: String::new(),
        };
        broken.mount(&new.pem(), &pod.volume("tls"));
        let deadline = Instant::now() + PATIENCE;
        while !pod.agent_log().contains("cannot be loaded") {
            assert!(Instant::now() < deadline, "nothing is said of the broken certificate");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(gets_in(&pod, &new.operator(), &new.pem()).await);
        // The stream of the first minute still tells.
        pod.kill_etcd();
        await_report(&mut stream, "a restart", |report| {
            report.process.as_ref().is_some_and(|p| p.restarts == 1)
        })
        .await;
    });
}

#[test]
fn a_watcher_that_does_not_read_gets_the_latest_report_when_it_does() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = seeded(&pod, "t").await;
        let (mut slow, mut quick) = (operator.watch().await, operator.watch().await);
        for number in 2..40 {
            let hold = wire::directive::Order::Resume(wire::Resume::default());
            operator.direct(number, 1, "", hold).await.unwrap();
        }
        await_report(&mut quick, "the last directive", |report| report.directive == 39).await;
        let read = tokio::time::timeout(PATIENCE, async {
            let mut count = 0;
            while slow.next().await.unwrap().unwrap().directive < 39 {
                count += 1;
            }
            count
        });
        assert!(read.await.unwrap() < 39);
    });
}

async fn get(address: Ipv4Addr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect((address, 2382)).await.unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn the_http_pages_tell_link_directory_and_report() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        let operator = pod.link().await;
        assert_eq!(get(pod.address, "/healthz").await, (200, "ok\n".to_owned()));
        assert_eq!(get(pod.address, "/readyz").await.0, 503, "nobody watches");
        drop(operator);
        let operator = seeded(&pod, "t").await;
        let _stream = operator.watch().await;
        let (code, body) = get(pod.address, "/readyz").await;
        assert_eq!(code, 200, "{body}");
        let (code, body) = get(pod.address, "/status").await;
        let status: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (code, status["dataDirectory"]["state"].as_str()),
            (200, Some("IN_USE")),
            "{body}"
        );
        let (code, body) = get(pod.address, "/metrics").await;
        assert_eq!(code, 200);
        assert!(body.contains("etcd_agent_links 1"), "{body}");
        assert!(
            body.contains("etcd_agent_etcd_process_state{state=\"RUNNING\"} 1"),
            "{body}"
        );
        assert_eq!(get(pod.address, "/nothing").await.0, 404);
    });
}

#[test]
fn silent_connections_keep_neither_the_operator_nor_a_monitor_out() {
    test::run(async |net, ca| {
        let pod = Pod::started(&net, &ca, "c-a", "3.6");
        pod.link().await;
        let mut held = Vec::new();
        for _ in 0..40 {
            for port in [2382, 2383] {
                // From another address than the operator's: each has its own share.
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind((STRANGER, 0).into()).unwrap();
                held.push(socket.connect((pod.address, port).into()).await.unwrap());
            }
        }
        let asked = Instant::now();
        assert!(gets_in(&pod, &ca.operator(), &ca.pem()).await);
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        let mut monitor = TcpStream::connect((pod.address, 2382)).await.unwrap();
        monitor.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let reading = monitor.read_to_string(&mut answer);
        tokio::time::timeout(PATIENCE, reading).await.unwrap().unwrap();
        assert!(answer.ends_with("ok\n"), "{answer}");
        drop(held);
    });
}
