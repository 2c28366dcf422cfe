//! The API of etcd-operator: the custom resources of `etcd-operator.cozystack.io/v1alpha2` as Rust types.
//!
//! Each kind has a module of its own, split into `spec` (what a person asks for) and `status` (what was last
//! observed). What several kinds share is in [`common`]. The documentation of a field is the description in the
//! schema, and [`definitions::all`] is where the `CustomResourceDefinition`s come from, so the types are the only
//! place where the API is written down.
//!
//! Status fields that hold one of several words are open strings in the schema, and their enums fall back to one
//! variant on a word they do not know: a status written by a newer operator must stay readable.

#![allow(
    unreachable_pub,
    reason = "the schema derive copies each struct, `pub` included, into a function"
)]

pub mod annotations;
pub mod common;
pub mod conditions;
pub mod definitions;
pub mod etcdcluster;
pub mod etcddefrag;
pub mod etcddefragpolicy;
pub mod etcdmember;
pub mod etcdrecovery;
pub mod etcdsnapshot;
pub mod etcdsnapshotpolicy;
pub mod labels;
pub mod names;
pub mod quantity;
mod serde_help;
mod structural;

pub use common::{
    AdditionalMetadata, AgentAdoption, AgentLogLevel, AgentSpec, AutoCompactionMode, ConcurrencyPolicy, EtcdOptions,
    LocalObjectReference, MemberRole, PvcLocation, Restore, RestoreSource, S3Location, Scheduling, SnapshotLocation,
    Storage, StorageMedium,
};
pub use etcdcluster::{EtcdCluster, EtcdClusterSpec, EtcdClusterStatus};
pub use etcddefrag::{EtcdDefrag, EtcdDefragSpec, EtcdDefragStatus};
pub use etcddefragpolicy::{EtcdDefragPolicy, EtcdDefragPolicySpec, EtcdDefragPolicyStatus};
pub use etcdmember::{EtcdMember, EtcdMemberSpec, EtcdMemberStatus};
pub use etcdrecovery::{EtcdRecovery, EtcdRecoverySpec, EtcdRecoveryStatus};
pub use etcdsnapshot::{EtcdSnapshot, EtcdSnapshotSpec, EtcdSnapshotStatus};
pub use etcdsnapshotpolicy::{EtcdSnapshotPolicy, EtcdSnapshotPolicySpec, EtcdSnapshotPolicyStatus};

/// The API group of every kind, and the prefix of every label, annotation and finalizer of ours.
pub const GROUP: &str = "etcd-operator.cozystack.io";

/// The one version that is served and stored.
pub const VERSION: &str = "v1alpha2";
