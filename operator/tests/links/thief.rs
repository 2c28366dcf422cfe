//! A client that is not the operator.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use operator::pki::{AgentSecret, Bundle};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// Opens a TLS connection to an agent with another agent's key, and waits for what the agent makes of it.
pub(crate) async fn greet_with(
    secret: &AgentSecret,
    bundle: &Bundle,
    address: SocketAddr,
    member: &str,
    uid: &str,
) -> std::io::Result<()> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle.trusted_pem().as_bytes()) {
        roots.add(ca.unwrap()).unwrap();
    }
    let chain = CertificateDer::pem_slice_iter(&secret.data["tls.crt"].0)
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(&secret.data["tls.key"].0).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    greet(Arc::new(config), address, member, uid).await
}

/// With TLS 1.3 a client learns that its certificate was refused with the first bytes it reads.
pub(crate) async fn greet(
    config: Arc<ClientConfig>,
    address: SocketAddr,
    member: &str,
    uid: &str,
) -> std::io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(proto::names::agent(member, uid)).unwrap();
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    // HTTP/2's preface and empty settings: the server answers with its own.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await?;
    let mut first = [0_u8; 9];
    tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut first)).await??;
    Ok(())
}
