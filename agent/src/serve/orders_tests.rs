#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::serve::directive::{Directive, FirstStart, Options, Order as DirectiveOrder};
use crate::serve::directory::State;

fn nonce() -> Nonce {
    Nonce::try_from("a".repeat(32)).expect("a nonce")
}

fn directory(has_member: bool, started: bool) -> Directory {
    Directory {
        state: State::Unborn,
        nonce: Some(nonce()),
        has_member,
        started,
        ..Directory::unreadable(String::new())
    }
}

fn standing() -> Standing {
    let first = FirstStart {
        token: "t".to_owned(),
        member_id: etcd::MemberId(1),
        cluster_id: etcd::ClusterId(2),
        members: Vec::new(),
        options: Options::default(),
    };
    let order = DirectiveOrder::Seed(first);
    Standing::default().with(Directive {
        number: 4,
        incarnation: 1,
        nonce: Some(nonce()),
        order,
    })
}

/// What each order does, in short.
fn kinds(orders: &[Order]) -> Vec<String> {
    let kind = |order: &Order| match order {
        Order::WriteFile(file) if file.content.is_empty() => format!("remove {}", file.name),
        Order::WriteFile(file) => format!("write {}", file.name),
        Order::MoveAside(aside) => format!("aside {}", aside.label),
        Order::RemoveTree(remove) if remove.unborn_only => "delete unless born".to_owned(),
        Order::RemoveTree(_) => "delete".to_owned(),
        Order::Start(start) => format!("start {:?} {}", start.kind(), start.order),
        other => format!("{other:?}"),
    };
    orders.iter().map(kind).collect()
}

#[test]
fn a_first_start_carries_its_identity_and_clears_what_an_earlier_try_left() {
    let standing = standing();
    let start = standing.start_for(&nonce()).expect("a start");
    let orders = |directory: Directory| {
        start_once(&directory, &nonce(), start, "uid", "c-a", "name: c-a".to_owned()).expect("orders")
    };
    assert_eq!(
        kinds(&orders(directory(true, false))),
        ["delete unless born", "start Once 4"]
    );
    let fresh = orders(directory(false, false));
    assert_eq!(kinds(&fresh), ["start Once 4"]);
    let Some(Order::Start(start)) = fresh.last() else {
        panic!("{fresh:?}")
    };
    let identity: Identity = serde_json::from_slice(&start.identity).expect("an identity");
    assert_eq!(
        (identity.member_id, identity.nonce, identity.incarnation),
        (etcd::MemberId(1), nonce(), 1)
    );
}

#[test]
fn the_new_nonce_is_written_last_and_no_db_is_deleted_on_our_own_account() {
    let written = ["remove identity.json", "write directive.json", "write nonce"];
    let kinds =
        |has_member, started| kinds(&renew(&directory(has_member, started), &nonce(), &standing()).expect("orders"));
    assert_eq!(kinds(false, false), written);
    assert_eq!(kinds(false, true), [&["delete unless born"], &written[..]].concat());
    for started in [false, true] {
        assert_eq!(kinds(true, started), [&["aside no-wal"], &written[..]].concat());
    }
}

#[test]
fn d12_a_disk_is_set_aside_and_a_memory_volume_deleted() {
    let quarantine = |medium| kinds(&set_aside(medium, &directory(true, true), &nonce(), &standing()).expect("orders"));
    let disk = quarantine(Medium::Disk);
    assert!(disk[0].starts_with("aside removed-"), "{disk:?}");
    assert_eq!(quarantine(Medium::Memory)[0], "delete");
    assert_eq!(disk.last().map(String::as_str), Some("write nonce"));
}
