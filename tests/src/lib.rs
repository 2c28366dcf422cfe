//! The harness of the tests: a real Kubernetes on this machine.

pub mod kube;
