//! Scenarios on a real Kubernetes: what users of etcd operators have met, and what must follow. A test's name starts with the
//! id of its scenario. Those of `operator_down`, `linearizable` and `nodes`, among others, run alone (`.config/nextest.toml`).

#![allow(
    clippy::large_futures,
    reason = "a scenario is one future with everything in it, and there is one a process"
)]

mod agents;
mod api;
mod api_server;
mod by_hand;
mod deletion;
mod disks;
mod divergence;
mod drain;
mod edits;
mod formation;
mod full;
mod isolation;
mod linearizable;
mod loss;
mod membership;
mod metrics;
mod node_loss;
mod nodes;
mod operator_down;
mod pause;
mod permissions;
mod recovery;
mod rollout;
mod steady;
mod uninstall;
