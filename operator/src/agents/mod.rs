//! The links to the agents: one task a member dials its Pod, follows its reports, and dials again.
//!
//! The operator is the client: tenants need no way out of their namespace, and the operator listens to nobody. A
//! report is hostile input ([`sanitize`]): bounded in size by the transport, in rate by [`bucket`], in its strings
//! here, and it counts only when it speaks for the member that was dialled.
//!
//! [`Links`] is the handle; what changed is told by [`Changes`], cluster by cluster.

mod alive;
mod backoff;
mod bucket;
mod changes;
mod channel;
mod error;
mod key;
mod link;
mod links;
mod sanitize;
mod session;
mod state;

pub use changes::Changes;
pub use error::LinkError;
pub use key::{ClusterKey, MemberKey, Target};
pub use links::{Counts, Links};
pub use state::{Cause, LinkState, Peer, Received};
