//! What the operator may do. Every scenario runs with the shipped role (U15), so what is missing there shows everywhere; here
//! is what must not be in it, and what is said when something is missing. Alone: the role is everybody's.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::{
    api::{authorization::v1::SubjectAccessReview, rbac::v1::ClusterRole},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tests::harness::{FORMATION, OPERATOR_NAMESPACE, Outcome, scenario, spec, until};

const ROLE: &str = "etcd-operator";

/// What a stolen token of the operator's must not open, or what it has no business with.
const NEVER: [(&str, &str, &str); 10] = [
    ("list", "", "secrets"),
    ("watch", "", "secrets"),
    ("create", "", "pods/exec"),
    ("get", "", "pods/log"),
    ("get", "", "nodes"),
    ("delete", "", "namespaces"),
    ("delete", "", "persistentvolumeclaims"),
    ("update", "etcd-operator.cozystack.io", "etcdclusters"),
    ("delete", "etcd-operator.cozystack.io", "etcdclusters"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
];

#[test]
fn u15_the_operators_account_opens_nothing_but_what_it_needs() -> Outcome {
    scenario("u15", async |world| {
        let reviews: Api<SubjectAccessReview> = Api::all(world.stage.client.clone());
        // That the role and the operator's own list are the same is tested where the list is (operator/src/rbac.rs).
        for (verb, group, resource) in NEVER {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let review = serde_json::from_value(json!({ "metadata": {}, "spec": {
                "user": format!("system:serviceaccount:{OPERATOR_NAMESPACE}:{ROLE}"),
                "resourceAttributes": {
                    "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                    "namespace": world.namespace,
                },
            } }))?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let allowed = answer.status.context("no answer")?.allowed;
            ensure!(!allowed, "the operator may {verb} {resource}/{subresource}");
        }
        Ok(())
    })
}

#[test]
fn u24_a_missing_verb_is_named_at_the_start_and_in_a_condition() -> Outcome {
    scenario("u24", async |world| {
        let operator = world.stage.operator();
        let api: Api<ClusterRole> = Api::all(world.stage.client.clone());
        let mut rules = api.get(ROLE).await?.rules.context("the role is empty")?;
        for rule in &mut rules {
            if rule
                .resources
                .iter()
                .flatten()
                .any(|resource| resource == "poddisruptionbudgets")
            {
                rule.verbs.retain(|verb| verb != "create");
            }
        }
        let less = Patch::Merge(json!({ "rules": rules }));
        api.patch(ROLE, &PatchParams::default(), &less).await?;
        let since = Timestamp::now();
        let outcome = async {
            operator.restart().await?;
            until("it is in the log", FORMATION, async || {
                let log = operator.logs_since(since).await?;
                let line = log
                    .lines()
                    .find(|line| line.contains("poddisruptionbudgets") && line.contains("create"));
                line.map(str::to_owned)
                    .context("no line names the verb and the resource")
            })
            .await?;
            let cluster = world.create("c", &spec::memory(1)).await?;
            until("a condition names it", FORMATION, async || {
                let conditions = cluster.status().await?.conditions;
                let named = conditions
                    .iter()
                    .any(|c| c.message.contains("poddisruptionbudgets") && c.message.contains("create"));
                ensure!(named, "{conditions:?}");
                Ok(())
            })
            .await?;
            Ok::<_, anyhow::Error>(cluster)
        }
        .await;
        world.stage.apply_manifests()?;
        let cluster = outcome?;
        until("it heals", Duration::from_mins(2), async || cluster.is_settled(1).await).await
    })
}
