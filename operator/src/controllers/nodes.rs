//! Nodes, cut down to what decides whether a member's place is gone: is a node there, is it ready, and which volumes can it
//! have. Filled by a watch of its own: nodes belong to no cluster.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Node as Object, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};

use super::{cache::Cache, queue::Queue};
use crate::plan::place::{Node, Volume};

/// A person says by this taint that nothing runs on a node any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The field of a node that a volume can ask for.
const NAME_FIELD: &str = "metadata.name";

/// What is kept of a node.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    state: Node,
    labels: BTreeMap<String, String>,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// `None` before the first listing: nothing is concluded from what is not there.
    all: Option<HashMap<String, Kept>>,
    listing: HashMap<String, Kept>,
    /// Nodes that Pods name and that are not there: when that was noticed.
    gone: HashMap<String, Timestamp>,
}

impl Nodes {
    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node of that name.
    #[must_use]
    pub(super) fn state(&self, name: &str, now: Timestamp) -> Node {
        self.with(|inner| {
            let Some(all) = &inner.all else { return Node::Unknown };
            match all.get(name) {
                Some(kept) => kept.state,
                None => Node::Gone {
                    since: *inner.gone.entry(name.to_owned()).or_insert(now),
                },
            }
        })
    }

    /// Can a node that is ready have a volume with this affinity?
    #[must_use]
    pub(super) fn volume(&self, affinity: Option<&NodeSelector>) -> Volume {
        self.with(|inner| {
            let Some(all) = &inner.all else { return Volume::Unknown };
            let fits = |(name, kept): (&String, &Kept)| {
                kept.state == Node::Ready && affinity.is_none_or(|affinity| selects(affinity, name, &kept.labels))
            };
            if all.iter().any(fits) {
                Volume::Movable
            } else {
                Volume::Stranded
            }
        })
    }

    /// Takes an event of the watch. Names of nodes whose state is another one now.
    fn take(&self, event: Event<Object>) -> Vec<String> {
        self.with(|inner| match event {
            Event::Init => {
                inner.listing.clear();
                Vec::new()
            }
            Event::InitApply(node) => {
                inner.listing.insert(node.name_any(), keep(&node));
                Vec::new()
            }
            Event::InitDone => {
                let new = std::mem::take(&mut inner.listing);
                let old = inner.all.replace(new).unwrap_or_default();
                let all = inner.all.as_ref();
                let state = |name: &String| all.and_then(|all| all.get(name)).map(|kept| kept.state);
                inner.gone.retain(|name, _| state(name).is_none());
                let names: std::collections::BTreeSet<&String> =
                    old.keys().chain(all.into_iter().flat_map(HashMap::keys)).collect();
                names
                    .into_iter()
                    .filter(|name| state(name) != old.get(*name).map(|kept| kept.state))
                    .cloned()
                    .collect()
            }
            Event::Apply(node) => {
                let (name, kept) = (node.name_any(), keep(&node));
                let state = kept.state;
                inner.gone.remove(&name);
                let before = inner.all.get_or_insert_default().insert(name.clone(), kept);
                let news = before.is_none_or(|before| before.state != state);
                news.then_some(name).into_iter().collect()
            }
            Event::Delete(node) => {
                let name = node.name_any();
                inner.all.get_or_insert_default().remove(&name);
                vec![name]
            }
        })
    }
}

fn keep(node: &Object) -> Kept {
    let status = node.status.as_ref();
    let ready = status
        .and_then(|status| status.conditions.as_ref())
        .and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let out_of_service = taints
        .into_iter()
        .flatten()
        .any(|taint| taint.key == OUT_OF_SERVICE && taint.effect == "NoExecute");
    let since = ready
        .and_then(|ready| ready.last_transition_time.as_ref())
        .or(node.metadata.creation_timestamp.as_ref())
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    Kept {
        state: match (out_of_service, is_ready) {
            (true, _) => Node::OutOfService { since },
            (false, true) => Node::Ready,
            (false, false) => Node::Lost { since },
        },
        labels: node.labels().clone(),
    }
}

/// As the scheduler reads a volume's node affinity: one of the terms, and all of its requirements.
fn selects(affinity: &NodeSelector, name: &str, labels: &BTreeMap<String, String>) -> bool {
    affinity.node_selector_terms.iter().any(|term| {
        let NodeSelectorTerm {
            match_expressions,
            match_fields,
        } = term;
        let by_label = |requirement: &NodeSelectorRequirement| {
            fulfils(requirement, labels.get(&requirement.key).map(String::as_str))
        };
        let by_field = |requirement: &NodeSelectorRequirement| {
            fulfils(requirement, (requirement.key == NAME_FIELD).then_some(name))
        };
        // A term without requirements selects nothing.
        let asks = match_expressions.as_ref().is_some_and(|all| !all.is_empty())
            || match_fields.as_ref().is_some_and(|all| !all.is_empty());
        asks && match_expressions.iter().flatten().all(by_label) && match_fields.iter().flatten().all(by_field)
    })
}

fn fulfils(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = |value: &str| values.iter().any(|one| one == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = values.first().and_then(|bound| number(bound));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(is_in),
        "NotIn" => !value.is_some_and(is_in),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value
            .and_then(number)
            .zip(bound)
            .is_some_and(|(value, bound)| value > bound),
        "Lt" => value
            .and_then(number)
            .zip(bound)
            .is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Where a volume may be used. `None`: anywhere.
#[must_use]
pub(super) fn affinity_of(volume: PersistentVolume) -> Option<NodeSelector> {
    volume.spec?.node_affinity?.required
}

/// Watches nodes for ever, and wakes the clusters that have Pods on those that come, go, or become something else.
pub(super) async fn watch(client: Client, cache: Arc<Cache>, queue: Queue, page: u32) {
    let config = watcher::Config::default().page_size(page);
    let stream = watcher::watcher(Api::<Object>::all(client), config).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut broken = false;
    loop {
        match stream.try_next().await {
            Ok(Some(event)) => {
                broken = false;
                let news = cache.nodes.take(event);
                if news.is_empty() {
                    continue;
                }
                let on_them = |node: Option<&String>| node.is_some_and(|node| news.contains(node));
                cache
                    .pods
                    .clusters_where(|info| on_them(info.pod.node.as_ref()))
                    .into_iter()
                    .for_each(|cluster| queue.wake(cluster));
            }
            Ok(None) => return,
            Err(error) => {
                if !std::mem::replace(&mut broken, true) {
                    tracing::warn!(kind = "Node", %error, "the watch is broken and is tried again");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, ready: &str, taints: &[&str]) -> Object {
        let taints: Vec<_> = taints
            .iter()
            .map(|key| serde_json::json!({"key": key, "effect": "NoExecute"}))
            .collect();
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "a"}},
            "spec": {"taints": taints},
            "status": {"conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        }))
        .unwrap()
    }

    fn listed(nodes: Vec<Object>) -> Nodes {
        let all = Nodes::default();
        all.take(Event::Init);
        for node in nodes {
            all.take(Event::InitApply(node));
        }
        all.take(Event::InitDone);
        all
    }

    fn local(names: &[&str]) -> NodeSelector {
        serde_json::from_value(serde_json::json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": names},
        ]}]}))
        .unwrap()
    }

    #[test]
    fn nothing_is_said_of_nodes_that_were_never_listed() {
        let nodes = Nodes::default();
        assert_eq!(nodes.state("n1", Timestamp::UNIX_EPOCH), Node::Unknown);
        assert_eq!(nodes.volume(None), Volume::Unknown);
    }

    #[test]
    fn a_node_is_ready_lost_out_of_service_or_gone() {
        let now = Timestamp::UNIX_EPOCH;
        let nodes = listed(vec![
            node("n1", "True", &["node.kubernetes.io/unschedulable"]),
            node("n2", "Unknown", &["node.kubernetes.io/unreachable"]),
            node("n3", "Unknown", &[OUT_OF_SERVICE]),
        ]);
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(nodes.state("n1", now), Node::Ready);
        assert_eq!(nodes.state("n2", now), Node::Lost { since });
        assert_eq!(nodes.state("n3", now), Node::OutOfService { since });
        assert_eq!(nodes.state("n4", now), Node::Gone { since: now });
        let later = now + std::time::Duration::from_secs(5);
        assert_eq!(
            nodes.state("n4", later),
            Node::Gone { since: now },
            "since it was noticed"
        );
    }

    #[test]
    fn only_a_change_of_its_state_wakes_the_clusters_on_a_node() {
        let nodes = listed(vec![node("n1", "True", &[])]);
        assert!(nodes.take(Event::Apply(node("n1", "True", &["cordoned"]))).is_empty());
        assert_eq!(nodes.take(Event::Apply(node("n1", "Unknown", &[]))), ["n1"]);
        assert_eq!(nodes.take(Event::Delete(node("n1", "Unknown", &[]))), ["n1"]);
        nodes.take(Event::Init);
        nodes.take(Event::InitApply(node("n2", "True", &[])));
        assert_eq!(nodes.take(Event::InitDone), ["n2"]);
    }

    #[test]
    fn a_volume_is_stranded_when_no_ready_node_can_have_it() {
        let nodes = listed(vec![node("n1", "True", &[]), node("n2", "Unknown", &[])]);
        assert_eq!(nodes.volume(None), Volume::Movable);
        assert_eq!(nodes.volume(Some(&local(&["n1", "n2"]))), Volume::Movable);
        assert_eq!(nodes.volume(Some(&local(&["n2"]))), Volume::Stranded);
        assert_eq!(nodes.volume(Some(&local(&["n9"]))), Volume::Stranded, "no such node");
        let nothing: NodeSelector = serde_json::from_value(serde_json::json!({"nodeSelectorTerms": [{}]})).unwrap();
        assert_eq!(
            nodes.volume(Some(&nothing)),
            Volume::Stranded,
            "an empty term selects nothing"
        );
    }

    #[test]
    fn requirements_are_read_as_the_scheduler_reads_them() {
        let asks = |operator: &str, values: &[&str], value: Option<&str>| {
            let requirement = NodeSelectorRequirement {
                key: "k".into(),
                operator: operator.into(),
                values: Some(values.iter().map(|one| (*one).to_owned()).collect()),
            };
            fulfils(&requirement, value)
        };
        assert!(asks("In", &["a", "b"], Some("b")) && !asks("In", &["a"], None));
        assert!(asks("NotIn", &["a"], None) && !asks("NotIn", &["a"], Some("a")));
        assert!(asks("Exists", &[], Some("")) && asks("DoesNotExist", &[], None));
        assert!(asks("Gt", &["4"], Some("5")) && !asks("Gt", &["4"], Some("4")) && asks("Lt", &["4"], Some("3")));
        assert!(!asks("Near", &["4"], Some("4")));
    }
}
