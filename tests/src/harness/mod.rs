//! What scenarios are written with: a Kubernetes with the operator in it, a namespace of their own, clusters, faults, and a
//! digest of everything when one fails.
//!
//! ```no_run
//! use tests::harness::{Outcome, scenario, spec};
//!
//! fn main() -> Outcome {
//!     scenario("m01", async |world| {
//!         let cluster = world.create("c", &spec::disk(3)).await?;
//!         cluster.settled(3).await
//!     })
//! }
//! ```

mod agent;
mod cluster;
mod condition;
mod damage;
mod digest;
mod etcd;
pub mod history;
mod link;
mod operator;
mod packets;
mod process;
pub mod spec;
mod stage;
mod volume;
mod wait;
mod world;
mod writer;

pub use agent::AgentHttp;
pub use cluster::{Cluster, FORMATION};
pub use condition::{condition, says};
pub use damage::{flip_in_log, log_file, overwrite, record_in_log};
pub use etcd::{Etcd, Listed};
pub use link::{Dialler, Identity};
pub use operator::{NAMESPACE as OPERATOR_NAMESPACE, Operator};
pub use packets::Blocked;
pub use process::Process;
pub use stage::Stage;
pub use volume::{Volume, change, empty, places};
pub use wait::{holds, until};
pub use world::{Failed, Outcome, World, scenario, scenario_on_nodes};
pub use writer::{Writer, Written};
