//! The smaller bound of the search, which every run of the tests goes through; `make search` runs the full one.

use std::sync::Arc;

use tests::model::{
    planners::Real,
    search::{PROFILES, Profile, Search},
};

/// Those parts, with one fault less.
#[test]
fn m23_m05_every_reachable_state_of_a_small_cluster_keeps_the_invariants_and_leads_to_the_target() {
    for profile in PROFILES.iter().filter(|profile| profile.size <= 3) {
        let profile = Profile {
            faults: profile.faults.min(1),
            edits: profile.edits.min(1),
            ..*profile
        };
        let outcome = Search::new(profile, Arc::new(Real)).run(2, Some(12_000));
        println!(
            "{}: {} states, depth {}, {:.1} s{}",
            profile.name,
            outcome.states,
            outcome.depth,
            outcome.took.as_secs_f64(),
            if outcome.complete { "" } else { ", not complete" }
        );
        if let Some(found) = outcome.found {
            panic!("{found}");
        }
    }
}
