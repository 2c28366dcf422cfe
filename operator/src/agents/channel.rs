//! HTTP/2 over an accepted TLS connection, as thin as gRPC allows.
//!
//! tonic's own channel brings a queue, a reconnecting layer and a worker task for each link; with thousands of links
//! that is memory without use, since [`super::link`] reconnects itself.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, Connection, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{
    body::Body,
    codegen::http::{Request, Response},
};

use super::alive;

/// What an agent may send ahead of being read: a quarter of the largest message.
const STREAM_WINDOW: u32 = 16 * 1024;

/// A handle on the connection; cheap to clone.
#[derive(Clone)]
pub(super) struct Channel(SendRequest<Body>);

type Driver<T> = Connection<TokioIo<T>, Body, TokioExecutor>;

/// Speaks HTTP/2 on `io`. The second value must be polled for anything to move, and ends with the connection.
pub(super) async fn handshake<T>(io: T) -> Result<(Channel, Driver<T>), hyper::Error>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (send, driver) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .keep_alive_interval(alive::PING)
        .keep_alive_timeout(alive::PING_ANSWER)
        .keep_alive_while_idle(true)
        .max_header_list_size(8 * 1024)
        .handshake(TokioIo::new(io))
        .await?;
    Ok((Channel(send), driver))
}

impl tower::Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
