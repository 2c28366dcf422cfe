//! Does etcd answer? One cheap question to its metrics listener.
//!
//! The question is for a path that etcd does not serve: the 404 proves that the process runs, accepts and schedules,
//! which is all that the watchdog judges, and takes no lock and no raft round: `/livez` and `/health` are silent during a
//! defragmentation, and `/metrics` costs etcd some milliseconds each time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::watchdog::Watchdog;

/// How often a starting etcd is asked: first often, as somebody waits for it, then less so.
const EARLY: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_millis(500);
const EARLY_TIME: Duration = Duration::from_secs(10);

/// Has the etcd of this process ID answered?
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// The process that was asked.
    pub pid: i32,
    /// It has answered in time.
    pub heard: bool,
}

/// Where the etcd with this configuration serves its metrics, as seen from inside the Pod; `None` when it does not.
#[must_use]
pub fn address(config: &str) -> Option<SocketAddr> {
    let value = config
        .lines()
        .find_map(|line| line.strip_prefix("listen-metrics-urls:"))?;
    let first = value.trim().trim_matches(['"', '\'']).split(',').next()?.trim();
    let mut address: SocketAddr = first.strip_prefix("http://")?.trim_end_matches('/').parse().ok()?;
    if address.ip().is_unspecified() {
        // Go listens on `[::]` for both families; where IPv4 is off, 127.0.0.1 is still on the loopback device.
        address.set_ip([127, 0, 0, 1].into());
    }
    Some(address)
}

/// Asks for ever; each answer and each missed one goes to `beats`. `served`: it has answered before.
pub async fn watch(
    pid: i32,
    address: SocketAddr,
    patience: Duration,
    mut served: bool,
    beats: mpsc::UnboundedSender<Beat>,
) {
    let interval = Watchdog::interval(patience);
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        let heard = timeout(interval, answers(address)).await.unwrap_or(false);
        served |= heard;
        if beats.send(Beat { pid, heard }).is_err() {
            return;
        }
        let pause = match (served, begun.elapsed() < EARLY_TIME) {
            (true, _) => interval.saturating_sub(asked.elapsed()),
            (false, true) => EARLY,
            (false, false) => LATER,
        };
        sleep(pause).await;
    }
}

async fn answers(address: SocketAddr) -> bool {
    const STATUS: &[u8] = b"HTTP/1.";
    let mut start = [0; STATUS.len()];
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"HEAD /etcd-agent HTTP/1.0\r\n\r\n").await?;
        stream.read_exact(&mut start).await
    };
    asked.await.is_ok() && start == *STATUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_listener_is_found_in_the_configuration() {
        let table = [
            (
                "name: a\nlisten-metrics-urls: http://0.0.0.0:2381\n",
                Some("127.0.0.1:2381"),
            ),
            ("listen-metrics-urls: \"http://[::]:2381\"", Some("127.0.0.1:2381")),
            (
                "listen-metrics-urls: http://10.1.2.3:99/,http://[::1]:2",
                Some("10.1.2.3:99"),
            ),
            ("listen-metrics-urls: http://[fd00::1]:2381", Some("[fd00::1]:2381")),
            ("listen-metrics-urls: https://10.1.2.3:99", None),
            ("name: a", None),
        ];
        for (config, wanted) in table {
            assert_eq!(
                address(config).map(|address| address.to_string()).as_deref(),
                wanted,
                "{config}"
            );
        }
    }
}
