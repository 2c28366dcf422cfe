//! Keys and values of the labels on our objects. Dashboards, scripts and selectors of users depend on them.

/// `app.kubernetes.io/name`; its value is [`NAME_VALUE`].
pub const NAME: &str = "app.kubernetes.io/name";

/// Value of [`NAME`] on every object of ours.
pub const NAME_VALUE: &str = "etcd";

/// `app.kubernetes.io/instance`; its value is the cluster's name.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// `app.kubernetes.io/component`; its value is the member's name, on a member's own objects only.
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// `app.kubernetes.io/managed-by`; its value is [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Value of [`MANAGED_BY`] on every object of ours.
pub const MANAGED_BY_VALUE: &str = "etcd-operator";

/// The cluster's name, on everything that belongs to it. The headless Service selects Pods by it, so Pods of Jobs
/// go without.
pub const CLUSTER: &str = "etcd-operator.cozystack.io/cluster";

/// [`ROLE_VOTER`] on the Pods of voting members; the `PodDisruptionBudget` and the client Service select by it.
pub const ROLE: &str = "etcd-operator.cozystack.io/role";

/// Value of [`ROLE`] while the member votes; learners carry no role label.
pub const ROLE_VOTER: &str = "voter";

/// On a `PersistentVolumeClaim` that outlives its member, because it may hold the last copy of the data.
pub const RETAINED: &str = "etcd-operator.cozystack.io/retained";
