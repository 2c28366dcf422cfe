//! The supervisor as a process, under a real etcd where etcd's behaviour matters, under small scripts where only the
//! process does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod data;
mod ends;
mod guards;
mod harness;
mod memory;
mod pid1;
mod start;
mod upgrade;
mod watchdog;
