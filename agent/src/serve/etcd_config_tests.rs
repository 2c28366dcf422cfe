#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use std::net::{Ipv4Addr, Ipv6Addr};

use etcd::{ClusterId, MemberId};

use super::*;
use crate::serve::directive::Peer;

fn member(listen: impl Into<IpAddr>) -> Member<'static> {
    Member {
        name: "c-a",
        data_dir: Path::new("/var/lib/etcd"),
        listen: listen.into(),
        peer_url: "http://c-a.c-headless.ns.svc:2380",
        client_url: "http://c-a.c-headless.ns.svc:2379",
    }
}

fn options() -> Options {
    Options {
        quota_backend_bytes: Some(4 << 30),
        auto_compaction_mode: Some("periodic".to_owned()),
        auto_compaction_retention: Some("5m".to_owned()),
        snapshot_count: Some(10_000),
    }
}

fn first(options: Options) -> FirstStart {
    let peer = |name: &str| Peer {
        name: name.to_owned(),
        urls: vec![format!("http://{name}.c-headless.ns.svc:2380")],
    };
    FirstStart {
        token: "c-6a1f".to_owned(),
        member_id: MemberId(1),
        cluster_id: ClusterId(2),
        members: vec![peer("c-b"), peer("c-a")],
        options,
    }
}

#[test]
fn the_first_start_of_a_joiner_by_minor() {
    for minor in [Minor(3, 5), Minor(3, 6), Minor(3, 7)] {
        let file = once(member(Ipv6Addr::UNSPECIFIED), minor, StartKind::Join, &first(options()));
        insta::assert_snapshot!(format!("join-{}.{}", minor.0, minor.1), file);
    }
}

#[test]
fn a_seed_without_options_where_there_is_no_ipv6() {
    let file = once(
        member(Ipv4Addr::UNSPECIFIED),
        Minor(3, 6),
        StartKind::Seed,
        &first(Options::default()),
    );
    insta::assert_snapshot!("seed-3.6", file);
}

#[test]
fn a_repeatable_start_has_nothing_that_changes_history() {
    for minor in [Minor(3, 5), Minor(3, 6), Minor(3, 7)] {
        let file = repeatable(member(Ipv6Addr::UNSPECIFIED), minor, &options());
        insta::assert_snapshot!(format!("repeatable-{}.{}", minor.0, minor.1), file);
        for key in ["initial-cluster", "force-new-cluster", "discovery"] {
            assert!(!file.contains(&format!("\n{key}")), "{key} in\n{file}");
        }
    }
}

#[test]
fn no_text_can_become_another_key() {
    let evil = Options {
        auto_compaction_mode: Some("x\"\nforce-new-cluster: true\n#".to_owned()),
        ..Options::default()
    };
    let file = repeatable(member(Ipv4Addr::UNSPECIFIED), Minor(3, 6), &evil);
    assert!(
        !file.lines().any(|line| line.starts_with("force-new-cluster")),
        "{file}"
    );
}

#[test]
fn versions_are_compared_by_number() {
    assert_eq!(Minor::of("3.6.16"), Some(Minor(3, 6)));
    assert!(Minor::of("3.10.0") > Minor::of("3.9.9"));
    for wrong in ["", "v3.6.1", "3", "three.six"] {
        assert_eq!(Minor::of(wrong), None, "{wrong}");
    }
}
