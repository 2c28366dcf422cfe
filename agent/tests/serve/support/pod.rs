//! One Pod: its volumes, its network, its two long-running containers.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use proto::agent as wire;
use proto::names;
use proto::pod::env;

use super::binaries;
use super::net::{Namespace, Net};
use super::operator::{Operator, PATIENCE};
use super::pki::{Ca, Leaf};

/// UID of the cluster object of all these tests.
pub const CLUSTER_UID: &str = "6a1f0c1e-0000-4000-8000-000000000001";

/// A Pod.
pub struct Pod {
    pub name: String,
    pub address: Ipv4Addr,
    pub minor: &'static str,
    pub medium: &'static str,
    pub namespace: Namespace,
    volumes: tempfile::TempDir,
    agent: Option<Child>,
    container: Option<Child>,
    operator: Leaf,
    ca: String,
}

impl Pod {
    /// Its volumes and its network; no container runs yet.
    pub fn new(net: &Net, ca: &Ca, name: &str, minor: &'static str) -> Self {
        let (namespace, address) = net.pod();
        let volumes = tempfile::tempdir().expect("a folder");
        for volume in ["data", "run", "tls"] {
            std::fs::create_dir(volumes.path().join(volume)).expect("a folder");
        }
        let pod = Self {
            name: name.to_owned(),
            address,
            minor,
            medium: "Disk",
            namespace,
            volumes,
            agent: None,
            container: None,
            operator: ca.operator(),
            ca: ca.pem(),
        };
        ca.agent(name, CLUSTER_UID).mount(&ca.pem(), &pod.volume("tls"));
        pod
    }

    /// With both containers.
    pub fn started(net: &Net, ca: &Ca, name: &str, minor: &'static str) -> Self {
        let mut pod = Self::new(net, ca, name, minor);
        pod.start_agent();
        pod.start_container();
        pod
    }

    /// A volume's folder.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.volumes.path().join(name)
    }

    /// A file of the agent's folder on the data volume.
    pub fn ours(&self, name: &str) -> PathBuf {
        self.volume("data").join("etcd-agent").join(name)
    }

    pub fn peer_url(&self) -> String {
        format!("http://{}:2380", self.address)
    }

    pub fn client_url(&self) -> String {
        format!("http://{}:2379", self.address)
    }

    /// The IDs that etcd makes of a seed's URL and token.
    pub fn seed_ids(&self, token: &str) -> (u64, u64) {
        let member = etcd::member_id(&[self.peer_url()], token);
        (member.0, etcd::cluster_id(&[member]).0)
    }

    pub fn seed(&self, token: &str) -> wire::directive::Order {
        let (member_id, cluster_id) = self.seed_ids(token);
        wire::directive::Order::Seed(wire::Seed {
            token: token.to_owned(),
            member_id,
            cluster_id,
            options: None,
        })
    }

    pub fn start_agent(&mut self) {
        let mut command = self.namespace.command();
        command
            .arg(binaries::agent())
            .args(["serve", "--data-volume"])
            .arg(self.volume("data"))
            .arg("--run-volume")
            .arg(self.volume("run"))
            .arg("--tls")
            .arg(self.volume("tls"))
            .env(env::MEMBER, &self.name)
            .env(env::NAMESPACE, "test")
            .env(env::CLUSTER, "c")
            .env(env::CLUSTER_UID, CLUSTER_UID)
            .env(env::PEER_URL, self.peer_url())
            .env(env::CLIENT_URL, self.client_url())
            .env(env::STORAGE_MEDIUM, self.medium)
            .env(env::LOG, "info");
        self.agent = Some(spawn(&mut command, &self.volumes.path().join("agent.log")));
    }

    /// The etcd container: the supervisor as PID 1, so that its end is the end of all in it.
    pub fn start_container(&mut self) {
        self.start_container_with(&binaries::agent());
    }

    /// The same with another binary of the supervisor.
    pub fn start_container_with(&mut self, supervisor: &Path) {
        let mut command = self.namespace.command();
        command
            .args(["unshare", "--pid", "--fork", "--kill-child", "--"])
            .arg(supervisor)
            .args(["supervise", "--data-volume"])
            .arg(self.volume("data"))
            .arg("--run-volume")
            .arg(self.volume("run"))
            .arg("--etcd")
            .arg(binaries::etcd(self.minor));
        self.container = Some(spawn(&mut command, &self.volumes.path().join("etcd.log")));
    }

    /// SIGKILL for the agent alone.
    pub fn kill_agent(&mut self) {
        kill(&mut self.agent);
    }

    /// SIGKILL for supervisor and etcd.
    pub fn kill_container(&mut self) {
        kill(&mut self.container);
    }

    /// PID of the agent.
    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().expect("the agent runs").id()
    }

    /// PID of etcd as the machine sees it, when one runs on this Pod's data.
    pub fn etcd_pid(&self) -> Option<u32> {
        let config = self.volume("run").join("etcd.yaml").to_string_lossy().into_owned();
        let processes = std::fs::read_dir("/proc").expect("/proc");
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .find(|pid: &u32| {
                let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let mut arguments = arguments.split('\0');
                arguments.next().is_some_and(|program| program.ends_with("/etcd"))
                    && arguments.any(|argument| argument.contains(&config))
            })
    }

    /// SIGKILL for etcd alone.
    pub fn kill_etcd(&self) {
        let pid = self.etcd_pid().expect("etcd runs");
        let status = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status()
            .expect("kill");
        assert!(status.success());
    }

    /// The link, as the operator dials it, again and again until it stands.
    pub async fn link(&self) -> Operator {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.dial(&self.operator, &self.ca).await {
                Ok(operator) => return operator,
                Err(error) => assert!(Instant::now() < deadline, "no link: {error:?}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// One try with this certificate.
    pub async fn dial(&self, leaf: &Leaf, ca: &str) -> Result<Operator, tonic::transport::Error> {
        let name = names::agent(&self.name, CLUSTER_UID);
        Operator::dial(self.address, name, leaf.client_config(ca), CLUSTER_UID).await
    }

    /// What supervisor and etcd have logged.
    pub fn etcd_log(&self) -> String {
        std::fs::read_to_string(self.volumes.path().join("etcd.log")).unwrap_or_default()
    }

    /// What the agent has logged.
    pub fn agent_log(&self) -> String {
        std::fs::read_to_string(self.volumes.path().join("agent.log")).unwrap_or_default()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.kill_container();
        self.kill_agent();
        if std::thread::panicking() {
            for (log, count) in [("agent.log", 40), ("etcd.log", 20)] {
                let text = std::fs::read_to_string(self.volumes.path().join(log)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines.len().saturating_sub(count);
                eprintln!("--- {} {log}\n{}", self.name, lines[last..].join("\n"));
            }
        }
    }
}

fn spawn(command: &mut Command, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("a log");
    command
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("the process starts")
}

fn kill(process: &mut Option<Child>) {
    if let Some(mut process) = process.take() {
        let _ = process.kill();
        let _ = process.wait();
    }
}
