//! `EtcdDefrag`: one defragmentation of a cluster, carried out once.

mod rule;
mod spec;
mod status;

pub use rule::DefragRule;
pub use spec::{EtcdDefrag, EtcdDefragSpec};
pub use status::{DefragOutcome, DefragPhase, EtcdDefragStatus, MemberDefrag};
