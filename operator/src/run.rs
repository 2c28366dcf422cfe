//! Puts the parts together, and takes them apart again.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context as _;
use futures::future::OptionFuture;
use jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use operator::{
    agents::{Changes, Links},
    controllers::{self, Context},
    leader::{Election, Validity},
    metrics::{self, Metrics},
    pki::{Authority, CA_SECRET, PkiError},
    rbac, server,
    settings::{Arguments, Settings},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;

/// Who reports events.
const CONTROLLER: &str = "etcd-operator.cozystack.io";
/// Between two looks at the CA's Secret: nobody waits for what they find.
const CA_REFRESH: Duration = Duration::from_mins(10);
/// After a failure to refresh it.
const CA_RETRY: Duration = Duration::from_secs(15);
/// After a failure to load the CA.
const CA_AGAIN: Duration = Duration::from_secs(2);
/// How long the controllers may take to end before the Lease is given back.
const WIND_DOWN: Duration = Duration::from_secs(5);

/// The operator, from start to end. `Ok`: it was told to end.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Fails only when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shutdown = shutdown_signal()?;
    let config = kube::Config::infer()
        .await
        .context("no way to the Kubernetes API is known")?;
    let settings = Arc::new(Settings::new(arguments, &config.default_namespace)?);
    let client = kube::Client::try_from(config).context("the client of the Kubernetes API")?;
    let readiness = server::Readiness::default();
    let health = settings
        .health_address
        .map(|address| server::serve_health(address, readiness.clone()));
    tokio::select! {
        Some(ended) = OptionFuture::from(health) => ended.context("--health-probe-bind-address"),
        result = start(client, &settings, &readiness, shutdown) => result,
    }
}

/// Becomes true on SIGTERM or SIGINT.
fn shutdown_signal() -> anyhow::Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate()).context("signal handling")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("signal handling")?;
    let (stop, shutdown) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send_replace(true);
    });
    Ok(shutdown)
}

/// What every replica does, acting or not.
async fn start(
    client: kube::Client,
    settings: &Arc<Settings>,
    readiness: &server::Readiness,
    shutdown: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let lease = Arc::new(if settings.leader_elect {
        Validity::default()
    } else {
        Validity::always()
    });
    let links = Arc::new(OnceLock::new());
    let parts = Parts {
        client: client.clone(),
        settings: Arc::clone(settings),
        lease: Arc::clone(&lease),
        links: Arc::clone(&links),
        rbac: Arc::default(),
        metrics: Arc::default(),
    };
    let rbac = Arc::clone(&parts.rbac);
    let registry = metrics::registry(
        &parts.metrics,
        metrics::Sources {
            links,
            lease,
            rbac: Arc::clone(&rbac),
        },
    );
    let served = settings
        .metrics_address
        .map(|address| server::serve_metrics(address, registry));
    // Before anything else is asked of the API server: a permission that is missing may be what stops the rest.
    let checked = async {
        rbac.keep(&client, settings).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        Some(ended) = OptionFuture::from(served) => ended.context("--metrics-bind-address"),
        () = checked => Ok(()),
        result = act(parts, readiness, shutdown) => result,
    }
}

struct Parts {
    client: kube::Client,
    settings: Arc<Settings>,
    lease: Arc<Validity>,
    links: Arc<OnceLock<Links>>,
    rbac: Arc<rbac::Report>,
    metrics: Arc<Metrics>,
}

/// Gets the CA, then waits for our turn.
async fn act(parts: Parts, readiness: &server::Readiness, mut shutdown: watch::Receiver<bool>) -> anyhow::Result<()> {
    let Parts {
        client,
        settings,
        lease,
        links: known_links,
        rbac,
        metrics,
    } = parts;
    let ca = tokio::select! {
        ca = load_ca(&client, &settings) => Arc::new(ca),
        _ = shutdown.wait_for(|stop| *stop) => return Ok(()),
    };
    readiness.ready();
    let (links, changes) = Links::new(Arc::clone(&ca));
    // Set once, here.
    let _ = known_links.set(links.clone());
    let reporter = Reporter {
        controller: CONTROLLER.into(),
        instance: Some(settings.instance.clone()),
    };
    let recorder = Recorder::new(client.clone(), reporter);
    let context = Context {
        client,
        settings,
        links,
        ca,
        metrics,
        recorder,
        lease,
        rbac,
        shutdown: shutdown.clone(),
    };
    lead(context, changes, shutdown).await
}

/// The CA, as soon as the API server lets us have it.
async fn load_ca(client: &kube::Client, settings: &Settings) -> Authority {
    let mut said = String::new();
    loop {
        match Authority::load(client, &settings.namespace, Timestamp::now()).await {
            Ok(ca) => return ca,
            Err(error) => {
                let error = error.to_string();
                if error != said {
                    warn!(secret = CA_SECRET, %error, "no CA for the links to agents yet, trying again");
                    said = error;
                }
            }
        }
        sleep(CA_AGAIN).await;
    }
}

/// Waits for our turn, acts, and hands over.
async fn lead(context: Context, changes: Changes, mut shutdown: watch::Receiver<bool>) -> anyhow::Result<()> {
    let Context {
        client,
        settings,
        ca,
        lease,
        ..
    } = context.clone();
    let mut election = settings.leader_elect.then(|| {
        Election::new(
            client.clone(),
            &settings.namespace,
            &settings.instance,
            Arc::clone(&lease),
        )
    });
    if let Some(election) = &mut election {
        tokio::select! {
            () = election.acquire() => {}
            _ = shutdown.wait_for(|stop| *stop) => {
                election.release().await;
                return Ok(());
            }
        }
    }
    let mut controllers = Box::pin(work(context, changes, shutdown.clone()));
    let mut told_to_end = shutdown.clone();
    tokio::select! {
        // Whatever is still under way ends with the process.
        Some(lost) = OptionFuture::from(election.as_mut().map(Election::keep)) => return Err(lost.into()),
        ended = &mut controllers => {
            let open = ended?;
            if !*shutdown.borrow() {
                anyhow::bail!("the controllers have ended without being told to; this is a defect, please report it");
            }
            settle(open).await;
        }
        () = refresh_ca(&ca, &client, &settings) => {}
        _ = told_to_end.wait_for(|stop| *stop) => {
            // No act begins any more; those under way have their own deadlines, which are shorter than this wait.
            lease.revoke();
            let Ok(ended) = timeout(WIND_DOWN, controllers).await else {
                warn!("the controllers have not ended in time: the Lease is not given back, and runs out by itself");
                return Ok(());
            };
            settle(ended?).await;
        }
    }
    if let Some(election) = &mut election {
        election.release().await;
    }
    Ok(())
}

/// The next leader does not know of a call that got no answer, and must not make another one before etcd has given that
/// one up.
async fn settle(open: Duration) {
    if !open.is_zero() {
        warn!(
            seconds = open.as_secs(),
            "a change of membership got no answer: the Lease is kept until its outcome is settled"
        );
        sleep(open).await;
    }
}

/// The controllers, once the CA is known to be the present one: a follower holds that of its own start, and with an
/// old one every agent would get a certificate that the others do not trust.
async fn work(context: Context, changes: Changes, mut shutdown: watch::Receiver<bool>) -> anyhow::Result<Duration> {
    tokio::select! {
        () = take_over_ca(&context) => {}
        _ = shutdown.wait_for(|stop| *stop) => return Ok(Duration::ZERO),
    }
    // They end by themselves when told to: what is under way is not cut off.
    controllers::run(context, changes).await
}

/// Waits for the API server, but not for a Secret to be repaired: the CA in use is as good as that of the leader before.
async fn take_over_ca(context: &Context) {
    let Context {
        ca, client, settings, ..
    } = context;
    let mut said = String::new();
    while let Err(error) = ca.refresh(client, &settings.namespace, Timestamp::now()).await {
        say_once(&mut said, &error);
        if !error.is_from_api() {
            return;
        }
        sleep(CA_AGAIN).await;
    }
}

/// Keeps the CA equal to its Secret. Never ends.
async fn refresh_ca(ca: &Authority, client: &kube::Client, settings: &Settings) {
    let (mut said, mut next) = (String::new(), CA_REFRESH);
    loop {
        sleep(next).await;
        next = match ca.refresh(client, &settings.namespace, Timestamp::now()).await {
            Ok(()) => {
                said.clear();
                CA_REFRESH
            }
            Err(error) => {
                say_once(&mut said, &error);
                CA_RETRY
            }
        };
    }
}

fn say_once(said: &mut String, error: &PkiError) {
    let words = error.to_string();
    if words != *said {
        warn!(secret = CA_SECRET, error = %words, "the CA of the links to agents is not refreshed, trying again");
        *said = words;
    }
}
