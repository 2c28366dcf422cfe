//! Reads the data directory of an etcd from outside: WAL, `.snap` files and db of etcd 3.5 to 3.7.
//!
//! [`inspect`] tells what the directory is to the next start of etcd, and why, as etcd itself decides it; and where etcd
//! would start and lose what it had acknowledged, it says so. Nothing is written, no lock is kept, and memory stays
//! small: all is read in pieces, and nothing that a file says is believed before it is checked.
//!
//! The one write is [`wal::extend_commit`], which a recovery of a lost quorum needs.

mod bolt;
mod db;
mod error;
mod input;
mod inspect;
mod inspection;
mod lock;
mod membership;
mod protobuf;
mod snap;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod wal;

pub use error::Error;
pub use inspect::{Options, Use, inspect};
pub use inspection::{
    Alarm, AlarmKind, Damage, Facts, HardState, Id, Identity, Inspection, Member, Membership, Part, Position, Schema,
    Sizes, Source, State,
};
pub use lock::is_locked;
