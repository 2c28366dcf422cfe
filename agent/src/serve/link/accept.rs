//! Accepts connections: TCP, then TLS with what is loaded at that moment, then HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use proto::MAX_MESSAGE_BYTES;
use proto::agent::agent_server::AgentServer;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tracing::Instrument as _;

use super::service::Service;
use super::share::Share;

/// A client that says nothing is not waited for.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Handshakes at the same time: there is one caller, but anyone may hold some of them for as long as they last ...
const HANDSHAKES: usize = 64;
/// ... and not all of them from one address. The operator makes one at a time.
const OF_ONE_ADDRESS: usize = 8;
/// A dead caller is found within the sum of both.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// See above.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(5);
/// Calls at the same time on one connection.
const CALLS: usize = 16;

/// Serves for ever.
pub async fn serve(
    listener: TcpListener,
    config: watch::Receiver<Option<Arc<ServerConfig>>>,
    service: Service,
) -> anyhow::Result<()> {
    let (links, incoming) = mpsc::channel(1);
    tokio::spawn(accept(listener, config, links).in_current_span());
    let service = AgentServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
        .concurrency_limit_per_connection(CALLS)
        .add_service(service)
        .serve_with_incoming(ReceiverStream::new(incoming))
        .await?;
    Ok(())
}

async fn accept(
    listener: TcpListener,
    config: watch::Receiver<Option<Arc<ServerConfig>>>,
    links: mpsc::Sender<io::Result<Link>>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let share = Share::new(OF_ONE_ADDRESS);
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Its share is used up: it is hung up on.
        let Some(place) = share.take(from) else {
            continue;
        };
        // Nothing is loaded yet: the caller tries again.
        let Some(config) = config.borrow().clone() else {
            continue;
        };
        let links = links.clone();
        tokio::spawn(async move {
            let _held = (permit, place);
            match handshake(stream, config).await {
                Ok(link) => {
                    // The server ends when it takes no links any more.
                    let _ = links.send(Ok(link)).await;
                }
                // Anyone in the Pod network may knock, as often as they like: no line in the log of a healthy agent.
                Err(error) => tracing::debug!(%error, "connection refused"),
            }
        });
    }
}

async fn handshake(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<Link> {
    stream.set_nodelay(true)?;
    let handshake = TlsAcceptor::from(config).accept(stream);
    tokio::time::timeout(HANDSHAKE, handshake).await?.map(Link)
}

/// One connection, after its handshake.
#[derive(Debug)]
struct Link(TlsStream<TcpStream>);

impl Connected for Link {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl AsyncRead for Link {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
