//! Candidates against an API server that keeps one Lease.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use hyper::{Method, Request, Response, StatusCode, body::Bytes};
use kube::client::Body;

use super::*;

/// The Lease as the API server has it.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    lease: Option<Lease>,
    version: u64,
    /// The next write is done, and its answer is lost.
    swallow: bool,
}

impl Server {
    fn candidate(&self, name: &str) -> Election {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Election::new(Client::new(service, "ns"), "ns", name, Arc::default())
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let sent: Option<Lease> =
            serde_json::from_slice(&body.collect_bytes().await.unwrap_or_else(|_| Bytes::new())).ok();
        let (answer, swallowed) = self.change(&head.method, sent);
        if swallowed {
            std::future::pending::<()>().await;
        }
        answer
    }

    fn change(&self, method: &Method, sent: Option<Lease>) -> (Response<Body>, bool) {
        let mut stored = self.0.lock().unwrap();
        let failed = |code: StatusCode, reason: &str| {
            let status = Status::failure(reason, reason).with_code(code.as_u16());
            (json(code, &status), false)
        };
        let held = stored
            .lease
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        let version = sent.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        match (method, &held) {
            (_, None) if *method != Method::POST => failed(StatusCode::NOT_FOUND, "NotFound"),
            (&Method::POST, Some(_)) => failed(StatusCode::CONFLICT, "AlreadyExists"),
            (&Method::PUT, Some(_)) if version != held => failed(StatusCode::CONFLICT, "Conflict"),
            (&Method::GET, _) => (json(StatusCode::OK, stored.lease.as_ref().unwrap()), false),
            _ => {
                stored.version += 1;
                let mut lease = sent.unwrap();
                lease.metadata.resource_version = Some(stored.version.to_string());
                stored.lease = Some(lease.clone());
                (json(StatusCode::OK, &lease), std::mem::take(&mut stored.swallow))
            }
        }
    }

    fn delete(&self) {
        self.0.lock().unwrap().lease = None;
    }
}

fn json<T: serde::Serialize>(code: StatusCode, value: &T) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(value).unwrap());
    Response::builder().status(code).body(body).unwrap()
}

#[tokio::test]
async fn u11_a_lease_that_is_deleted_stays_its_holders() {
    let server = Server::default();
    let (mut holder, mut other) = (server.candidate("a"), server.candidate("b"));
    assert_eq!(holder.attempt().await, Ok(true));
    assert_eq!(other.attempt().await, Ok(false));
    server.delete();
    assert_eq!(other.attempt().await, Ok(false), "the holder does not know yet");
    assert_eq!(holder.attempt().await, Ok(true), "made again");
    assert_eq!(other.attempt().await, Ok(false));
}

#[tokio::test]
async fn u11_a_holder_whose_lease_was_taken_knows_at_its_next_renewal() {
    let server = Server::default();
    let mut holder = server.candidate("a");
    assert_eq!(holder.attempt().await, Ok(true));
    server.delete();
    // A process that has just started has seen nobody.
    let mut fresh = server.candidate("c");
    assert_eq!(fresh.attempt().await, Ok(true));
    assert_eq!(holder.attempt().await, Ok(false));
    assert!(holder.observed.holder().is_some_and(|holder| holder.starts_with("c_")));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_does_not_cost_the_turn() {
    let server = Server::default();
    let mut holder = server.candidate("a");
    assert_eq!(holder.attempt().await, Ok(true));
    server.0.lock().unwrap().swallow = true;
    assert!(holder.attempt().await.is_err());
    assert_eq!(holder.attempt().await, Ok(true));
}
