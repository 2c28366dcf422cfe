#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::serve::identity::Identity;
use crate::serve::standing::Fence;

const OWN: Own<'static> = Own {
    member: "c-a",
    cluster_uid: "uid-1",
    peer_url: "http://a:2380",
};

fn nonce(digit: char) -> Nonce {
    Nonce::try_from(digit.to_string().repeat(32)).expect("a nonce")
}

fn unborn() -> Directory {
    Directory {
        state: State::Unborn,
        nonce: Some(nonce('a')),
        ..Directory::unreadable(String::new())
    }
}

fn ids(token: &str) -> (MemberId, ClusterId) {
    let member = etcd::member_id(&[OWN.peer_url], token);
    (member, etcd::cluster_id(&[member]))
}

fn born(token: &str) -> Directory {
    let (member_id, cluster_id) = ids(token);
    let identity = Identity {
        cluster_uid: "uid-1".to_owned(),
        incarnation: 2,
        token: token.to_owned(),
        cluster_id,
        member_id,
        member_name: "c-a".to_owned(),
        nonce: nonce('a'),
    };
    Directory {
        state: State::Intact,
        identity: Some(identity),
        started: true,
        has_wal: true,
        ..unborn()
    }
}

fn seed(token: &str) -> WireOrder {
    let (member_id, cluster_id) = ids(token);
    WireOrder::Seed(wire::Seed {
        token: token.to_owned(),
        member_id: member_id.0,
        cluster_id: cluster_id.0,
        options: None,
    })
}

fn join() -> wire::Join {
    let peer = |name: &str, id, url: &str| wire::Peer {
        name: name.to_owned(),
        id,
        peer_urls: vec![url.to_owned()],
    };
    wire::Join {
        token: "t".to_owned(),
        member_id: 7,
        cluster_id: 9,
        members: vec![
            peer("c-b", 5, "http://b:2380"),
            peer("", 6, "http://x:2380"),
            peer("", 7, "http://a:2380"),
        ],
        options: None,
    }
}

fn directive(number: u64, order: WireOrder) -> wire::Directive {
    wire::Directive {
        number,
        cluster_uid: "uid-1".to_owned(),
        incarnation: 2,
        nonce: nonce('a').to_string(),
        order: Some(order),
    }
}

fn hold() -> WireOrder {
    WireOrder::Hold(wire::Hold {
        reason: "maintenance".to_owned(),
    })
}

/// Refused, and the message names all of these.
fn refused(wire: wire::Directive, standing: &Standing, directory: &Directory, words: &[&str]) {
    match check(wire, OWN, standing, directory) {
        Err(refusal @ Refusal::Refused { .. }) => {
            for word in words {
                assert!(refusal.to_string().contains(word), "{refusal} does not name {word}");
            }
        }
        other => panic!("{other:?} is not a refusal that names {words:?}"),
    }
}

fn taken(wire: wire::Directive, standing: &Standing, directory: &Directory) -> Directive {
    match check(wire, OWN, standing, directory) {
        Ok(Verdict::Take(directive)) => directive,
        other => panic!("not taken: {other:?}"),
    }
}

#[test]
fn a_seed_is_taken_for_an_unborn_directory() {
    let taken = taken(directive(1, seed("t")), &Standing::default(), &unborn());
    let first = taken.order.first_start().expect("a first start");
    assert_eq!(
        first.members,
        [Peer {
            name: "c-a".to_owned(),
            urls: vec!["http://a:2380".to_owned()]
        }]
    );
}

#[test]
fn numbers_rise_and_a_stale_one_is_refused_by_both_numbers() {
    let standing = Standing {
        number: 5,
        ..Standing::default()
    };
    refused(
        directive(4, hold()),
        &standing,
        &unborn(),
        &["directive 4", "higher than 5"],
    );
    refused(
        directive(5, hold()),
        &standing,
        &unborn(),
        &["directive 5", "higher than 5"],
    );
    taken(directive(6, hold()), &standing, &unborn());
}

#[test]
fn the_last_directive_sent_again_is_answered_again_and_only_the_very_same() {
    let standing = Standing::default().with(taken(directive(3, hold()), &Standing::default(), &unborn()));
    assert_eq!(
        check(directive(3, hold()), OWN, &standing, &unborn()),
        Ok(Verdict::Again)
    );
    let other = WireOrder::Hold(wire::Hold {
        reason: "another".to_owned(),
    });
    refused(directive(3, other), &standing, &unborn(), &["higher than 3"]);
}

#[test]
fn another_cluster_object_is_refused_by_both_uids() {
    let wire = wire::Directive {
        cluster_uid: "uid-2".to_owned(),
        ..directive(1, hold())
    };
    refused(wire, &Standing::default(), &unborn(), &["uid-2", "uid-1", "c-a"]);
}

#[test]
fn an_older_history_is_refused_whether_known_from_an_order_or_from_the_directory() {
    let standing = Standing {
        incarnation: 3,
        ..Standing::default()
    };
    refused(
        directive(1, hold()),
        &standing,
        &unborn(),
        &["incarnation 2", "incarnation 3"],
    );
    let older = wire::Directive {
        incarnation: 1,
        ..directive(1, hold())
    };
    refused(
        older,
        &Standing::default(),
        &born("t"),
        &["incarnation 1", "incarnation 2"],
    );
    let unsaid = wire::Directive {
        incarnation: 0,
        ..directive(1, hold())
    };
    taken(unsaid, &standing, &unborn());
    let start = wire::Directive {
        incarnation: 0,
        ..directive(1, seed("t"))
    };
    refused(start, &standing, &unborn(), &["incarnation 0", "incarnation 3"]);
}

#[test]
fn d26_an_order_for_another_directory_is_refused_by_both_nonces() {
    let wire = wire::Directive {
        nonce: nonce('b').to_string(),
        ..directive(1, WireOrder::Join(join()))
    };
    refused(
        wire,
        &Standing::default(),
        &unborn(),
        &[&"b".repeat(32), &"a".repeat(32)],
    );
    let none_yet = Directory {
        nonce: None,
        ..unborn()
    };
    refused(directive(1, seed("t")), &Standing::default(), &none_yet, &["none yet"]);
}

#[test]
fn a_first_start_without_a_nonce_is_malformed() {
    let wire = wire::Directive {
        nonce: String::new(),
        ..directive(1, seed("t"))
    };
    assert!(matches!(
        check(wire, OWN, &Standing::default(), &unborn()),
        Err(Refusal::Malformed { .. })
    ));
}

#[test]
fn a_first_start_is_refused_on_data_and_taken_again_for_the_data_it_made() {
    let none = Standing::default();
    taken(directive(8, seed("t")), &none, &born("t"));
    let (member, _) = ids("t");
    refused(
        directive(8, seed("other")),
        &none,
        &born("t"),
        &[&member.to_string(), "\"other\"", "\"t\""],
    );
    refused(
        directive(8, WireOrder::Join(join())),
        &none,
        &born("t"),
        &[&member.to_string(), &MemberId(7).to_string()],
    );
    let adopted = Directory {
        identity: None,
        ..born("t")
    };
    refused(directive(8, seed("t")), &none, &adopted, &["holds data"]);
    let gone = Directory {
        started: true,
        ..unborn()
    };
    refused(directive(8, seed("t")), &none, &gone, &["once started"]);
    let running = Directory {
        state: State::InUse,
        ..unborn()
    };
    refused(directive(8, seed("t")), &none, &running, &["runs"]);
}

#[test]
fn an_order_that_never_came_to_a_wal_may_be_replaced_by_another() {
    let never = Directory {
        state: State::Unborn,
        started: false,
        has_wal: false,
        ..born("t")
    };
    taken(directive(8, WireOrder::Join(join())), &Standing::default(), &never);
}

#[test]
fn a_seed_with_other_ids_than_etcd_would_make_is_refused_before_it_starts() {
    let WireOrder::Seed(right) = seed("t") else {
        panic!("a seed")
    };
    let wrong = wire::Seed {
        member_id: right.member_id + 1,
        ..right
    };
    let refusal = check(
        directive(1, WireOrder::Seed(wrong)),
        OWN,
        &Standing::default(),
        &unborn(),
    );
    let Err(Refusal::Malformed { detail, .. }) = refusal else {
        panic!("{refusal:?}")
    };
    assert!(detail.contains(&MemberId(right.member_id).to_string()), "{detail}");
    assert!(detail.contains(&MemberId(right.member_id + 1).to_string()), "{detail}");
}

#[test]
fn a_join_names_every_peer_even_those_that_have_no_name_yet() {
    let taken = taken(directive(1, WireOrder::Join(join())), &Standing::default(), &unborn());
    let names: Vec<String> = taken
        .order
        .first_start()
        .expect("a first start")
        .members
        .iter()
        .map(|peer| peer.name.clone())
        .collect();
    assert_eq!(names, ["c-b", "unstarted-0000000000000006", "c-a"]);
}

#[test]
fn a_join_whose_list_does_not_fit_this_member_is_malformed() {
    let lacks = wire::Join { member_id: 8, ..join() };
    let mut elsewhere = join();
    elsewhere.members[2].peer_urls = vec!["http://elsewhere:2380".to_owned()];
    let mut nowhere = join();
    nowhere.members[0].peer_urls.clear();
    let tokenless = wire::Join {
        token: String::new(),
        ..join()
    };
    for wrong in [lacks, elsewhere, nowhere, tokenless] {
        let refusal = check(
            directive(1, WireOrder::Join(wrong)),
            OWN,
            &Standing::default(),
            &unborn(),
        );
        assert!(matches!(refusal, Err(Refusal::Malformed { .. })), "{refusal:?}");
    }
}

#[test]
fn a_quarantine_is_only_for_the_id_that_is_recorded() {
    let quarantine = |id| directive(1, WireOrder::Quarantine(wire::Quarantine { removed_member_id: id }));
    let (member, _) = ids("t");
    taken(quarantine(member.0), &Standing::default(), &born("t"));
    refused(
        quarantine(7),
        &Standing::default(),
        &born("t"),
        &[&member.to_string(), &MemberId(7).to_string()],
    );
    refused(
        quarantine(7),
        &Standing::default(),
        &unborn(),
        &["no identity is recorded"],
    );
}

fn recover(token: &str) -> WireOrder {
    let (member_id, cluster_id) = ids(token);
    WireOrder::Recover(wire::Recover {
        token: token.to_owned(),
        member_id: member_id.0,
        cluster_id: cluster_id.0,
        new_nonce: nonce('b').to_string(),
        options: None,
    })
}

#[test]
fn a_recovery_is_taken_for_whole_data_and_a_newer_history_only() {
    let next = |order| wire::Directive {
        incarnation: 3,
        ..directive(1, order)
    };
    let old = born("t");
    assert!(matches!(
        taken(next(recover("t2")), &Standing::default(), &old).order,
        Order::Recover(_)
    ));
    refused(
        directive(1, recover("t2")),
        &Standing::default(),
        &old,
        &["incarnation 2"],
    );
    let damaged = Directory {
        state: State::Damaged {
            detail: "a gap".to_owned(),
        },
        ..born("t")
    };
    refused(next(recover("t2")), &Standing::default(), &damaged, &["a gap"]);
    refused(next(recover("t2")), &Standing::default(), &unborn(), &["empty"]);
    let other = Directory {
        nonce: Some(nonce('c')),
        ..born("t")
    };
    refused(next(recover("t2")), &Standing::default(), &other, &["directory"]);
    let WireOrder::Recover(wrong) = recover("t2") else {
        panic!("another order")
    };
    let wrong = wire::Recover { member_id: 7, ..wrong };
    let verdict = check(next(WireOrder::Recover(wrong)), OWN, &Standing::default(), &old);
    assert!(matches!(verdict, Err(Refusal::Malformed { .. })), "{verdict:?}");
}

#[test]
fn a_fence_forgets_the_starts_that_were_ordered_before_and_a_later_one_lifts_it() {
    let seeded = Standing::default().with(taken(directive(1, seed("t")), &Standing::default(), &unborn()));
    assert!(seeded.start_for(&nonce('a')).is_some());
    let fence = WireOrder::Fence(wire::Fence {
        reason: "the quorum is lost".to_owned(),
    });
    let fenced = seeded.with(taken(directive(2, fence), &seeded, &unborn()));
    assert!(fenced.start_for(&nonce('a')).is_none());
    assert!(matches!(fenced.fence, Fence::Up { .. }));
    let later = fenced.with(taken(directive(3, seed("t")), &fenced, &unborn()));
    assert_eq!(later.fence, Fence::Lifted);
    assert!(later.start_for(&nonce('a')).is_some());
}

#[test]
fn d27_a_recovery_stands_until_it_is_done_and_not_for_another_directory() {
    let order = wire::Directive {
        incarnation: 3,
        ..directive(4, recover("t2"))
    };
    let standing = Standing::default().with(taken(order, &Standing::default(), &born("t")));
    let stands =
        |nonce: Option<Nonce>, journal: Option<&Journal>| standing.recovery_of(nonce.as_ref(), journal).is_some();
    assert!(stands(Some(nonce('a')), None));
    assert!(!stands(Some(nonce('c')), None) && !stands(None, None));
    let (member_id, cluster_id) = ids("t2");
    let mut journal = Journal::new(crate::recover::journal::Order {
        number: 4,
        identity: Identity {
            cluster_uid: "uid-1".to_owned(),
            incarnation: 3,
            token: "t2".to_owned(),
            cluster_id,
            member_id,
            member_name: "c-a".to_owned(),
            nonce: nonce('b'),
        },
        peer_url: OWN.peer_url.to_owned(),
        quota_backend_bytes: None,
    });
    // While directories change places there is no nonce, or the new one already.
    assert!(stands(None, Some(&journal)) && stands(Some(nonce('b')), Some(&journal)));
    journal.phase = crate::recover::journal::Phase::Done;
    assert!(!stands(Some(nonce('b')), Some(&journal)) && !stands(Some(nonce('a')), Some(&journal)));
}

#[test]
fn what_this_agent_cannot_do_is_refused_by_name() {
    let adopt = wire::Resume {
        member_id: 1,
        cluster_id: 2,
        token: String::new(),
    };
    let orders = [
        (Some(WireOrder::Restore(wire::Restore::default())), "Restore"),
        (Some(WireOrder::Credentials(wire::Credentials {})), "Credentials"),
        (Some(WireOrder::Resume(adopt)), "adopt"),
        (None, "newer protocol"),
    ];
    for (order, name) in orders {
        let wire = wire::Directive {
            order,
            ..directive(1, hold())
        };
        match check(wire, OWN, &Standing::default(), &unborn()) {
            Err(refusal @ Refusal::Unknown { .. }) => assert!(refusal.to_string().contains(name), "{refusal}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn what_stands_survives_its_file() {
    let mut standing = Standing::default();
    let (member, _) = ids("t");
    for (number, order) in [
        seed("t"),
        WireOrder::Reconfigure(wire::Reconfigure {
            options: Some(wire::Options {
                quota_backend_bytes: 1 << 30,
                ..wire::Options::default()
            }),
        }),
        hold(),
        WireOrder::Quarantine(wire::Quarantine {
            removed_member_id: member.0,
        }),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u64::try_from(number).expect("small") + 1;
        standing = standing.with(taken(directive(number, order), &standing, &born("t")));
        let json = serde_json::to_vec(&standing).expect("JSON");
        assert_eq!(serde_json::from_slice::<Standing>(&json).expect("JSON"), standing);
    }
    assert_eq!((standing.number, standing.incarnation), (4, 2));
    assert_eq!(standing.hold.as_deref(), Some("maintenance"));
    assert_eq!(standing.options.quota_backend_bytes, Some(1 << 30));
    assert!(
        standing.start_for(&nonce('a')).is_some(),
        "a later order does not forget the first start"
    );
    assert_eq!(standing.start_for(&nonce('b')), None);
    let resumed = standing.with(taken(
        directive(9, WireOrder::Resume(wire::Resume::default())),
        &standing,
        &born("t"),
    ));
    assert_eq!(resumed.hold, None);
}

#[test]
fn a_reason_is_one_short_line() {
    let long = WireOrder::Hold(wire::Hold {
        reason: format!("a\nb{}", "x".repeat(500)),
    });
    match taken(directive(1, long), &Standing::default(), &unborn()).order {
        Order::Hold { reason } => assert!(reason.starts_with("abx") && reason.len() == 200, "{reason}"),
        other => panic!("{other:?}"),
    }
}
