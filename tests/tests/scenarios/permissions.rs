//! What the operator may do. Every scenario runs with the shipped role (U15), so what is missing there shows everywhere; here
//! is what must not be in it, and what is said when something is missing. Alone: the role is everybody's.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, ensure};
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, PolicyRule},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tests::harness::{FORMATION, Outcome, scenario, spec, until};

const ROLE: &str = "etcd-operator";

type Verb = (String, String, String);

fn verbs_of(rules: &[PolicyRule]) -> BTreeSet<Verb> {
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                all.extend(
                    rule.verbs
                        .iter()
                        .map(|verb| (group.clone(), resource.clone(), verb.clone())),
                );
            }
        }
    }
    all
}

#[test]
fn u15_the_shipped_role_grants_what_the_operator_declares_and_no_more() -> Outcome {
    scenario("u15", async |world| {
        let api: Api<ClusterRole> = Api::all(world.stage.client.clone());
        let granted = verbs_of(&api.get(ROLE).await?.rules.unwrap_or_default());
        let declared: BTreeSet<Verb> = operator::rbac::needed(true)
            .into_iter()
            .filter(|verb| verb.own == operator::rbac::Own::Everywhere)
            .map(|verb| (verb.group.to_owned(), verb.resource.to_owned(), verb.verb.to_owned()))
            .collect();
        let missing: Vec<&Verb> = declared.difference(&granted).collect();
        let too_much: Vec<&Verb> = granted.difference(&declared).collect();
        ensure!(
            missing.is_empty() && too_much.is_empty(),
            "missing {missing:?}, too much {too_much:?}"
        );
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
