#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn folder() -> (tempfile::TempDir, Folder) {
    let volume = tempfile::tempdir().unwrap();
    let folder = Folder {
        data: volume.path().to_owned(),
        ours: volume.path().join("etcd-agent"),
    };
    (volume, folder)
}

fn born(folder: &Folder) {
    fs::create_dir_all(folder.wal()).unwrap();
    fs::write(folder.wal().join("0-0.wal"), "x").unwrap();
    folder.write(name::NONCE, b"n").unwrap();
    folder.write_identity(b"{}").unwrap();
    folder.note_started().unwrap();
}

#[test]
fn nothing_is_there_at_first_and_nothing_is_made_by_looking() {
    let (volume, folder) = folder();
    assert_eq!(folder.ground().unwrap(), Ground::default());
    assert!(!folder.note_started().unwrap());
    assert_eq!(fs::read_dir(volume.path()).unwrap().count(), 0);
}

#[test]
fn each_fact_is_seen_once_it_is_there() {
    let (_volume, folder) = folder();
    fs::create_dir_all(folder.data.join("member/snap")).unwrap();
    fs::create_dir_all(folder.data.join("member/wal.tmp")).unwrap();
    assert_eq!(folder.ground().unwrap(), Ground::default());
    born(&folder);
    folder.write_used(7).unwrap();
    folder.write_for_agent("fence", b"why").unwrap();
    let all = Ground {
        fenced: true,
        recovering: false,
        wal: true,
        rest: false,
        identity: true,
        started: true,
        used: 7,
    };
    assert_eq!(folder.ground().unwrap(), all);
    folder.write_for_agent("fence", b"").unwrap();
    assert!(!folder.ground().unwrap().fenced);
}

#[test]
fn d25_a_wal_in_which_nothing_was_saved_is_neither_a_wal_nor_a_start() {
    let (_volume, folder) = folder();
    fs::create_dir_all(folder.wal()).unwrap();
    // As etcd writes it when it creates the file: its IDs (none here), and space for more.
    let ids = [4, 0, 0, 0, 0, 0, 0, 0x84, 0x08, 0x01, 0x10, 0x00, 0, 0, 0, 0];
    let first = folder.wal().join("0000000000000000-0000000000000000.wal");
    fs::write(first, [&ids[..], &[0; 4096]].concat()).unwrap();
    assert!(!folder.note_started().unwrap());
    let ground = folder.ground().unwrap();
    assert!(!ground.started && !ground.wal && ground.rest);
}

#[test]
fn an_unreadable_fact_is_an_error_and_not_an_absence() {
    let (_volume, folder) = folder();
    folder.write(name::USED, b"seven").unwrap();
    assert!(folder.ground().unwrap_err().to_string().contains("once-order"));
    folder.remove(name::USED).unwrap();
    fs::create_dir_all(folder.data.join("member")).unwrap();
    fs::write(folder.wal(), "a file where a folder should be").unwrap();
    assert!(folder.ground().is_err());
}

#[test]
fn what_is_set_aside_is_kept_whole_and_leaves_nothing_behind() {
    let (_volume, folder) = folder();
    born(&folder);
    folder.write_used(3).unwrap();
    let aside = folder.set_aside("removed", "20260101T000000Z").unwrap();
    assert!(aside.ends_with("quarantine/removed-20260101T000000Z"));
    for path in ["member/wal/0-0.wal", name::NONCE, name::IDENTITY, name::STARTED] {
        assert!(aside.join(path).exists(), "{path}");
    }
    assert_eq!(
        folder.ground().unwrap(),
        Ground {
            used: 3,
            ..Ground::default()
        }
    );
    // Asked again after a crash: nothing is lost, nothing is overwritten.
    let again = folder.set_aside("removed", "20260101T000000Z").unwrap();
    assert_ne!(aside, again);
    assert!(aside.join("member/wal/0-0.wal").exists());
}

#[test]
fn deleting_a_directory_that_had_started_makes_it_another_one() {
    let (_volume, folder) = folder();
    born(&folder);
    folder.delete().unwrap();
    assert_eq!(folder.ground().unwrap(), Ground::default());
    assert!(!folder.exists(name::NONCE).unwrap());
}

#[test]
fn d25_deleting_the_rest_of_a_start_that_came_to_nothing_leaves_it_the_same_directory() {
    let (_volume, folder) = folder();
    folder.write(name::NONCE, b"n").unwrap();
    folder.write_identity(b"{}").unwrap();
    fs::create_dir_all(folder.data.join("member/snap")).unwrap();
    fs::write(folder.data.join("member/snap/db"), "x").unwrap();
    folder.delete().unwrap();
    assert!(!folder.member().exists());
    assert!(folder.exists(name::NONCE).unwrap() && folder.ground().unwrap().identity);
}

#[test]
fn the_agent_cannot_write_outside_its_folder_nor_what_the_supervisor_records() {
    let (_volume, folder) = folder();
    for file in ["", "..", ".new", "a/b", "/etc/x", "started", "once-order", "quarantine"] {
        assert!(folder.write_for_agent(file, b"x").is_err(), "{file}");
    }
    for label in ["", "..", "a/b"] {
        assert!(folder.set_aside(label, "t").is_err(), "{label}");
    }
    folder.write_for_agent("directive.json", b"{}").unwrap();
    assert_eq!(fs::read(folder.ours.join("directive.json")).unwrap(), b"{}");
}

#[test]
fn a_deletion_that_was_cut_short_leaves_no_half_of_a_data_directory_and_is_ended_later() {
    let (_volume, folder) = folder();
    born(&folder);
    fs::create_dir_all(folder.ours.join("deleting/wal")).unwrap();
    fs::write(folder.ours.join("deleting/wal/0-0.wal"), "x").unwrap();
    folder.finish_deleting().unwrap();
    assert!(!folder.ours.join("deleting").exists());
    assert!(folder.ground().unwrap().wal, "the data that are there now are others");
    folder.finish_deleting().unwrap();
}

#[test]
fn a_data_directory_that_was_never_made_can_be_set_aside_and_deleted() {
    let (volume, mut folder) = folder();
    folder.data = volume.path().join("sub");
    folder.delete().unwrap();
    folder.set_aside("gone", "t").unwrap();
}
