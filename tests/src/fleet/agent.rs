//! The agent of each simulated member, over mTLS with the certificate of its own Secret.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use futures::Stream;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use proto::agent::{
    CompactRequest, CompactResponse, DataDirectory, DefragmentRequest, DefragmentResponse, DirectResponse, Directive,
    Etcd, HashRequest, HashResponse, HelloRequest, HelloResponse, Identity, LogsRequest, LogsResponse,
    MoveLeaderRequest, MoveLeaderResponse, Process, Report, SnapshotProgress, SnapshotRequest, StatusRequest,
    WatchRequest,
    agent_server::{Agent, AgentServer},
    data_directory, directive, process,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{net::TcpListener, time::sleep};
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status, service::Routes};

use super::{
    network,
    state::{Member, Members, lock},
};

/// Time from an order to start until etcd serves and has told the others its name.
const START: Duration = Duration::from_millis(500);

/// Serves one member.
pub(super) async fn serve(
    listener: TcpListener,
    member: Arc<Member>,
    members: Arc<Members>,
    client: Client,
) -> Result<()> {
    let name = &member.reference.name;
    let secrets: Api<Secret> = Api::namespaced(client, &member.reference.namespace);
    let secret = secrets.get(&format!("{name}-agent-tls")).await?;
    let acceptor = TlsAcceptor::from(Arc::new(tls(&secret)?));
    let agent = SimulatedAgent { member, members };
    let routes = Routes::new(AgentServer::new(agent));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (acceptor, routes) = (acceptor.clone(), routes.clone());
        tokio::spawn(async move {
            // Whoever has no certificate of an operator is refused, and knows why.
            if let Ok(stream) = acceptor.accept(stream).await {
                network::serve(stream, routes).await;
            }
        });
    }
}

fn tls(secret: &Secret) -> Result<ServerConfig> {
    let entry = |key: &str| -> Result<&[u8]> {
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        Ok(&data.with_context(|| format!("the Secret has no {key}"))?.0)
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(entry("ca.crt")?) {
        roots.add(certificate?)?;
    }
    let operators = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let chain = CertificateDer::pem_slice_iter(entry("tls.crt")?).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(entry("tls.key")?)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(operators)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

struct SimulatedAgent {
    member: Arc<Member>,
    members: Arc<Members>,
}

fn report(member: &Member) -> Report {
    let told = lock(&member.told).clone();
    let list = member.cluster.list();
    let own = told
        .identity
        .as_ref()
        .and_then(|identity| list.members.get(&identity.member_id));
    let etcd = own.map(|own| Etcd {
        member_id: own.id,
        cluster_id: list.cluster_id,
        leader: list.leader,
        term: 2,
        commit_index: list.index,
        applied_index: list.index,
        is_learner: own.is_learner,
        db_size: 20_480,
        db_size_in_use: 16_384,
        version: member.version.clone(),
        serving: true,
        revision: 1,
        ..Etcd::default()
    });
    let started = told.identity.is_some();
    let state = if started {
        process::State::Running
    } else {
        process::State::Held
    };
    let directory = if started {
        data_directory::State::InUse
    } else {
        data_directory::State::Unborn
    };
    Report {
        member: Some(member.reference.clone()),
        observed_at: Some(SystemTime::now().into()),
        agent_version: env!("CARGO_PKG_VERSION").into(),
        directive: told.directive,
        data_directory: Some(DataDirectory {
            state: directory.into(),
            nonce: member.nonce.clone(),
            identity: told.identity,
            bytes: 128_000_000,
            started,
            ..DataDirectory::default()
        }),
        process: Some(Process {
            state: state.into(),
            pid: 7,
            etcd_version: member.version.clone(),
            supervisor_version: env!("CARGO_PKG_VERSION").into(),
            ..Process::default()
        }),
        etcd,
        waiting_for: if started { String::new() } else { "an order".into() },
        ..Report::default()
    }
}

/// Carries out an order that starts etcd: what is recorded, and what is done once etcd serves.
fn start(member: &Arc<Member>, directive: &Directive) -> Result<Identity, Status> {
    let (token, member_id, cluster_id) = match &directive.order {
        Some(directive::Order::Seed(seed)) => (&seed.token, seed.member_id, seed.cluster_id),
        Some(directive::Order::Join(join)) => (&join.token, join.member_id, join.cluster_id),
        _ => return Err(unknown()),
    };
    let is_seed = matches!(directive.order, Some(directive::Order::Seed(_)));
    let serving = member.clone();
    tokio::spawn(async move {
        sleep(START).await;
        serving.cluster.change(|list| {
            if is_seed {
                list.cluster_id = cluster_id;
                list.leader = member_id;
            }
            let own = list.members.entry(member_id).or_default();
            own.id = member_id;
            own.name.clone_from(&serving.reference.name);
            own.peer_ur_ls = vec![serving.peer_url.clone()];
            own.client_ur_ls = vec![serving.client_url.clone()];
        });
    });
    Ok(Identity {
        cluster_uid: directive.cluster_uid.clone(),
        incarnation: directive.incarnation,
        token: token.clone(),
        cluster_id,
        member_id,
        member_name: member.reference.name.clone(),
        nonce: directive.nonce.clone(),
    })
}

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Agent for SimulatedAgent {
    type WatchStream = Answers<Report>;
    type SnapshotStream = Answers<SnapshotProgress>;

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        Ok(Response::new(HelloResponse {
            agent_version: env!("CARGO_PKG_VERSION").into(),
            features: vec![],
            member: Some(self.member.reference.clone()),
        }))
    }

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let changed = self.member.cluster.changed.subscribe();
        let first = (self.member.clone(), changed, self.members.link_up(), None);
        let reports = futures::stream::unfold(first, |(member, mut changed, link, last)| async move {
            loop {
                changed.borrow_and_update();
                let next = Report {
                    observed_at: None,
                    ..report(&member)
                };
                if last.as_ref() != Some(&next) {
                    return Some((Ok(next.clone()), (member, changed, link, Some(next))));
                }
                changed.changed().await.ok()?;
            }
        });
        Ok(Response::new(Box::pin(reports)))
    }

    async fn direct(&self, request: Request<Directive>) -> Result<Response<DirectResponse>, Status> {
        self.member.cluster.answers().await;
        let directive = request.into_inner();
        let number = directive.number;
        if directive.nonce != self.member.nonce {
            return Err(Status::failed_precondition("the order is for another directory"));
        }
        {
            let mut told = lock(&self.member.told);
            if number <= told.directive {
                return Err(Status::failed_precondition("a stale order"));
            }
            if told.identity.is_none() {
                told.identity = Some(start(&self.member, &directive)?);
            }
            told.directive = number;
        }
        self.member.cluster.change(|_| ());
        Ok(Response::new(DirectResponse { number }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<Report>, Status> {
        self.member.cluster.answers().await;
        Ok(Response::new(report(&self.member)))
    }

    async fn logs(&self, _: Request<LogsRequest>) -> Result<Response<LogsResponse>, Status> {
        Ok(Response::new(LogsResponse::default()))
    }

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(unknown())
    }

    async fn defragment(&self, _: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        Err(unknown())
    }

    async fn move_leader(&self, _: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        Err(unknown())
    }

    async fn compact(&self, _: Request<CompactRequest>) -> Result<Response<CompactResponse>, Status> {
        Err(unknown())
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        Err(unknown())
    }
}

fn unknown() -> Status {
    Status::unimplemented("a simulated agent does not do this")
}
