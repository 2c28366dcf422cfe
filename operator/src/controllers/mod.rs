//! What is watched, what is gathered, what is written back: I/O only. What to do is decided by [`crate::plan`].
//!
//! [`watches`] fill the mirrors of [`cache`] and wake clusters through [`queue`]; so do the links to the agents. For each
//! woken cluster [`cluster::pass`] observes, plans, executes and reports; one pass at a time for each cluster, and no
//! cluster waits for another.

mod api;
mod backoff;
mod cache;
mod cluster;
mod compare;
mod ending;
mod error;
mod events;
mod execute;
mod hashes;
mod links;
mod memory;
mod mirror;
mod nodes;
mod observe;
mod place;
mod pod;
mod queue;
mod remote;
mod report;
mod rollouts;
mod unimplemented;
mod watches;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::runtime::events::Recorder;
use tokio::sync::Semaphore;

use self::{cache::Cache, memory::Memory, mirror::ClusterKey, rollouts::Rollouts};
use crate::{
    agents::{Changes, Links},
    leader::Validity,
    metrics::Metrics,
    pki::Authority,
    rbac,
    settings::Settings,
};

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

/// What all passes share.
struct World {
    operator: Context,
    cache: Arc<Cache>,
    memories: Mutex<HashMap<ClusterKey, Arc<Mutex<Memory>>>>,
    /// Turns of clusters in a rollout.
    rollouts: Rollouts,
    /// Wakes clusters.
    queue: queue::Queue,
    /// Bounds the events under way.
    events: Arc<Semaphore>,
}

/// Events that are told at the same time.
const EVENTS: usize = 64;

impl World {
    /// The one place where passes read the clock.
    #[allow(clippy::unused_self, reason = "time belongs to the world that a pass sees")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// The memory of a cluster. It stays here during a pass, so one that ends by a panic loses nothing; passes of one
    /// cluster never overlap.
    fn memory(&self, key: &ClusterKey) -> Arc<Mutex<Memory>> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(memories.entry(key.clone()).or_default())
    }

    /// For so long etcd may still carry out a call that nobody has heard the answer to.
    fn open_for(&self) -> Duration {
        let now = self.now();
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |memory: &Arc<Mutex<Memory>>| {
            let memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            let unanswered = memory.unanswered.as_ref()?;
            Some(crate::plan::unanswered::settles_in(unanswered, now))
        };
        memories.values().filter_map(open).max().unwrap_or_default()
    }

    /// The cluster is gone: gives its memory out for the last time.
    fn forget(&self, key: &ClusterKey) -> Option<Arc<Mutex<Memory>>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

/// Runs every controller until `shutdown` is true; then no pass begins any more, and it returns once those under way have
/// ended. Says for how long nobody else may act yet, because etcd may still carry out a call of ours that got no answer.
/// Called only while the lease is held; `changes` tells which clusters have news from their agents.
pub async fn run(context: Context, mut changes: Changes) -> anyhow::Result<Duration> {
    let mut shutdown = context.shutdown.clone();
    let stop = async move {
        // An error: nobody is left who could tell.
        let _ = shutdown.wait_for(|stop| *stop).await;
    };
    let cache = Arc::new(Cache::default());
    let (queue, wakes) = queue::queue();
    let namespace = context.settings.watch_namespace.clone();
    let (_watches, mut listed) = watches::start(&context.client, namespace.as_deref(), &cache, &queue);
    let others = unimplemented::start(&context);
    let mut ca = context.ca.changes();
    let mut permissions = context.rbac.changes();
    let world = Arc::new(World {
        operator: context,
        cache: Arc::clone(&cache),
        memories: Mutex::default(),
        rollouts: Rollouts::default(),
        queue: queue.clone(),
        events: Arc::new(Semaphore::new(EVENTS)),
    });
    let ours = Arc::clone(&world);
    let passes = async {
        let mut stop = std::pin::pin!(stop);
        tokio::select! {
            () = listed.enough() => {}
            () = &mut stop => return,
        }
        queue::run(wakes, stop, move |key| {
            let world = Arc::clone(&world);
            async move { cluster::pass(&world, &key).await }
        })
        .await;
    };
    let news = async {
        loop {
            let cluster = changes.next().await;
            queue.wake(ClusterKey {
                namespace: cluster.namespace,
                name: cluster.name,
            });
        }
    };
    let everyone = || {
        cache
            .clusters
            .clusters()
            .into_iter()
            .for_each(|cluster| queue.wake(cluster));
    };
    // Each leads to other work in every cluster.
    let conditions = async {
        loop {
            let ended = tokio::select! {
                told = ca.changed() => told.is_err(),
                told = permissions.changed() => told.is_err(),
            };
            if ended {
                break;
            }
            everyone();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = passes => {}
        () = news => {}
        () = conditions => {}
    }
    drop(others);
    Ok(ours.open_for())
}
