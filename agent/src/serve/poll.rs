//! Asks the local etcd how it is: Status on the client port, and the metrics port while that does not answer (the
//! client port serves only after the member has published itself; the metrics port right after etcd's own start).

use std::time::{Duration, Instant};

use proto::pod;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::etcd_metrics::{self, Metrics};
use super::event::Event;

/// While etcd starts, or is a learner: each step is waited for by the operator.
const FAST: Duration = Duration::from_millis(100);
/// In the steady state: a lost leader is seen within 1.5 s.
const STEADY: Duration = Duration::from_secs(1);
/// A Status that takes longer counts as no answer. etcd answers it from memory.
const STATUS_LIMIT: Duration = Duration::from_millis(400);
/// The same for the metrics page.
const METRICS_LIMIT: Duration = Duration::from_millis(600);
/// The metrics page of a busy etcd has about 150 KiB.
const METRICS_BYTES: u64 = 4 * 1024 * 1024;

/// How often to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// etcd does not run.
    Idle,
    /// See `FAST`; metrics are read along with the status.
    Fast,
    /// See `STEADY`.
    Steady,
}

/// What is wanted of the poller. Any change of it makes it ask at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How often.
    pub pace: Pace,
    /// Raised to get an answer now.
    pub now: u64,
}

/// One answer.
#[derive(Debug)]
pub struct Polled {
    /// When it was asked.
    pub asked: Instant,
    /// The member's own status; the error when it gave none.
    pub status: Result<etcd::Status, String>,
    /// What the metrics page says, when it was read and could be.
    pub metrics: Option<Metrics>,
}

/// Asks for ever.
pub async fn run(admin: etcd::Admin, mut wanted: watch::Receiver<Wanted>, events: mpsc::Sender<Event>) {
    loop {
        let Wanted { pace, .. } = *wanted.borrow_and_update();
        let wait = match pace {
            Pace::Idle => {
                if wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            Pace::Fast => FAST,
            Pace::Steady => STEADY,
        };
        let polled = ask(&admin, pace).await;
        if events.send(Event::Polled(Box::new(polled))).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            changed = wanted.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

async fn ask(admin: &etcd::Admin, pace: Pace) -> Polled {
    let asked = Instant::now();
    let status = async {
        match tokio::time::timeout(STATUS_LIMIT, admin.status()).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer to Status within {STATUS_LIMIT:?}")),
        }
    };
    match pace {
        Pace::Fast => {
            let (status, metrics) = tokio::join!(status, read_metrics());
            Polled { asked, status, metrics }
        }
        Pace::Steady | Pace::Idle => {
            let status = status.await;
            let metrics = if status.is_err() { read_metrics().await } else { None };
            Polled { asked, status, metrics }
        }
    }
}

/// `None` when etcd does not answer: the status says why.
async fn read_metrics() -> Option<Metrics> {
    let page = tokio::time::timeout(METRICS_LIMIT, get_metrics()).await.ok()?.ok()?;
    Some(etcd_metrics::parse(&page))
}

/// HTTP/1.0, so that the answer is not chunked and ends with the connection.
async fn get_metrics() -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", pod::METRICS_PORT)).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .await?;
    let mut page = Vec::new();
    stream.take(METRICS_BYTES).read_to_end(&mut page).await?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
