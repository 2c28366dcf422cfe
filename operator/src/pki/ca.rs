//! One CA: its certificate and its key.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use sha2::{Digest, Sha256};

use super::{BACKDATE, CA_LIFE, LEAF_LIFE, PkiError};

/// A CA that can issue.
pub struct Ca {
    certificate_pem: String,
    key_pem: String,
    der: CertificateDer<'static>,
    subject: Vec<u8>,
    not_before: Timestamp,
    not_after: Timestamp,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub(super) struct Leaf {
    pub(super) certificate: Certificate,
    pub(super) key: KeyPair,
    pub(super) renew_at: Timestamp,
}

impl std::fmt::Debug for Ca {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ca")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Ca {
    /// A new CA with a key of its own. Its subject names the key, so that two CAs can be told apart by it: an agent's
    /// list of accepted subjects tells which of them the agent trusts.
    pub fn generate(now: Timestamp) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&format!("etcd-operator agents {}", key_name(&key)));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = rcgen_time(now - BACKDATE)?;
        params.not_after = rcgen_time(now + CA_LIFE)?;
        let certificate = params.self_signed(&key)?;
        Self::from_pem(&certificate.pem(), &key.serialize_pem())
    }

    /// The CA as it was kept.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, PkiError> {
        let unusable = |what: &str, error: &dyn std::fmt::Display| PkiError::Unusable(format!("{what}: {error}"));
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|e| unusable("certificate", &e))?;
        let key_pair = KeyPair::from_pem(key).map_err(|e| unusable("key", &e))?;
        let (subject, not_before, not_after) = {
            let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|e| unusable("certificate", &e))?;
            if !parsed.is_ca() {
                return Err(PkiError::Unusable("the certificate is not a CA's".into()));
            }
            if *parsed.public_key().subject_public_key.data != *key_pair.public_key_raw() {
                return Err(PkiError::Unusable("certificate and key do not belong together".into()));
            }
            let validity = parsed.validity();
            (
                parsed.subject().as_raw().to_vec(),
                timestamp(validity.not_before.timestamp())?,
                timestamp(validity.not_after.timestamp())?,
            )
        };
        let issuer = Issuer::from_ca_cert_der(&der, key_pair).map_err(|e| unusable("certificate", &e))?;
        let (certificate_pem, key_pem) = (certificate.to_owned(), key.to_owned());
        Ok(Self {
            certificate_pem,
            key_pem,
            der,
            subject,
            not_before,
            not_after,
            issuer,
        })
    }

    /// Its certificate, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(super) fn key_pem(&self) -> &str {
        &self.key_pem
    }

    pub(super) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// DER of its subject, as TLS names it to clients.
    pub(super) fn subject(&self) -> &[u8] {
        &self.subject
    }

    /// Is it time for a successor? At four fifths of its life.
    #[must_use]
    pub fn is_old(&self, now: Timestamp) -> bool {
        now >= self.not_after - CA_LIFE / 5
    }

    /// Do leaves of its predecessor still live, given that they are issued anew when this CA comes?
    pub(super) fn is_young(&self, now: Timestamp) -> bool {
        now < self.not_before + BACKDATE + LEAF_LIFE
    }

    pub(super) fn issue(
        &self,
        dns_name: &str,
        usage: ExtendedKeyUsagePurpose,
        now: Timestamp,
    ) -> Result<Leaf, PkiError> {
        let key = KeyPair::generate()?;
        let not_after = (now + LEAF_LIFE).min(self.not_after);
        let mut params = CertificateParams::new([dns_name.to_owned()])?;
        // A common name has room for 64 characters and nobody reads it; the name that counts is the SAN.
        params.distinguished_name = common_name("etcd-operator agent link");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        params.not_before = rcgen_time(now - BACKDATE)?;
        params.not_after = rcgen_time(not_after)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let renew_at = now + (not_after.duration_since(now) / 3) * 2;
        Ok(Leaf {
            certificate,
            key,
            renew_at,
        })
    }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// First 8 bytes of SHA-256 of the public key, hex.
fn key_name(key: &KeyPair) -> String {
    use std::fmt::Write;
    let sum = Sha256::digest(key.public_key_raw());
    sum.iter().take(8).fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn timestamp(seconds: i64) -> Result<Timestamp, PkiError> {
    Timestamp::from_second(seconds).map_err(|error| PkiError::Unusable(error.to_string()))
}

/// rcgen speaks the `time` crate's type; it is reached without a dependency of our own.
fn rcgen_time<T>(at: Timestamp) -> Result<T, PkiError>
where
    T: From<std::time::SystemTime>,
{
    let since_epoch = SignedDuration::from_secs(at.as_second());
    let since_epoch: std::time::Duration = since_epoch
        .try_into()
        .map_err(|_| PkiError::Clock(format!("it says {at}")))?;
    Ok((std::time::SystemTime::UNIX_EPOCH + since_epoch).into())
}
