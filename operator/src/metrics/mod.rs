//! The operator's metrics, in Prometheus' text format.

mod clusters;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::ConstGauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

pub use self::clusters::ClusterState;
use self::clusters::Clusters;
use crate::{
    agents::{ClusterKey, Links},
    leader::Validity,
    rbac,
};

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values are lower case")]
enum Outcome {
    ok,
    error,
}

impl From<bool> for Outcome {
    fn from(ok: bool) -> Self {
        if ok { Self::ok } else { Self::error }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    step: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    class: &'static str,
}

/// What comparing members has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values are lower case")]
enum Comparison {
    equal,
    different,
    incomplete,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ComparisonLabels {
    result: Comparison,
}

/// All metric families of what the controllers do.
#[derive(Clone, Debug)]
pub struct Metrics {
    passes: Family<PassLabels, Counter>,
    pass_seconds: Histogram,
    steps: Family<StepLabels, Counter>,
    step_seconds: Family<KindLabels, Histogram, fn() -> Histogram>,
    errors: Family<ErrorLabels, Counter>,
    clusters: Clusters,
    comparisons: Family<ComparisonLabels, Counter>,
}

/// 1 ms to 8 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 14))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            passes: Family::default(),
            pass_seconds: seconds(),
            steps: Family::default(),
            step_seconds: Family::new_with_constructor(seconds),
            errors: Family::default(),
            clusters: Clusters::default(),
            comparisons: Family::default(),
        }
    }
}

impl Metrics {
    /// One look at one cluster has ended.
    pub fn pass(&self, took: Duration, ok: bool) {
        self.passes.get_or_create(&PassLabels { outcome: ok.into() }).inc();
        self.pass_seconds.observe(took.as_secs_f64());
    }

    /// The data of a cluster's members have been compared.
    pub fn comparison(&self, all_answered: bool, differ: bool) {
        let result = match (differ, all_answered) {
            (true, _) => Comparison::different,
            (false, true) => Comparison::equal,
            (false, false) => Comparison::incomplete,
        };
        self.comparisons.get_or_create(&ComparisonLabels { result }).inc();
    }

    /// A step of a plan has been carried out, or has failed. `step` is one of a fixed set of names.
    pub fn step(&self, step: &'static str, took: Duration, ok: bool) {
        self.steps
            .get_or_create(&StepLabels {
                step,
                outcome: ok.into(),
            })
            .inc();
        self.step_seconds
            .get_or_create(&KindLabels { step })
            .observe(took.as_secs_f64());
    }

    /// Something went wrong in a pass. `class` is one of a fixed set of names.
    pub fn error(&self, class: &'static str) {
        self.errors.get_or_create(&ErrorLabels { class }).inc();
    }

    /// A look at one cluster has ended; its facts are of that time.
    pub fn cluster(&self, key: ClusterKey, at: Timestamp, state: ClusterState) {
        self.clusters.seen(key, at, state);
    }

    /// The cluster is gone, and so is what was told of it.
    pub fn forget(&self, key: &ClusterKey) {
        self.clusters.forget(key);
    }
}

/// What is asked of other parts at each scrape.
pub struct Sources {
    /// The links to agents, once there are any.
    pub links: Arc<OnceLock<Links>>,
    /// Our turn as the leader.
    pub lease: Arc<Validity>,
    /// Missing permissions.
    pub rbac: Arc<rbac::Report>,
}

/// The registry that `/metrics` shows.
#[must_use]
pub fn registry(metrics: &Metrics, sources: Sources) -> Registry {
    let mut registry = Registry::with_prefix("etcd_operator");
    let Metrics {
        passes,
        pass_seconds,
        steps,
        step_seconds,
        errors,
        clusters,
        comparisons,
    } = metrics.clone();
    registry.register(
        "build",
        "Version of the operator",
        Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
    );
    registry.register("passes", "Looks at a cluster that have ended", passes);
    registry.register(
        "pass_duration_seconds",
        "How long one look at a cluster takes",
        pass_seconds,
    );
    registry.register("steps", "Steps of plans that were carried out or failed", steps);
    registry.register("step_duration_seconds", "How long steps take", step_seconds);
    registry.register("errors", "What went wrong in looks at clusters, by class", errors);
    registry.register_collector(Box::new(clusters));
    registry.register(
        "hash_comparisons",
        "Comparisons of the data of a cluster's members",
        comparisons,
    );
    registry.register_collector(Box::new(sources));
    registry
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

impl Collector for Clusters {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        Self::encode(self, &mut encoder, Timestamp::now())
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Self { links, lease, rbac } = self;
        let leader = ConstGauge::new(i64::from(lease.is_held()));
        let kind = leader.metric_type();
        leader.encode(encoder.encode_descriptor("leader", "1 while this replica acts", None, kind)?)?;

        let counts = links.get().map(Links::counts).unwrap_or_default();
        let help = "Links to agents, by whether they are up";
        let mut family = encoder.encode_descriptor("agent_links", help, None, kind)?;
        for (state, count) in [("up", counts.connected), ("down", counts.all - counts.connected)] {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&[("state", state)])?)?;
        }

        let help = "1 for each permission that the operator needs and does not have";
        let mut family = encoder.encode_descriptor("missing_permission", help, None, kind)?;
        for verb in rbac.missing().iter() {
            let labels = [("permission", verb.to_string())];
            ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::pki::{Authority, Bundle};

    #[test]
    fn a_scrape_shows_the_leader_the_links_and_what_was_done() {
        let now = "2026-06-01T12:00:00Z".parse().unwrap();
        let authority = Authority::new(Bundle::generate(now).unwrap(), now).unwrap();
        let metrics = Metrics::default();
        metrics.pass(Duration::from_millis(3), true);
        metrics.step("AddLearner", Duration::from_millis(5), false);
        metrics.error("EtcdRefused");
        let cluster = |name: &str| ClusterKey {
            namespace: "ns".into(),
            name: name.into(),
        };
        let state = ClusterState {
            voters: 3,
            healthy: 2,
            has_quorum: Some(true),
            target: 5,
            oom_kills: 1,
            unheard_since: Some(Timestamp::now() - jiff::SignedDuration::from_secs(100)),
            waits: ["Unschedulable", "PodStarting"].into(),
        };
        let earlier = Timestamp::now() - jiff::SignedDuration::from_secs(60);
        metrics.cluster(cluster("c"), earlier, state.clone());
        metrics.cluster(cluster("gone"), earlier, state.clone());
        metrics.forget(&cluster("gone"));
        // A moment in which nothing is known of the quorum is not its end.
        let unknown = ClusterState {
            has_quorum: None,
            ..state
        };
        metrics.cluster(cluster("c"), earlier, unknown);
        let sources = Sources {
            links: Arc::new(Links::new(Arc::new(authority)).0.into()),
            lease: Arc::new(Validity::always()),
            rbac: Arc::default(),
        };
        let mut text = String::new();
        encode(&mut text, &registry(&metrics, sources)).unwrap();
        for line in [
            "etcd_operator_leader 1",
            "etcd_operator_agent_links{state=\"up\"} 0",
            "etcd_operator_passes_total{outcome=\"ok\"} 1",
            "etcd_operator_steps_total{step=\"AddLearner\",outcome=\"error\"} 1",
            "etcd_operator_pass_duration_seconds_count 1",
            "etcd_operator_step_duration_seconds_count{step=\"AddLearner\"} 1",
            "etcd_operator_errors_total{class=\"EtcdRefused\"} 1",
            "etcd_operator_cluster_voters{namespace=\"ns\",cluster=\"c\"} 3",
            "etcd_operator_cluster_healthy_voters{namespace=\"ns\",cluster=\"c\"} 2",
            "etcd_operator_cluster_has_quorum{namespace=\"ns\",cluster=\"c\"} 1",
            "etcd_operator_cluster_target_members{namespace=\"ns\",cluster=\"c\"} 5",
            "etcd_operator_cluster_oom_kills{namespace=\"ns\",cluster=\"c\"} 1",
            "etcd_operator_waits{reason=\"Unschedulable\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
        }
        let value = |metric: &str| -> u64 {
            let line = text.lines().find(|line| line.starts_with(metric)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("etcd_operator_cluster_facts_age_seconds{") >= 60);
        assert!(value("etcd_operator_cluster_unheard_seconds{") >= 100);
        assert!(!text.contains("cluster=\"gone\""), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
