//! What the simulated members know.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use proto::agent::{Identity, MemberRef};
use tokio::sync::watch;

use super::etcd::api;

/// What all members share.
#[derive(Default)]
pub(super) struct Members {
    clusters: Mutex<HashMap<String, Arc<Cluster>>>,
    links: AtomicUsize,
}

impl Members {
    /// The cluster of that UID, which begins without a member.
    pub(super) fn cluster(&self, uid: &str) -> Arc<Cluster> {
        lock(&self.clusters).entry(uid.to_owned()).or_default().clone()
    }

    pub(super) fn links(&self) -> usize {
        self.links.load(Ordering::Relaxed)
    }

    pub(super) fn link_up(self: &Arc<Self>) -> LinkGuard {
        self.links.fetch_add(1, Ordering::Relaxed);
        LinkGuard(self.clone())
    }
}

/// Counts a link while it lives.
pub(super) struct LinkGuard(Arc<Members>);

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.0.links.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One member: what its agent was told, and the cluster it is in.
pub(super) struct Member {
    pub(super) reference: MemberRef,
    pub(super) nonce: String,
    pub(super) peer_url: String,
    pub(super) client_url: String,
    pub(super) version: String,
    pub(super) cluster: Arc<Cluster>,
    pub(super) told: Mutex<Told>,
}

/// What an agent was told.
#[derive(Clone, Default)]
pub(super) struct Told {
    pub(super) directive: u64,
    pub(super) identity: Option<Identity>,
}

impl Member {
    /// etcd's ID of it, once it has started.
    pub(super) fn id(&self) -> Option<u64> {
        lock(&self.told).identity.as_ref().map(|identity| identity.member_id)
    }
}

/// One etcd cluster: its member list. The first member leads for ever.
pub(super) struct Cluster {
    list: Mutex<List>,
    /// Wakes the agents of its members.
    pub(super) changed: watch::Sender<u64>,
    /// Nobody of it answers.
    hung: watch::Sender<bool>,
}

/// A member list.
#[derive(Clone, Default)]
pub(super) struct List {
    pub(super) cluster_id: u64,
    pub(super) leader: u64,
    pub(super) index: u64,
    pub(super) members: BTreeMap<u64, api::Member>,
}

impl Default for Cluster {
    fn default() -> Self {
        let (changed, _) = watch::channel(0);
        Self {
            list: Mutex::default(),
            changed,
            hung: watch::Sender::new(false),
        }
    }
}

impl Cluster {
    /// It hangs, or goes on.
    pub(super) fn hang(&self, hung: bool) {
        self.hung.send_replace(hung);
    }

    /// Returns when it answers: at once, unless it hangs.
    pub(super) async fn answers(&self) {
        // The sender lives as long as this does.
        let _ = self.hung.subscribe().wait_for(|hung| !*hung).await;
    }

    pub(super) fn list(&self) -> List {
        lock(&self.list).clone()
    }

    /// Changes the list as one entry of the log, and tells all agents.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut List) -> T) -> T {
        let result = {
            let mut list = lock(&self.list);
            list.index += 1;
            change(&mut list)
        };
        self.changed.send_modify(|version| *version += 1);
        result
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
