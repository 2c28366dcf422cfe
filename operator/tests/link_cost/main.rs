//! What a link costs the operator. The agents run in a process of their own, so that only our end is measured.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[allow(dead_code, reason = "shared with the tests of the links, which use all of it")]
#[path = "../links/fake.rs"]
mod fake;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use fake::{Fake, member, report, secret, target};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use operator::{
    agents::Links,
    pki::{Authority, Bundle},
};
use proto::agent::{DataDirectory, Etcd, Identity, Process};

const LINKS: usize = 300;
/// About 40 are taken: 16 KiB (touched in part) and 8 KiB by the HTTP/2 codec for writing and reading, 8 KiB by the
/// connection's task with its TLS state, 4 KiB each by the header decoder and by TLS for reading. The rest is leeway for
/// the allocator.
const LIMIT_KIB: usize = 64;

#[test]
fn a_link_takes_little_memory_and_less_processor_time() {
    let now = Timestamp::now();
    let bundle = Bundle::generate(now).unwrap();
    let (mut agents, addresses) = start_agents(&bundle);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (links, _changes) = Links::new(Arc::new(Authority::new(bundle, now).unwrap()));
        // What the first links bring (threads, pages of code) is not the links' own.
        let (first, rest) = addresses.split_at(10);
        ensure(&links, first, 0);
        connected(&links, 10).await;
        let before = resident_kib();
        let start = Instant::now();
        ensure(&links, rest, 10);
        connected(&links, LINKS).await;
        let dialled = start.elapsed();
        let each = resident_kib().saturating_sub(before) / (LINKS - 10);

        let (busy, idle_since) = (processor_time(), Instant::now());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let busy = processor_time().saturating_sub(busy).as_secs_f64() / idle_since.elapsed().as_secs_f64();
        let per_thousand = busy * 100.0 / f64::from(u32::try_from(LINKS).unwrap()) * 1000.0;
        println!("{LINKS} links: {each} KiB each, {per_thousand:.1} % of a core for 1000, all up in {dialled:?}");
        assert!(each <= LIMIT_KIB, "a link takes {each} KiB");
    });
    agents.kill().unwrap();
    agents.wait().unwrap();
}

fn ensure(links: &Links, addresses: &[SocketAddr], first: usize) {
    for (n, address) in addresses.iter().enumerate() {
        links.ensure(member(&name(first + n)), target(*address));
    }
}

async fn connected(links: &Links, wanted: usize) {
    let start = Instant::now();
    while links.counts().connected < wanted {
        assert!(start.elapsed() < Duration::from_mins(1), "{:?}", links.counts());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn name(n: usize) -> String {
    format!("demo-{n:05}")
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// User and system time of this process, in the kernel's ticks of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

const BUNDLE: &str = "LINK_COST_BUNDLE";

/// Runs [`agents_process`] and learns their addresses.
fn start_agents(bundle: &Bundle) -> (Child, Vec<SocketAddr>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["agents_process", "--exact", "--ignored", "--nocapture"])
        .env(BUNDLE, serde_json::to_string(&bundle.to_data()).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let addresses: Vec<SocketAddr> = lines
        .map_while(Result::ok)
        .filter_map(|line| line.parse().ok())
        .take(LINKS)
        .collect();
    assert_eq!(addresses.len(), LINKS);
    (child, addresses)
}

#[test]
#[ignore = "the other process of the test above"]
fn agents_process() {
    let Ok(data) = std::env::var(BUNDLE) else { return };
    let data: BTreeMap<String, ByteString> = serde_json::from_str(&data).unwrap();
    let bundle = Bundle::from_secret(&Secret {
        data: Some(data),
        ..Secret::default()
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let agents: Vec<Fake> = (0..LINKS)
        .map(|n| {
            let any = "127.0.0.1:0".parse().unwrap();
            Fake::on(runtime.handle(), any, &secret(&bundle, &name(n)), &name(n))
        })
        .collect();
    for agent in &agents {
        println!("{}", agent.address);
    }
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    // What a real member says.
    for (n, agent) in agents.iter().enumerate() {
        let mut full = report(&name(n), "0123456789abcdef0123456789abcdef");
        full.data_directory = Some(DataDirectory {
            identity: Some(Identity {
                token: "ns-demo-0123456789".into(),
                ..Identity::default()
            }),
            ..full.data_directory.unwrap_or_default()
        });
        full.process = Some(Process {
            etcd_version: "3.6.16".into(),
            ..Process::default()
        });
        full.etcd = Some(Etcd {
            version: "3.6.16".into(),
            ..Etcd::default()
        });
        agent.try_say(full);
    }
    std::thread::sleep(Duration::from_mins(2));
}
