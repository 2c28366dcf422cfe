#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use std::os::unix::fs::PermissionsExt as _;

const EXPECTED: Expected<'static> = Expected {
    cluster_uid: "uid-1",
    member: "c-a",
    incarnation: 1,
};

struct Volume {
    folder: tempfile::TempDir,
    paths: Paths,
}

impl Volume {
    fn new(subpath: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths {
            data_volume: folder.path().to_owned(),
            run_volume: folder.path().join("run"),
            data_subpath: subpath.to_owned(),
        };
        Self { folder, paths }
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    fn identity(&self, change: impl FnOnce(&mut Identity)) {
        let mut identity = Identity {
            cluster_uid: "uid-1".to_owned(),
            incarnation: 1,
            token: "t".to_owned(),
            cluster_id: etcd::ClusterId(1),
            member_id: etcd::MemberId(2),
            member_name: "c-a".to_owned(),
            nonce: Nonce::try_from("a".repeat(32)).expect("a nonce"),
        };
        change(&mut identity);
        self.put(
            "etcd-agent/identity.json",
            &String::from_utf8(identity.to_json().expect("JSON")).expect("UTF-8"),
        );
    }

    /// A whole directory of the member that [`Self::identity`] records.
    fn intact(&self) {
        datadir::testing::intact(&self.paths.data_dir(), 2, 1).expect("a directory");
    }

    fn look(&self) -> Directory {
        inspect(&self.paths, EXPECTED, Some(false), None)
    }
}

const WAL: &str = "member/wal/0000000000000000-0000000000000000.wal";

#[test]
fn d09_lost_and_found_our_folder_and_the_quarantine_do_not_count() {
    let volume = Volume::new("");
    assert_eq!(volume.look().state, State::Unborn);
    volume.put("lost+found/x", "");
    volume.put("etcd-agent/nonce", &"a".repeat(32));
    volume.put(&format!("etcd-agent/quarantine/removed-1/{WAL}"), "data");
    let seen = volume.look();
    assert_eq!(
        (seen.state, seen.started, seen.has_member, seen.bytes),
        (State::Unborn, false, false, 0)
    );
    assert_eq!(seen.nonce.map(String::from), Some("a".repeat(32)));
    assert!(seen.space.total_bytes >= seen.space.free_bytes && seen.space.free_bytes > 0);
}

#[test]
fn d25_what_a_start_without_end_leaves_is_unborn() {
    let volume = Volume::new("");
    volume.put("member/snap/db", "sixteen megabytes");
    volume.put("member/wal.tmp/0000000000000000-0000000000000000.wal", "x");
    volume.put("member/wal/0.tmp", "x");
    let seen = volume.look();
    assert_eq!((seen.state, seen.has_member, seen.bytes), (State::Unborn, true, 19));
}

#[test]
fn unborn_and_started_means_that_the_data_are_gone() {
    let volume = Volume::new("");
    volume.put("etcd-agent/started", "");
    let seen = volume.look();
    assert_eq!((seen.state, seen.started), (State::Unborn, true));
}

#[test]
fn data_with_our_identity_are_taken_for_whole() {
    let volume = Volume::new("");
    volume.intact();
    assert_eq!(volume.look().state, State::Intact, "not recorded");
    volume.identity(|_| {});
    let seen = volume.look();
    assert_eq!(seen.state, State::Intact);
    assert_eq!(
        seen.nonce,
        seen.identity.map(|identity| identity.nonce),
        "the nonce is known without its file"
    );
}

type Change = (fn(&mut Identity), &'static str);

#[test]
fn data_of_another_cluster_member_history_or_directory_are_foreign() {
    let volume = Volume::new("");
    volume.intact();
    volume.put("etcd-agent/nonce", &"a".repeat(32));
    let changes: [Change; 6] = [
        (|identity| identity.cluster_uid = "uid-0".to_owned(), "uid-0"),
        (|identity| identity.member_name = "c-b".to_owned(), "c-b"),
        (|identity| identity.incarnation = 0, "incarnation 0"),
        (
            |identity| identity.nonce = Nonce::try_from("b".repeat(32)).expect("a nonce"),
            "bbbb",
        ),
        (|identity| identity.member_id = etcd::MemberId(3), "0000000000000003"),
        (|identity| identity.cluster_id = etcd::ClusterId(7), "0000000000000007"),
    ];
    for (change, word) in changes {
        volume.identity(change);
        match volume.look().state {
            State::Foreign { detail } => assert!(detail.contains(word), "{detail}"),
            other => panic!("{word}: {other:?}"),
        }
    }
    volume.identity(|identity| identity.incarnation = 2);
    assert_eq!(
        volume.look().state,
        State::Intact,
        "a newer history than the agent has heard of is its own"
    );
}

#[test]
fn damaged_data_are_told_with_the_file_and_the_place_unless_they_are_somebody_elses() {
    let volume = Volume::new("");
    volume.intact();
    volume.identity(|_| {});
    let path = volume.folder.path().join(WAL);
    let mut bytes = fs::read(&path).expect("the log");
    bytes[90] ^= 1;
    fs::write(&path, bytes).expect("a damage");
    let State::Damaged { detail } = volume.look().state else {
        panic!("{:?}", volume.look().state)
    };
    assert!(
        detail.starts_with("WAL: ") && detail.contains(&format!("({WAL} at byte")),
        "{detail}"
    );
    volume.identity(|identity| identity.member_name = "c-b".to_owned());
    assert!(matches!(volume.look().state, State::Foreign { .. }));
}

#[test]
fn d09_data_without_a_log_are_damaged_and_never_unborn() {
    let volume = Volume::new("");
    volume.intact();
    fs::remove_dir_all(volume.folder.path().join("member/wal")).expect("removed");
    assert!(matches!(volume.look().state, State::Damaged { .. }));
}

#[test]
fn d12_what_was_set_aside_is_listed_with_its_size() {
    let volume = Volume::new("");
    volume.put("etcd-agent/quarantine/removed-1-t/member/wal/x", "four");
    let listed = volume.look().quarantined;
    assert_eq!(
        listed,
        [Quarantined {
            name: "removed-1-t".to_owned(),
            bytes: 4
        }]
    );
}

#[test]
fn a_folder_of_the_volume_may_be_the_data_dir() {
    let volume = Volume::new("default.etcd");
    volume.put(&format!("default.etcd/{WAL}"), "x");
    assert!(volume.look().has_wal);
    assert!(!Volume::new("other").look().has_wal);
}

#[test]
fn in_use_is_what_the_supervisor_says_or_the_lock_when_none_does() {
    let volume = Volume::new("");
    volume.intact();
    assert_eq!(inspect(&volume.paths, EXPECTED, Some(true), None).state, State::InUse);
    assert_eq!(inspect(&volume.paths, EXPECTED, None, None).state, State::Intact);
    let db = fs::File::options()
        .write(true)
        .open(volume.folder.path().join("member/snap/db"))
        .expect("the db");
    rustix::fs::flock(&db, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("the lock");
    assert_eq!(inspect(&volume.paths, EXPECTED, None, None).state, State::InUse);
    drop(db);
    assert_eq!(inspect(&volume.paths, EXPECTED, None, None).state, State::Intact);
}

#[test]
fn d10_what_cannot_be_read_is_never_empty() {
    let volume = Volume::new("");
    for (name, content) in [
        ("nonce", "not a nonce"),
        ("identity.json", "{"),
        ("nonce", &"a".repeat(70_000) as &str),
    ] {
        volume.put(&format!("etcd-agent/{name}"), content);
        match volume.look().state {
            State::Unreadable { error } => assert!(!error.is_empty()),
            other => panic!("{name}: {other:?}"),
        }
        fs::remove_file(volume.folder.path().join("etcd-agent").join(name)).expect("removed");
    }
    // A file where a folder must be gives ENOTDIR, also to root, whom modes do not stop.
    volume.put("member", "");
    assert!(matches!(volume.look().state, State::Unreadable { .. }));
}

#[test]
fn d10_a_folder_without_permission_is_unreadable() {
    let volume = Volume::new("");
    volume.put(WAL, "x");
    let member = volume.folder.path().join("member");
    fs::set_permissions(&member, fs::Permissions::from_mode(0o000)).expect("chmod");
    let readable = fs::read_dir(&member).is_ok();
    let state = volume.look().state;
    fs::set_permissions(&member, fs::Permissions::from_mode(0o700)).expect("chmod");
    // Root reads it all the same.
    assert_eq!(matches!(state, State::Unreadable { .. }), !readable, "{state:?}");
}

#[test]
fn what_stands_is_the_default_only_when_there_is_no_file() {
    let volume = Volume::new("");
    assert_eq!(read_standing(&volume.paths), Ok(Standing::default()));
    volume.put("etcd-agent/directive.json", r#"{"number": 7, "incarnation": 1}"#);
    assert_eq!(read_standing(&volume.paths).map(|standing| standing.number), Ok(7));
    volume.put("etcd-agent/directive.json", "");
    assert!(read_standing(&volume.paths).is_err());
}

#[test]
fn an_identity_that_no_report_could_hold_is_not_ours_and_no_reason_to_think_that_there_is_none() {
    let volume = Volume::new("");
    volume.identity(|identity| identity.token = "x".repeat(5000));
    let State::Unreadable { error } = volume.look().state else {
        panic!("it was taken")
    };
    assert!(error.contains("identity.json is too large"), "{error}");
}
