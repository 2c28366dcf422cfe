//! The CA and its Secret, against an API server that keeps one Secret.

use std::{convert::Infallible, sync::Mutex};

use hyper::{Method, Request, Response, StatusCode, body::Bytes};
use kube::{client::Body, core::Status};

use super::*;

#[derive(Clone, Default)]
struct Server {
    stored: Arc<Mutex<Option<Secret>>>,
    /// It takes requests and says nothing.
    silent: bool,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                if server.silent {
                    std::future::pending::<()>().await;
                }
                let (head, body) = request.into_parts();
                let sent = body.collect_bytes().await.unwrap_or_else(|_| Bytes::new());
                Ok::<_, Infallible>(server.answer(&head.method, serde_json::from_slice(&sent).ok()))
            }
        });
        Client::new(service, "ns")
    }

    fn answer(&self, method: &Method, sent: Option<Secret>) -> Response<Body> {
        let mut stored = self.stored.lock().unwrap();
        match (method, &*stored) {
            (&Method::GET, Some(secret)) => json(StatusCode::OK, secret),
            (&Method::GET, None) => json(
                StatusCode::NOT_FOUND,
                &Status::failure("no such Secret", "NotFound").with_code(404),
            ),
            (&Method::POST, Some(_)) => json(
                StatusCode::CONFLICT,
                &Status::failure("it exists", "AlreadyExists").with_code(409),
            ),
            _ => {
                *stored = sent;
                json(StatusCode::OK, &*stored)
            }
        }
    }
}

fn json<T: serde::Serialize>(code: StatusCode, value: &T) -> Response<Body> {
    Response::builder()
        .status(code)
        .body(Body::from(serde_json::to_vec(value).unwrap()))
        .unwrap()
}

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

#[tokio::test]
async fn a_ca_that_was_replaced_while_this_replica_followed_is_taken_over() {
    let server = Server::default();
    let follower = Authority::load(&server.client(), "ns", now()).await.unwrap();
    let mut changes = follower.changes();
    let other = Bundle::generate(now()).unwrap();
    *server.stored.lock().unwrap() = Some(secret("ns", other.to_data(), None));
    follower.refresh(&server.client(), "ns", now()).await.unwrap();
    assert_eq!(follower.bundle().fingerprint(), other.fingerprint());
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    follower.refresh(&server.client(), "ns", now()).await.unwrap();
    assert!(!changes.has_changed().unwrap(), "the same again is no news");
}

#[tokio::test]
async fn a_lost_secret_is_put_back_as_it_was() {
    let server = Server::default();
    let authority = Authority::load(&server.client(), "ns", now()).await.unwrap();
    let before = authority.bundle().to_data();
    *server.stored.lock().unwrap() = None;
    authority.refresh(&server.client(), "ns", now()).await.unwrap();
    assert_eq!(
        server.stored.lock().unwrap().as_ref().unwrap().data.as_ref(),
        Some(&before)
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_says_nothing_is_not_waited_for_for_ever() {
    let server = Server {
        silent: true,
        ..Server::default()
    };
    let error = Authority::load(&server.client(), "ns", now()).await.unwrap_err();
    assert!(error.is_from_api(), "{error}");
}

#[tokio::test]
async fn a_secret_that_holds_no_ca_leaves_the_one_in_use() {
    let server = Server::default();
    let authority = Authority::load(&server.client(), "ns", now()).await.unwrap();
    let before = authority.bundle().fingerprint();
    *server.stored.lock().unwrap() = Some(Secret::default());
    let error = authority.refresh(&server.client(), "ns", now()).await.unwrap_err();
    assert!(!error.is_from_api(), "{error}");
    assert_eq!(authority.bundle().fingerprint(), before);
}
