//! A small model of Kubernetes, agents and etcd in memory, driven by the real planner: no clock, no I/O, every run the
//! same. It can crash the operator after any step, and lose the answer to any call.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a model that only tests drive: a violation ends the test"
)]
#![allow(
    clippy::struct_excessive_bools,
    reason = "the model's state is many independent facts"
)]
#![allow(clippy::too_many_lines, reason = "one arm for each step")]

pub mod check;
pub mod etcd;
mod execute;
mod observe;
mod world;

pub use world::{Faults, Sim, SimMember, SimProcess};
