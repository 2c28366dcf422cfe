//! The agent beside every etcd. One static binary with these commands:
//!
//! * [`install`]: copies the binary into the volume that agent and supervisor share (init container).
//! * [`serve`]: the sidecar. It reads the data directory, decides whether etcd may start, and serves the operator.
//! * [`inspect`]: tells what a data directory holds, for people.
//! * [`recover`]: a job of the supervisor's, which makes a new history of a data directory whose quorum is lost.
//! * [`supervise`]: PID 1 of the etcd container. It starts etcd on the sidecar's word and reports how it fares.
//!
//! The two long-running ones talk over a Unix socket ([`socket`], `supervisor.proto`).

pub mod cli;
pub mod inspect;
pub mod install;
pub mod recover;
pub mod serve;
pub mod socket;
pub mod supervise;
