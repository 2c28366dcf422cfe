//! `EtcdMember`: one member of a cluster. The operator makes, changes and deletes these; people read them.

mod spec;
mod status;

pub use spec::{EtcdMember, EtcdMemberSpec, MemberTls};
pub use status::{
    AgentStatus, DataDirectory, DataDirectoryState, EtcdExit, EtcdMemberStatus, LearnerProgress, MemberBinding,
};
