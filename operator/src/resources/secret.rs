//! `<m>-agent-tls`.

use crds::EtcdMember;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::{agent_secret_name, metadata::of_member};
use crate::pki;

/// The Secret that a member's agent serves with, owned by the member.
#[must_use]
pub fn agent_secret(member: &EtcdMember, issued: pki::AgentSecret) -> Secret {
    let pki::AgentSecret { data, annotations } = issued;
    Secret {
        metadata: of_member(member, agent_secret_name(&member.name_any()), annotations),
        data: Some(data),
        type_: Some("kubernetes.io/tls".into()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::super::fixtures;
    use super::*;

    #[test]
    fn the_secret_of_an_agent() {
        let pem = |text: &str| ByteString(text.as_bytes().to_vec());
        let issued = pki::AgentSecret {
            data: [("tls.crt", pem("c")), ("tls.key", pem("k")), ("ca.crt", pem("a"))]
                .map(|(key, value)| (key.to_owned(), value))
                .into(),
            annotations: [(pki::CA_ANNOTATION.to_owned(), "f".to_owned())].into(),
        };
        insta::assert_yaml_snapshot!(agent_secret(&fixtures::memory_member(), issued));
    }
}
