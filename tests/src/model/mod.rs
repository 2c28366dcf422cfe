//! A small model of Kubernetes, agents and etcd in memory, driven by the real planner: no clock, no I/O, every run the
//! same.
//!
//! * [`etcd`] is the model of etcd's membership; [`world`] that of Kubernetes' objects and of data directories;
//!   [`agent`] is what agents and processes do by themselves.
//! * [`observe`] gathers facts as the operator does, [`execute`] carries steps out, [`check`] watches the invariants.
//! * [`moves`] is everything that can happen, one readable line each; [`script`] runs files of such lines, and [`search`]
//!   tries them all.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a model that only tests drive: its fields speak for themselves, a violation ends the test"
)]
#![allow(
    clippy::struct_excessive_bools,
    reason = "the model's state is many independent facts"
)]

pub mod agent;
pub mod check;
pub mod etcd;
pub mod execute;
pub mod moves;
pub mod mutants;
mod normal;
pub mod observe;
pub mod planners;
mod run;
pub mod script;
pub mod search;
mod settle;
pub mod words;
pub mod world;

pub use settle::End;
pub use world::{Faults, Sim, SimMember, SimProcess, Violation};
