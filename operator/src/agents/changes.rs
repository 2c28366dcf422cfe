//! Which clusters have news from their agents: a set, so that a thousand reports of one cluster are one wake.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::ClusterKey;

#[derive(Debug, Default)]
struct Shared {
    dirty: Mutex<BTreeSet<ClusterKey>>,
    wake: Notify,
}

/// The sending end.
#[derive(Clone, Debug, Default)]
pub(super) struct Notifier(Arc<Shared>);

/// The receiving end: one consumer. It holds at most one entry a cluster.
#[derive(Debug)]
pub struct Changes(Arc<Shared>);

pub(super) fn changes() -> (Notifier, Changes) {
    let notifier = Notifier::default();
    let changes = Changes(Arc::clone(&notifier.0));
    (notifier, changes)
}

impl Notifier {
    pub(super) fn notify(&self, cluster: &ClusterKey) {
        let mut dirty = self.0.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if !dirty.contains(cluster) {
            dirty.insert(cluster.clone());
            drop(dirty);
            self.0.wake.notify_one();
        }
    }
}

impl Changes {
    /// The next cluster with news. May be dropped at any time without losing one.
    pub async fn next(&mut self) -> ClusterKey {
        loop {
            let first = self.0.dirty.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
            if let Some(cluster) = first {
                return cluster;
            }
            self.0.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn key(name: &str) -> ClusterKey {
        ClusterKey {
            namespace: "ns".into(),
            name: name.into(),
        }
    }

    #[tokio::test]
    async fn many_changes_of_one_cluster_are_one_wake() {
        let (notifier, mut changes) = changes();
        for _ in 0..1000 {
            notifier.notify(&key("a"));
        }
        notifier.notify(&key("b"));
        assert_eq!(changes.next().await, key("a"));
        assert_eq!(changes.next().await, key("b"));
        assert!(changes.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_change_while_the_last_one_is_worked_on_is_not_lost() {
        let (notifier, mut changes) = changes();
        notifier.notify(&key("a"));
        assert_eq!(changes.next().await, key("a"));
        notifier.notify(&key("a"));
        assert_eq!(changes.next().now_or_never(), Some(key("a")));
    }
}
