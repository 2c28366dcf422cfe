//! What is known of each cluster, as numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::agents::ClusterKey;

/// One cluster, as its last look saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// Voters of etcd's list.
    pub voters: usize,
    /// Those of them that serve and know a leader.
    pub healthy: usize,
    /// A quorum serves. `None`: not known at the moment; what was known last is shown.
    pub has_quorum: Option<bool>,
    /// The number of members that is worked on.
    pub target: usize,
    /// Kills of etcd for memory, of all members that there are.
    pub oom_kills: u64,
    /// Since when the agent is not heard that has not been heard for longest; `None` when all are.
    pub unheard_since: Option<Timestamp>,
    /// Reasons of what is being waited for.
    pub waits: BTreeSet<&'static str>,
}

/// All clusters, shared with whoever shows them.
#[derive(Clone, Debug, Default)]
pub(super) struct Clusters(Arc<Mutex<BTreeMap<ClusterKey, Seen>>>);

#[derive(Clone, Debug)]
struct Seen {
    at: Timestamp,
    state: ClusterState,
}

impl Clusters {
    /// A look has ended whose facts are of that time.
    pub(super) fn seen(&self, key: ClusterKey, at: Timestamp, mut state: ClusterState) {
        let mut clusters = self.lock();
        state.has_quorum = state
            .has_quorum
            .or_else(|| clusters.get(&key).and_then(|before| before.state.has_quorum));
        clusters.insert(key, Seen { at, state });
    }

    /// The cluster is gone.
    pub(super) fn forget(&self, key: &ClusterKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterKey, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all of it.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder, now: Timestamp) -> fmt::Result {
        let clusters = self.lock().clone();
        for (name, help, read) in GAUGES {
            let mut values = clusters
                .iter()
                .filter_map(|(key, seen)| Some((key, read(seen, now)?)))
                .peekable();
            // A family without values is no news, and some readers do not understand it.
            if values.peek().is_none() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (key, value) in values {
                encode(&mut family, key, value)?;
            }
        }
        let mut waits: BTreeMap<&'static str, u64> = BTreeMap::new();
        for reason in clusters.values().flat_map(|seen| &seen.state.waits) {
            *waits.entry(reason).or_default() += 1;
        }
        if waits.is_empty() {
            return Ok(());
        }
        let help = "Clusters that wait for something, by what it is";
        let mut family = encoder.encode_descriptor("waits", help, None, MetricType::Gauge)?;
        for (reason, count) in waits {
            gauge(count).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}

fn encode(family: &mut MetricEncoder, key: &ClusterKey, value: u64) -> fmt::Result {
    let labels = [("namespace", key.namespace.as_str()), ("cluster", key.name.as_str())];
    gauge(value).encode(family.encode_family(&labels)?)
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

type Gauge = (&'static str, &'static str, fn(&Seen, Timestamp) -> Option<u64>);

const GAUGES: [Gauge; 7] = [
    ("cluster_voters", "Members that vote", |seen, _| {
        count(seen.state.voters)
    }),
    (
        "cluster_healthy_voters",
        "Voters that serve and know a leader",
        |seen, _| count(seen.state.healthy),
    ),
    ("cluster_has_quorum", "1 while a quorum of voters serves", |seen, _| {
        seen.state.has_quorum.map(u64::from)
    }),
    ("cluster_target_members", "Members that are wanted", |seen, _| {
        count(seen.state.target)
    }),
    (
        "cluster_oom_kills",
        "Kills of etcd for memory, of all members that there are",
        |seen, _| Some(seen.state.oom_kills),
    ),
    (
        "cluster_facts_age_seconds",
        "Time since the cluster was last looked at",
        |seen, now| Some(seconds(seen.at, now)),
    ),
    (
        "cluster_unheard_seconds",
        "Time for which the agent of a member has not been heard, the longest; 0 when all are heard",
        |seen, now| Some(seen.state.unheard_since.map_or(0, |since| seconds(since, now))),
    ),
];

fn count(number: usize) -> Option<u64> {
    u64::try_from(number).ok()
}

fn seconds(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(since).as_secs()).unwrap_or(0)
}
