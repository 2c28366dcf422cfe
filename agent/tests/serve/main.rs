//! The sidecar with a real supervisor and a real etcd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking"
)]
#![allow(unreachable_pub, reason = "a test has no users")]

mod first_start;
mod support;
