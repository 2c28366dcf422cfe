//! Dials an agent with a certificate of the scenario's choice.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Secret;
use proto::agent::{HelloRequest, HelloResponse, agent_client::AgentClient};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use super::World;
use crate::kube::Place;

/// Certificate and key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    /// The certificate and the key that a Secret holds.
    pub fn of_secret(secret: &Secret) -> Result<Self> {
        Ok(Self {
            certificate: entry(secret, "tls.crt")?,
            key: entry(secret, "tls.key")?,
        })
    }

    /// As the operator: issued for `name` by the CA of the operator's Secret, for clients only.
    pub fn issued_by(ca: &Secret, name: &str) -> Result<Self> {
        let issuer = Issuer::from_ca_cert_pem(&entry(ca, "tls.crt")?, KeyPair::from_pem(&entry(ca, "tls.key")?)?)?;
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new([name.to_owned()])?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = parameters.signed_by(&key, &issuer)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn entry(secret: &Secret, key: &str) -> Result<String> {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    let data = data.with_context(|| format!("the Secret has no {key}"))?;
    Ok(String::from_utf8(data.0.clone())?)
}

/// Somebody who dials agents.
pub struct Dialler {
    config: Arc<ClientConfig>,
}

impl Dialler {
    /// With that identity, or with none; it trusts the CA in that Secret.
    pub fn new(trusted: &Secret, identity: Option<&Identity>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(entry(trusted, "ca.crt")?.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(roots);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let chain =
                    CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Says hello to the agent at that address, which must show a certificate for `name`.
    pub async fn hello(&self, world: &World, agent: SocketAddr, name: &str) -> Result<HelloResponse> {
        let forward = world.stage.kube.forward(Place::ControlPlane, agent)?;
        let address = forward.address();
        let connector = TlsConnector::from(self.config.clone());
        let name = ServerName::try_from(name.to_owned())?;
        let dial = tower::service_fn(move |_| {
            let (connector, name) = (connector.clone(), name.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, stream).await?))
            }
        });
        let endpoint = Endpoint::from_static("http://agent").connect_timeout(Duration::from_secs(5));
        let channel = endpoint
            .timeout(Duration::from_secs(5))
            .connect_with_connector(dial)
            .await?;
        let request = HelloRequest {
            operator_version: env!("CARGO_PKG_VERSION").into(),
        };
        Ok(AgentClient::new(channel).hello(request).await?.into_inner())
    }
}
