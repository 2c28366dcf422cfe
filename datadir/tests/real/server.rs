//! Real etcds on loopback, asked through their JSON gateway and by their own tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of tests"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd::testing::{binaries, free_port};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What became of a start.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It answers as healthy.
    Serves,
    /// It has ended.
    Ends,
    /// Neither, for a while.
    Hangs,
}

/// One etcd and its data directory.
pub(crate) struct Etcd {
    pub(crate) name: String,
    pub(crate) data: TempDir,
    binaries: PathBuf,
    peer: u16,
    client: u16,
    child: Option<Child>,
}

impl Etcd {
    pub(crate) fn new(minor: &str, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            data: tempfile::tempdir().unwrap(),
            binaries: binaries(minor).unwrap(),
            peer: free_port().unwrap(),
            client: free_port().unwrap(),
            child: None,
        }
    }

    /// The same member on a copy of its data directory.
    pub(crate) fn copy(&self) -> Self {
        let data = tempfile::tempdir().unwrap();
        let status = Command::new("cp")
            .args(["-a", "--sparse=always"])
            .arg(self.data.path().join("."))
            .arg(data.path())
            .status();
        assert!(status.unwrap().success());
        Self {
            name: self.name.clone(),
            data,
            binaries: self.binaries.clone(),
            peer: self.peer,
            client: self.client,
            child: None,
        }
    }

    pub(crate) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer)
    }

    /// Starts it among `others`, which are in the cluster before it.
    pub(crate) fn start(&mut self, state: &str, others: &[&Etcd], flags: &[&str]) {
        let all = others.iter().copied().chain([&*self]);
        let initial: Vec<String> = all.map(|etcd| format!("{}={}", etcd.name, etcd.peer_url())).collect();
        let client_url = format!("http://127.0.0.1:{}", self.client);
        let log = std::fs::File::create(self.data.path().join("log")).unwrap();
        let child = Command::new(self.binaries.join("etcd"))
            .args(["--name", &self.name, "--initial-cluster-state", state])
            .args(["--initial-cluster", &initial.join(",")])
            .args(["--initial-advertise-peer-urls", &self.peer_url()])
            .args(["--listen-peer-urls", &self.peer_url()])
            .args([
                "--advertise-client-urls",
                &client_url,
                "--listen-client-urls",
                &client_url,
            ])
            .args([
                "--heartbeat-interval",
                "20",
                "--election-timeout",
                "200",
                "--log-level",
                "warn",
            ])
            .args(flags)
            .arg("--data-dir")
            .arg(self.data_dir())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// As [`Self::start`], until it serves.
    pub(crate) fn serve(&mut self, state: &str, others: &[&Etcd], flags: &[&str]) {
        self.start(state, others, flags);
        let outcome = self.outcome(Duration::from_secs(30));
        assert!(matches!(outcome, Outcome::Serves), "{outcome:?}: {}", self.log());
    }

    pub(crate) fn outcome(&mut self, patience: Duration) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < patience {
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                return Outcome::Ends;
            }
            if self
                .ask("GET", "/health", "")
                .is_some_and(|answer| answer["health"] == "true")
            {
                return Outcome::Serves;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Outcome::Hangs
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data.path().join("data")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("log")).unwrap_or_default()
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

    /// SIGTERM, to its end.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        self.child.take().unwrap().wait().unwrap();
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Output of its `etcdctl`.
    pub(crate) fn ctl(&self, args: &[&str]) -> Value {
        let output = Command::new(self.binaries.join("etcdctl"))
            .args(["--endpoints", &format!("127.0.0.1:{}", self.client), "-w", "json"])
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Output of its `etcdutl`.
    pub(crate) fn util(&self, args: &[&str]) -> Value {
        let output = Command::new(self.binaries.join("etcdutl"))
            .args(["-w", "json"])
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Puts keys with these numbers. True when all were acknowledged.
    pub(crate) fn put(&self, numbers: std::ops::Range<u32>, value_bytes: usize) -> bool {
        let value = "QUFB".repeat(value_bytes.div_ceil(3));
        let Ok(mut stream) = self.connect() else { return false };
        for number in numbers {
            let key = base64(format!("k{number:05}").as_bytes());
            let body = json!({"key": key, "value": value}).to_string();
            if request(&mut stream, "POST", "/v3/kv/put", &body).is_none_or(|answer| answer.get("header").is_none()) {
                return false;
            }
        }
        true
    }

    /// How many keys there are, as this member has them.
    pub(crate) fn keys(&self) -> Option<u64> {
        let body = json!({"key": "AA==", "range_end": "AA==", "count_only": true}).to_string();
        let answer = self.ask("POST", "/v3/kv/range", &body)?;
        answer.get("header")?;
        // The gateway leaves zeros out.
        Some(number(&answer["count"]).unwrap_or(0))
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Option<Value> {
        request(&mut self.connect().ok()?, method, path, body)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.client))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(stream)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A number, which the gateway writes as text where it has 64 bits.
pub(crate) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn request(stream: &mut TcpStream, method: &str, path: &str, body: &str) -> Option<Value> {
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        answer.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, content)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            match length {
                Some(length) if content.len() >= length => return serde_json::from_str(content).ok(),
                // Chunked, of one chunk.
                None if content.ends_with("0\r\n\r\n") => {
                    return serde_json::from_str(content.split("\r\n").nth(1)?).ok();
                }
                Some(_) | None => {}
            }
        }
    }
}

/// Of bytes whose number is a multiple of three.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks_exact(3).flat_map(|three| {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
    });
    digits.collect()
}
