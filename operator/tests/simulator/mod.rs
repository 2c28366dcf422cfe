//! A small model of Kubernetes, agents and etcd in memory, driven by the real planner: no clock, no I/O, every run the
//! same. It can crash the operator after any step, and lose the answer to any call.

#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]
#![allow(
    clippy::struct_excessive_bools,
    reason = "the model's state is many independent facts"
)]
#![allow(clippy::too_many_lines, reason = "one arm for each step")]

mod check;
mod etcd;
mod execute;
mod observe;
mod world;

pub(crate) use world::{Faults, Sim, SimProcess};
