//! The operator's end of the TLS of a link.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::{
    ClientConfig, RootCertStore, SignatureScheme,
    client::{ResolvesClientCert, Resumption},
    crypto::{CryptoProvider, ring},
    pki_types::PrivateKeyDer,
    sign::CertifiedKey,
    version::TLS13,
};

use super::{Bundle, PkiError};

/// TLS of every link: trusts the bundle's CAs, shows a client certificate made for this occasion (`clientAuth` only),
/// and speaks HTTP/2 over TLS 1.3. The second value says when it is due to be made anew.
pub fn client_config(bundle: &Bundle, now: Timestamp) -> Result<(Arc<ClientConfig>, Timestamp), PkiError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    let mut identities = Vec::new();
    let mut renew_at = Timestamp::MAX;
    for ca in bundle.all() {
        roots.add(ca.der().clone())?;
        let leaf = ca.issue(proto::names::OPERATOR, ExtendedKeyUsagePurpose::ClientAuth, now)?;
        renew_at = renew_at.min(leaf.renew_at);
        let key = PrivateKeyDer::Pkcs8(leaf.key.serialize_der().into());
        let key = CertifiedKey::from_der(vec![leaf.certificate.der().clone()], key, &provider)?;
        identities.push(Identity {
            issuer: ca.subject().to_vec(),
            key: Arc::new(key),
        });
    }
    let mut config = build(provider, roots, Identities(identities))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Links are few and long: tickets would only take memory.
    config.resumption = Resumption::disabled();
    Ok((Arc::new(config), renew_at))
}

fn build(
    provider: Arc<CryptoProvider>,
    roots: RootCertStore,
    identities: Identities,
) -> Result<ClientConfig, PkiError> {
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(identities)))
}

struct Identity {
    /// Subject of the CA that issued it, DER.
    issuer: Vec<u8>,
    key: Arc<CertifiedKey>,
}

/// One client certificate for each CA in use, the current one's first.
struct Identities(Vec<Identity>);

impl fmt::Debug for Identities {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.0.len())
    }
}

impl ResolvesClientCert for Identities {
    /// While a CA is being replaced, an agent may not have heard of the new one: it says whom it trusts.
    fn resolve(&self, accepted: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |identity: &&Identity| accepted.iter().any(|subject| *subject == identity.issuer);
        self.0
            .iter()
            .find(fits)
            .or_else(|| self.0.first())
            .map(|identity| Arc::clone(&identity.key))
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}
