//! What several kinds share.

mod agent;
mod location;
mod metadata;
mod options;
mod reference;
mod role;
mod schedule;
mod scheduling;
mod storage;

pub use agent::{AgentAdoption, AgentLogLevel, AgentSpec};
pub use location::{PvcLocation, Restore, RestoreSource, S3Location, SnapshotLocation};
pub use metadata::AdditionalMetadata;
pub use options::{AutoCompactionMode, EtcdOptions};
pub use reference::{IssuerKind, IssuerReference, LocalObjectReference};
pub use role::MemberRole;
pub(crate) use schedule::CRON_PATTERN;
pub use schedule::ConcurrencyPolicy;
pub use scheduling::Scheduling;
pub use storage::{Storage, StorageMedium};
