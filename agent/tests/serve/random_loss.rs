//! Quorums lost at random moments under writes. Each run prints its seed; `RECOVERY_SEED` runs that one alone,
//! `RECOVERY_RUNS` says how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::support::cluster::keys;
use crate::support::net::Net;
use crate::support::pki::Ca;
use crate::support::pod::Pod;
use crate::support::quorum::{fenced, log, read_all, recover, three, wipe};
use crate::support::read::{nonce, serves};
use crate::support::test;

/// Numbers from a seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What clients were told.
#[derive(Default)]
struct Written {
    acknowledged: Vec<(String, Instant)>,
}

/// Writes until it is told to stop or its member is gone.
async fn write(pod_url: String, client: u64, written: Arc<Mutex<Written>>, stop: Arc<AtomicBool>) {
    let Ok(mut keys) = etcd_client::Client::connect([pod_url], None).await else {
        return;
    };
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("k{client}-{number:06}");
        let put = tokio::time::timeout(Duration::from_millis(500), keys.put(key.clone(), "v", None));
        if !matches!(put.await, Ok(Ok(_))) {
            return;
        }
        written.lock().await.acknowledged.push((key, Instant::now()));
    }
}

/// What the operator would know: the leader's commit index, and when it was reported.
async fn reported(pods: &[Pod; 3]) -> (u64, Instant) {
    loop {
        for pod in pods {
            let etcd = pod.link().await.status().await.etcd.unwrap_or_default();
            if etcd.leader != 0 && etcd.leader == etcd.member_id {
                return (etcd.commit_index, Instant::now());
            }
        }
    }
}

async fn run(net: &Net, ca: &Ca, seed: u64) {
    let mut chance = Chance(seed);
    let mut pods = three(net, ca, "3.6").await;
    let survivor = usize::try_from(chance.below(3)).unwrap();
    let one_disk_is_left = chance.below(2) == 0;
    let (written, stop) = (
        Arc::new(Mutex::new(Written::default())),
        Arc::new(AtomicBool::new(false)),
    );
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let url = pods[usize::try_from(client % 3).unwrap()].client_url();
            tokio::spawn(write(url, client, Arc::clone(&written), Arc::clone(&stop)))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200 + chance.below(600))).await;
    // Only puts are written from here to the loss, one entry and one revision each.
    let (known, known_at) = reported(&pods).await;
    tokio::time::sleep(Duration::from_millis(chance.below(400))).await;

    // All at the same moment or one after the other, the survivor among them or not.
    let order = chance.below(3);
    for number in 0..3 {
        let place = usize::try_from((order + number) % 3).unwrap();
        if place == survivor && chance.below(2) == 0 {
            continue;
        }
        pods[place].kill_container();
        tokio::time::sleep(Duration::from_millis(chance.below(30))).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    // Disks: two are lost, or one.
    let gone: Vec<usize> = (0..3)
        .filter(|place| *place != survivor)
        .take(if one_disk_is_left { 2 } else { 1 })
        .collect();
    for (place, pod) in pods.iter_mut().enumerate() {
        if gone.contains(&place) {
            wipe(pod);
        } else {
            pod.kill_container();
            pod.start_container();
        }
    }
    // The others are fenced first; the longest log is the one to go on with.
    let mut ends = Vec::new();
    for (place, pod) in pods.iter().enumerate().filter(|(place, _)| !gone.contains(place)) {
        let report = fenced(&pod.link().await, 2).await;
        let end = log(&report).unwrap();
        ends.push(((end.term, end.index), place, nonce(&report)));
    }
    ends.sort_unstable();
    let (end, best, directory) = ends.pop().unwrap();
    let chosen = &pods[best];
    let operator = chosen.link().await;
    operator
        .direct(3, 2, &directory, recover(chosen, "t-2", 'b'))
        .await
        .unwrap();
    let after = operator.until("the new history serves", serves).await;
    let recovery = after.recovery.unwrap();
    assert_eq!(
        (recovery.last_term, recovery.last_index),
        end,
        "seed {seed}: the whole log is kept"
    );
    let there: std::collections::HashSet<String> = read_all(chosen).await.into_iter().collect();
    let acknowledged = std::mem::take(&mut written.lock().await.acknowledged);
    let lost: Vec<_> = acknowledged.iter().filter(|(key, _)| !there.contains(key)).collect();
    println!(
        "seed {seed}: {} acknowledged, {} lost, disks lost {}, log to {:?}, reported {known}",
        acknowledged.len(),
        lost.len(),
        gone.len(),
        end
    );
    // Each put of the log is there: no entry of it is dropped, acknowledged or not.
    let mut client = keys(chosen).await;
    let revision = client.get("none", None).await.unwrap().header().unwrap().revision();
    assert_eq!(i64::try_from(there.len()).unwrap() + 1, revision, "seed {seed}");
    if !one_disk_is_left {
        assert!(
            lost.is_empty(),
            "seed {seed}: a majority's disks are there, and {lost:?} is lost"
        );
    }
    // The bound that a status gives: what was acknowledged before a leader had told of no more than this log holds is
    // there.
    if end.1 >= known {
        let early = lost.iter().find(|(_, at)| *at < known_at);
        assert!(
            early.is_none(),
            "seed {seed}: {early:?} was acknowledged before the report"
        );
    }
}

#[test]
fn no_write_that_a_surviving_log_holds_is_lost_at_any_moment() {
    let one = std::env::var("RECOVERY_SEED").ok().and_then(|seed| seed.parse().ok());
    let runs: u64 = std::env::var("RECOVERY_RUNS")
        .ok()
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(4);
    let first = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let seeds = one.map_or_else(|| (first..first + runs).collect(), |seed| vec![seed]);
    for seed in seeds {
        test::run(async |net, ca| Box::pin(run(&net, &ca, seed)).await);
    }
}
