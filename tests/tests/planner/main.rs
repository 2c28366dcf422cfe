//! The planner against a model of Kubernetes, agents and etcd: every scenario ends in the same state, also when the
//! operator is killed at any of its steps, or the answer to any of its calls is lost.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod adopted;
mod by_hand;
mod deletion;
mod divergence;
mod formation;
mod loss;
mod membership;
mod places;
mod quorum;
mod status;
mod unanswered;

use operator::plan::facts::Medium;
use tests::model::{Faults, Sim};

const VERSIONS: [&str; 3] = ["3.5.35", "3.6.16", "3.7.3"];
const MEDIA: [Medium; 2] = [Medium::Disk, Medium::Memory];

fn formed(replicas: u32, version: &str, medium: Medium) -> Sim {
    let mut sim = Sim::new(replicas, version, medium);
    sim.settle();
    sim
}

/// Runs a scenario once without faults, then once for each of its steps and each kind of fault at that step.
fn at_every_step(make: impl Fn() -> Sim, scenario: impl Fn(&mut Sim)) {
    let mut plain = make();
    plain.steps = 0;
    scenario(&mut plain);
    let steps = plain.steps;
    assert!(steps > 0);
    for step in 0..steps {
        for faults in [
            Faults {
                crash_before: Some(step),
                ..Faults::default()
            },
            Faults {
                crash_after: Some(step),
                ..Faults::default()
            },
            Faults {
                lose_answer: Some(step),
                ..Faults::default()
            },
        ] {
            let mut sim = make();
            sim.steps = 0;
            sim.faults = faults;
            sim.log.push(format!("{faults:?}"));
            scenario(&mut sim);
        }
    }
}
