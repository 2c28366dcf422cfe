//! A local Kubernetes with the operator in it, shared by the scenarios of one run: each runs in a process of its own, so the
//! first one starts it and the others find it. `tests/run.sh` takes it down.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use sha2::{Digest, Sha256};

use super::{Operator, operator};
use crate::kube::{Config, Lifetime, LocalKube, project};

/// A Kubernetes with the operator in it.
pub struct Stage {
    /// The Kubernetes.
    pub kube: LocalKube,
    /// A client with all rights.
    pub client: Client,
}

impl Stage {
    /// One node, for everything but lost nodes.
    pub async fn one_node() -> Result<Self> {
        Self::up(Config {
            name: "test".into(),
            nodes: 1,
            quick_node_loss: false,
            lifetime: Lifetime::UntilDown,
        })
        .await
    }

    /// Three nodes, whose loss Kubernetes notices after 6 s.
    pub async fn three_nodes() -> Result<Self> {
        Self::up(Config {
            name: "test-nodes".into(),
            nodes: 3,
            quick_node_loss: true,
            lifetime: Lifetime::UntilDown,
        })
        .await
    }

    /// A Kubernetes of that kind, with the operator of this work tree in it.
    pub async fn up(config: Config) -> Result<Self> {
        let _lock = lock(&config.name).await?;
        let kube = LocalKube::up(config).await?;
        let client = kube.client().await?;
        deploy(&kube, &client).await?;
        Ok(Self { kube, client })
    }

    /// The operator in it.
    #[must_use]
    pub fn operator(&self) -> Operator<'_> {
        Operator::new(self)
    }

    /// Runs `kubectl` and gives its standard output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&self.kube, arguments, None)
    }

    /// Runs `kubectl`, with that text as its standard input, and gives its standard output.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        kubectl(&self.kube, arguments, Some(input))
    }

    /// The agent's image of this work tree under another name, on every node.
    pub async fn agent_image_as(&self, name: &str) -> Result<()> {
        let to = self
            .kube
            .folder()
            .join(format!("{}.tar", name.replace(['/', ':'], "-")));
        crate::kube::renamed(&image("etcd-agent"), &format!("docker.io/library/{name}"), &to)?;
        self.kube.load_image(&to).await
    }

    /// Applies the manifests of `deploy/` once more: for scenarios that have changed what came of them.
    pub fn apply_manifests(&self) -> Result<()> {
        apply(&self.kube, &manifests(&self.kube)?)
    }
}

/// Only one process brings a stage into its state.
async fn lock(name: &str) -> Result<File> {
    let path = project().join("target").join(format!("stage-{name}.lock"));
    tokio::task::spawn_blocking(move || {
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.lock()?;
        Ok(file)
    })
    .await?
}

/// Brings the operator of this work tree in, unless it is there already.
async fn deploy(kube: &LocalKube, client: &Client) -> Result<()> {
    let images = ["etcd-operator", "etcd-agent"].map(image);
    let manifests = manifests(kube)?;
    let mut key = Sha256::new();
    for image in &images {
        let content =
            fs::read(image).with_context(|| format!("{} is not there; run deploy/images.sh", image.display()))?;
        key.update(content);
    }
    key.update(&manifests);
    let key = format!("{:x}", key.finalize());
    let stamp = kube.folder().join("deployed");
    let before = fs::read_to_string(&stamp).ok();
    if before.as_ref() == Some(&key) {
        return Ok(());
    }
    for image in &images {
        kube.load_image(image).await?;
    }
    apply(kube, &manifests)?;
    if before.is_some() {
        // The images have new content under their old names.
        kubectl(
            kube,
            &[
                "-n",
                operator::NAMESPACE,
                "rollout",
                "restart",
                "deployment/etcd-operator",
            ],
            None,
        )?;
    }
    operator::wait_rolled_out(client).await?;
    fs::write(&stamp, key)?;
    Ok(())
}

fn image(name: &str) -> PathBuf {
    project().join("target/images").join(format!("{name}.tar"))
}

fn manifests(kube: &LocalKube) -> Result<String> {
    kubectl(kube, &["kustomize", &project().join("deploy").to_string_lossy()], None)
}

fn apply(kube: &LocalKube, manifests: &str) -> Result<()> {
    // The second time, because kinds must be known before objects of them.
    let arguments = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    if kubectl(kube, &arguments, Some(manifests)).is_err() {
        kubectl(kube, &arguments, Some(manifests))?;
    }
    Ok(())
}

fn kubectl(kube: &LocalKube, arguments: &[&str], input: Option<&str>) -> Result<String> {
    let mut command = kube.kubectl();
    command.args(arguments);
    run(command, input).with_context(|| format!("kubectl {}", arguments.join(" ")))
}

/// Runs a command to its end and gives its standard output.
pub(super) fn run(mut command: Command, input: Option<&str>) -> Result<String> {
    let mut child = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    match String::from_utf8(output.stdout) {
        Ok(text) => Ok(text),
        Err(_) => bail!("its output is no text"),
    }
}
