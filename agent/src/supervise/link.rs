//! The supervisor's end of the socket. The agent listens; it is tried for ever, as the agent may come, go and be replaced
//! at any time without etcd noticing.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use proto::supervisor::{ToAgent, ToSupervisor, to_agent};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::socket;

/// Short: a first start waits for it, and a connect to a socket that is not there costs nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// An agent that takes no message for so long is not there.
const SEND_TIME: Duration = Duration::from_secs(5);
/// Messages that wait for an agent that is slow to read.
const QUEUE: usize = 64;

/// What happens on the socket.
#[derive(Debug)]
pub enum Event {
    /// The agent is there; what is sent here goes to it.
    Up(Agent),
    /// It asks for something.
    Request(ToSupervisor),
    /// It is gone; the error, when it did not just close.
    Down(Option<io::Error>),
}

#[derive(Debug)]
enum Outgoing {
    Message(Box<to_agent::Message>),
    /// All before it is written.
    Mark(oneshot::Sender<()>),
}

/// The connected agent.
#[derive(Debug)]
pub struct Agent(mpsc::Sender<Outgoing>);

impl Agent {
    /// Sends a message, never waiting. False: the agent does not keep up and is to be dropped.
    #[must_use]
    pub fn send(&self, message: to_agent::Message) -> bool {
        self.0.try_send(Outgoing::Message(Box::new(message))).is_ok()
    }

    /// Waits until all that was sent is written, at most so long.
    pub async fn flush(&self, within: Duration) {
        let (mark, written) = oneshot::channel();
        if self.0.try_send(Outgoing::Mark(mark)).is_ok() {
            // An agent that does not read has chosen not to know.
            let _ = timeout(within, written).await;
        }
    }
}

/// Connects for ever; what happens goes to `events`.
pub async fn keep(socket: PathBuf, events: mpsc::Sender<Event>) {
    loop {
        if let Ok(stream) = UnixStream::connect(&socket).await {
            let error = serve(stream, &events).await.err();
            if events.send(Event::Down(error)).await.is_err() {
                return;
            }
        }
        sleep(PAUSE).await;
    }
}

async fn serve(stream: UnixStream, events: &mpsc::Sender<Event>) -> io::Result<()> {
    let (mut receiver, mut sender) = socket::split::<ToSupervisor, ToAgent>(stream);
    let (agent, mut outgoing) = mpsc::channel(QUEUE);
    if events.send(Event::Up(Agent(agent))).await.is_err() {
        return Ok(());
    }
    loop {
        tokio::select! {
            request = receiver.next() => match request? {
                Some(request) => {
                    if events.send(Event::Request(request)).await.is_err() {
                        return Ok(());
                    }
                }
                None => return Ok(()),
            },
            message = outgoing.recv() => match message {
                Some(Outgoing::Message(message)) => {
                    let message = ToAgent { message: Some(*message) };
                    timeout(SEND_TIME, sender.send(&message)).await.map_err(io::Error::from)??;
                }
                Some(Outgoing::Mark(mark)) => drop(mark.send(())),
                // The supervisor has dropped this agent.
                None => return Ok(()),
            },
        }
    }
}
