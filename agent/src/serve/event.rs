//! What the one task that owns the state hears.

use proto::agent as wire;
use tokio::sync::oneshot;

use super::directive::Refusal;
use super::directory::Directory;
use super::poll::Polled;
use super::standing::Standing;
use super::supervisor::{ConnectionId, Error, Said};

/// One thing that has happened, or that somebody wants to know.
#[derive(Debug)]
pub enum Event {
    /// From a supervisor.
    Supervisor(ConnectionId, Said),
    /// The directory was looked at.
    Inspected(Box<Inspected>),
    /// etcd was asked.
    Polled(Box<Polled>),
    /// Orders to the supervisor were carried out, or one of them was not.
    Acted(Result<(), Error>),
    /// The operator sends a directive; the answer is the number now held.
    Direct(Box<wire::Directive>, oneshot::Sender<Result<u64, NotTaken>>),
    /// Somebody wants a report made from now on.
    Report(oneshot::Sender<wire::Report>),
    /// Somebody wants the last lines of etcd's log.
    Logs(u32, oneshot::Sender<Result<Vec<String>, NotTaken>>),
}

/// The result of an inspection.
#[derive(Debug)]
pub struct Inspected {
    /// The directory.
    pub directory: Directory,
    /// What stands, read only while the agent has not learned it yet.
    pub standing: Option<Result<Standing, String>>,
}

/// Why a call was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// The directive is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Not now; worth another try.
    #[error("the agent of {member} cannot do this now: {detail}; try again")]
    NotNow {
        /// Which member.
        member: String,
        /// Why.
        detail: String,
    },
}
