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

/// Its ID was in its status, and nothing else: it looked as if another operator had made it, and nothing was touched any
/// more.
#[test]
fn a_member_that_loses_its_pod_between_its_admission_and_its_first_report_is_not_taken_for_another_operators() {
    runs(
        "cluster 3 3.6.16 disk\nturn\nturn\nturn\nturn\nturn\nstall-watches\nturn\nturn\nevict-pod c-002\n\
         turn\nturn\nturn\nturn\nturn\nend\nexpect voters=3\n",
    );
    for stalled in 4..9 {
        for turns in 1..8 {
            let (before, after) = ("turn\n".repeat(stalled), "turn\n".repeat(turns));
            runs(&format!(
                "cluster 7 3.6.16 disk\n{before}stall-watches\n{after}evict-pod c-002\n{after}end\n"
            ));
        }
    }
}

/// Memory cannot be kept: others are filled from it before it goes.
#[test]
fn members_in_memory_that_are_all_deleted_by_hand_hand_their_data_on_before_they_go() {
    for turns in 6..12 {
        let turns = "turn\n".repeat(turns);
        runs(&format!("cluster 1 3.5.35 memory\n{turns}delete-member c-001\nend\n"));
    }
    for between in ["", "turn\n", "turn\nturn\nturn\n"] {
        runs(&format!(
            "cluster 3 3.6.16 memory\nsettle\ndelete-member c-001\n{between}delete-member c-002\n{between}\
             delete-member c-003\nend\nexpect voters=3\n"
        ));
    }
}

#[test]
#[ignore = "open: resumed after a pause, a Pod is made with the voter's label for a member that is a learner, by what its status said before (invariant 3)"]
fn a_learner_of_a_paused_cluster_is_not_labelled_as_a_voter_when_it_is_resumed() {
    let turns = "turn\n".repeat(8);
    runs(&format!(
        "cluster 3 3.5.35 disk\n{turns}scale 0\nturn\nturn\nscale 1\nend\n"
    ));
    runs("cluster 3 3.5.35 disk\nsettle\nlose-disk c-001\nturn\nturn\nturn\nscale 0\nturn\nturn\nscale 1\nend\n");
}

#[test]
#[ignore = "open: the Pod of a member that is deleted by hand stays when its cluster is paused"]
fn a_member_that_is_deleted_while_its_cluster_is_being_paused_ends_with_the_others() {
    runs("cluster 3 3.5.35 disk\nsettle\nscale 0\ndelete-member c-001\nend\n");
}

#[test]
#[ignore = "open: a member in memory whose Pod is gone is released while the list cannot be read: the planner or invariant 7 must say which"]
fn a_deleted_member_in_memory_that_has_lost_its_pod_is_released_by_what_is_known() {
    runs("cluster 1 3.5.35 memory\nsettle\ndelete-member c-001\nlose-pod c-001\nend\n");
}
