//! `EtcdSnapshot`: one snapshot of a cluster, taken once.

mod spec;
mod status;

pub use spec::{EtcdSnapshot, EtcdSnapshotSpec, SnapshotVerify};
pub use status::{EtcdSnapshotStatus, SnapshotArtifact, SnapshotPhase, SnapshotProgress, SnapshotVerification};
