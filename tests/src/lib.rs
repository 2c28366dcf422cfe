//! The harness of the tests: a real Kubernetes on this machine, and what scenarios are written with.

pub mod bench;
pub mod fleet;
pub mod harness;
pub mod kube;
pub mod model;
pub mod soak;
