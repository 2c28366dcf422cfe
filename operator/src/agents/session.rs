//! One connection of a link, from dialling to its end.

use std::{io, sync::Arc, time::Duration};

use proto::{
    MAX_MESSAGE_BYTES,
    agent::{HelloRequest, MemberRef, Report, WatchRequest, agent_client::AgentClient},
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{Status, codegen::http::Uri};

use super::{Cause, MemberKey, Peer, Target, alive, channel::Channel, sanitize};

/// Longest wait for the TCP connection.
const CONNECT: Duration = Duration::from_secs(1);
/// Longest wait for TLS and HTTP/2 after that, and for each answer that is due at once. Long enough for a thousand
/// handshakes at once after a start of the operator: giving up on those that wait would only make more of them.
const ANSWER: Duration = Duration::from_secs(5);

pub(super) type Client = AgentClient<Channel>;

/// Dials the agent: TCP, then TLS with the name that the member's certificate must have.
pub(super) async fn dial(
    member: &MemberKey,
    target: &Target,
    tls: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, Cause> {
    let stream = match timeout(CONNECT, TcpStream::connect(target.address())).await {
        Err(_) => return Err(Cause::Timeout),
        Ok(Err(error)) => return Err(network(&error)),
        Ok(Ok(stream)) => stream,
    };
    stream
        .set_nodelay(true)
        .and_then(|()| alive::keep_alive(&stream))
        .map_err(|error| network(&error))?;
    let name = proto::names::agent(&member.name, &target.cluster_uid);
    let name = ServerName::try_from(name).map_err(|error| Cause::Tls(error.to_string()))?;
    match timeout(ANSWER, TlsConnector::from(tls).connect(name, stream)).await {
        Err(_) => Err(Cause::Tls("the handshake has no answer".into())),
        Ok(Err(error)) => Err(Cause::Tls(sanitize::text(&error.to_string()))),
        Ok(Ok(stream)) => Ok(stream),
    }
}

fn network(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::TimedOut => Cause::Timeout,
        _ => Cause::Network(error.to_string()),
    }
}

/// A client over a connection.
pub(super) fn client(member: &MemberKey, target: &Target, channel: Channel) -> Result<Client, Cause> {
    let origin = format!(
        "https://{}:{}",
        proto::names::agent(&member.name, &target.cluster_uid),
        target.port
    );
    let origin: Uri = origin
        .parse()
        .map_err(|_| Cause::Protocol(format!("{origin} is no URI")))?;
    Ok(AgentClient::with_origin(channel, origin).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Asks the agent who it is. An agent of another member is not spoken to.
pub(super) async fn hello(client: &mut Client, member: &MemberKey, target: &Target) -> Result<Peer, Cause> {
    let request = HelloRequest {
        operator_version: env!("CARGO_PKG_VERSION").into(),
    };
    let answer = match timeout(ANSWER, client.hello(request)).await {
        Err(_) => return Err(Cause::Protocol("Hello has no answer".into())),
        Ok(Err(status)) => return Err(ended(&status)),
        Ok(Ok(answer)) => answer.into_inner(),
    };
    check_member(answer.member, member, target).map_err(Cause::WrongMember)?;
    Ok(Peer {
        version: sanitize::text(&answer.agent_version),
        features: sanitize::texts(answer.features),
    })
}

/// Opens the stream of reports and waits for the first, full one.
pub(super) async fn watch(
    client: &mut Client,
    member: &MemberKey,
    target: &Target,
) -> Result<(tonic::Streaming<Report>, Report), Cause> {
    let first = async {
        let mut reports = client.watch(WatchRequest {}).await?.into_inner();
        let first = reports.message().await?;
        Ok::<_, Status>((reports, first))
    };
    match timeout(ANSWER, first).await {
        Err(_) => Err(Cause::Protocol("Watch has no first report".into())),
        Ok(Err(status)) => Err(ended(&status)),
        Ok(Ok((_, None))) => Err(Cause::Protocol("Watch ended without a report".into())),
        Ok(Ok((reports, Some(first)))) => {
            let first = accept(first, member, target).map_err(Cause::WrongMember)?;
            Ok((reports, first))
        }
    }
}

/// A report, bounded, if it speaks for the right member.
pub(super) fn accept(raw: Report, member: &MemberKey, target: &Target) -> Result<Report, String> {
    let report = sanitize::report(raw);
    check_member(report.member.clone(), member, target)?;
    Ok(report)
}

fn check_member(said: Option<MemberRef>, member: &MemberKey, target: &Target) -> Result<(), String> {
    let said = sanitize::member_ref(said.unwrap_or_default());
    let wanted = MemberRef {
        name: member.name.clone(),
        namespace: member.namespace.clone(),
        cluster_name: target.cluster.clone(),
        cluster_uid: target.cluster_uid.clone(),
    };
    if said == wanted {
        return Ok(());
    }
    Err(format!(
        "it speaks for {}/{} of cluster UID {}",
        said.namespace, said.name, said.cluster_uid
    ))
}

/// Why a call or a stream ended.
pub(super) fn ended(status: &Status) -> Cause {
    let words = format!("{:?}: {}", status.code(), sanitize::text(status.message()));
    match status.code() {
        tonic::Code::Unimplemented | tonic::Code::OutOfRange | tonic::Code::PermissionDenied => Cause::Protocol(words),
        _ => Cause::Lost(words),
    }
}
