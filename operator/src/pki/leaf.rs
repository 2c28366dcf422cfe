//! The serving certificate of an agent, in the Secret `<m>-agent-tls`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use rcgen::ExtendedKeyUsagePurpose;

use super::{Bundle, CA_ANNOTATION, NAME_ANNOTATION, PkiError, RENEW_AT_ANNOTATION};

/// What goes into `<m>-agent-tls`: data and annotations belong together, so they come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSecret {
    /// `tls.crt`, `tls.key`, `ca.crt`.
    pub data: BTreeMap<String, ByteString>,
    /// What [`needs_renewal`] reads, so that the content of these Secrets need not be cached.
    pub annotations: BTreeMap<String, String>,
}

/// Why a certificate is issued anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Two thirds of its life are over.
    Due,
    /// The CAs have changed.
    CaChanged,
    /// It is another member's, or another cluster's.
    OtherName,
    /// Its annotations are missing or unreadable.
    Unmarked,
}

/// Issues the serving certificate of the agent of `member`: `serverAuth` only, under the name that
/// [`proto::names::agent`] gives it.
pub fn agent_secret(bundle: &Bundle, member: &str, cluster_uid: &str, now: Timestamp) -> Result<AgentSecret, PkiError> {
    let name = proto::names::agent(member, cluster_uid);
    let leaf = bundle.current.issue(&name, ExtendedKeyUsagePurpose::ServerAuth, now)?;
    let data = [
        ("tls.crt", leaf.certificate.pem()),
        ("tls.key", leaf.key.serialize_pem()),
        ("ca.crt", bundle.trusted_pem()),
    ];
    let annotations = [
        (CA_ANNOTATION, bundle.fingerprint()),
        (NAME_ANNOTATION, name),
        (RENEW_AT_ANNOTATION, leaf.renew_at.to_string()),
    ];
    Ok(AgentSecret {
        data: data
            .into_iter()
            .map(|(key, pem)| (key.to_owned(), ByteString(pem.into_bytes())))
            .collect(),
        annotations: annotations
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    })
}

/// Must `<m>-agent-tls` be issued anew? Judged by its metadata alone.
#[must_use]
pub fn needs_renewal(
    secret: &ObjectMeta,
    bundle: &Bundle,
    member: &str,
    cluster_uid: &str,
    now: Timestamp,
) -> Option<Renewal> {
    let annotation = |key: &str| secret.annotations.as_ref().and_then(|all| all.get(key));
    let (Some(ca), Some(name), Some(renew_at)) = (
        annotation(CA_ANNOTATION),
        annotation(NAME_ANNOTATION),
        annotation(RENEW_AT_ANNOTATION),
    ) else {
        return Some(Renewal::Unmarked);
    };
    if *name != proto::names::agent(member, cluster_uid) {
        return Some(Renewal::OtherName);
    }
    if *ca != bundle.fingerprint() {
        return Some(Renewal::CaChanged);
    }
    match renew_at.parse::<Timestamp>() {
        Ok(renew_at) if now < renew_at => None,
        Ok(_) => Some(Renewal::Due),
        Err(_) => Some(Renewal::Unmarked),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    use x509_parser::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().unwrap()
    }

    fn days(days: i64) -> SignedDuration {
        SignedDuration::from_hours(24 * days)
    }

    fn meta(secret: AgentSecret) -> ObjectMeta {
        ObjectMeta {
            annotations: Some(secret.annotations),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn t06_an_agents_certificate_serves_under_one_name_and_is_no_clients() {
        let bundle = Bundle::generate(now()).unwrap();
        let secret = agent_secret(&bundle, "c-x", "uid-1", now()).unwrap();
        let der = CertificateDer::from_pem_slice(&secret.data["tls.crt"].0).unwrap();
        let (_, parsed) = parse_x509_certificate(&der).unwrap();
        let usage = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && !usage.client_auth && !usage.any);
        let names = &parsed.subject_alternative_name().unwrap().unwrap().value.general_names;
        assert_eq!(
            *names,
            [GeneralName::DNSName("c-x.uid-1.agent.etcd-operator.cozystack.io")]
        );
        assert!(!parsed.is_ca());
        let starts = parsed.validity().not_before.timestamp();
        assert_eq!(
            starts,
            (now() - SignedDuration::from_hours(1)).as_second(),
            "an hour back, clocks differ"
        );
        assert!(!secret.data.contains_key("previous.key"));
    }

    #[test]
    fn a_fresh_certificate_is_kept_until_two_thirds_of_its_life() {
        let bundle = Bundle::generate(now()).unwrap();
        let secret = meta(agent_secret(&bundle, "c-x", "uid-1", now()).unwrap());
        assert_eq!(needs_renewal(&secret, &bundle, "c-x", "uid-1", now()), None);
        assert_eq!(needs_renewal(&secret, &bundle, "c-x", "uid-1", now() + days(59)), None);
        assert_eq!(
            needs_renewal(&secret, &bundle, "c-x", "uid-1", now() + days(60)),
            Some(Renewal::Due)
        );
    }

    #[test]
    fn a_certificate_is_issued_anew_when_the_ca_or_the_name_is_another() {
        let bundle = Bundle::generate(now()).unwrap();
        let secret = meta(agent_secret(&bundle, "c-x", "uid-1", now()).unwrap());
        let lost = Bundle::generate(now()).unwrap();
        assert_eq!(
            needs_renewal(&secret, &lost, "c-x", "uid-1", now()),
            Some(Renewal::CaChanged)
        );
        assert_eq!(
            needs_renewal(&secret, &bundle, "c-x", "uid-2", now()),
            Some(Renewal::OtherName)
        );
        assert_eq!(
            needs_renewal(&ObjectMeta::default(), &bundle, "c-x", "uid-1", now()),
            Some(Renewal::Unmarked)
        );
    }
}
