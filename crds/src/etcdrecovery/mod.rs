//! `EtcdRecovery`: a decision to cut the history of a cluster that has lost its quorum, carried out once.

mod spec;
mod status;

pub use spec::{EtcdRecovery, EtcdRecoverySpec, RecoveryMember};
pub use status::{EtcdRecoveryStatus, RecoveryCandidate, RecoveryPhase};
