//! The two protocols of the agent and what both of their ends must agree on.
//!
//! * [`agent`]: operator and agent, mTLS gRPC on [`pod::AGENT_GRPC_PORT`] (`agent.proto`).
//! * [`supervisor`]: agent and supervisor, a Unix socket inside the Pod (`supervisor.proto`).
//! * [`pod`]: paths, environment and ports that the operator's Pod builder and the agent share.
//! * [`exit`]: how an end of etcd is called.
//! * [`room`]: how much of a data volume must be free.
//! * [`names`]: the names inside the certificates of the link.

/// Generated from `agent.proto`.
pub mod agent {
    #![allow(
        missing_docs,
        clippy::all,
        clippy::pedantic,
        reason = "generated code; its documentation is the .proto file"
    )]
    tonic::include_proto!("etcdagent.v1");
}

/// Generated from `supervisor.proto`.
pub mod supervisor {
    #![allow(
        missing_docs,
        clippy::all,
        clippy::pedantic,
        reason = "generated code; its documentation is the .proto file"
    )]
    tonic::include_proto!("etcdagent.supervisor.v1");
}

pub mod codec;
pub mod exit;
pub mod names;
pub mod pod;
pub mod room;

/// The most bytes one message of the link may have: a report is hostile input.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
