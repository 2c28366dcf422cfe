//! Lines as etcd 3.5, 3.6 and 3.7 write them, cut where the rest does not matter.

use super::*;

fn class(end: End, lines: &[&str]) -> Class {
    classify(end, Circumstances::default(), &lines.iter().copied())
}

fn fatal(error: &str) -> String {
    format!(
        r#"{{"level":"fatal","ts":"2026-01-01T00:00:00.000000Z","caller":"etcdmain/etcd.go:204","msg":"discovery failed","error":"{error}"}}"#
    )
}

#[test]
fn the_cause_of_a_failed_start_is_read_from_its_error() {
    let table = [
        (
            "couldn't find local name \\\"a\\\" in the initial cluster configuration",
            Class::InitialClusterMismatch,
        ),
        (
            "--initial-cluster has a=http://x but missing from --initial-advertise-peer-urls",
            Class::InitialClusterMismatch,
        ),
        (
            "member 8211f1d0f64f3269 has already been bootstrapped",
            Class::AlreadyBootstrapped,
        ),
        (
            "error validating peerURLs {\\\"ClusterID\\\"}: member count is unequal",
            Class::MembersMismatch,
        ),
        (
            "PeerURLs: no match found for existing member (1, [http://a])",
            Class::MembersMismatch,
        ),
        (
            "cannot fetch cluster info from peer urls: could not retrieve cluster information",
            Class::NoPeers,
        ),
        ("incompatible with current running cluster", Class::VersionIncompatible),
        (
            "invalid downgrade; server version is lower than determined cluster version",
            Class::VersionIncompatible,
        ),
        (
            "membership: too many learner members in cluster",
            Class::TooManyLearners,
        ),
        (
            "walpb: crc mismatch: expected: 1 computed: 2 in file '0-0.wal' at position: 9",
            Class::WalCorrupt,
        ),
        ("proto: Record: illegal tag 0 (wire type 0)", Class::WalCorrupt),
        (
            "wal: file sequence numbers [1 3] do not increase continuously",
            Class::WalGap,
        ),
        (
            "wal: file not found which matches the snapshot index '0'",
            Class::WalGap,
        ),
        ("database file (/d/snap/db) of the backend is missing", Class::DbMissing),
        (
            "database file (/d/snap/db index 3) does not match with snapshot (index 9)",
            Class::DbMissing,
        ),
        ("detected disallowed custom content in v2store for stage", Class::V2Data),
        ("checkInitialHashKV failed", Class::Inconsistent),
        ("discovery token was already used", Class::DiscoveryTokenUsed),
        (
            "cannot access data directory: open /d: permission denied",
            Class::Permission,
        ),
        (
            "cannot write to member/WAL directory: open x: permission denied",
            Class::Permission,
        ),
        (
            "creating peer listener failed: open tls.crt: no such file",
            Class::Listener,
        ),
        (
            "listen tcp 127.0.0.1:2380: bind: address already in use",
            Class::PortInUse,
        ),
        ("write /d/wal/0.wal: no space left on device", Class::DiskFull),
        (
            "failed to resolve http://a: lookup a: no such host",
            Class::NameResolution,
        ),
        ("something new", Class::Unknown),
    ];
    for (error, wanted) in table {
        assert_eq!(class(End::Code(1), &[fatal(error).as_str()]), wanted, "{error}");
    }
}

#[test]
fn a_panic_is_told_by_its_message() {
    let table = [
        (
            "panic: tocommit(9) is out of range [lastIndex(4)]. Was the raft log corrupted?",
            Class::LostRaftLog,
        ),
        (
            r#"{"level":"panic","msg":"failed to recover v3 backend from snapshot","error":"x"}"#,
            Class::DbMissing,
        ),
        (
            r#"{"level":"panic","msg":"failed to open database","path":"/d","error":"invalid database"}"#,
            Class::DbCorrupt,
        ),
        ("fatal error: fault", Class::DbCorrupt),
        (
            "panic: assertion failed: Page expected to be: 7, but self identifies as 0",
            Class::DbCorrupt,
        ),
        ("panic: unmarshal should never fail", Class::VersionIncompatible),
        ("panic: removed all voters", Class::RemovedAllVoters),
        ("runtime: out of memory: cannot allocate 1 bytes", Class::OutOfMemory),
        ("panic: runtime error: index out of range", Class::Panic),
        ("fatal error: concurrent map writes", Class::Panic),
    ];
    for (line, wanted) in table {
        assert_eq!(
            class(End::Code(2), &[line, "", "goroutine 1 [running]:"]),
            wanted,
            "{line}"
        );
    }
}

#[test]
fn a_removed_member_is_told_whatever_its_code() {
    let removed = [
        r#"{"level":"warn","msg":"server error","error":"the member has been permanently removed from the cluster"}"#,
        r#"{"level":"warn","msg":"data-dir used by this member must be removed"}"#,
        r#"{"level":"fatal","msg":"listener failed","error":"etcdserver: server is stopping"}"#,
    ];
    assert_eq!(class(End::Code(0), &removed[..2]), Class::Removed);
    assert_eq!(class(End::Code(1), &removed), Class::Removed);
}

#[test]
fn a_stop_that_was_asked_for_is_clean_whatever_was_written_before() {
    let noise = [r#"{"level":"error","msg":"x","error":"no space left on device"}"#];
    assert_eq!(class(End::Code(0), &noise), Class::Clean);
    assert_eq!(class(End::Signal(15), &noise), Class::Clean);
    let asked = Circumstances {
        asked_to_stop: true,
        ..Circumstances::default()
    };
    assert_eq!(classify(End::Code(1), asked, &noise.iter().copied()), Class::Clean);
}

#[test]
fn d29_a_kill_is_for_memory_only_when_the_kernel_has_counted_it() {
    assert_eq!(class(End::Signal(9), &[]), Class::Killed);
    let oom = Circumstances {
        oom_killed: true,
        ..Circumstances::default()
    };
    assert_eq!(classify(End::Signal(9), oom, &[].iter().copied()), Class::OutOfMemory);
    assert_eq!(classify(End::Code(0), oom, &[].iter().copied()), Class::Clean);
}

#[test]
fn d23_what_the_watchdog_has_ended_was_hung_whatever_the_dump_says() {
    let dump = ["SIGQUIT: quit", "PC=0x1 m=0 sigcode=0", "goroutine 0 [idle]:"];
    let by_watchdog = Circumstances {
        by_watchdog: true,
        ..Circumstances::default()
    };
    assert_eq!(classify(End::Code(2), by_watchdog, &dump.iter().copied()), Class::Hung);
    assert_eq!(
        classify(End::Signal(9), by_watchdog, &dump.iter().copied()),
        Class::Hung
    );
}

#[test]
fn what_etcd_died_of_counts_before_what_it_complained_of() {
    let lines = [
        r#"{"level":"error","msg":"x","error":"address already in use"}"#,
        &fatal("walpb: crc mismatch"),
        r#"{"level":"info","msg":"y","error":"no space left on device"}"#,
    ];
    assert_eq!(class(End::Code(1), &lines), Class::WalCorrupt);
}

#[test]
fn an_error_that_was_not_fatal_tells_when_nothing_else_does() {
    let bad = [r#"{"level":"warn","msg":"failed to verify flags","error":"error unmarshaling JSON: x"}"#];
    assert_eq!(class(End::Code(1), &bad), Class::BadConfig);
    assert_eq!(
        class(End::Code(2), &["flag provided but not defined: -x"]),
        Class::BadConfig
    );
    assert_eq!(class(End::Code(1), &[]), Class::Unknown);
    assert_eq!(class(End::Signal(11), &[]), Class::Signalled);
}

#[test]
fn code_and_signal_are_shown_as_a_shell_shows_them() {
    assert_eq!((End::Signal(9).code(), End::Signal(9).signal()), (137, 9));
    assert_eq!((End::Code(2).code(), End::Code(2).signal()), (2, 0));
}

#[test]
fn the_classes_that_the_operator_knows_have_the_names_that_it_knows() {
    assert_eq!(Class::Vanished.to_string(), proto::exit::VANISHED);
    assert_eq!(Class::OutOfMemory.to_string(), proto::exit::OUT_OF_MEMORY);
    assert_eq!(Class::DiskFull.to_string(), proto::exit::DISK_FULL);
}
