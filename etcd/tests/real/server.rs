//! Real etcds on loopback.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of tests"
)]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use etcd::{Access, Admin, testing::free_port};
use tempfile::TempDir;

/// The newest etcd of a minor version.
pub(crate) fn binary(minor: &str) -> PathBuf {
    etcd::testing::binaries(minor).unwrap().join("etcd")
}

/// One etcd process, killed when it is dropped.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) peer_url: String,
    pub(crate) client_url: String,
    binary: PathBuf,
    data: TempDir,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn new(binary: &Path, name: &str) -> Self {
        Self {
            name: name.into(),
            peer_url: format!("http://127.0.0.1:{}", free_port().unwrap()),
            client_url: format!("http://127.0.0.1:{}", free_port().unwrap()),
            binary: binary.into(),
            data: tempfile::tempdir().unwrap(),
            child: None,
        }
    }

    /// Starts it with `state` (`new` or `existing`) among `members`.
    pub(crate) fn start(&mut self, state: &str, token: &str, members: &[&Server]) {
        let own = [(&self.name, &self.peer_url)];
        let others = members.iter().map(|member| (&member.name, &member.peer_url));
        let initial: Vec<String> = own
            .into_iter()
            .chain(others)
            .map(|(name, url)| format!("{name}={url}"))
            .collect();
        let log = std::fs::File::create(self.data.path().join("log")).unwrap();
        let child = Command::new(&self.binary)
            .args([
                "--name",
                &self.name,
                "--initial-cluster-state",
                state,
                "--initial-cluster-token",
                token,
            ])
            .args(["--initial-cluster", &initial.join(",")])
            .args([
                "--initial-advertise-peer-urls",
                &self.peer_url,
                "--listen-peer-urls",
                &self.peer_url,
            ])
            .args([
                "--advertise-client-urls",
                &self.client_url,
                "--listen-client-urls",
                &self.client_url,
            ])
            .arg("--data-dir")
            .arg(self.data.path().join("data"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(
            Command::new("kill")
                .args([&format!("-{name}"), &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) async fn admin(&self) -> Admin {
        Admin::new(&self.client_url, &Access::Plain, Duration::from_secs(2))
            .await
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
