//! Everything that a person would ask for first, when a scenario has failed: its output alone must do.

use std::fmt::Write;

use anyhow::Result;
use crds::{EtcdCluster, EtcdMember};
use k8s_openapi::{
    api::{
        core::v1::{ContainerState, PersistentVolumeClaim, Pod},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use serde::Serialize;

use super::{AgentHttp, Stage};

/// Lines of each log.
const TAIL: i64 = 40;

/// A digest of one namespace and of the operator.
pub(super) async fn of(stage: &Stage, namespace: &str) -> String {
    let mut text = String::new();
    let parts = [
        ("objects", objects(stage, namespace).await),
        ("Pods", pods(stage, namespace).await),
        ("events", events(stage, namespace).await),
        ("operator", operator(stage).await),
    ];
    for (title, part) in parts {
        let part = part.unwrap_or_else(|error| format!("cannot be read: {error:#}"));
        let _ = writeln!(text, "──── {title} of {namespace}\n{}", part.trim_end());
    }
    text
}

async fn objects(stage: &Stage, namespace: &str) -> Result<String> {
    let mut text = String::new();
    let clusters: Api<EtcdCluster> = Api::namespaced(stage.client.clone(), namespace);
    for cluster in clusters.list(&ListParams::default()).await? {
        let _ = writeln!(
            text,
            "EtcdCluster {} (generation {:?}{})",
            cluster.name_any(),
            cluster.metadata.generation,
            ending(&cluster)
        );
        let _ = writeln!(
            text,
            "{}",
            yaml(&serde_json::json!({ "spec": cluster.spec, "status": cluster.status }))
        );
    }
    let members: Api<EtcdMember> = Api::namespaced(stage.client.clone(), namespace);
    for member in members.list(&ListParams::default()).await? {
        let _ = writeln!(
            text,
            "EtcdMember {} (dormant {}{})",
            member.name_any(),
            member.spec.dormant,
            ending(&member)
        );
        let _ = writeln!(text, "{}", yaml(&member.status));
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(stage.client.clone(), namespace);
    for claim in claims.list(&ListParams::default()).await? {
        let phase = claim.status.as_ref().and_then(|status| status.phase.clone());
        let _ = writeln!(
            text,
            "PersistentVolumeClaim {} {phase:?}{}",
            claim.name_any(),
            ending(&claim)
        );
    }
    Ok(text)
}

async fn pods(stage: &Stage, namespace: &str) -> Result<String> {
    let mut text = String::new();
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    for pod in api.list(&ListParams::default()).await? {
        let name = pod.name_any();
        let _ = writeln!(text, "── {}", pod_line(&pod));
        let agent = AgentHttp::new(stage.client.clone(), namespace, &name);
        let status = agent.get("/status").await.unwrap_or_else(|error| format!("{error:#}"));
        let _ = writeln!(text, "agent says {status}");
        for container in ["agent", "etcd"] {
            let tail = LogParams {
                container: Some(container.into()),
                tail_lines: Some(TAIL),
                ..LogParams::default()
            };
            let log = api.logs(&name, &tail).await.unwrap_or_else(|error| error.to_string());
            let _ = writeln!(text, "log of {container}:\n{}", indented(&log));
        }
    }
    Ok(text)
}

/// A Pod in one line.
pub(super) fn pod_line(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let mut line = format!("{} {}{}", pod.name_any(), status.phase.unwrap_or_default(), ending(pod));
    let all = status
        .init_container_statuses
        .into_iter()
        .chain(status.container_statuses)
        .flatten();
    for container in all {
        let state = container.state.as_ref().map(state_of).unwrap_or_default();
        let ready = if container.ready { "ready" } else { "not ready" };
        let _ = write!(
            line,
            "; {} {state} {ready}, {} restarts",
            container.name, container.restart_count
        );
    }
    for condition in status
        .conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition.status != "True")
    {
        let _ = write!(
            line,
            "; {}={} {}",
            condition.type_,
            condition.status,
            condition.message.unwrap_or_default()
        );
    }
    line
}

fn state_of(state: &ContainerState) -> String {
    match (&state.waiting, &state.running, &state.terminated) {
        (Some(waiting), ..) => {
            format!(
                "waits ({}: {})",
                waiting.reason.clone().unwrap_or_default(),
                waiting.message.clone().unwrap_or_default()
            )
        }
        (_, Some(_), _) => "runs".into(),
        (.., Some(ended)) => format!(
            "ended ({}, code {})",
            ended.reason.clone().unwrap_or_default(),
            ended.exit_code
        ),
        _ => "is unknown".into(),
    }
}

async fn events(stage: &Stage, namespace: &str) -> Result<String> {
    let api: Api<Event> = Api::namespaced(stage.client.clone(), namespace);
    let mut all = api.list(&ListParams::default()).await?.items;
    all.sort_by_key(time_of);
    let lines = all.iter().map(|event| {
        let about = event.regarding.clone().unwrap_or_default();
        let time = time_of(event).map(|time| time.0.to_string()).unwrap_or_default();
        let (kind, name) = (about.kind.unwrap_or_default(), about.name.unwrap_or_default());
        let (reason, note) = (
            event.reason.as_deref().unwrap_or_default(),
            event.note.as_deref().unwrap_or_default(),
        );
        format!("{time} {kind} {name}: {reason}: {note}\n")
    });
    Ok(lines.collect())
}

fn time_of(event: &Event) -> Option<Time> {
    let last = event.deprecated_last_timestamp.clone();
    last.or_else(|| event.event_time.as_ref().map(|time| Time(time.0)))
        .or_else(|| event.metadata.creation_timestamp.clone())
}

async fn operator(stage: &Stage) -> Result<String> {
    let mut text = String::new();
    for pod in stage.operator().pods().await? {
        let _ = writeln!(text, "── {}", pod_line(&pod));
    }
    text += &stage
        .operator()
        .logs(&LogParams {
            tail_lines: Some(2 * TAIL),
            ..LogParams::default()
        })
        .await?;
    Ok(text)
}

fn ending(object: &impl ResourceExt) -> &'static str {
    if object.meta().deletion_timestamp.is_some() {
        ", being deleted"
    } else {
        ""
    }
}

fn yaml(value: &impl Serialize) -> String {
    indented(&serde_yaml_ng::to_string(value).unwrap_or_else(|error| error.to_string()))
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
