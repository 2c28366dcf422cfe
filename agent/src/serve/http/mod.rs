//! Read-only HTTP for people and monitors. Not one of kubelet's probes uses it.

mod listener;
mod metrics;
mod status;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use proto::agent as wire;
use proto::agent::data_directory::State as DirectoryState;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::link::Watchers;

/// What the pages are made from.
#[derive(Debug, Clone)]
pub struct Pages {
    /// The latest report.
    pub reports: watch::Receiver<Arc<wire::Report>>,
    /// Who watches.
    pub watchers: Arc<Watchers>,
}

/// Connections at the same time: a monitor and some people.
const CONNECTIONS: usize = 32;
/// How long a connection may last. A monitor connects again for its next scrape.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// Serves for ever.
pub async fn serve(listener: TcpListener, pages: Pages) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/status", get(status_page))
        .route("/metrics", get(metrics_page))
        .with_state(pages);
    axum::serve(listener::Limited::new(listener, CONNECTIONS, CONNECTION_TIME), router).await
}

/// Ready: the operator is linked, and the directory is one that etcd runs on or may run on.
async fn readyz(State(pages): State<Pages>) -> (StatusCode, String) {
    let report = Arc::clone(&pages.reports.borrow());
    let directory = report.data_directory.clone().unwrap_or_default();
    let linked = pages.watchers.linked(Instant::now());
    let usable = match directory.state() {
        DirectoryState::Unborn | DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::InUse => true,
        DirectoryState::Unspecified
        | DirectoryState::Damaged
        | DirectoryState::Foreign
        | DirectoryState::Unreadable => false,
    };
    let code = if linked && usable {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let link = if linked {
        "up"
    } else {
        "down: no operator has watched within the last minute"
    };
    (
        code,
        format!(
            "link {link}\ndata directory {} {}\n",
            directory.state().as_str_name(),
            directory.detail
        ),
    )
}

async fn status_page(State(pages): State<Pages>) -> Response {
    let report = Arc::clone(&pages.reports.borrow());
    match serde_json::to_string_pretty(&status::view(&report)) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn metrics_page(State(pages): State<Pages>) -> Response {
    let report = Arc::clone(&pages.reports.borrow());
    match metrics::page(&report, &pages.watchers) {
        Ok(page) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
