//! What a Pod object says.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt;

use crate::plan::facts::{self, Trouble, Version};
use crate::resources::{AGENT_CONTAINER, ETCD_CONTAINER, INSTALL_CONTAINER};

/// Since when a Pod has no place to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// It is being deleted, and was given time until then.
    pub ends: Option<Timestamp>,
    /// No node has taken it since then.
    pub unplaced: Option<Timestamp>,
    /// Its node has not set it up since then.
    pub unprepared: Option<Timestamp>,
}

/// Reads them.
#[must_use]
pub(super) fn times(pod: &Pod) -> Times {
    let since = |type_: &str| {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let found = conditions.iter().find(|condition| condition.type_ == type_)?;
        let since = found.last_transition_time.as_ref().map(|time| time.0);
        (found.status == "False").then_some(since.or_else(|| pod.creation_timestamp().map(|time| time.0)))?
    };
    let ends = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    Times {
        ends,
        unplaced: since("PodScheduled"),
        // While it is taken apart it has no sandbox either.
        unprepared: since("PodReadyToStartContainers").filter(|_| ends.is_none()),
    }
}

/// The fact. `None` for an object that no API server has seen.
#[must_use]
pub(super) fn fact(pod: &Pod) -> Option<facts::Pod> {
    let spec = pod.spec.as_ref()?;
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let agent = containers().find(|container| container.name == AGENT_CONTAINER);
    let etcd = spec
        .containers
        .iter()
        .find(|container| container.name == ETCD_CONTAINER);
    Some(facts::Pod {
        uid: pod.uid()?,
        created: pod.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        ended: matches!(phase, Some("Failed" | "Succeeded")),
        ready: condition(pod, "Ready").is_some_and(|(status, ..)| status == "True") && !agent_goes(pod),
        ip: status
            .and_then(|status| status.pod_ip.clone())
            .filter(|ip| !ip.is_empty()),
        node: spec.node_name.clone().filter(|node| !node.is_empty()),
        voter_label: pod
            .labels()
            .get(crds::labels::ROLE)
            .is_some_and(|role| role == crds::labels::ROLE_VOTER),
        cluster_label: pod.labels().contains_key(crds::labels::CLUSTER),
        has_agent: agent.is_some(),
        agent_image: agent.and_then(|agent| agent.image.clone()),
        etcd_version: etcd.and_then(|container| tag_version(container.image.as_deref()?)),
        trouble: trouble(pod),
        agent_fails: agent_fails(pod),
    })
}

/// The agent's container, by its ID.
#[must_use]
pub(super) fn agent_container(pod: &Pod) -> Option<&str> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    let agent = statuses.iter().find(|status| status.name == AGENT_CONTAINER)?;
    agent.container_id.as_deref()
}

/// Its agent was given another image, and kubelet has not acted yet: the Pod is ready by the old one's word (U23).
fn agent_goes(pod: &Pod) -> bool {
    let goes = pod.annotations().get(crds::annotations::AGENT_GOES);
    goes.is_some_and(|goes| agent_container(pod) == Some(goes))
}

/// A kill of the etcd container for memory: on cgroup v2 the kernel ends all of its processes at once, the supervisor
/// too, so that only kubelet can tell why (D29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfMemory {
    /// When.
    pub at: Timestamp,
}

/// The last end of the etcd container, if it was that.
#[must_use]
pub(super) fn out_of_memory(pod: &Pod) -> Option<OutOfMemory> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let etcd = statuses.iter().find(|status| status.name == ETCD_CONTAINER)?;
    let ended = |state: &Option<ContainerState>| state.as_ref()?.terminated.clone();
    let end = ended(&etcd.state).or_else(|| ended(&etcd.last_state))?;
    let at = end.finished_at?.0;
    (end.reason.as_deref() == Some("OOMKilled")).then_some(OutOfMemory { at })
}

fn tag_version(image: &str) -> Option<Version> {
    let tag = image.split('@').next()?.rsplit_once(':')?.1;
    Version::parse(tag.strip_prefix('v')?)
}

fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<(&'p str, &'p str, &'p str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((
        found.status.as_str(),
        found.reason.as_deref().unwrap_or_default(),
        found.message.as_deref().unwrap_or_default(),
    ))
}

/// What keeps it from running. The words are chosen so that they stay the same while the trouble does.
fn trouble(pod: &Pod) -> Option<Trouble> {
    if let Some(("False", reason, message)) = condition(pod, "PodScheduled") {
        return Some(Trouble {
            reason: reason.to_owned(),
            message: message.chars().take(512).collect(),
        });
    }
    let status = pod.status.as_ref()?;
    let all = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten());
    all.into_iter().find_map(waiting)
}

/// The agent's image cannot be pulled, or what is in it ends again and again.
fn agent_fails(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.init_container_statuses.as_ref());
    let ours = |status: &&ContainerStatus| [AGENT_CONTAINER, INSTALL_CONTAINER].contains(&status.name.as_str());
    statuses
        .into_iter()
        .flatten()
        .filter(ours)
        .any(|status| waiting(status).is_some())
}

fn waiting(status: &ContainerStatus) -> Option<Trouble> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let container = &status.name;
    match reason {
        "" | "PodInitializing" | "ContainerCreating" => None,
        // The two alternate, and the second one counts seconds.
        "ErrImagePull" | "ImagePullBackOff" => Some(Trouble {
            reason: "ImagePullBackOff".to_owned(),
            message: format!(
                "image {} of container {container} cannot be pulled: correct it, or make it available",
                status.image
            ),
        }),
        "CrashLoopBackOff" => Some(Trouble {
            reason: reason.to_owned(),
            message: format!("container {container} ends again and again: see its log"),
        }),
        _ => {
            let message: String = waiting
                .message
                .as_deref()
                .unwrap_or_default()
                .chars()
                .take(512)
                .collect();
            Some(Trouble {
                reason: reason.to_owned(),
                message: format!("container {container}: {message}"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_tag() {
        let version = |image| tag_version(image).map(|version| version.to_string());
        assert_eq!(version("quay.io/coreos/etcd:v3.6.16"), Some("3.6.16".into()));
        assert_eq!(version("localhost:5000/etcd:v3.5.0@sha256:abc"), Some("3.5.0".into()));
        assert_eq!(version("localhost:5000/etcd"), None);
        assert_eq!(version("etcd:latest"), None);
    }

    #[test]
    fn u23_a_pod_is_not_ready_by_the_word_of_the_agent_that_goes() {
        let pod = |goes: Option<&str>| -> Pod {
            let annotations = goes.map(|id| serde_json::json!({ crds::annotations::AGENT_GOES: id }));
            serde_json::from_value(serde_json::json!({
                "metadata": { "uid": "u", "annotations": annotations },
                "spec": { "containers": [] },
                "status": {
                    "conditions": [{ "type": "Ready", "status": "True" }],
                    "initContainerStatuses": [{
                        "name": AGENT_CONTAINER, "containerID": "containerd://new", "image": "", "imageID": "",
                        "ready": true, "restartCount": 1,
                    }],
                },
            }))
            .unwrap()
        };
        let ready = |goes| fact(&pod(goes)).unwrap().ready;
        assert!(ready(None));
        assert!(ready(Some("containerd://old")));
        assert!(!ready(Some("containerd://new")), "it is still the one that goes");
    }

    #[test]
    fn d29_the_last_end_of_the_container_tells_of_a_kill_for_memory() {
        let pod = |state: serde_json::Value, last: serde_json::Value| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "p"},
                "status": {"containerStatuses": [
                    {"name": "other", "image": "", "imageID": "", "ready": true, "restartCount": 1,
                     "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-06-01T00:00:00Z"}}},
                    {"name": "etcd", "image": "", "imageID": "", "ready": true, "restartCount": 1, "state": state, "lastState": last},
                ]},
            }))
            .unwrap()
        };
        let ended = |reason: &str, at: &str| serde_json::json!({"terminated": {"exitCode": 137, "reason": reason, "finishedAt": at}});
        let runs = || serde_json::json!({"running": {"startedAt": "2026-06-01T12:00:01Z"}});
        let killed = ended("OOMKilled", "2026-06-01T12:00:00Z");
        let at = |pod: &Pod| out_of_memory(pod).map(|kill| kill.at.to_string());
        let noon = Some("2026-06-01T12:00:00Z".to_owned());
        assert_eq!(at(&pod(runs(), killed.clone())), noon);
        assert_eq!(at(&pod(killed.clone(), serde_json::json!({}))), noon);
        // What came after it was something else.
        assert_eq!(at(&pod(ended("Error", "2026-06-01T13:00:00Z"), killed)), None);
        assert_eq!(at(&pod(runs(), serde_json::json!({}))), None);
    }

    #[test]
    fn m21_the_words_about_an_image_stay_the_same_between_two_tries() {
        let waiting_for = |reason: &str, message: &str| {
            let status: ContainerStatus = serde_json::from_value(serde_json::json!({
                "name": "etcd", "image": "etcd:v9.9.9", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": message}},
            }))
            .unwrap();
            waiting(&status).unwrap()
        };
        let first = waiting_for("ErrImagePull", "not found");
        assert_eq!(first, waiting_for("ImagePullBackOff", "Back-off pulling image"));
        assert!(first.message.contains("etcd:v9.9.9"));
    }
}
