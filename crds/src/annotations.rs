//! Keys and values of the annotations and the finalizer that we read or write.

/// On a member: name of the headless Service its peer URL is made of.
pub const HEADLESS_SERVICE_NAME: &str = "etcd-operator.cozystack.io/headless-service-name";

/// On a member: the folder of its volume that holds the data; one safe path component, otherwise the volume's root.
pub const DATA_DIR_SUBPATH: &str = "etcd-operator.cozystack.io/data-dir-subpath";

/// On a member: `"true"` lets a person delete it past the deletion guard.
pub const ALLOW_DELETION: &str = "etcd-operator.cozystack.io/allow-deletion";

/// On a member: `"true"` asks for a new volume now.
pub const REPLACE: &str = "etcd-operator.cozystack.io/replace";

/// On a Pod that was taken out of its cluster's Services: the cluster's name.
pub const HIDDEN_FROM: &str = "etcd-operator.cozystack.io/hidden-from";

/// On a Pod whose agent is getting another image: the container (its ID) that goes. Until then what the Pod says of itself
/// is of the old one.
pub const AGENT_GOES: &str = "etcd-operator.cozystack.io/agent-goes";

/// On a cluster: `"true"` makes peers use certificates that etcd signs itself; ignored when `spec.tls.peer` is set.
pub const PEER_AUTO_TLS: &str = "etcd-operator.cozystack.io/peer-auto-tls";

/// On a cluster: names of members separated by commas, or `*`; their etcd is stopped while their Pods are kept.
pub const FENCED: &str = "etcd-operator.cozystack.io/fenced";

/// On a cluster: [`RECONCILE_PAUSED`] makes the operator keep its hands off.
pub const RECONCILE: &str = "etcd-operator.cozystack.io/reconcile";

/// Value of [`RECONCILE`].
pub const RECONCILE_PAUSED: &str = "paused";

/// Value of the annotations that are switches.
pub const TRUE: &str = "true";

/// Finalizer of members: etcd forgets the member before the object goes.
pub const MEMBER_FINALIZER: &str = "etcd-operator.cozystack.io/member-cleanup";
