//! Anyone in the Pod network may connect: few connections at the same time, and none for long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Takes so many connections, each for so long.
#[derive(Debug)]
pub(super) struct Limited {
    listener: TcpListener,
    connections: Arc<Semaphore>,
    time: Duration,
}

impl Limited {
    pub(super) fn new(listener: TcpListener, connections: usize, time: Duration) -> Self {
        Self {
            listener,
            connections: Arc::new(Semaphore::new(connections)),
            time,
        }
    }
}

impl axum::serve::Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // Only a closed semaphore gives none, and nobody closes it.
        let permit = Arc::clone(&self.connections).acquire_owned().await.ok();
        // axum's own: it goes on after errors.
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        let connection = Connection {
            stream,
            end: Box::pin(tokio::time::sleep(self.time)),
            _permit: permit,
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection; after its time it gives errors.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn over(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.over(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.over(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.over(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn silent_and_unreading_connections_keep_nobody_out_for_long() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limited = Limited::new(listener, 4, Duration::from_millis(200));
        let connections = Arc::clone(&limited.connections);
        let page = axum::routing::get(async || "x".repeat(8 << 20));
        let router = axum::Router::new()
            .route("/page", page)
            .route("/healthz", axum::routing::get(async || "ok"));
        tokio::spawn(async move { axum::serve(limited, router).await });
        let mut held = Vec::new();
        for number in 0..12 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if number % 2 == 0 {
                stream
                    .write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
                    .await
                    .unwrap();
            }
            held.push(stream);
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        let reading = stream.read_to_string(&mut answer);
        tokio::time::timeout(Duration::from_secs(30), reading)
            .await
            .unwrap()
            .unwrap();
        assert!(answer.ends_with("ok"), "{answer}");
        drop(held);
        // All are given back.
        let all = tokio::time::timeout(Duration::from_secs(30), connections.acquire_many(3)).await;
        assert!(all.is_ok());
    }
}
