//! One etcd process, and what it says of itself on its metrics port, which answers without a quorum too.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use etcd::{Access, Admin, testing::free_port};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::network::Network;

/// No call is waited for longer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) peer_url: String,
    pub(crate) client_url: String,
    peer_port: u16,
    metrics_port: u16,
    data: TempDir,
    child: Option<Child>,
    pub(crate) has_data: bool,
}

impl Node {
    pub(crate) fn new(network: &Network, slot: usize) -> Self {
        let [wire, peer_port, client, metrics_port] = [(); 4].map(|()| free_port().unwrap());
        network.lead_to(slot, wire, peer_port);
        Self {
            name: format!("n{slot}"),
            peer_url: format!("http://127.0.0.1:{wire}"),
            client_url: format!("http://127.0.0.1:{client}"),
            peer_port,
            metrics_port,
            data: tempfile::tempdir().unwrap(),
            child: None,
            has_data: false,
        }
    }

    /// Starts it, the first time as `state` among `initial` (name=URL,...).
    pub(crate) fn start(
        &mut self,
        binary: &Path,
        state: &str,
        initial: &str,
        token: &str,
        max_learners: Option<usize>,
    ) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        let peers = format!("http://127.0.0.1:{}", self.peer_port);
        let metrics = format!("http://127.0.0.1:{}", self.metrics_port);
        let mut command = Command::new(binary);
        command
            .args(["--name", &self.name, "--initial-cluster-state", state])
            .args(["--initial-cluster", initial, "--initial-cluster-token", token])
            .args(["--initial-advertise-peer-urls", &self.peer_url])
            .args(["--listen-peer-urls", &peers])
            .args(["--advertise-client-urls", &self.client_url])
            .args(["--listen-client-urls", &self.client_url])
            .args(["--listen-metrics-urls", &metrics])
            .arg("--unsafe-no-fsync")
            .arg("--data-dir")
            .arg(self.data.path().join("data"));
        if let Some(max) = max_learners {
            command.args(["--max-learners", &max.to_string()]);
        }
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        self.has_data = true;
    }

    fn log(&self) -> std::path::PathBuf {
        self.data.path().join("log")
    }

    /// The last lines of its log.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// It has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        let ended = self
            .child
            .as_mut()
            .is_none_or(|child| child.try_wait().unwrap().is_some());
        if ended {
            self.child = None;
        }
        !ended
    }

    pub(crate) async fn admin(&self) -> Admin {
        Admin::new(&self.client_url, &Access::Plain, DEADLINE).await.unwrap()
    }

    /// What it says of itself; `None` when it does not answer.
    pub(crate) async fn page(&self) -> Option<Page> {
        let ask = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.metrics_port)).await.ok()?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            Some(Page(text))
        };
        timeout(DEADLINE, ask).await.ok().flatten()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A page of metrics.
pub(crate) struct Page(String);

impl Page {
    fn value(&self, name: &str) -> Option<f64> {
        let lines = self.0.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
        values.next()
    }

    fn is(&self, name: &str) -> bool {
        self.value(name) == Some(1.0)
    }

    pub(crate) fn has_leader(&self) -> bool {
        self.is("etcd_server_has_leader")
    }

    pub(crate) fn leads(&self) -> bool {
        self.is("etcd_server_is_leader")
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    pub(crate) fn applied(&self) -> u64 {
        self.value("etcd_server_proposals_applied_total").unwrap_or(0.0) as u64
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    pub(crate) fn committed(&self) -> u64 {
        self.value("etcd_server_proposals_committed_total").unwrap_or(0.0) as u64
    }

    /// It has both streams of that peer.
    pub(crate) fn is_connected(&self, own: u64, peer: u64) -> bool {
        self.is(&format!(
            "etcd_network_active_peers{{Local=\"{own:x}\",Remote=\"{peer:x}\"}}"
        ))
    }
}
