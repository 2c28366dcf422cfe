//! Real etcds on loopback.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of tests"
)]

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use etcd::{Access, Admin};
use tempfile::TempDir;

/// The folder with the newest patch of a minor version that was built for the local Kubernetes, or `ETCD_BIN_DIR`
/// (the folder that holds `etcd-<version>-<pins>/etcd` for each).
pub(crate) fn binary(minor: &str) -> PathBuf {
    let cache = std::env::var_os("ETCD_BIN_DIR").map_or_else(
        || Path::new(&std::env::var_os("HOME").expect("HOME is set")).join(".cache/etcd-operator"),
        PathBuf::from,
    );
    let prefix = format!("etcd-{minor}.");
    let patch = |path: &PathBuf| -> Option<u32> {
        let name = path.file_name()?.to_str()?.strip_prefix(&prefix)?;
        name.split('-').next()?.parse().ok()
    };
    let newest = std::fs::read_dir(&cache)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.join("etcd").is_file())
        .filter_map(|path| patch(&path).map(|patch| (patch, path)))
        .max();
    let Some((_, folder)) = newest else {
        panic!(
            "no etcd {minor} in {}: run `make kube-up` once, it builds them",
            cache.display()
        );
    };
    folder.join("etcd")
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
            peer_url: format!("http://127.0.0.1:{}", free_port()),
            client_url: format!("http://127.0.0.1:{}", free_port()),
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

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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
