//! Leader election on a Lease, and how long our turn is proven to last.
//!
//! The Lease has the name that the Go operator of the same API uses, so the two never act at the same time either.
//! Clocks of different machines are never compared: another's turn is over when its Lease has not changed for as long
//! as it lasts, measured on our own monotonic clock from when we saw the last change.

mod election;
mod record;
mod validity;

pub use election::{Election, Lost};
pub use validity::{NotLeader, Validity};

/// Name of the Lease.
pub const LEASE: &str = "aa20b3a9.etcd-operator.cozystack.io";
