//! `etcd-agent serve`: the sidecar. It looks at the data directory, decides whether etcd may start, has the supervisor
//! start it, and tells the operator how the member fares.
//!
//! | module | what it is |
//! |---|---|
//! | [`decide`], [`act`], [`directive`], [`standing`], [`orders`], [`etcd_config`], [`backoff`], [`quarantine`] | pure: may etcd start, what is done next, what the operator may order, what stands, the orders for the supervisor, etcd's configuration, the waits |
//! | [`state`], [`assemble`], [`report`], [`etcd_view`], [`etcd_metrics`], [`space`] | pure: what is known, the report of it, when it is sent |
//! | [`directory`], [`reading`], [`recover_log`], [`supervisor`], [`renew`], [`poll`], [`maintenance`], [`link`], [`http`] | the data volume, the socket, the supervisor's binary, etcd, its upkeep, the operator, people and monitors |
//! | [`actor`] | the one task that ties them together |

pub mod act;
pub mod actor;
pub mod assemble;
pub mod backoff;
pub mod decide;
pub mod directive;
pub mod directory;
pub mod etcd_config;
pub mod etcd_metrics;
pub mod etcd_view;
pub mod event;
pub mod http;
pub mod identity;
pub mod link;
pub mod looking;
pub mod maintenance;
pub mod orders;
pub mod poll;
pub mod quarantine;
pub mod reading;
pub mod recover_log;
pub mod renew;
pub mod report;
pub mod settings;
pub mod space;
pub mod standing;
pub mod state;
pub mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use proto::pod;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use self::actor::Actor;
use self::http::Pages;
use self::link::{Service, TlsFiles, Watchers};
use self::maintenance::Maintenance;
use self::poll::{Pace, Wanted};
pub use self::settings::Args;
use self::state::State;

/// Things that happened and are not handled yet. Whoever has more waits.
const EVENTS: usize = 64;
/// The deadline of a call to the local etcd. A Status has a shorter one, see [`poll`].
const ETCD_DEADLINE: Duration = Duration::from_secs(7);

/// Serves until SIGTERM.
pub async fn run(args: Args) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(args.log)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    // A second installation is refused, which is as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let span = tracing::info_span!(
        "agent",
        namespace = args.namespace,
        cluster = args.cluster,
        member = args.member
    );
    // On the heap once, instead of in each future around it.
    Box::pin(serve(args)).instrument(span).await
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let listen = settings::wildcard();
    let bind = async |port: u16| {
        TcpListener::bind((listen, port))
            .await
            .with_context(|| format!("cannot listen on port {port}"))
    };
    let (grpc, http) = (bind(pod::AGENT_GRPC_PORT).await?, bind(pod::AGENT_HTTP_PORT).await?);
    let socket = supervisor::bind(&args.paths.socket())?;
    let url = format!("http://127.0.0.1:{}", pod::CLIENT_PORT);
    let etcd = etcd::Admin::new(&url, &etcd::Access::Plain, ETCD_DEADLINE).await?;

    let (events, incoming) = mpsc::channel(EVENTS);
    let (want, wanted) = watch::channel(Wanted {
        pace: Pace::Idle,
        now: 0,
    });
    let (config, configs) = watch::channel(None);
    let (certificate, certificates) = watch::channel(None);
    let watchers = Arc::new(Watchers::default());
    let (member, files) = (args.member_ref(), TlsFiles::new(args.tls.clone()));
    let (actor, reports) = Actor::new(State::new(args, listen), (events.clone(), incoming), want, certificates);
    let pages = Pages {
        reports: reports.clone(),
        watchers: Arc::clone(&watchers),
    };
    let service = Service {
        events: events.clone(),
        reports,
        maintenance: Maintenance::new(&etcd, &member.name),
        etcd: etcd.clone(),
        member,
        watchers,
    };

    tracing::info!(version = env!("CARGO_PKG_VERSION"), "agent started");
    // None of these ends by itself; the first that does ends the agent, and kubelet starts it again.
    tokio::select! {
        _ = terminate.recv() => tracing::info!("agent stopped by SIGTERM"),
        () = actor.run() => anyhow::bail!("the task that owns the state has ended"),
        () = supervisor::accept(socket, events.clone()) => anyhow::bail!("the socket to the supervisor was closed"),
        () = poll::run(etcd, wanted, events) => anyhow::bail!("the task that asks etcd has ended"),
        () = link::watch_files(files, config, certificate) => anyhow::bail!("the certificate is not watched any more"),
        served = link::serve(grpc, configs, service) => served.context("the link to the operator cannot be served")?,
        served = http::serve(http, pages) => served.context("the HTTP pages cannot be served")?,
    }
    Ok(())
}
