//! What happens in the namespace of a stand, in order: for finding out where time goes.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use crds::{EtcdCluster, EtcdMember};
use futures::StreamExt;
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, Resource, ResourceExt,
    core::NamespaceResourceScope,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{task::JoinHandle, time::Instant};

use super::stand::Stand;

type Lines = Arc<Mutex<Vec<(Instant, String)>>>;

/// Watches in the background.
pub struct Timeline {
    begin: Instant,
    lines: Lines,
    tasks: Vec<JoinHandle<()>>,
}

impl Timeline {
    /// Begins to watch.
    pub fn start(stand: &Stand) -> Self {
        let lines = Lines::default();
        let tasks = vec![
            watch(stand.clusters(), lines.clone(), cluster),
            watch(stand.world.api(), lines.clone(), member),
            watch(stand.pods(), lines.clone(), pod),
            watch(stand.world.api(), lines.clone(), event),
        ];
        Self {
            begin: Instant::now(),
            lines,
            tasks,
        }
    }

    /// Ends watching; gives one line a change, with the seconds since the start.
    pub async fn stop(self) -> String {
        for task in self.tasks {
            task.abort();
            // It has been aborted: that is how it ends.
            let _ = task.await;
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().fold(String::new(), |mut text, (at, line)| {
            let _ = writeln!(text, "  {:>8.3} {line}", at.duration_since(self.begin).as_secs_f64());
            text
        })
    }
}

/// Notes, for each object of a kind, which of its facets have changed.
fn watch<K>(api: Api<K>, lines: Lines, facets: fn(&K) -> Vec<String>) -> JoinHandle<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    tokio::spawn(async move {
        let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let note = |line: String| {
            lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((Instant::now(), line));
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    let name = object.name_any();
                    let now = facets(&object);
                    let before = known.insert(name.clone(), now.clone()).unwrap_or_default();
                    let new: Vec<String> = now.into_iter().filter(|facet| !before.contains(facet)).collect();
                    if !new.is_empty() {
                        note(format!("{} {name}: {}", K::kind(&()), new.join("; ")));
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    known.remove(&object.name_any());
                    note(format!("{} {}: gone", K::kind(&()), object.name_any()));
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            }
        }
    })
}

fn cluster(cluster: &EtcdCluster) -> Vec<String> {
    let Some(status) = &cluster.status else {
        return vec!["there".into()];
    };
    let mut facets = vec![format!("ready {}", status.ready_members)];
    if let Some(quorum) = status.quorum {
        facets.push(format!(
            "quorum {}/{} of {} voters",
            quorum.healthy, quorum.needed, quorum.voters
        ));
    }
    facets.extend(status.seed.as_ref().map(|seed| format!("seed {}", seed.member)));
    facets.extend(status.cluster_id.as_ref().map(|id| format!("cluster ID {id}")));
    facets.extend(
        status
            .conditions
            .iter()
            .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)),
    );
    facets
}

fn member(member: &EtcdMember) -> Vec<String> {
    let Some(status) = &member.status else {
        return vec!["there".into()];
    };
    let mut facets = vec![
        format!("directive {}", status.directive),
        format!("voter {}", status.is_voter),
    ];
    facets.extend(status.agent.as_ref().map(|agent| format!("link {}", agent.connected)));
    facets.extend(
        status
            .binding
            .as_ref()
            .map(|binding| format!("bound to {} {}", binding.member_id, binding.nonce)),
    );
    facets.extend(
        status
            .data_directory
            .as_ref()
            .map(|data| format!("data {:?}", data.state)),
    );
    facets.extend(status.role.map(|role| format!("role {role:?}")));
    facets.extend(
        status
            .learner
            .map(|learner| format!("index {} of {}", learner.index, learner.leader_index)),
    );
    facets
}

fn pod(pod: &Pod) -> Vec<String> {
    let Some(status) = &pod.status else {
        return vec!["there".into()];
    };
    let mut facets = vec![format!("uid {}", pod.uid().unwrap_or_default())];
    facets.extend(
        pod.metadata
            .deletion_timestamp
            .is_some()
            .then(|| "terminating".to_owned()),
    );
    facets.extend(pod.labels().get(crds::labels::ROLE).map(|role| format!("role={role}")));
    let conditions = status.conditions.iter().flatten();
    facets.extend(conditions.map(|condition| format!("{}={}", condition.type_, condition.status)));
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten();
    facets.extend(containers.filter_map(|container| {
        let state = container.state.as_ref()?;
        let word = match (&state.running, &state.terminated, &state.waiting) {
            (Some(_), _, _) => "runs",
            (_, Some(_), _) => "ended",
            _ => "waits",
        };
        Some(format!("{} {word} ({})", container.name, container.restart_count))
    }));
    facets
}

fn event(event: &Event) -> Vec<String> {
    let about = event
        .regarding
        .as_ref()
        .and_then(|object| object.name.clone())
        .unwrap_or_default();
    let text = [&event.reason, &event.note]
        .map(|part| part.clone().unwrap_or_default())
        .join(": ");
    vec![format!("{about} {text}")]
}
