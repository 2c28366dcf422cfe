//! Authentication of etcd's users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::LocalObjectReference;
use crate::serde_help::is_default;

/// Users and passwords of etcd itself. It cannot be changed later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthSpec {
    /// Turns authentication on once the cluster has formed. It needs `tls.client` and `rootCredentialsSecretRef`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: bool,

    /// Secret whose key `password` is the password of the user `root`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_credentials_secret_ref: Option<LocalObjectReference>,
}
