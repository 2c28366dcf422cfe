//! Who may call: only the operator. Its certificate must chain to the CA, be meant for clients, and bear its name; the
//! certificates of agents, which the same CA issues, are refused by either of the last two (scenario T06).

use std::sync::Arc;

use proto::names;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Lets in the operator.
#[derive(Debug)]
pub(super) struct OperatorOnly {
    chain: Arc<dyn ClientCertVerifier>,
}

impl OperatorOnly {
    /// Trusts these CAs.
    pub(super) fn new(roots: RootCertStore) -> Result<Arc<Self>, rustls::server::VerifierBuilderError> {
        let chain = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
        Ok(Arc::new(Self { chain }))
    }
}

/// Is the certificate for clients, and the operator's by name? The chain is checked elsewhere: `WebPKI` takes a
/// certificate without any purpose for one of every purpose, and does not ask for a client's name.
fn is_operators(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let for_clients = certificate
        .extended_key_usage()
        .ok()
        .flatten()
        .is_some_and(|usage| usage.value.client_auth);
    let named = certificate
        .subject_alternative_name()
        .ok()
        .flatten()
        .is_some_and(|names| {
            names
                .value
                .general_names
                .iter()
                .any(|name| matches!(name, GeneralName::DNSName(names::OPERATOR)))
        });
    for_clients && named
}

impl ClientCertVerifier for OperatorOnly {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        if is_operators(end_entity) {
            Ok(verified)
        } else {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
