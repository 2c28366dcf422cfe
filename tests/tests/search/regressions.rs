//! What the search and the random schedules have found, one script for each kind.

use tests::model::script::Script;

fn runs(text: &str) {
    let script = Script::parse(text).unwrap_or_else(|failure| panic!("{failure}"));
    script.run().unwrap_or_else(|failure| panic!("{failure}"));
}

/// By its own index it has caught up, and the leader does not reach it: as a voter it would take the quorum away.
#[test]
fn a_learner_that_is_cut_off_from_the_leader_is_not_promoted() {
    for version in ["3.5.35", "3.6.16", "3.7.3"] {
        for turns in 6..16 {
            let turns = "turn\n".repeat(turns);
            runs(&format!(
                "cluster 1 {version} memory\nscale 3\n{turns}isolate c-001\n{turns}end\nexpect voters=3\n"
            ));
        }
    }
}

/// The next leader of the operators does not know of the call, and would make another one beside it.
#[test]
fn the_lease_is_not_handed_over_while_a_call_without_an_answer_may_still_be_carried_out() {
    runs(
        "cluster 3 3.6.16 disk\nsettle\nlose-disk c-001\noperator looks\noperator acts, answer late\nlose-pod c-002\n\
         operator hands over\noperator looks\noperator acts\nexpect calls=5\netcd carries out\nend\nexpect voters=3\n",
    );
}

/// Nobody was led to it yet: another member begins another history.
#[test]
fn a_seed_that_is_damaged_before_it_was_recorded_is_given_up_for_another() {
    for turns in 4..10 {
        let turns = "turn\n".repeat(turns);
        runs(&format!("cluster 3 3.6.16 disk\n{turns}damage-disk c-001\nend\n"));
    }
}
