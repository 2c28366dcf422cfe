//! TLS of the client and peer ports.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{IssuerReference, LocalObjectReference};

/// TLS of both ports. It cannot be added, removed or changed later; what a Secret holds may change at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTls {
    /// TLS of the client port 2379. Absent: plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientTls>,

    /// TLS of the peer port 2380, always mutual. Absent: plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerTls>,
}

/// Certificates of the client port: exactly one of `serverSecretRef` and `certManager`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.serverSecretRef) != has(self.certManager)")
        .message("set exactly one of serverSecretRef and certManager"),
    validation = Rule::new("!(has(self.operatorClientSecretRef) && has(self.certManager))")
        .message("operatorClientSecretRef goes with serverSecretRef; beside certManager set certManager.operatorClientIssuerRef")
        .field_path(".operatorClientSecretRef"),
)]
pub struct ClientTls {
    /// Secret with `tls.crt`, `tls.key` and `ca.crt` for the server side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_secret_ref: Option<LocalObjectReference>,

    /// Secret with `tls.crt`, `tls.key` and `ca.crt` that the operator uses as a client. When it is given, every
    /// client must show a certificate of that CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_client_secret_ref: Option<LocalObjectReference>,

    /// Lets cert-manager issue the certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<ClientCertManager>,
}

/// cert-manager issuers of the client port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertManager {
    /// Issuer of the server certificate `<cluster>-server`.
    pub server_issuer_ref: IssuerReference,

    /// Issuer of the operator's client certificate `<cluster>-operator-client`. When it is given, every client must
    /// show a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_client_issuer_ref: Option<IssuerReference>,
}

/// Certificates of the peer port: exactly one of `secretRef` and `certManager`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secretRef) != has(self.certManager)")
    .message("set exactly one of secretRef and certManager"))]
pub struct PeerTls {
    /// Secret with `tls.crt`, `tls.key` and `ca.crt`, for both the server and the client side of every peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalObjectReference>,

    /// Lets cert-manager issue the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<PeerCertManager>,
}

/// cert-manager issuer of the peer port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerCertManager {
    /// Issuer of the certificate `<cluster>-peer`.
    pub issuer_ref: IssuerReference,
}
