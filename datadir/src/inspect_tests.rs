#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::testing::{self, Log, intact};
use crate::{HardState, Id, Identity};
use proptest::prelude::*;

fn look(path: &Path) -> Inspection {
    inspect(path, &Options::default()).unwrap()
}

fn written(log: &Log, applied: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    testing::directory(folder.path(), log, applied).unwrap();
    folder
}

fn damage(folder: &tempfile::TempDir) -> Damage {
    match look(folder.path()).state {
        State::Damaged(damage) => damage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_directory_is_intact_and_tells_its_facts() {
    let folder = tempfile::tempdir().unwrap();
    intact(folder.path(), 7, 9).unwrap();
    let seen = look(folder.path());
    assert_eq!(seen.state, State::Intact);
    let facts = seen.facts;
    let (member_id, cluster_id) = (Id(7), Id(9));
    assert_eq!(facts.identity, Some(Identity { member_id, cluster_id }));
    assert_eq!((facts.applied, facts.commit), (Some(5), Some(5)));
    assert_eq!(facts.last, Some(Position { term: 1, index: 5 }));
    let (term, vote, commit) = (1, Id(7), 5);
    assert_eq!(facts.hard_state, Some(HardState { term, vote, commit }));
    assert_eq!(facts.schema, Some(Schema::V3_5));
}

#[test]
fn d31_a_log_that_ends_before_what_the_db_has_applied_is_damaged() {
    let told = damage(&written(&testing::log(7, 9, 5), 6));
    assert_eq!(told.part, Part::Wal);
    assert!(
        told.detail.contains("entry 5") && told.detail.contains("applied 6"),
        "{told}"
    );
}

#[test]
fn d31_destroyed_records_with_later_writes_behind_them_are_damaged_though_the_db_has_not_applied_them() {
    let whole = testing::log(7, 9, 40);
    let bytes = whole.bytes().to_vec();
    for (place, with) in [(600, vec![0; 512]), (600, vec![0xff; 8])] {
        let place = place / 8 * 8;
        let mut broken = bytes.clone();
        broken[place..place + with.len()].copy_from_slice(&with);
        let folder = written(&Log::new().raw(&broken), 1);
        assert_eq!(damage(&folder).part, Part::Wal, "{with:?}");
    }
}

#[test]
fn d04_what_one_unsynced_write_may_leave_is_no_damage() {
    // Its first sector never came to the disk, the rest did: entries and one hard state.
    let begun = testing::log(7, 9, 5);
    let write = (6..40)
        .fold(begun.clone(), |log, index| log.entry(1, index, &[7; 100]))
        .state(1, 7, 5);
    let mut bytes = write.bytes().to_vec();
    let start = begun.bytes().len();
    bytes[start..start + 512].fill(0);
    assert_eq!(look(written(&Log::new().raw(&bytes), 5).path()).state, State::Intact);
    // Cut within a record.
    let cut = Log::new().raw(&write.bytes()[..start + 1000]);
    assert_eq!(look(written(&cut, 5).path()).state, State::TornTail);
}

#[test]
fn a_log_that_says_more_was_committed_than_it_holds_is_damaged() {
    let log = Log::new()
        .crc()
        .identity(7, 9)
        .snapshot(0, 0)
        .entry(1, 1, b"x")
        .state(1, 7, 3);
    assert!(damage(&written(&log, 1)).detail.contains("3 was committed"));
}

#[test]
fn a_member_or_cluster_that_changes_within_a_log_is_damage() {
    let log = Log::new()
        .crc()
        .identity(7, 9)
        .snapshot(0, 0)
        .identity(7, 8)
        .entry(1, 1, b"x")
        .state(1, 7, 1);
    assert!(damage(&written(&log, 1)).detail.contains("another member or cluster"));
}

#[test]
fn d09_other_files_do_not_count_and_a_file_in_place_of_a_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("lost+found")).unwrap();
    assert_eq!(look(folder.path()).state, State::Unborn);
    fs::write(folder.path().join("member"), "").unwrap();
    assert!(inspect(folder.path(), &Options::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_a_file_holds_makes_the_reader_fail(
        changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        cut in 0..4_u8,
    ) {
        let (mut log, mut db) = (testing::log(7, 9, 20).bytes().to_vec(), testing::db(20));
        for (in_log, place, byte) in changes {
            let bytes = if in_log { &mut log } else { &mut db };
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if cut & 1 == 1 {
            log.truncate(cuts.0.index(log.len()));
        }
        if cut & 2 == 2 {
            db.truncate(cuts.1.index(db.len()));
        }
        let folder = written(&Log::new().raw(&log), 20);
        fs::write(folder.path().join("member/snap/db"), &db).unwrap();
        let seen = inspect(folder.path(), &Options::default()).unwrap();
        // What is taken for whole must hold all that the db has applied.
        if matches!(seen.state, State::Intact | State::TornTail) {
            prop_assert!(seen.facts.last.unwrap().index >= seen.facts.applied.unwrap_or(0));
        }
    }

    #[test]
    fn bytes_at_random_are_never_taken_for_whole(log in prop::collection::vec(any::<u8>(), 0..4000), db in prop::collection::vec(any::<u8>(), 0..9000)) {
        let folder = written(&Log::new().raw(&log), 1);
        fs::write(folder.path().join("member/snap/db"), &db).unwrap();
        let seen = inspect(folder.path(), &Options::default()).unwrap();
        prop_assert!(!matches!(seen.state, State::Intact | State::TornTail), "{:?}", seen.state);
    }
}
