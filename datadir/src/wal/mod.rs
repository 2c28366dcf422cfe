//! The write-ahead log: which files it has, what they hold, and the one write that a recovery needs.

mod beyond;
mod birth;
mod change;
pub(crate) mod encode;
mod extend;
mod log;
mod record;
mod segments;
#[cfg(test)]
mod testing;

pub use birth::{has_saved, is_born};
pub use extend::{Extended, extend_commit};

pub(crate) use change::{Change, ChangeKind};
pub(crate) use log::{Fault, Log, read};
#[cfg(any(test, feature = "testing"))]
pub(crate) use record::kind;
pub(crate) use segments::hex;
