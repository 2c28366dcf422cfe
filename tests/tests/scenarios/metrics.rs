//! What the operator's metrics say.

use std::time::Duration;

use anyhow::{Result, ensure};
use tests::harness::{FORMATION, Outcome, World, scenario, spec, until};

const PORT: u16 = 8080;

async fn metrics(world: &World) -> Result<String> {
    let operator = world.stage.operator();
    operator.get(&operator.leader().await?, PORT, "/metrics").await
}

/// Each of these lines is there.
fn has(page: &str, lines: &[String]) -> Result<()> {
    for line in lines {
        ensure!(page.lines().any(|one| one == line), "{line} is missing");
    }
    Ok(())
}

#[test]
fn metrics_tell_of_each_cluster_what_a_person_would_ask_and_forget_those_that_are_gone() -> Outcome {
    scenario("metrics", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        let of = |metric: &str, value: u64| {
            let namespace = &world.namespace;
            format!("etcd_operator_{metric}{{namespace=\"{namespace}\",cluster=\"c\"}} {value}")
        };
        cluster.settled(3).await?;
        until("three voters are told of", FORMATION, async || {
            let page = metrics(world).await?;
            has(
                &page,
                &[
                    of("cluster_voters", 3),
                    of("cluster_healthy_voters", 3),
                    of("cluster_has_quorum", 1),
                    of("cluster_target_members", 3),
                    of("cluster_oom_kills", 0),
                    of("cluster_unheard_seconds", 0),
                ],
            )?;
            for metric in [
                "etcd_operator_cluster_facts_age_seconds{",
                "etcd_operator_agent_links{state=\"up\"}",
                "etcd_operator_steps_total{step=\"Promote\",outcome=\"ok\"}",
                "etcd_operator_step_duration_seconds_bucket{le=",
            ] {
                ensure!(page.contains(metric), "{metric} is missing");
            }
            Ok(())
        })
        .await?;
        // Whoever cannot be placed is waited for, and the metrics say so.
        cluster
            .patch(
                serde_json::json!({ "spec": { "replicas": 5, "resources": { "requests": { "memory": "1000Gi" } } } }),
            )
            .await?;
        until("a wait is told of", FORMATION, async || {
            let page = metrics(world).await?;
            ensure!(
                page.contains("etcd_operator_waits{reason=\"Unschedulable\"}"),
                "it is not"
            );
            has(&page, &[of("cluster_target_members", 5), of("cluster_has_quorum", 1)])
        })
        .await?;
        cluster.delete().await?;
        until("it is forgotten", Duration::from_mins(1), async || {
            let page = metrics(world).await?;
            let namespace = format!("namespace=\"{}\"", world.namespace);
            ensure!(!page.contains(&namespace), "it is not");
            Ok(())
        })
        .await
    })
}
