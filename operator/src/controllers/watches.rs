//! The watches that fill the mirrors and wake clusters.

use std::{collections::HashSet, fmt::Debug, sync::Arc, time::Duration};

use crds::{EtcdCluster, EtcdMember, EtcdRecovery};
use futures::TryStreamExt;
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod, Service},
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinSet};

use super::{
    cache::{self, Cache},
    mirror::{Item, Mirror},
    nodes,
    queue::Queue,
};

/// Objects listed in one answer.
const PAGE: u32 = 250;

/// Without these no pass is made: that one of them is absent must mean that it is not there.
const NEEDED: [&str; 6] = [
    EtcdCluster::KIND,
    EtcdMember::KIND,
    EtcdRecovery::KIND,
    Pod::KIND,
    PersistentVolumeClaim::KIND,
    Service::KIND,
];
/// Worth a moment, so that nothing is made again for want of a listing; worth no more: one permission that is missing
/// must not stop every cluster.
const WANTED: [&str; 2] = [PodDisruptionBudget::KIND, EndpointSlice::KIND];
/// That moment.
const MOMENT: Duration = Duration::from_secs(2);

/// Starts all watches. They end with the returned set. The receiver counts kinds that have been listed.
pub(super) fn start(
    client: &Client,
    namespace: Option<&str>,
    cache: &Arc<Cache>,
    queue: &Queue,
) -> (JoinSet<()>, Listed) {
    let (listed, receiver) = watch::channel(HashSet::new());
    let mut tasks = JoinSet::new();
    let ours = watcher::Config::default()
        .labels(&format!(
            "{}={}",
            crds::labels::MANAGED_BY,
            crds::labels::MANAGED_BY_VALUE
        ))
        .page_size(PAGE);
    let all = watcher::Config::default().page_size(PAGE);
    let start = Start {
        client,
        namespace,
        cache,
        queue,
        listed: &listed,
    };
    tasks.spawn(nodes::watch(client.clone(), Arc::clone(cache), queue.clone(), PAGE));
    start.full::<EtcdCluster>(&mut tasks, all.clone(), |cache| &cache.clusters, cache::cluster);
    start.full::<EtcdMember>(&mut tasks, all.clone(), |cache| &cache.members, cache::member);
    start.full::<EtcdRecovery>(&mut tasks, all, |cache| &cache.recoveries, cache::recovery);
    start.full::<Pod>(&mut tasks, ours.clone(), |cache| &cache.pods, |pod| cache::pod(&pod));
    start.full::<Service>(&mut tasks, ours.clone(), |cache| &cache.services, cache::service);
    start.full::<PodDisruptionBudget>(&mut tasks, ours.clone(), |cache| &cache.budgets, cache::budget);
    start.full::<EndpointSlice>(&mut tasks, ours.clone(), |cache| &cache.names, cache::names);
    start.full::<PersistentVolumeClaim>(&mut tasks, ours, |cache| &cache.claims, |claim| cache::claim(&claim));
    (tasks, Listed { receiver })
}

/// Which kinds have been listed at least once.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    receiver: watch::Receiver<HashSet<&'static str>>,
}

impl Listed {
    /// Waits until enough is known for a pass.
    pub(super) async fn enough(&mut self) {
        self.have(&NEEDED).await;
        let _some_are_missing = tokio::time::timeout(MOMENT, self.have(&WANTED)).await;
    }

    async fn have(&mut self, needed: &[&str]) {
        // The sender lives as long as the watches do.
        let _ = self
            .receiver
            .wait_for(|kinds| needed.iter().all(|kind| kinds.contains(kind)))
            .await;
    }
}

struct Start<'s> {
    client: &'s Client,
    namespace: Option<&'s str>,
    cache: &'s Arc<Cache>,
    queue: &'s Queue,
    listed: &'s watch::Sender<HashSet<&'static str>>,
}

impl Start<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        match self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn full<K>(
        &self,
        tasks: &mut JoinSet<()>,
        config: watcher::Config,
        mirror: MirrorOf<K::Kept>,
        convert: fn(K) -> Option<Item<K::Kept>>,
    ) where
        K: Watched + Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let stream = watcher::watcher(self.api::<K>(), config).default_backoff();
        let sink = Sink::new(self, mirror, K::KIND);
        tasks.spawn(async move {
            let mut sink = sink;
            let mut stream = std::pin::pin!(stream);
            loop {
                match stream.try_next().await {
                    Ok(Some(event)) => sink.take(event, convert),
                    Ok(None) => return,
                    Err(error) => sink.failed(&error),
                }
            }
        });
    }
}

/// A kind that is watched, and what is kept of it.
pub(super) trait Watched {
    /// What is kept.
    type Kept: Send + Sync + 'static;
    /// Its name.
    const KIND: &'static str;
}

macro_rules! watched {
    ($($kind:ident => $kept:ty),+ $(,)?) => {
        $(impl Watched for $kind {
            type Kept = $kept;
            const KIND: &'static str = stringify!($kind);
        })+
    };
}

watched! {
    EtcdCluster => EtcdCluster,
    EtcdMember => EtcdMember,
    EtcdRecovery => EtcdRecovery,
    Pod => cache::PodInfo,
    Service => Service,
    PodDisruptionBudget => PodDisruptionBudget,
    EndpointSlice => cache::Names,
    PersistentVolumeClaim => cache::ClaimInfo,
}

type MirrorOf<T> = fn(&Cache) -> &Mirror<T>;

/// Where the events of one kind go.
struct Sink<T> {
    kind: &'static str,
    cache: Arc<Cache>,
    mirror: MirrorOf<T>,
    queue: Queue,
    listed: watch::Sender<HashSet<&'static str>>,
    listing: Vec<Item<T>>,
    broken: bool,
}

impl<T> Sink<T> {
    fn new(start: &Start, mirror: MirrorOf<T>, kind: &'static str) -> Self {
        Self {
            kind,
            cache: Arc::clone(start.cache),
            mirror,
            queue: start.queue.clone(),
            listed: start.listed.clone(),
            listing: Vec::new(),
            broken: false,
        }
    }

    fn take<K>(&mut self, event: Event<K>, convert: impl Fn(K) -> Option<Item<T>>) {
        self.broken = false;
        match event {
            Event::Init => {
                self.listing.clear();
                (self.mirror)(&self.cache).listing();
            }
            Event::InitApply(object) => self.listing.extend(convert(object)),
            Event::InitDone => {
                let touched = (self.mirror)(&self.cache).replace(std::mem::take(&mut self.listing));
                self.listed.send_if_modified(|kinds| kinds.insert(self.kind));
                for cluster in touched {
                    self.queue.wake(cluster);
                }
            }
            Event::Apply(object) => {
                let Some(item) = convert(object) else { return };
                let cluster = item.cluster.clone();
                if (self.mirror)(&self.cache).take(item) {
                    self.queue.wake(cluster);
                }
            }
            Event::Delete(object) => {
                let Some(item) = convert(object) else { return };
                (self.mirror)(&self.cache).remove(&item.cluster, &item.name, &item.uid);
                self.queue.wake(item.cluster);
            }
        }
    }

    /// The watcher goes on by itself; the first failure of a row is worth a line.
    fn failed(&mut self, error: &watcher::Error) {
        if !std::mem::replace(&mut self.broken, true) {
            tracing::warn!(kind = self.kind, %error, "the watch is broken and is tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn budgets_and_names_that_cannot_be_listed_do_not_stop_every_cluster() {
        let (listed, receiver) = watch::channel(HashSet::new());
        let mut waiting = Listed { receiver };
        let waiter = tokio::spawn(async move { waiting.enough().await });
        listed.send_modify(|kinds| kinds.extend(&NEEDED[1..]));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!waiter.is_finished());
        listed.send_modify(|kinds| kinds.extend(NEEDED));
        tokio::time::timeout(Duration::from_secs(3), waiter)
            .await
            .unwrap()
            .unwrap();
    }
}
