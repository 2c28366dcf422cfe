//! The operator's end of the links, against agents of our own protocol.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod fake;
mod thief;

use std::{
    process::Command,
    time::{Duration, Instant},
};

use fake::{Fake, UID, authority, cluster, member, nonce_of, report, secret, target, until};
use jiff::{SignedDuration, Timestamp};
use operator::{
    agents::{Cause, LinkError, LinkState, Links},
    pki::{Authority, Bundle, client_config},
};
use proto::agent::Directive;
use tokio::net::TcpSocket;

const DEADLINE: Duration = Duration::from_secs(2);

fn up(state: &LinkState) -> Option<()> {
    matches!(state, LinkState::Connected { .. }).then_some(())
}

fn cause(state: &LinkState) -> Option<Cause> {
    match state {
        LinkState::Down { cause, .. } => cause.clone(),
        LinkState::Connected { .. } | LinkState::None => None,
    }
}

#[tokio::test]
async fn a_link_comes_up_with_a_full_report_and_follows_what_changes() {
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    assert!(matches!(links.snapshot(&m), LinkState::None));
    links.ensure(m.clone(), target(agent.address));
    let version = until(&links, &mut changes, &m, "up", |state| match state {
        LinkState::Connected { peer, .. } => Some(peer.version.clone()),
        LinkState::Down { .. } | LinkState::None => None,
    })
    .await;
    assert_eq!(version, "1.2.3");
    assert_eq!(nonce_of(&links.snapshot(&m)).as_deref(), Some("first"));
    agent.say(report("m", "second"));
    until(&links, &mut changes, &m, "the second report", |state| {
        (nonce_of(state).as_deref() == Some("second")).then_some(())
    })
    .await;
    assert_eq!((links.counts().all, links.counts().connected), (1, 1));
    links.forget(&m);
    assert!(matches!(links.snapshot(&m), LinkState::None));
}

#[tokio::test]
async fn since_when_a_leader_is_missed_is_known_from_the_first_report_that_says_so() {
    let says = |nonce: &str, leader| proto::agent::Report {
        etcd: Some(proto::agent::Etcd {
            leader,
            ..proto::agent::Etcd::default()
        }),
        ..report("m", nonce)
    };
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    links.ensure(m.clone(), target(agent.address));
    until(&links, &mut changes, &m, "up", up).await;
    let mut heard = async |nonce: &'static str, leader| {
        agent.say(says(nonce, leader));
        until(&links, &mut changes, &m, nonce, |state| {
            (nonce_of(state).as_deref() == Some(nonce)).then_some(())
        })
        .await;
        links.leaderless_since(&m)
    };
    assert_eq!(heard("led", 7).await, None);
    let missed = heard("leaderless", 0).await;
    assert!(missed.is_some_and(|since| since <= Timestamp::now()));
    assert_eq!(heard("still leaderless", 0).await, missed);
    assert_eq!(heard("led again", 7).await, None);
    heard("leaderless again", 0).await;
    links.forget(&m);
    assert_eq!(links.leaderless_since(&m), None);
}

#[tokio::test]
async fn a_report_that_says_nothing_new_wakes_nobody() {
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    links.ensure(m.clone(), target(agent.address));
    until(&links, &mut changes, &m, "up", up).await;
    let mut same = report("m", "first");
    same.observed_at = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
    agent.say(same);
    agent.say(report("m", "last"));
    // One wake: the second of the two, after which the first has been read as well.
    assert_eq!(changes.next().await, cluster());
    assert_eq!(nonce_of(&links.snapshot(&m)).as_deref(), Some("last"));
    assert!(
        tokio::time::timeout(Duration::from_millis(200), changes.next())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn orders_are_taken_refused_or_of_unknown_outcome_and_each_is_told_apart() {
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    let order = |number, incarnation| Directive {
        number,
        incarnation,
        ..Directive::default()
    };
    let unsent = links.direct(&m, order(1, 1), DEADLINE).await.unwrap_err();
    assert!(matches!(unsent, LinkError::NotConnected { .. }) && !unsent.may_have_been_taken());

    links.ensure(m.clone(), target(agent.address));
    until(&links, &mut changes, &m, "up", up).await;
    assert_eq!(links.direct(&m, order(7, 1), DEADLINE).await, Ok(7));
    let refused = links.direct(&m, order(0, 1), DEADLINE).await.unwrap_err();
    assert!(!refused.may_have_been_taken());
    assert!(
        !refused.to_string().contains('\u{1b}') && refused.to_string().contains("not higher"),
        "{refused}"
    );
    let silent = links
        .direct(&m, order(8, u64::MAX), Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(silent.may_have_been_taken(), "{silent}");
    let numbers: Vec<u64> = agent.orders.lock().unwrap().iter().map(|order| order.number).collect();
    assert_eq!(numbers, [7]);

    let fresh = links.status(&m, DEADLINE).await.unwrap();
    assert_eq!(fresh.report.data_directory.as_ref().unwrap().nonce, "fresh");
    assert_eq!(
        nonce_of(&links.snapshot(&m)).as_deref(),
        Some("fresh"),
        "a report that was read counts as received"
    );
    links.move_leader(&m, etcd::MemberId(1), DEADLINE).await.unwrap();
}

#[tokio::test]
async fn a_restarted_agent_is_linked_again_and_its_last_report_is_old_meanwhile_and_not_lost() {
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let address = agent.address;
    let (links, mut changes) = Links::new(authority.clone());
    let m = member("m");
    links.ensure(m.clone(), target(address));
    until(&links, &mut changes, &m, "up", up).await;
    drop(agent);
    let last = until(&links, &mut changes, &m, "down", |state| match state {
        LinkState::Down { last, .. } => last.clone(),
        LinkState::Connected { .. } | LinkState::None => None,
    })
    .await;
    assert_eq!(last.report.data_directory.as_ref().unwrap().nonce, "first");
    until(&links, &mut changes, &m, "refused", |state| {
        (cause(state) == Some(Cause::Refused)).then_some(())
    })
    .await;
    let back = Instant::now();
    let _agent = Fake::at(address, &secret(&authority.bundle(), "m"), "m");
    until(&links, &mut changes, &m, "up again", up).await;
    assert!(back.elapsed() < Duration::from_secs(3), "{:?}", back.elapsed());
}

#[tokio::test]
async fn another_pod_of_the_member_is_dialled_at_once_and_not_believed_to_be_the_old_one() {
    let authority = authority();
    let old = Fake::start(&authority.bundle(), "m");
    let new = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    links.ensure(m.clone(), target(old.address));
    until(&links, &mut changes, &m, "up", up).await;
    links.ensure(m.clone(), target(old.address));
    assert!(
        up(&links.snapshot(&m)).is_some(),
        "the same target again changes nothing"
    );
    let mut replaced = target(new.address);
    replaced.pod_uid = "pod-2".into();
    links.ensure(m.clone(), replaced);
    assert!(matches!(
        links.snapshot(&m),
        LinkState::Down {
            last: None,
            cause: None,
            ..
        }
    ));
    until(&links, &mut changes, &m, "up", up).await;
    assert_eq!(new.orders.lock().unwrap().len(), 0);
    links
        .direct(
            &m,
            Directive {
                number: 1,
                ..Directive::default()
            },
            DEADLINE,
        )
        .await
        .unwrap();
    assert_eq!(
        (old.orders.lock().unwrap().len(), new.orders.lock().unwrap().len()),
        (0, 1)
    );
}

/// In a network namespace of its own, whose only interface is then switched off: packets are lost, as when a node is
/// cut off, and nobody is told.
#[test]
fn a_node_that_is_cut_off_is_noticed_within_three_and_a_half_seconds() {
    let run = Command::new("unshare")
        .args(["--net", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["cut_off", "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[tokio::test]
#[ignore = "runs in the network namespace of the test above"]
async fn cut_off() {
    let interface = |state| Command::new("ip").args(["link", "set", "lo", state]).status().unwrap();
    assert!(interface("up").success());
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    links.ensure(m.clone(), target(agent.address));
    until(&links, &mut changes, &m, "up", up).await;
    assert!(interface("down").success());
    let since = Instant::now();
    let why = until(&links, &mut changes, &m, "down", cause).await;
    assert!(since.elapsed() < Duration::from_millis(3500), "{:?}", since.elapsed());
    assert!(matches!(why, Cause::Lost(_)), "{why}");
}

#[tokio::test]
async fn u16_a_port_that_swallows_packets_is_named_as_such() {
    // A listener whose queue is full answers no SYN.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        queue.push(stream.unwrap());
    }
    let (links, mut changes) = Links::new(authority());
    let m = member("m");
    links.ensure(m.clone(), target(address));
    let since = Instant::now();
    let why = until(&links, &mut changes, &m, "a cause", cause).await;
    assert_eq!(why, Cause::Timeout);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test]
async fn t06_only_the_members_own_certificate_is_believed() {
    let authority = authority();
    let (links, mut changes) = Links::new(authority.clone());
    let m = member("m");
    // Another member of the same cluster at the member's address.
    let other = Fake::start(&authority.bundle(), "other");
    links.ensure(m.clone(), target(other.address));
    let why = until(&links, &mut changes, &m, "refused", cause).await;
    assert!(matches!(why, Cause::Tls(_)), "{why}");
    // An agent of another operator's CA.
    let foreign = Fake::start(&fake::authority().bundle(), "m");
    links.ensure(m.clone(), target(foreign.address));
    let why = until(&links, &mut changes, &m, "refused", cause).await;
    assert!(matches!(why, Cause::Tls(_)), "{why}");
    // The right certificate, and words for another member.
    let mixed = Fake::at(
        "127.0.0.1:0".parse().unwrap(),
        &secret(&authority.bundle(), "m"),
        "other",
    );
    links.ensure(m.clone(), target(mixed.address));
    let why = until(&links, &mut changes, &m, "refused", cause).await;
    assert!(matches!(why, Cause::WrongMember(_)), "{why}");
    // The right one.
    let right = Fake::start(&authority.bundle(), "m");
    links.ensure(m.clone(), target(right.address));
    until(&links, &mut changes, &m, "up", up).await;
    // Which then speaks for another.
    right.say(report("other", "x"));
    let why = until(&links, &mut changes, &m, "dropped", cause).await;
    assert!(matches!(why, Cause::WrongMember(_)), "{why}");
}

#[tokio::test]
async fn t06_an_agents_key_opens_no_other_agent() {
    let authority = authority();
    let victim = Fake::start(&authority.bundle(), "victim");
    let stolen = secret(&authority.bundle(), "thief");
    let answer = thief::greet_with(&stolen, &authority.bundle(), victim.address, "victim", UID).await;
    assert!(
        answer.is_err(),
        "a certificate for serverAuth only was taken for a client's"
    );
    // The same way in with the operator's own certificate.
    let (config, _) = client_config(&authority.bundle(), Timestamp::now()).unwrap();
    thief::greet(config, victim.address, "victim", UID).await.unwrap();
}

#[tokio::test]
async fn a_flood_of_reports_is_held_back_at_the_sender() {
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    links.ensure(m.clone(), target(agent.address));
    until(&links, &mut changes, &m, "up", up).await;
    for n in 0..2000 {
        agent.say(report("m", &n.to_string()));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let taken: u32 = nonce_of(&links.snapshot(&m)).unwrap().parse().unwrap();
    assert!(
        (40..100).contains(&taken),
        "{taken} of 2000 reports were taken in a second"
    );
    assert_eq!(
        links
            .direct(
                &m,
                Directive {
                    number: 1,
                    ..Directive::default()
                },
                DEADLINE
            )
            .await,
        Ok(1)
    );
}

#[tokio::test]
async fn a_report_above_64_kib_ends_the_link_and_is_not_kept() {
    let authority = authority();
    let agent = Fake::start(&authority.bundle(), "m");
    let (links, mut changes) = Links::new(authority);
    let m = member("m");
    links.ensure(m.clone(), target(agent.address));
    until(&links, &mut changes, &m, "up", up).await;
    let mut huge = report("m", "huge");
    huge.waiting_for = "x".repeat(70_000);
    agent.say(huge);
    let why = until(&links, &mut changes, &m, "down", cause).await;
    assert!(matches!(why, Cause::Protocol(_)), "{why}");
}

#[tokio::test]
async fn while_a_ca_is_replaced_agents_of_the_old_and_of_the_new_one_are_both_linked() {
    let now = Timestamp::now();
    let old = Bundle::generate(now - SignedDuration::from_hours(24 * 365 * 8)).unwrap();
    let both = old.successor(now).unwrap().expect("the CA is old");
    let knows_old = Fake::start(&old, "a");
    let knows_both = Fake::start(&both, "b");
    let authority = std::sync::Arc::new(Authority::new(both, now).unwrap());
    let (links, mut changes) = Links::new(authority);
    links.ensure(member("a"), target(knows_old.address));
    links.ensure(member("b"), target(knows_both.address));
    until(
        &links,
        &mut changes,
        &member("a"),
        "an agent that knows the old CA only",
        up,
    )
    .await;
    until(&links, &mut changes, &member("b"), "an agent that knows both", up).await;
}
