//! A scenario's frame: a stage, a namespace of its own, a digest when it fails, and an end that leaves nothing.

use std::{io::Write, panic::AssertUnwindSafe, sync::Arc};

use anyhow::{Result, anyhow};
use crds::EtcdCluster;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cluster, Stage, digest};

/// Set: namespaces of failed scenarios stay, to be looked at.
const KEEP: &str = "KEEP_FAILED";

/// What a scenario happens in.
pub struct World {
    /// The Kubernetes with the operator.
    pub stage: Arc<Stage>,
    /// The namespace of this scenario.
    pub namespace: String,
}

/// What a test gives back.
pub type Outcome = Result<(), Failed>;

/// Why a scenario failed: causes, and no stack, which says nothing about a cluster.
pub struct Failed(String);

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl std::fmt::Debug for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Runs a scenario on one node.
pub fn scenario(name: &str, body: impl AsyncFnOnce(&World) -> Result<()>) -> Outcome {
    run(name, Stage::one_node(), body).map_err(Failed::from)
}

/// Runs a scenario on three nodes, which may be lost.
pub fn scenario_on_nodes(name: &str, body: impl AsyncFnOnce(&World) -> Result<()>) -> Outcome {
    run(name, Stage::three_nodes(), body).map_err(Failed::from)
}

fn run(
    name: &str,
    stage: impl Future<Output = Result<Stage>>,
    body: impl AsyncFnOnce(&World) -> Result<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let world = World::new(Arc::new(stage.await?), name).await?;
        let outcome = AssertUnwindSafe(body(&world)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(anyhow!("panic: {}", words_of(panic.as_ref()))));
        if let Err(error) = &outcome {
            let mut out = std::io::stderr();
            let digest = world.digest().await;
            let _ = writeln!(out, "{name} failed: {error:#}\n\n{digest}");
        }
        if outcome.is_ok() || std::env::var_os(KEEP).is_none() {
            world.end().await?;
        }
        outcome
    })
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without words")
        .to_owned()
}

impl World {
    async fn new(stage: Arc<Stage>, name: &str) -> Result<Self> {
        // The same scenario may just have run, and its namespace may still be going.
        let namespace = format!("{name}-{}", std::process::id());
        let world = Self {
            stage,
            namespace: namespace.clone(),
        };
        world.create_namespace(&namespace).await?;
        Ok(world)
    }

    /// The same with another namespace, which the caller has made and deletes.
    #[must_use]
    pub fn in_namespace(&self, name: &str) -> Self {
        Self {
            stage: self.stage.clone(),
            namespace: name.into(),
        }
    }

    /// Makes a namespace.
    pub async fn create_namespace(&self, name: &str) -> Result<()> {
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        Api::all(self.stage.client.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(())
    }

    /// A namespace is on its way out.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        Api::<Namespace>::all(self.stage.client.clone())
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The namespace goes in the background; that nothing is left of it is a scenario of its own (U17).
    async fn end(&self) -> Result<()> {
        self.delete_namespace(&self.namespace).await
    }

    /// All there is to say of this namespace, for people who look for what went wrong.
    pub async fn digest(&self) -> String {
        digest::of(&self.stage, &self.namespace).await
    }

    /// Objects of one kind in this namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        Api::namespaced(self.stage.client.clone(), &self.namespace)
    }

    /// Makes a cluster.
    pub async fn create(&self, name: &str, spec: &Value) -> Result<Cluster<'_>> {
        let object = json!({
            "apiVersion": "etcd-operator.cozystack.io/v1alpha2",
            "kind": "EtcdCluster",
            "metadata": { "name": name },
            "spec": spec,
        });
        let object: EtcdCluster = serde_json::from_value(object)?;
        self.api().create(&PostParams::default(), &object).await?;
        Ok(Cluster::new(self, name))
    }
}
