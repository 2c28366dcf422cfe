//! What a watch has told, and what our own writes were answered with, by cluster: whichever is newer.
//!
//! A watch lags behind our own writes; the answer to a write is put in here at once, so that the next pass sees it. A
//! late answer never brings an object back whose deletion the watch has told already.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, PoisonError, RwLock},
};

/// Namespace and name of an `EtcdCluster`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClusterKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One object: which cluster it belongs to, and what is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Item<T> {
    /// Its cluster.
    pub cluster: ClusterKey,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `resourceVersion`, which rises with each change.
    pub version: u64,
    /// What is kept.
    pub value: Arc<T>,
}

/// All objects of one kind.
#[derive(Debug)]
pub(super) struct Mirror<T> {
    inner: RwLock<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    clusters: HashMap<ClusterKey, BTreeMap<String, Item<T>>>,
    /// UIDs whose deletion was told lately, the newest last.
    gone: VecDeque<String>,
    gone_set: HashSet<String>,
    /// UIDs put in since the listing that is under way began.
    since_listing: Option<HashSet<String>>,
}

/// More than the writes that can be under way at any moment.
const REMEMBERED_DELETIONS: usize = 4096;

impl<T> Default for Mirror<T> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                clusters: HashMap::new(),
                gone: VecDeque::new(),
                gone_set: HashSet::new(),
                since_listing: None,
            }),
        }
    }
}

impl<T> Mirror<T> {
    /// The answer to a write of ours: taken in, unless a newer state of the object is here or it is known to be gone.
    pub(super) fn put(&self, item: Item<T>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if !inner.gone_set.contains(&item.uid) {
            inner.insert(item);
        }
    }

    /// The watch's word: taken in, unless a newer state is here. It comes in order, so an object that it tells of is not
    /// gone: it had only left the selection for a while. True: it was news.
    pub(super) fn take(&self, item: Item<T>) -> bool {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.gone_set.remove(&item.uid);
        inner.insert(item)
    }

    /// A listing begins.
    pub(super) fn listing(&self) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.since_listing = Some(HashSet::new());
    }

    /// The watch has told that the object is gone.
    pub(super) fn remove(&self, cluster: &ClusterKey, name: &str, uid: &str) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.remember(uid);
        let Some(objects) = inner.clusters.get_mut(cluster) else {
            return;
        };
        if objects.get(name).is_some_and(|held| held.uid == uid) {
            objects.remove(name);
        }
        if objects.is_empty() {
            inner.clusters.remove(cluster);
        }
    }

    /// A fresh listing of everything. Returns the clusters that something was or is known of.
    ///
    /// What we wrote while it was made may be newer than it, and is kept: a decision may rest on its absence.
    pub(super) fn replace(&self, items: Vec<Item<T>>) -> HashSet<ClusterKey> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let mut touched: HashSet<ClusterKey> = inner.clusters.keys().cloned().collect();
        let mut clusters: HashMap<ClusterKey, BTreeMap<String, Item<T>>> = HashMap::new();
        for item in items {
            touched.insert(item.cluster.clone());
            clusters
                .entry(item.cluster.clone())
                .or_default()
                .insert(item.name.clone(), item);
        }
        let newest = clusters
            .values()
            .flat_map(BTreeMap::values)
            .map(|item| item.version)
            .max()
            .unwrap_or(0);
        let written = inner.since_listing.take().unwrap_or_default();
        let former = std::mem::take(&mut inner.clusters);
        for item in former.into_values().flat_map(BTreeMap::into_values) {
            if written.contains(&item.uid) && item.version > newest {
                clusters
                    .entry(item.cluster.clone())
                    .or_default()
                    .insert(item.name.clone(), item);
            }
        }
        inner.clusters = clusters;
        touched
    }

    /// The objects of a cluster, by name.
    pub(super) fn of(&self, cluster: &ClusterKey) -> Vec<Item<T>>
    where
        Item<T>: Clone,
    {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner
            .clusters
            .get(cluster)
            .map(|objects| objects.values().cloned().collect())
            .unwrap_or_default()
    }

    /// One object of a cluster.
    pub(super) fn get(&self, cluster: &ClusterKey, name: &str) -> Option<Arc<T>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner
            .clusters
            .get(cluster)?
            .get(name)
            .map(|item| Arc::clone(&item.value))
    }

    /// Looks at every object.
    pub(super) fn each(&self, mut look: impl FnMut(&Item<T>)) {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.clusters.values().flat_map(BTreeMap::values).for_each(&mut look);
    }

    /// Clusters with an object of that kind.
    pub(super) fn clusters_where(&self, mut is: impl FnMut(&T) -> bool) -> HashSet<ClusterKey> {
        let mut clusters = HashSet::new();
        self.each(|item| {
            if is(&item.value) {
                clusters.insert(item.cluster.clone());
            }
        });
        clusters
    }

    /// Every cluster that something is known of.
    pub(super) fn clusters(&self) -> Vec<ClusterKey> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.clusters.keys().cloned().collect()
    }
}

impl<T> Inner<T> {
    fn insert(&mut self, item: Item<T>) -> bool {
        let objects = self.clusters.entry(item.cluster.clone()).or_default();
        if objects.get(&item.name).is_some_and(|held| held.version >= item.version) {
            return false;
        }
        if let Some(written) = &mut self.since_listing {
            written.insert(item.uid.clone());
        }
        objects.insert(item.name.clone(), item);
        true
    }

    fn remember(&mut self, uid: &str) {
        if !self.gone_set.insert(uid.to_owned()) {
            return;
        }
        self.gone.push_back(uid.to_owned());
        if self.gone.len() > REMEMBERED_DELETIONS
            && let Some(oldest) = self.gone.pop_front()
        {
            self.gone_set.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ClusterKey {
        ClusterKey {
            namespace: "ns".into(),
            name: "c".into(),
        }
    }

    fn item(uid: &str, version: u64) -> Item<u64> {
        Item {
            cluster: key(),
            name: "a".into(),
            uid: uid.into(),
            version,
            value: Arc::new(version),
        }
    }

    #[test]
    fn the_newer_of_watch_and_own_write_is_kept() {
        let mirror = Mirror::default();
        mirror.put(item("1", 5));
        assert!(!mirror.take(item("1", 4)));
        assert!(!mirror.take(item("1", 5)));
        assert_eq!(mirror.get(&key(), "a").as_deref(), Some(&5));
        assert!(mirror.take(item("1", 6)));
        mirror.put(item("1", 5));
        assert_eq!(mirror.get(&key(), "a").as_deref(), Some(&6));
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_is_gone() {
        let mirror = Mirror::default();
        mirror.put(item("1", 5));
        mirror.remove(&key(), "a", "1");
        mirror.put(item("1", 6));
        assert!(mirror.of(&key()).is_empty());
        mirror.put(item("2", 7));
        assert_eq!(mirror.get(&key(), "a").as_deref(), Some(&7));
    }

    #[test]
    fn an_object_whose_label_went_and_came_back_is_seen_again() {
        let mirror = Mirror::default();
        mirror.put(item("1", 5));
        mirror.remove(&key(), "a", "1");
        assert!(mirror.take(item("1", 7)));
        mirror.put(item("1", 8));
        assert_eq!(mirror.get(&key(), "a").as_deref(), Some(&8));
    }

    #[test]
    fn what_was_written_while_a_listing_was_made_is_kept() {
        let mirror = Mirror::default();
        let listed = |version| Item {
            name: "listed".into(),
            ..item("3", version)
        };
        mirror.put(item("before", 4));
        mirror.listing();
        mirror.put(Item {
            name: "made".into(),
            ..item("2", 11)
        });
        mirror.put(listed(12));
        mirror.replace(vec![listed(10)]);
        let names: Vec<_> = mirror
            .of(&key())
            .into_iter()
            .map(|item| (item.name, item.version))
            .collect();
        assert_eq!(names, [("listed".to_owned(), 12), ("made".to_owned(), 11)]);
        // The next listing does not have it: it is gone.
        mirror.listing();
        mirror.replace(vec![listed(20)]);
        assert_eq!(mirror.of(&key()).len(), 1);
    }

    #[test]
    fn deletion_of_a_former_object_leaves_its_successor() {
        let mirror = Mirror::default();
        mirror.put(item("2", 7));
        mirror.remove(&key(), "a", "1");
        assert_eq!(mirror.get(&key(), "a").as_deref(), Some(&7));
    }

    #[test]
    fn a_new_listing_drops_what_is_gone_and_names_the_clusters_to_look_at() {
        let mirror = Mirror::default();
        let elsewhere = ClusterKey {
            namespace: "ns".into(),
            name: "other".into(),
        };
        mirror.put(Item {
            cluster: elsewhere.clone(),
            ..item("1", 30)
        });
        let touched = mirror.replace(vec![Item {
            name: "listed".into(),
            ..item("3", 10)
        }]);
        assert_eq!(touched, HashSet::from([key(), elsewhere.clone()]));
        assert!(mirror.of(&elsewhere).is_empty());
        assert_eq!(mirror.of(&key()).len(), 1);
    }
}
