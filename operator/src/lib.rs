//! The central operator: it owns `EtcdCluster` and `EtcdMember` objects and all that is under them.
//!
//! * [`controllers`] observe, and carry out what [`plan`] (pure) decides.
//! * [`resources`] builds every Kubernetes object (pure).
//! * [`agents`] keeps one link to the agent of each member; [`pki`] issues the certificates of those links.
//! * [`settings`], [`leader`], [`rbac`], [`server`] and [`metrics`] are what `main` puts together.

pub mod agents;
pub mod controllers;
pub mod leader;
pub mod metrics;
pub mod pki;
pub mod plan;
pub mod rbac;
pub mod resources;
pub mod server;
pub mod settings;
pub mod validate;
pub mod words;
