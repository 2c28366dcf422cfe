//! Agents of our own protocol.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of tests")]

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use jiff::Timestamp;
use operator::{
    agents::{Changes, ClusterKey, LinkState, Links, MemberKey, Target},
    pki::{AgentSecret, Authority, Bundle, agent_secret},
};
use proto::agent::{
    self, DataDirectory, DirectResponse, Directive, HelloRequest, HelloResponse, LogsRequest, LogsResponse, MemberRef,
    Report, StatusRequest, WatchRequest,
    agent_server::{Agent, AgentServer},
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    runtime::{Handle, Runtime},
    sync::broadcast,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::{Stream, StreamExt, wrappers::BroadcastStream};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::Connected},
};

pub(crate) const UID: &str = "uid-1";

pub(crate) fn member(name: &str) -> MemberKey {
    MemberKey {
        namespace: "ns".into(),
        name: name.into(),
    }
}

pub(crate) fn cluster() -> ClusterKey {
    ClusterKey {
        namespace: "ns".into(),
        name: "demo".into(),
    }
}

pub(crate) fn authority() -> Arc<Authority> {
    let now = Timestamp::now();
    Arc::new(Authority::new(Bundle::generate(now).unwrap(), now).unwrap())
}

pub(crate) fn target(address: SocketAddr) -> Target {
    Target {
        cluster: "demo".into(),
        cluster_uid: UID.into(),
        pod_uid: "pod-1".into(),
        pod_ip: address.ip(),
        port: address.port(),
    }
}

/// A report that says who it is for and that `nonce` is the directory's.
pub(crate) fn report(member: &str, nonce: &str) -> Report {
    Report {
        member: Some(member_ref(member)),
        data_directory: Some(DataDirectory {
            nonce: nonce.into(),
            ..DataDirectory::default()
        }),
        ..Report::default()
    }
}

fn member_ref(member: &str) -> MemberRef {
    MemberRef {
        name: member.into(),
        namespace: "ns".into(),
        cluster_name: "demo".into(),
        cluster_uid: UID.into(),
    }
}

/// One agent. Dropping it closes its port and every connection.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) orders: Arc<Mutex<Vec<Directive>>>,
    reports: broadcast::Sender<Report>,
    /// Its own, which ends with every connection that was accepted on it.
    runtime: Option<Runtime>,
}

#[derive(Clone)]
struct Service {
    /// Who it says it is.
    speaks_for: String,
    first: Report,
    reports: broadcast::Sender<Report>,
    orders: Arc<Mutex<Vec<Directive>>>,
}

impl Fake {
    /// The agent of `name`, with a certificate of `bundle`.
    pub(crate) fn start(bundle: &Bundle, name: &str) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), &secret(bundle, name), name)
    }

    /// An agent at a given address and with given TLS material, which says it is `speaks_for`.
    pub(crate) fn at(address: SocketAddr, secret: &AgentSecret, speaks_for: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut fake = Self::on(runtime.handle(), address, secret, speaks_for);
        fake.runtime = Some(runtime);
        fake
    }

    /// As [`Fake::at`], on a runtime that many may share.
    pub(crate) fn on(runtime: &Handle, address: SocketAddr, secret: &AgentSecret, speaks_for: &str) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (reports, _) = broadcast::channel(4096);
        let orders = Arc::new(Mutex::new(Vec::new()));
        let service = Service {
            speaks_for: speaks_for.into(),
            first: report(speaks_for, "first"),
            reports: reports.clone(),
            orders: Arc::clone(&orders),
        };
        let acceptor = TlsAcceptor::from(server_config(secret));
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), stream, service.clone()));
            }
        });
        Self {
            address,
            orders,
            reports,
            runtime: None,
        }
    }

    pub(crate) fn say(&self, report: Report) {
        assert!(self.try_say(report), "nobody watches");
    }

    pub(crate) fn try_say(&self, report: Report) -> bool {
        self.reports.send(report).is_ok()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, service: Service) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let incoming = tokio_stream::once(Ok::<_, std::io::Error>(Io(stream)));
    let _ = Server::builder()
        .add_service(AgentServer::new(service))
        .serve_with_incoming(incoming)
        .await;
}

pub(crate) fn secret(bundle: &Bundle, name: &str) -> AgentSecret {
    agent_secret(bundle, name, UID, Timestamp::now()).unwrap()
}

fn server_config(secret: &AgentSecret) -> Arc<ServerConfig> {
    let pem = |key: &str| secret.data[key].0.as_slice();
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(pem("ca.crt")) {
        roots.add(ca.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .unwrap();
    let chain = CertificateDer::pem_slice_iter(pem("tls.crt"))
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem("tls.key")).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

struct Io(TlsStream<TcpStream>);

impl Connected for Io {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

type Reports<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Agent for Service {
    type WatchStream = Reports<Report>;
    type SnapshotStream = Reports<agent::SnapshotProgress>;

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        Ok(Response::new(HelloResponse {
            agent_version: "1.2.3".into(),
            features: vec!["a".into()],
            member: Some(member_ref(&self.speaks_for)),
        }))
    }

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let later = BroadcastStream::new(self.reports.subscribe()).filter_map(Result::ok);
        Ok(Response::new(Box::pin(
            tokio_stream::once(self.first.clone()).chain(later).map(Ok),
        )))
    }

    async fn direct(&self, order: Request<Directive>) -> Result<Response<DirectResponse>, Status> {
        let order = order.into_inner();
        let number = order.number;
        if number == 0 {
            return Err(Status::failed_precondition("number 0 is not higher than 0\u{1b}[31m"));
        }
        if order.incarnation == u64::MAX {
            std::future::pending::<()>().await;
        }
        self.orders.lock().unwrap().push(order);
        Ok(Response::new(DirectResponse { number }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<Report>, Status> {
        Ok(Response::new(report(&self.speaks_for, "fresh")))
    }

    async fn logs(&self, _: Request<LogsRequest>) -> Result<Response<LogsResponse>, Status> {
        Ok(Response::new(LogsResponse {
            lines: vec!["a\u{7}b".into()],
        }))
    }

    async fn snapshot(&self, _: Request<agent::SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn defragment(
        &self,
        _: Request<agent::DefragmentRequest>,
    ) -> Result<Response<agent::DefragmentResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn move_leader(
        &self,
        _: Request<agent::MoveLeaderRequest>,
    ) -> Result<Response<agent::MoveLeaderResponse>, Status> {
        Ok(Response::new(agent::MoveLeaderResponse {}))
    }

    async fn compact(&self, _: Request<agent::CompactRequest>) -> Result<Response<agent::CompactResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn hash(&self, _: Request<agent::HashRequest>) -> Result<Response<agent::HashResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}

/// Waits until the link's state is as wanted, woken by changes only: a state that nobody was told of fails the test.
pub(crate) async fn until<T>(
    links: &Links,
    changes: &mut Changes,
    member: &MemberKey,
    what: &str,
    mut wanted: impl FnMut(&LinkState) -> Option<T>,
) -> T {
    let found = tokio::time::timeout(Duration::from_secs(15), async {
        loop {
            if let Some(found) = wanted(&links.snapshot(member)) {
                return found;
            }
            assert_eq!(changes.next().await, cluster());
        }
    })
    .await;
    found.unwrap_or_else(|_| panic!("within 15 s: {what}; the link is {:?}", links.snapshot(member)))
}

/// The nonce in the last report of a link that is up.
pub(crate) fn nonce_of(state: &LinkState) -> Option<String> {
    match state {
        LinkState::Connected { last, .. } => last.report.data_directory.as_ref().map(|data| data.nonce.clone()),
        LinkState::Down { .. } | LinkState::None => None,
    }
}
