//! The agents: what happens when they end, and who may speak to them.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tests::harness::{
    Blocked, Dialler, FORMATION, Identity, OPERATOR_NAMESPACE, Outcome, Process, condition, scenario, spec, until,
};

#[test]
fn d21_an_agent_that_is_killed_leaves_etcd_running() -> Outcome {
    scenario("d21", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let pod = cluster.pod_uid(&member).await?;
        let etcd = Process::etcd(&pod)?;
        let agent = Process::agent(&pod)?;
        let mut client = cluster.etcd_at(&member).await?;
        agent.kill()?;
        until("another agent is linked", FORMATION, async || {
            assert!(etcd.runs(), "etcd was ended");
            client.put("key", "value").await?;
            let new = Process::agent(&pod)?;
            ensure!(new != agent, "the old agent");
            let status = cluster.member(&member).await?.status.unwrap_or_default();
            ensure!(
                status.agent.as_ref().is_some_and(|agent| agent.connected),
                "{:?}",
                status.agent
            );
            Ok(())
        })
        .await?;
        cluster.settled(1).await?;
        ensure!(Process::etcd(&pod)? == etcd, "etcd was restarted");
        Ok(())
    })
}

#[test]
fn u16_a_blocked_link_is_said_within_ten_seconds_and_heals() -> Outcome {
    scenario("u16", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let member = cluster.member_names().await?.remove(0);
        let blocked = Blocked::new(cluster.etcd_process(&member).await?, 2383)?;
        let start = Instant::now();
        // Ten seconds, and what a busy machine adds.
        let within = Duration::from_secs(15);
        cluster
            .says(within, "AgentUnreachable", "True", &["LinkBlocked"], &[&member, "2383"])
            .await?;
        println!("the blocked link was said after {:.1} s", start.elapsed().as_secs_f32());
        cluster.etcd_at(&member).await?.put("key", "value").await?;
        cluster
            .says(within, "Available", "True", &["QuorumHealthy", "QuorumAvailable"], &[])
            .await?;
        drop(blocked);
        until("the condition goes by itself", Duration::from_secs(40), async || {
            let conditions = cluster.status().await?.conditions;
            match condition(&conditions, "AgentUnreachable") {
                Ok(found) if found.status == "True" => bail!("{}", found.message),
                _ => Ok(()),
            }
        })
        .await?;
        cluster.settled(3).await
    })
}

#[test]
fn t06_the_key_of_one_agent_opens_no_other() -> Outcome {
    scenario("t06", async |world| {
        let cluster = world.create("c", &spec::memory(3)).await?;
        cluster.settled(3).await?;
        let members = cluster.member_names().await?;
        let secrets: Api<Secret> = world.api();
        let secret = secrets.get(&format!("{}-agent-tls", members[0])).await?;
        let uid = cluster.get().await?.metadata.uid.context("a cluster without a UID")?;
        let name = proto::names::agent(&members[1], &uid);
        let ip = cluster
            .pod(&members[1])
            .await?
            .status
            .and_then(|status| status.pod_ip)
            .context("no address")?;
        let agent = SocketAddr::new(ip.parse()?, 2383);

        for (who, identity) in [("another agent", Some(Identity::of_secret(&secret)?)), ("nobody", None)] {
            let hello = Dialler::new(&secret, identity.as_ref())?
                .hello(world, agent, &name)
                .await;
            ensure!(hello.is_err(), "{who} was let in: {hello:?}");
        }
        // The same way with the right certificate leads in, so it was the certificate.
        let secrets: Api<Secret> = Api::namespaced(world.stage.client.clone(), OPERATOR_NAMESPACE);
        let ca = secrets.get("etcd-operator-agent-ca").await?;
        let operator = Identity::issued_by(&ca, proto::names::OPERATOR)?;
        let hello = Dialler::new(&secret, Some(&operator))?
            .hello(world, agent, &name)
            .await?;
        ensure!(
            hello.member.map(|member| member.name).as_ref() == Some(&members[1]),
            "another agent answered"
        );
        // And only under the operator's name.
        let stranger = Identity::issued_by(&ca, "stranger.example")?;
        let hello = Dialler::new(&secret, Some(&stranger))?.hello(world, agent, &name).await;
        ensure!(hello.is_err(), "a stranger was let in: {hello:?}");
        Ok(())
    })
}

#[test]
fn the_agents_http_says_health_status_and_metrics() -> Outcome {
    scenario("agent-http", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let agent = cluster.agent(&member);
        agent.get("/healthz").await?;
        agent.get("/readyz").await?;
        let status: serde_json::Value = serde_json::from_str(&agent.get("/status").await?)?;
        ensure!(
            status.to_string().contains(&member),
            "the status names no member: {status}"
        );
        let metrics = agent.get("/metrics").await?;
        check_metrics(&metrics)
    })
}

/// `OpenMetrics` text, as its content type says: each sample is a number of a family that was declared before it.
fn check_metrics(text: &str) -> Result<()> {
    let parsed =
        openmetrics_parser::openmetrics::parse_openmetrics(text).map_err(|error| anyhow::anyhow!("{error}: {text}"))?;
    let families: Vec<&String> = parsed.families.keys().collect();
    ensure!(
        families.iter().any(|name| name.starts_with("etcd_agent_")),
        "no metric of the agent's own: {families:?}"
    );
    Ok(())
}
