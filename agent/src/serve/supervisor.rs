//! The sidecar's end of the socket to the supervisor.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use proto::supervisor::to_agent::Message as FromSupervisor;
use proto::supervisor::to_supervisor::Message as Order;
use proto::supervisor::{Hello, ProcessState, ToAgent, ToSupervisor};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

use super::event::Event;
use crate::socket;

/// A supervisor says who it is within this time, or the connection is closed.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests that wait to be sent.
const QUEUE: usize = 32;

/// Which connection: a newer one replaces an older one, whose last words must not be taken for the newer one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId(u64);

/// What one connection says.
#[derive(Debug)]
pub enum Said {
    /// It is there.
    Connected(Supervisor, Box<Hello>),
    /// The process has changed.
    Process(Box<ProcessState>),
    /// It is gone.
    Gone,
}

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The supervisor has said so.
    #[error("the supervisor refused to {what}: {reason}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its words.
        reason: String,
    },
    /// It did not answer in time. It may have been done.
    #[error("the supervisor did not {what} within {limit:?}; is its disk slow?")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// How long it was waited.
        limit: Duration,
    },
    /// The connection was lost. It may have been done.
    #[error("the connection to the supervisor was lost while it was to {what}")]
    Lost {
        /// What was asked.
        what: &'static str,
    },
}

/// A handle to one connected supervisor.
#[derive(Debug, Clone)]
pub struct Supervisor {
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Request {
    order: Order,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
struct Answer {
    error: String,
    lines: Vec<String>,
}

impl Supervisor {
    /// Sends one order and waits until it is done.
    pub async fn request(&self, order: Order, limit: Duration) -> Result<(), Error> {
        self.ask(order, limit).await.map(drop)
    }

    /// The last lines that etcd wrote.
    pub async fn logs(&self, lines: u32, limit: Duration) -> Result<Vec<String>, Error> {
        self.ask(Order::Logs(proto::supervisor::Logs { lines }), limit).await
    }

    /// Waits until its connection has ended.
    pub async fn gone(&self) {
        self.requests.closed().await;
    }

    async fn ask(&self, order: Order, limit: Duration) -> Result<Vec<String>, Error> {
        let what = verb(&order);
        let (answer, answered) = oneshot::channel();
        let exchange = async {
            self.requests
                .send(Request { order, answer })
                .await
                .map_err(|_| Error::Lost { what })?;
            answered.await.map_err(|_| Error::Lost { what })
        };
        match tokio::time::timeout(limit, exchange).await {
            Err(_) => Err(Error::Timeout { what, limit }),
            Ok(Err(error)) => Err(error),
            Ok(Ok(Answer { error, lines })) if error.is_empty() => Ok(lines),
            Ok(Ok(Answer { error: reason, .. })) => Err(Error::Refused { what, reason }),
        }
    }
}

/// For messages: "refused to …".
fn verb(order: &Order) -> &'static str {
    match order {
        Order::Start(_) => "start etcd",
        Order::Stop(_) => "stop etcd",
        Order::WriteFile(_) => "write a file",
        Order::MoveAside(_) => "move the data directory aside",
        Order::Logs(_) => "send its log",
        Order::Upgrade(_) => "replace itself",
        Order::SetRepeatable(_) => "take the configuration",
        Order::RemoveTree(_) => "delete the data directory",
        Order::Watchdog(_) => "suspend the watchdog",
        Order::Recover(_) => "begin the recovery",
        Order::RemoveQuarantined(_) => "delete what was set aside",
    }
}

/// Makes the socket. A stale one of an agent before us is replaced.
pub fn bind(socket: &Path) -> anyhow::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove the stale socket {}", socket.display()));
        }
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(socket).with_context(|| {
        format!(
            "cannot listen on {}; is the run volume mounted there?",
            socket.display()
        )
    })
}

/// Accepts supervisors for ever.
pub async fn accept(listener: UnixListener, events: mpsc::Sender<Event>) {
    let mut id = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                id += 1;
                tokio::spawn(connection(ConnectionId(id), stream, events.clone()).in_current_span());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a supervisor");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(id: ConnectionId, stream: UnixStream, events: mpsc::Sender<Event>) {
    if let Err(error) = talk(id, stream, &events).await {
        tracing::warn!(%error, "connection to the supervisor ended");
    }
    // The agent ends when nobody takes events any more.
    let _ = events.send(Event::Supervisor(id, Said::Gone)).await;
}

async fn talk(id: ConnectionId, stream: UnixStream, events: &mpsc::Sender<Event>) -> io::Result<()> {
    let (mut incoming, mut outgoing) = socket::split::<ToAgent, ToSupervisor>(stream);
    let first = tokio::time::timeout(HELLO_TIMEOUT, incoming.next()).await??;
    let Some(ToAgent {
        message: Some(FromSupervisor::Hello(hello)),
    }) = first
    else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it did not begin with Hello",
        ));
    };
    let (requests, mut queue) = mpsc::channel(QUEUE);
    let said = Said::Connected(Supervisor { requests }, Box::new(hello));
    let _ = events.send(Event::Supervisor(id, said)).await;

    let mut last = 0;
    let mut open: HashMap<u64, (oneshot::Sender<Answer>, Vec<String>)> = HashMap::new();
    loop {
        tokio::select! {
            message = incoming.next() => match message?.map(|message| message.message) {
                None => return Ok(()),
                Some(Some(FromSupervisor::Process(process))) => {
                    let _ = events.send(Event::Supervisor(id, Said::Process(Box::new(process)))).await;
                }
                Some(Some(FromSupervisor::Logs(logs))) => {
                    // Only requests for the log are answered by lines, and their `Done` follows the lines.
                    for (_, lines) in open.values_mut() {
                        lines.extend(logs.lines.iter().cloned());
                    }
                }
                Some(Some(FromSupervisor::Done(done))) => {
                    if let Some((answer, lines)) = open.remove(&done.request) {
                        // Whoever asked may have given up.
                        let _ = answer.send(Answer { error: done.error, lines });
                    }
                }
                // A second Hello, or a message of a newer protocol.
                Some(Some(FromSupervisor::Hello(_)) | None) => {}
            },
            request = queue.recv() => match request {
                // The agent has turned to a newer connection.
                None => return Ok(()),
                Some(Request { order, answer }) => {
                    last += 1;
                    open.insert(last, (answer, Vec::new()));
                    outgoing.send(&ToSupervisor { request: last, message: Some(order) }).await?;
                }
            },
        }
    }
}
