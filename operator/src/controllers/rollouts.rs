//! Turns of clusters in a rollout over the whole fleet: one cluster until a new agent image has come up anywhere, a few at
//! a time after that, and none any more when it fails.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};

use super::{
    cache::{Cache, PodInfo},
    mirror::ClusterKey,
};
use crate::plan::rollout::Permit;

/// Clusters that change an agent's image at the same time.
const AT_A_TIME: usize = 10;
/// A turn that was taken shows in the Pod within this time.
const SHOWS: SignedDuration = SignedDuration::from_secs(5);

/// Turns that were taken and may not show yet.
#[derive(Debug, Default)]
pub(super) struct Rollouts(Mutex<HashMap<ClusterKey, Timestamp>>);

/// How far an image is, over the fleet.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fleet {
    /// A Pod is ready with it.
    proven: bool,
    /// Clusters with a Pod that has it and is not ready.
    at_it: BTreeSet<ClusterKey>,
    /// A Pod that has it and is in trouble.
    failed: Option<String>,
}

impl Rollouts {
    /// May this cluster change an agent's image now?
    #[must_use]
    pub(super) fn permit(&self, cache: &Cache, key: &ClusterKey, image: &str, now: Timestamp) -> Permit {
        self.with(|taken| decide(survey(cache, image), taken, key, now))
    }

    /// As [`Self::permit`], and takes the turn; an error says why it cannot.
    pub(super) fn take_turn(&self, cache: &Cache, key: &ClusterKey, image: &str, now: Timestamp) -> Result<(), String> {
        self.with(|taken| match decide(survey(cache, image), taken, key, now) {
            Permit::Granted => {
                taken.insert(key.clone(), now);
                Ok(())
            }
            Permit::Busy { clusters } => Err(format!("{clusters} other clusters change an agent's image")),
            // The one that failed is always given another image.
            Permit::Halted { .. } if survey(cache, image).at_it.contains(key) => Ok(()),
            Permit::Halted { pod } => Err(format!("the image fails on Pod {pod}")),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<ClusterKey, Timestamp>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn survey(cache: &Cache, image: &str) -> Fleet {
    let mut fleet = Fleet::default();
    cache.pods.each(|item| {
        let PodInfo { pod, .. } = &*item.value;
        if pod.agent_image.as_deref() != Some(image) || pod.deleting || pod.ended {
            return;
        }
        if pod.ready {
            fleet.proven = true;
        } else if pod.node.is_some() {
            fleet.at_it.insert(item.cluster.clone());
            if pod.agent_fails {
                fleet.failed = Some(format!("{}/{}", item.cluster.namespace, item.name));
            }
        }
    });
    fleet
}

fn decide(fleet: Fleet, taken: &mut HashMap<ClusterKey, Timestamp>, key: &ClusterKey, now: Timestamp) -> Permit {
    if let Some(pod) = fleet.failed {
        return Permit::Halted { pod };
    }
    taken.retain(|_, at| now.duration_since(*at) < SHOWS);
    let others: BTreeSet<&ClusterKey> = fleet
        .at_it
        .iter()
        .chain(taken.keys())
        .filter(|other| *other != key)
        .collect();
    let most = if fleet.proven { AT_A_TIME } else { 1 };
    if others.len() < most {
        Permit::Granted
    } else {
        Permit::Busy { clusters: others.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ClusterKey {
        ClusterKey {
            namespace: "ns".into(),
            name: name.into(),
        }
    }

    fn fleet(proven: bool, at_it: &[&str], failed: Option<&str>) -> Fleet {
        Fleet {
            proven,
            at_it: at_it.iter().map(|name| key(name)).collect(),
            failed: failed.map(str::to_owned),
        }
    }

    #[test]
    fn u23_one_cluster_tries_an_image_before_any_other_gets_it() {
        let (now, mut taken) = (Timestamp::UNIX_EPOCH, HashMap::new());
        assert_eq!(
            decide(fleet(false, &[], None), &mut taken, &key("a"), now),
            Permit::Granted
        );
        taken.insert(key("a"), now);
        let busy = Permit::Busy { clusters: 1 };
        assert_eq!(
            decide(fleet(false, &[], None), &mut taken, &key("b"), now),
            busy,
            "not shown yet"
        );
        assert_eq!(decide(fleet(false, &["a"], None), &mut taken, &key("b"), now), busy);
        assert_eq!(
            decide(fleet(false, &["a"], None), &mut taken, &key("a"), now),
            Permit::Granted,
            "its own"
        );
        assert_eq!(
            decide(fleet(true, &["a"], None), &mut taken, &key("b"), now),
            Permit::Granted
        );
        let later = now + SHOWS;
        assert_eq!(
            decide(fleet(false, &[], None), &mut taken, &key("b"), later),
            Permit::Granted,
            "it is over"
        );
    }

    #[test]
    fn u23_a_proven_image_goes_to_a_few_clusters_at_a_time_and_a_failing_one_to_none() {
        let (now, mut taken) = (Timestamp::UNIX_EPOCH, HashMap::new());
        let names: Vec<String> = (0..AT_A_TIME).map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let busy = Permit::Busy { clusters: AT_A_TIME };
        assert_eq!(decide(fleet(true, &names, None), &mut taken, &key("z"), now), busy);
        assert_eq!(
            decide(fleet(true, &names[1..], None), &mut taken, &key("z"), now),
            Permit::Granted
        );
        let halted = Permit::Halted { pod: "ns/c0-1".into() };
        assert_eq!(
            decide(fleet(true, &["c0"], Some("ns/c0-1")), &mut taken, &key("z"), now),
            halted
        );
    }
}
