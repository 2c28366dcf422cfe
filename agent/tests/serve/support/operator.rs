//! The operator's end of the link.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proto::agent as wire;
use proto::agent::agent_client::AgentClient;
use proto::agent::directive::Order;
use proto::pod::AGENT_GRPC_PORT;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

/// What is waited for comes within this time, on a slow machine too.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A link to one agent.
#[derive(Clone)]
pub struct Operator {
    pub client: AgentClient<Channel>,
    pub cluster_uid: String,
}

impl Operator {
    /// Dials once.
    pub async fn dial(
        address: Ipv4Addr,
        server_name: String,
        config: Arc<rustls::ClientConfig>,
        cluster_uid: &str,
    ) -> Result<Self, tonic::transport::Error> {
        let connector = tower::service_fn(move |_| {
            let (config, name) = (Arc::clone(&config), server_name.clone());
            async move {
                let stream = TcpStream::connect((address, AGENT_GRPC_PORT)).await?;
                let name = ServerName::try_from(name).map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(TlsConnector::from(config).connect(name, stream).await?))
            }
        });
        let channel = Endpoint::from_static("http://agent")
            .connect_with_connector(connector)
            .await?;
        Ok(Self {
            client: AgentClient::new(channel),
            cluster_uid: cluster_uid.to_owned(),
        })
    }

    /// A full report, made now.
    pub async fn status(&self) -> wire::Report {
        self.client
            .clone()
            .status(wire::StatusRequest {})
            .await
            .expect("Status")
            .into_inner()
    }

    /// The stream of reports.
    pub async fn watch(&self) -> Streaming<wire::Report> {
        self.client
            .clone()
            .watch(wire::WatchRequest {})
            .await
            .expect("Watch")
            .into_inner()
    }

    /// Waits for a report such as this.
    pub async fn until(&self, what: &str, wanted: impl Fn(&wire::Report) -> bool) -> wire::Report {
        let mut stream = self.watch().await;
        await_report(&mut stream, what, wanted).await
    }

    /// Sends an order.
    pub async fn direct(&self, number: u64, incarnation: u64, nonce: &str, order: Order) -> Result<u64, Status> {
        let directive = wire::Directive {
            number,
            cluster_uid: self.cluster_uid.clone(),
            incarnation,
            nonce: nonce.to_owned(),
            order: Some(order),
        };
        self.client
            .clone()
            .direct(directive)
            .await
            .map(|answer| answer.into_inner().number)
    }
}

/// Waits for a report such as this on a stream that is open already.
pub async fn await_report(
    stream: &mut Streaming<wire::Report>,
    what: &str,
    wanted: impl Fn(&wire::Report) -> bool,
) -> wire::Report {
    let mut last = None;
    let waiting = async {
        loop {
            let report = stream
                .message()
                .await
                .expect("the stream stands")
                .expect("the stream goes on");
            if wanted(&report) {
                return report;
            }
            last = Some(report);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, waiting).await;
    in_time.unwrap_or_else(|_| panic!("never came: {what}; the last report was {last:#?}"))
}

/// The refusal names what it must.
pub fn assert_refused(result: Result<u64, Status>, code: Code, words: &[&str]) {
    let status = result.expect_err("it must be refused");
    assert_eq!(status.code(), code, "{status}");
    for word in words {
        assert!(
            status.message().contains(word),
            "{:?} does not name {word:?}",
            status.message()
        );
    }
}
