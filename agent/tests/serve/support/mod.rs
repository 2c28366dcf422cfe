//! A Pod without Kubernetes: network namespace, folders for its volumes, the two processes of the agent, and a real
//! etcd; and what the operator's end of the link does.

pub mod binaries;
pub mod cluster;
pub mod net;
pub mod operator;
pub mod pki;
pub mod pod;
pub mod quorum;
pub mod read;
pub mod test;
