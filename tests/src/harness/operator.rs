//! The operator's Deployment, and what can befall it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod},
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, Patch, PatchParams},
};
use serde_json::json;

use super::{Process, Stage, until};

/// Where it runs.
pub const NAMESPACE: &str = "etcd-operator-system";

const DEPLOYMENT: &str = "etcd-operator";
const LEASE: &str = "aa20b3a9.etcd-operator.cozystack.io";
const REPLICAS: i32 = 2;
const AGENT_IMAGE: &str = "--agent-image=";

/// The operator of a stage.
pub struct Operator<'a> {
    stage: &'a Stage,
}

impl<'a> Operator<'a> {
    pub(super) fn new(stage: &'a Stage) -> Self {
        Self { stage }
    }

    fn namespaced_pods(&self) -> Api<Pod> {
        Api::namespaced(self.stage.client.clone(), NAMESPACE)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.stage.client.clone(), NAMESPACE)
    }

    /// Its Pods that are not on their way out.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        pods(&self.stage.client).await
    }

    /// The Pod that acts, by the Lease.
    pub async fn leader(&self) -> Result<Pod> {
        let lease = self.leases().get(LEASE).await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let pods = self.pods().await?;
        let found = pods
            .into_iter()
            .find(|pod| !holder.is_empty() && holder.starts_with(&pod.name_any()));
        found.with_context(|| format!("no Pod of the operator holds the Lease; its holder is {holder:?}"))
    }

    /// Kills the one that acts, with no time to give up its Lease: its Pod goes, another one acts once the Lease has expired.
    pub async fn kill_leader(&self) -> Result<()> {
        let leader = until("the operator leads", Duration::from_secs(40), async || {
            self.leader().await
        })
        .await?;
        let process = Process::operator(leader.metadata.uid.as_deref().unwrap_or_default())?;
        process.kill()?;
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        self.namespaced_pods().delete(&leader.name_any(), &now).await?;
        Ok(())
    }

    /// Kills the one that acts. The next one need not wait: its Lease is given up in its place, which is safe because its
    /// process is known to be dead.
    pub async fn crash(&self) -> Result<()> {
        self.kill_leader().await?;
        let free = json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } });
        self.leases()
            .patch(LEASE, &PatchParams::default(), &Patch::Merge(free))
            .await?;
        Ok(())
    }

    /// Ends the one that acts as a drain does: it is told, and has time.
    pub async fn end_leader(&self) -> Result<()> {
        let leader = self.leader().await?;
        self.namespaced_pods()
            .delete(&leader.name_any(), &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// What a container of the operator's Pod has logged before its last restart.
    pub async fn log_before_restart(&self, pod: &str) -> Result<String> {
        let parameters = LogParams {
            previous: true,
            ..LogParams::default()
        };
        Ok(self.namespaced_pods().logs(pod, &parameters).await?)
    }

    /// Takes it away, and waits until it is gone.
    pub async fn stop(&self) -> Result<()> {
        self.scale(0).await?;
        until("the operator is gone", Duration::from_mins(1), async || {
            let left = self.namespaced_pods().list(&ListParams::default()).await?;
            ensure!(left.items.is_empty(), "{} Pods are left", left.items.len());
            Ok(())
        })
        .await
    }

    /// Brings it back, and waits until it leads.
    pub async fn start(&self) -> Result<()> {
        self.scale(REPLICAS).await?;
        wait_rolled_out(&self.stage.client).await?;
        until("the operator leads", Duration::from_mins(1), async || {
            self.leader().await
        })
        .await?;
        Ok(())
    }

    async fn scale(&self, replicas: i32) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.stage.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        deployments.patch(DEPLOYMENT, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Gives all agents another image from now on, and waits until an operator with it leads.
    pub async fn set_agent_image(&self, image: &str) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.stage.client.clone(), NAMESPACE);
        let mut deployment = deployments.get(DEPLOYMENT).await?;
        let template = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        let container = template
            .and_then(|spec| spec.containers.first_mut())
            .context("no container")?;
        for argument in container.args.iter_mut().flatten() {
            if argument.starts_with(AGENT_IMAGE) {
                *argument = format!("{AGENT_IMAGE}{image}");
            }
        }
        deployments
            .replace(DEPLOYMENT, &kube::api::PostParams::default(), &deployment)
            .await?;
        wait_rolled_out(&self.stage.client).await?;
        until("the operator leads", Duration::from_mins(1), async || {
            self.leader().await
        })
        .await?;
        Ok(())
    }

    /// `kubectl rollout restart`, and waits until it leads again.
    pub async fn restart(&self) -> Result<()> {
        self.stage
            .kubectl(&["-n", NAMESPACE, "rollout", "restart", "deployment/etcd-operator"])?;
        wait_rolled_out(&self.stage.client).await?;
        until("the operator leads", Duration::from_mins(1), async || {
            self.leader().await
        })
        .await?;
        Ok(())
    }

    /// A page of one of its Pods.
    pub async fn get(&self, pod: &Pod, port: u16, path: &str) -> Result<String> {
        let name = pod.name_any();
        let uri = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy{path}");
        let request = http::Request::get(uri).body(Vec::new())?;
        let answer = self.stage.client.request_text(request).await;
        answer.with_context(|| format!("{path} of {name}"))
    }

    /// What all of its Pods have logged since then.
    pub async fn logs_since(&self, since: Timestamp) -> Result<String> {
        self.logs(&LogParams {
            since_time: Some(since),
            ..LogParams::default()
        })
        .await
    }

    /// What its Pods have logged.
    pub(super) async fn logs(&self, parameters: &LogParams) -> Result<String> {
        let mut all = String::new();
        for pod in self.pods().await? {
            let name = pod.name_any();
            let text = self.namespaced_pods().logs(&name, parameters).await?;
            all.extend(text.lines().map(|line| format!("{name}: {line}\n")));
        }
        Ok(all)
    }
}

async fn pods(client: &Client) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let selector = ListParams::default().labels("app.kubernetes.io/name=etcd-operator");
    let all = api.list(&selector).await?;
    Ok(all
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect())
}

/// Waits until the Deployment is as it should be: all of its Pods are of the newest template, and ready.
pub(super) async fn wait_rolled_out(client: &Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let rolled_out = until("the operator is deployed", Duration::from_mins(2), async || {
        let deployment = deployments.get(DEPLOYMENT).await?;
        let status = deployment.status.unwrap_or_default();
        let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let counts = [status.replicas, status.updated_replicas, status.ready_replicas];
        let current = status.observed_generation >= deployment.metadata.generation;
        if !current || counts.iter().any(|count| count.unwrap_or(0) != wanted) {
            bail!("all, updated, ready: {counts:?} of {wanted}");
        }
        Ok(())
    })
    .await;
    let Err(error) = rolled_out else { return Ok(()) };
    let mut seen = Vec::new();
    for pod in pods(client).await? {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let log = api
            .logs(&pod.name_any(), &LogParams::default())
            .await
            .unwrap_or_else(|error| error.to_string());
        seen.push(format!("{}: {log}", super::digest::pod_line(&pod)));
    }
    Err(error.context(seen.join("\n")))
}
