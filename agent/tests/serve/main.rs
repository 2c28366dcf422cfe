//! The sidecar with a real supervisor and a real etcd. Needs root (network namespaces) and the etcds of the local
//! Kubernetes, see `support/binaries.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking"
)]
#![allow(unreachable_pub, reason = "a test has no users")]

mod budget;
mod config;
mod crashes;
mod first_start;
mod link;
mod orders;
mod random_loss;
mod recovery;
mod renewal;
mod restart;
mod support;
