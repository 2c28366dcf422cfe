//! One controller a kind: what is watched, what is gathered, what is written back.

use std::sync::Arc;

use kube::runtime::events::Recorder;

use crate::{agents::Links, leader::Validity, metrics::Metrics, pki::Authority, rbac, settings::Settings};

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

/// Runs every controller until `shutdown` is true. Called only while the lease is held.
pub async fn run(mut context: Context) -> anyhow::Result<()> {
    context.shutdown.wait_for(|stop| *stop).await?;
    Ok(())
}
