//! Edits of every field that can be edited, at every moment.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{Resource, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use tests::harness::{Cluster, FORMATION, Outcome, World, holds, scenario, spec, until};

/// One edit of each mutable field but `replicas`. Each keeps the cluster one that can run.
fn edits() -> Vec<(&'static str, Value)> {
    vec![
        ("version", json!({ "version": "3.6.8" })),
        ("storage", json!({ "storage": { "size": "336Mi" } })),
        ("progressDeadlineSeconds", json!({ "progressDeadlineSeconds": 500 })),
        (
            "resources",
            json!({ "resources": { "requests": { "cpu": "11m", "memory": "33Mi" } } }),
        ),
        (
            "additionalMetadata",
            json!({ "additionalMetadata": { "labels": { "team": "a" }, "annotations": { "note": "b" } } }),
        ),
        (
            "affinity",
            json!({ "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 1, "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": { "matchLabels": { "app.kubernetes.io/name": "etcd" } } } }
            ] } } }),
        ),
        (
            "topologySpreadConstraints",
            json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { "app.kubernetes.io/name": "etcd" } } }] }),
        ),
        (
            "options",
            json!({ "options": { "quotaBackendBytes": 104_857_600, "autoCompactionMode": "revision",
                "autoCompactionRetention": "1000", "snapshotCount": 5000 } }),
        ),
        (
            "imagePullSecrets",
            json!({ "imagePullSecrets": [{ "name": "no-such-secret" }] }),
        ),
        (
            "agent",
            json!({ "agent": { "logLevel": "debug", "resources": { "requests": { "cpu": "5m" } } } }),
        ),
        (
            "scheduling",
            json!({ "scheduling": { "nodeSelector": { "kubernetes.io/os": "linux" }, "priorityClassName": "system-cluster-critical",
                "schedulerName": "default-scheduler",
                "tolerations": [{ "key": "no-such", "operator": "Exists" }] } }),
        ),
        (
            "recovery",
            json!({ "recovery": { "nodeLossSeconds": 200, "settleSeconds": 100 } }),
        ),
        ("rollout", json!({ "rollout": { "paused": true } })),
        (
            "serviceTemplate",
            json!({ "serviceTemplate": { "client": { "annotations": { "lb": "x" }, "labels": { "tier": "db" },
                "trafficDistribution": "PreferClose" } } }),
        ),
    ]
}

async fn edit_all(cluster: &Cluster<'_>) -> Result<()> {
    for (field, change) in edits() {
        cluster
            .patch(json!({ "spec": change }))
            .await
            .with_context(|| format!("editing {field}"))?;
    }
    Ok(())
}

/// UIDs of the Pods, and how often their containers were started anew.
async fn pods(cluster: &Cluster<'_>) -> Result<BTreeMap<String, (Option<String>, i32)>> {
    let row = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let containers = status
            .container_statuses
            .into_iter()
            .chain(status.init_container_statuses)
            .flatten();
        let restarts = containers.map(|container| container.restart_count).sum();
        (pod.name_any(), (pod.uid(), restarts))
    };
    Ok(cluster.pods().await?.iter().map(row).collect())
}

/// What a Pod that is made now has of it.
fn is_of_the_new_spec(pod: &Pod) -> Result<()> {
    let spec = pod.spec.clone().context("no spec")?;
    let etcd = spec
        .containers
        .iter()
        .find(|container| container.name == "etcd")
        .context("no etcd")?;
    let requests = etcd
        .resources
        .clone()
        .and_then(|resources| resources.requests)
        .unwrap_or_default();
    ensure!(
        requests.get("cpu").is_some_and(|cpu| cpu.0 == "11m"),
        "requests {requests:?}"
    );
    ensure!(
        pod.labels().get("team").is_some_and(|team| team == "a"),
        "labels {:?}",
        pod.labels()
    );
    ensure!(
        pod.annotations().get("note").is_some_and(|note| note == "b"),
        "annotations {:?}",
        pod.annotations()
    );
    ensure!(
        spec.priority_class_name.as_deref() == Some("system-cluster-critical"),
        "priority {:?}",
        spec.priority_class_name
    );
    let selector = spec.node_selector.unwrap_or_default();
    ensure!(selector.contains_key("kubernetes.io/os"), "node selector {selector:?}");
    let tolerates = spec
        .tolerations
        .into_iter()
        .flatten()
        .any(|toleration| toleration.key.as_deref() == Some("no-such"));
    ensure!(tolerates, "it does not tolerate what it should");
    ensure!(
        spec.affinity
            .is_some_and(|affinity| affinity.pod_anti_affinity.is_some()),
        "no affinity"
    );
    ensure!(
        spec.topology_spread_constraints.is_some_and(|all| all.len() == 1),
        "no spread constraint"
    );
    ensure!(
        spec.image_pull_secrets
            .is_some_and(|all| all.iter().any(|one| one.name == "no-such-secret")),
        "no pull secret"
    );
    Ok(())
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of edits")]
fn edits_of_every_field_during_formation_growth_and_rest_break_nothing() -> Outcome {
    scenario("edits", async |world| {
        // While it forms: the last word counts, for all of its members.
        let forming = world.create("forming", &spec::disk(3)).await?;
        edit_all(&forming).await?;
        forming.settled(3).await?;
        for pod in forming.pods().await? {
            ensure!(
                pod.spec.as_ref().is_some_and(|spec| spec.containers[0]
                    .image
                    .as_deref()
                    .is_some_and(|image| image.ends_with("v3.6.8"))),
                "a member of another version"
            );
        }
        forming.delete().await?;

        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let writer = cluster.writer().await?;
        let before = pods(&cluster).await?;
        // While it grows: members that are made from then on have it all, and those that are there are left alone.
        cluster.scale(3).await?;
        edit_all(&cluster).await?;
        let drifted = [
            "spec.version",
            "spec.resources",
            "spec.affinity",
            "spec.topologySpreadConstraints",
            "spec.additionalMetadata",
            "spec.options",
            "spec.imagePullSecrets",
            "spec.agent",
            "spec.scheduling",
        ];
        cluster.settled(3).await?;
        let first = before.keys().next().context("no Pod")?;
        until("it is said what is not acted on yet", FORMATION, async || {
            let conditions = cluster.status().await?.conditions;
            let said = tests::harness::condition(&conditions, "NotImplemented")?;
            for field in drifted {
                ensure!(
                    said.status == "True" && said.message.contains(field),
                    "{field}: {said:?}"
                );
            }
            Ok(())
        })
        .await?;
        // One more member, made for sure after the last edit.
        cluster.scale(4).await?;
        cluster.settled(4).await?;
        let newest = cluster
            .pods()
            .await?
            .into_iter()
            .max_by_key(|pod| pod.creation_timestamp().map(|time| time.0));
        let newest = newest.context("no Pod")?;
        is_of_the_new_spec(&newest)?;
        let quota = cluster.etcd_at(&newest.name_any()).await?.status().await?;
        ensure!(
            quota.db_size_quota() == 104_857_600,
            "etcd's quota is {}",
            quota.db_size_quota()
        );
        let steady = pods(&cluster).await?;
        ensure!(
            steady.get(first) == before.get(first),
            "the first Pod was touched: {steady:?}"
        );
        // At rest.
        for (field, _) in edits() {
            let back = match field {
                "additionalMetadata"
                | "affinity"
                | "topologySpreadConstraints"
                | "options"
                | "imagePullSecrets"
                | "agent"
                | "scheduling"
                | "recovery"
                | "rollout" => json!({ field: null }),
                "resources" => json!({ "resources": { "requests": { "cpu": "12m", "memory": "33Mi" } } }),
                "storage" => json!({ "storage": { "size": "352Mi" } }),
                _ => continue,
            };
            cluster.patch(json!({ "spec": back })).await?;
        }
        cluster.settled(4).await?;
        holds("no Pod is touched", Duration::from_secs(5), async || {
            ensure!(
                pods(&cluster).await? == steady,
                "{:?} became {:?}",
                steady,
                pods(&cluster).await?
            );
            Ok(())
        })
        .await?;
        let written = writer.stop().await?;
        written.is_in(&mut cluster.etcd().await?).await?;
        println!(
            "{} writes, longest gap {:?}",
            written.acknowledged.len(),
            written.longest_gap
        );
        Ok(())
    })
}

async fn metadata_of<K>(world: &World, name: &str) -> Result<(BTreeMap<String, String>, BTreeMap<String, String>)>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let object = world.api::<K>().get(name).await?;
    Ok((object.labels().clone(), object.annotations().clone()))
}

#[test]
fn labels_and_annotations_that_are_taken_out_leave_the_services_and_those_of_others_stay() -> Outcome {
    scenario("edits-metadata", async |world| {
        let more = json!({
            "additionalMetadata": { "labels": { "team": "a" }, "annotations": { "note": "b" } },
            "serviceTemplate": { "client": { "annotations": { "lb": "x" }, "trafficDistribution": "PreferClose" } },
        });
        let cluster = world.create("c", &spec::with(spec::memory(1), &more)).await?;
        cluster.settled(1).await?;
        // Somebody else's.
        for service in ["c", "c-client"] {
            world
                .stage
                .kubectl(&["-n", &world.namespace, "annotate", "service", service, "theirs=1"])?;
        }
        let (labels, annotations) = metadata_of::<Service>(world, "c-client").await?;
        ensure!(
            labels.contains_key("team") && annotations.contains_key("lb") && annotations.contains_key("note"),
            "{labels:?} {annotations:?}"
        );
        cluster
            .patch(json!({ "spec": { "additionalMetadata": null, "serviceTemplate": null } }))
            .await?;
        until("what was taken out is gone", FORMATION, async || {
            for (labels, annotations) in [
                metadata_of::<Service>(world, "c").await?,
                metadata_of::<Service>(world, "c-client").await?,
                metadata_of::<PodDisruptionBudget>(world, "c").await?,
            ] {
                ensure!(!labels.contains_key("team"), "{labels:?}");
                ensure!(
                    !annotations.contains_key("note") && !annotations.contains_key("lb"),
                    "{annotations:?}"
                );
                ensure!(labels.contains_key(crds::labels::CLUSTER), "{labels:?}");
            }
            let client = world.api::<Service>().get("c-client").await?;
            let traffic = client.spec.and_then(|spec| spec.traffic_distribution);
            ensure!(traffic.is_none(), "{traffic:?}");
            Ok(())
        })
        .await?;
        for service in ["c", "c-client"] {
            let (_, annotations) = metadata_of::<Service>(world, service).await?;
            ensure!(annotations.contains_key("theirs"), "{service}: {annotations:?}");
        }
        cluster.settled(1).await
    })
}

#[test]
fn u20_what_admission_changes_in_pods_leads_to_no_fight_and_no_restart() -> Outcome {
    scenario("u20", async |world| {
        let limits: k8s_openapi::api::core::v1::LimitRange = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "limits" },
            "spec": { "limits": [{ "type": "Container",
                "default": { "cpu": "2", "memory": "512Mi" },
                "defaultRequest": { "cpu": "15m", "memory": "40Mi" } }] },
        }))?;
        world.api().create(&PostParams::default(), &limits).await?;
        // As a mesh does: labels, annotations and a container more.
        let policy = format!("mesh-{}", world.namespace);
        let manifest = mesh(&policy, &world.namespace);
        world.stage.kubectl_with(&["apply", "-f", "-"], &manifest)?;
        let outcome = async {
            // The API server takes a moment to act by a new policy.
            let probe: Pod = serde_json::from_value(json!({ "metadata": { "name": "probe" },
                "spec": { "containers": [{ "name": "x", "image": "localhost/busybox:1" }] } }))?;
            let dry = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            until("Pods are changed on admission", FORMATION, async || {
                let made = world.api::<Pod>().create(&dry, &probe).await?;
                let containers = made.spec.unwrap_or_default().containers.len();
                ensure!(containers == 2, "{containers} containers");
                Ok(())
            })
            .await?;
            let cluster = world
                .create("c", &spec::with(spec::disk(3), &json!({ "resources": null })))
                .await?;
            cluster.settled(3).await?;
            let names = |pod: &Pod| -> Vec<String> {
                let spec = pod.spec.clone().unwrap_or_default();
                spec.containers.into_iter().map(|container| container.name).collect()
            };
            for pod in cluster.pods().await? {
                ensure!(
                    names(&pod).contains(&"mesh-proxy".to_owned()),
                    "admission changed nothing: {:?}",
                    names(&pod)
                );
                let limited = pod.spec.clone().unwrap_or_default().containers.iter().any(|container| {
                    let limits = container.resources.clone().and_then(|resources| resources.limits);
                    limits.is_some_and(|limits| limits.contains_key("cpu"))
                });
                ensure!(limited, "the LimitRange changed nothing");
            }
            // A VPA, or a person, changes what is running.
            let first = cluster.member_names().await?.remove(0);
            world
                .stage
                .kubectl(&["-n", &world.namespace, "label", "pod", &first, "vpa=seen"])?;
            let before = pods(&cluster).await?;
            let versions = versions(&cluster).await?;
            holds("nothing is fought over", Duration::from_secs(10), async || {
                ensure!(pods(&cluster).await? == before, "Pods were touched");
                ensure!(self::versions(&cluster).await? == versions, "Pods are written to");
                Ok(())
            })
            .await
        }
        .await;
        world.stage.kubectl_with(&["delete", "-f", "-"], &manifest)?;
        outcome
    })
}

/// Spec and metadata of the Pods, by what they say: their status is the kubelet's.
async fn versions(cluster: &Cluster<'_>) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for pod in cluster.pods().await? {
        all.push(json!({ "labels": pod.labels(), "annotations": pod.annotations(), "spec": pod.spec, "generation": pod.metadata.generation }));
    }
    Ok(all)
}

fn mesh(name: &str, namespace: &str) -> String {
    let expression =
        "JSONPatch{op: \"add\", path: \"/metadata/annotations/mesh.example~1status\", value: \"injected\"}";
    let container = "JSONPatch{op: \"add\", path: \"/spec/containers/-\", value: Object.spec.containers{name: \"mesh-proxy\", \
                     image: \"localhost/busybox:1\", command: [\"sleep\", \"100000\"]}}";
    let documents = [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": {
                "reinvocationPolicy": "Never",
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["pods"] }] },
                "mutations": [
                    { "patchType": "ApplyConfiguration", "applyConfiguration": { "expression":
                        "Object{metadata: Object.metadata{labels: {\"mesh\": \"on\"}, annotations: {\"mesh.example/status\": \"pending\"}}}" } },
                    { "patchType": "JSONPatch", "jsonPatch": { "expression": format!("[{expression}, {container}]") } },
                ],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": { "policyName": name, "matchResources": { "namespaceSelector": {
                "matchLabels": { "kubernetes.io/metadata.name": namespace } } } },
        }),
    ];
    documents.map(|document| document.to_string()).join("\n---\n")
}
