//! The calls of the operator.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use proto::agent as wire;
use proto::agent::agent_server::Agent;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::watchers::{Watchers, Watching};
use crate::serve::directive::Refusal;
use crate::serve::event::{Event, NotTaken};
use crate::serve::maintenance::{self, Maintenance};

/// A report made on request takes no longer than this; then the last one is given.
const FRESH: Duration = Duration::from_secs(2);
/// An answer with lines stays below the limit of a message by cutting the oldest.
const LOG_BYTES: usize = 60 * 1024;

/// Answers the calls.
#[derive(Debug, Clone)]
pub struct Service {
    /// To the task that owns the state.
    pub events: mpsc::Sender<Event>,
    /// The latest report.
    pub reports: watch::Receiver<Arc<wire::Report>>,
    /// The local etcd.
    pub etcd: etcd::Admin,
    /// Longer calls to it.
    pub maintenance: Maintenance,
    /// Who the agent speaks for.
    pub member: wire::MemberRef,
    /// Who watches.
    pub watchers: Arc<Watchers>,
}

impl Service {
    async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> Event) -> Result<T, Status> {
        let (answer, answered) = oneshot::channel();
        let gone = || Status::unavailable(format!("the agent of {} is ending; call again", self.member.name));
        self.events.send(event(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    fn unimplemented(&self, call: &str) -> Status {
        Status::unimplemented(format!(
            "the agent of {} does not do {call} yet; use a newer agent image",
            self.member.name
        ))
    }
}

#[tonic::async_trait]
impl Agent for Service {
    async fn hello(&self, _: Request<wire::HelloRequest>) -> Result<Response<wire::HelloResponse>, Status> {
        Ok(Response::new(wire::HelloResponse {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            features: Vec::new(),
            member: Some(self.member.clone()),
        }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<wire::Report, Status>> + Send>>;

    async fn watch(&self, _: Request<wire::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let watching = Watching::new(Arc::clone(&self.watchers));
        // The latest value only: a slow reader skips reports, and no queue grows.
        let reports = WatchStream::new(self.reports.clone()).map(move |report| {
            watching.count();
            Ok(report.as_ref().clone())
        });
        Ok(Response::new(Box::pin(reports)))
    }

    async fn direct(&self, request: Request<wire::Directive>) -> Result<Response<wire::DirectResponse>, Status> {
        let directive = Box::new(request.into_inner());
        let number = self
            .ask(|answer| Event::Direct(directive, answer))
            .await?
            .map_err(|error| status(&error))?;
        Ok(Response::new(wire::DirectResponse { number }))
    }

    async fn status(&self, _: Request<wire::StatusRequest>) -> Result<Response<wire::Report>, Status> {
        let report = match tokio::time::timeout(FRESH, self.ask(Event::Report)).await {
            Ok(report) => report?,
            Err(_) => self.reports.borrow().as_ref().clone(),
        };
        Ok(Response::new(report))
    }

    async fn logs(&self, request: Request<wire::LogsRequest>) -> Result<Response<wire::LogsResponse>, Status> {
        let lines = match request.into_inner().lines {
            0 => 200,
            lines => lines.min(200),
        };
        let lines = self
            .ask(|answer| Event::Logs(lines, answer))
            .await?
            .map_err(|error| status(&error))?;
        Ok(Response::new(wire::LogsResponse {
            lines: newest(lines, LOG_BYTES),
        }))
    }

    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<wire::SnapshotProgress, Status>> + Send>>;

    async fn snapshot(&self, _: Request<wire::SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(self.unimplemented("Snapshot"))
    }

    async fn defragment(
        &self,
        _: Request<wire::DefragmentRequest>,
    ) -> Result<Response<wire::DefragmentResponse>, Status> {
        Err(self.unimplemented("Defragment"))
    }

    async fn move_leader(
        &self,
        request: Request<wire::MoveLeaderRequest>,
    ) -> Result<Response<wire::MoveLeaderResponse>, Status> {
        let target = etcd::MemberId(request.into_inner().target_member_id);
        // The deadline is the client's own.
        self.etcd
            .move_leader(target)
            .await
            .map_err(|error| maintenance::status(&error))?;
        tracing::info!(%target, "leadership moved");
        Ok(Response::new(wire::MoveLeaderResponse {}))
    }

    async fn compact(&self, _: Request<wire::CompactRequest>) -> Result<Response<wire::CompactResponse>, Status> {
        Err(self.unimplemented("Compact"))
    }

    async fn hash(&self, request: Request<wire::HashRequest>) -> Result<Response<wire::HashResponse>, Status> {
        let hash = self.maintenance.hash(request.into_inner().revision).await?;
        Ok(Response::new(hash))
    }
}

fn status(error: &NotTaken) -> Status {
    let message = error.to_string();
    match error {
        NotTaken::Refused(Refusal::Unknown { .. }) => Status::unimplemented(message),
        NotTaken::Refused(Refusal::Malformed { .. }) => Status::invalid_argument(message),
        NotTaken::Refused(Refusal::Refused { .. }) => Status::failed_precondition(message),
        NotTaken::NotNow { .. } => Status::unavailable(message),
    }
}

/// The newest lines that fit.
fn newest(mut lines: Vec<String>, limit: usize) -> Vec<String> {
    let mut bytes = 0;
    let fitting = lines.iter().rev().take_while(|line| {
        // A few bytes of framing for each.
        bytes += line.len() + 4;
        bytes <= limit
    });
    let surplus = lines.len() - fitting.count();
    lines.drain(..surplus);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_are_cut_so_that_the_answer_fits() {
        let lines: Vec<String> = (0..200)
            .map(|number| format!("{number:03}{}", "x".repeat(997)))
            .collect();
        let kept = newest(lines, LOG_BYTES);
        assert_eq!(kept.len(), 61);
        assert!(kept[60].starts_with("199"), "{}", &kept[60][..3]);
        assert_eq!(newest(vec!["short".to_owned()], LOG_BYTES), ["short"]);
    }
}
