//! The client against real etcds of each minor version: what they answer, and what we make of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod server;

use std::time::Duration;

use etcd::{Access, Admin, Alarm, Applied, EtcdError, MemberId, Refusal, cluster_id, member_id};
use server::{Server, binary, eventually};

const TOKEN: &str = "ns-demo-uid";

/// A cluster of one, serving.
async fn seed(minor: &str) -> (Server, Admin) {
    let mut server = Server::new(&binary(minor), "a");
    server.start("new", TOKEN, &[]);
    let admin = server.admin().await;
    eventually("the seed serves", || async { admin.members().await.ok() }).await;
    (server, admin)
}

/// A second server that was added as a learner and runs.
async fn learner(minor: &str, seed: &Server, admin: &Admin) -> (Server, Admin, MemberId) {
    let mut server = Server::new(&binary(minor), "b");
    let (id, _) = admin.add_learner(std::slice::from_ref(&server.peer_url)).await.unwrap();
    server.start("existing", TOKEN, &[seed]);
    let its_admin = server.admin().await;
    eventually("the learner answers", || async {
        its_admin.status().await.ok().filter(|status| status.is_learner)
    })
    .await;
    (server, its_admin, id)
}

async fn promote(admin: &Admin, id: MemberId) {
    eventually("the learner is promoted", || async {
        match admin.promote(id).await {
            Ok(()) => Some(()),
            Err(error) => {
                assert_eq!(error.refusal(), Some(Refusal::LearnerNotReady), "{error}");
                None
            }
        }
    })
    .await;
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, EtcdError>) -> Refusal {
    let error = answer.unwrap_err();
    assert_eq!(error.applied(), Applied::No, "{error}");
    error.refusal().unwrap_or_else(|| panic!("{error}"))
}

async fn ids_are_computed_as_etcd_does(minor: &str) {
    let (server, admin) = seed(minor).await;
    let id = member_id(std::slice::from_ref(&server.peer_url), TOKEN);
    let status = admin.status().await.unwrap();
    assert_eq!((status.member_id, status.leader), (id, Some(id)));
    assert_eq!(status.cluster_id, cluster_id(&[id]));
    assert!(status.version.starts_with(minor) && !status.is_learner && status.errors.is_empty());
    let list = admin.members().await.unwrap();
    assert_eq!((list.cluster_id, list.answered_by), (cluster_id(&[id]), id));
    assert_eq!(list.members.len(), 1);
    assert_eq!((list.members[0].id, list.members[0].name.as_str()), (id, "a"));
}

async fn a_learner_is_added_and_promoted_and_every_wrong_step_is_refused_by_name(minor: &str) {
    let (server, admin) = seed(minor).await;
    let url = "http://127.0.0.1:1".to_owned();
    let (absent, list) = admin.add_learner(std::slice::from_ref(&url)).await.unwrap();
    assert!(
        list.members
            .iter()
            .any(|member| member.id == absent && member.is_learner && member.name.is_empty())
    );
    // The ID of an added member is a hash with the second in it: within the same second it is the ID that exists.
    let again = refusal(admin.add_learner(std::slice::from_ref(&url)).await);
    assert!(
        matches!(again, Refusal::PeerUrlExists | Refusal::MemberExists),
        "{again:?}"
    );
    assert_eq!(
        refusal(admin.add_learner(&["http://127.0.0.1:2".into()]).await),
        Refusal::TooManyLearners
    );
    assert_eq!(
        refusal(admin.add_learner(&["nonsense".into()]).await),
        Refusal::BadRequest
    );
    assert_eq!(refusal(admin.promote(absent).await), Refusal::LearnerNotReady);
    assert_eq!(refusal(admin.promote(MemberId(7)).await), Refusal::MemberNotFound);
    admin.remove(absent).await.unwrap();
    assert_eq!(refusal(admin.remove(absent).await), Refusal::MemberNotFound);

    let (joined, its_admin, id) = learner(minor, &server, &admin).await;
    assert_eq!(refusal(its_admin.members().await), Refusal::AskedALearner);
    promote(&admin, id).await;
    assert_eq!(refusal(admin.promote(id).await), Refusal::NotALearner);
    let list = eventually("the new voter answers", || async { its_admin.members().await.ok() }).await;
    assert_eq!(list.answered_by, id);
    assert!(list.members.iter().all(|member| !member.is_learner));

    let leader = admin.status().await.unwrap().leader.unwrap();
    assert_eq!(refusal(its_admin.move_leader(leader).await), Refusal::NotLeader);
    assert_eq!(refusal(admin.move_leader(MemberId(7)).await), Refusal::BadTransferee);
    eventually("leadership moves", || async { admin.move_leader(id).await.ok() }).await;
    eventually("both see it", || async {
        (admin.status().await.ok()?.leader == Some(id)).then_some(())
    })
    .await;
    drop(joined);
}

async fn a_call_without_a_quorum_has_an_unknown_outcome_and_one_that_was_never_sent_has_none(minor: &str) {
    let (mut server, admin) = seed(minor).await;
    let (joined, its_admin, id) = learner(minor, &server, &admin).await;
    promote(&admin, id).await;
    joined.signal("STOP");
    let read = admin.members().await.unwrap_err();
    assert!(matches!(read, EtcdError::NoAnswer { .. }), "{read}");
    assert_eq!(
        read.applied(),
        Applied::No,
        "a read that got no answer has changed nothing"
    );
    // No longer refused once the two have been connected for 5 s: it waits for a quorum, in the log or before it.
    let removal = eventually("the removal is proposed", || async {
        let error = admin.remove(id).await.unwrap_err();
        (error.refusal() != Some(Refusal::UnhealthyCluster)).then_some(error)
    })
    .await;
    assert_eq!(removal.applied(), Applied::Unknown, "{removal}");
    joined.signal("CONT");
    eventually("what had no known outcome is found out by reading", || async {
        admin.members().await.ok()
    })
    .await;
    drop((joined, its_admin));

    server.kill();
    let error = server.admin().await.remove(id).await.unwrap_err();
    assert!(matches!(error, EtcdError::Unreachable { .. }), "{error}");
    assert_eq!(error.applied(), Applied::No);
}

async fn m24_a_nudge_is_a_raft_write_that_changes_no_revision(minor: &str) {
    let (_server, admin) = seed(minor).await;
    let before = admin.status().await.unwrap();
    admin.nudge().await.unwrap();
    let after = admin.status().await.unwrap();
    assert!(after.applied_index >= before.applied_index + 2, "{before:?} {after:?}");
    assert_eq!(after.revision, before.revision);
}

/// A client that may do what [`Admin`] never does: write keys, raise alarms.
async fn raw(server: &Server) -> etcd_client::Client {
    etcd_client::Client::connect([&server.client_url], None).await.unwrap()
}

async fn d19_members_with_the_same_keys_have_the_same_hash_at_the_same_revision(minor: &str) {
    let (seed, admin) = seed(minor).await;
    let mut client = raw(&seed).await;
    for key in ["a", "b", "c"] {
        client.put(key, "1", None).await.unwrap();
    }
    let (server, its_admin, id) = learner(minor, &seed, &admin).await;
    assert_eq!(refusal(its_admin.hash(2).await), Refusal::AskedALearner);
    promote(&admin, id).await;
    let hash = eventually("the second voter is as far", || async { its_admin.hash(4).await.ok() }).await;
    let own = admin.hash(4).await.unwrap();
    assert_eq!((own.hash, own.compact_revision), (hash.hash, hash.compact_revision));
    assert_ne!(
        (own.member_id, own.hash),
        (hash.member_id, admin.hash(3).await.unwrap().hash)
    );
    assert_eq!(refusal(admin.hash(5).await), Refusal::FutureRevision);
    client.compact(3, None).await.unwrap();
    assert_eq!(refusal(admin.hash(2).await), Refusal::Compacted);
    drop(server);
}

async fn u08_alarms_are_listed_and_taken_back_one_by_one(minor: &str) {
    let (seed, admin) = seed(minor).await;
    let id = admin.status().await.unwrap().member_id;
    assert_eq!(admin.alarms().await.unwrap(), []);
    for kind in [etcd_client::AlarmType::Corrupt, etcd_client::AlarmType::Nospace] {
        let mut options = etcd_client::AlarmOptions::new();
        options.with_member(id.0);
        let raise = etcd_client::AlarmAction::Activate;
        raw(&seed).await.alarm(raise, kind, Some(options)).await.unwrap();
    }
    let mut alarms = admin.alarms().await.unwrap();
    alarms.sort_by_key(|(_, alarm)| format!("{alarm:?}"));
    assert_eq!(alarms, [(id, Alarm::Corrupt), (id, Alarm::NoSpace)]);
    // A joiner waits for a raft write all the same (M24).
    let before = admin.status().await.unwrap().applied_index;
    admin.nudge().await.unwrap();
    assert!(admin.status().await.unwrap().applied_index >= before + 2);
    admin.disarm(id, Alarm::Corrupt).await.unwrap();
    assert_eq!(admin.alarms().await.unwrap(), [(id, Alarm::NoSpace)]);
}

#[tokio::test]
async fn what_is_no_url_is_refused_before_anything_is_sent() {
    let error = Admin::new("not a url", &Access::Plain, Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(error, EtcdError::Endpoint { .. }), "{error}");
}

macro_rules! on_each_version {
    ($($test:ident),+ $(,)?) => {
        on_each_version!(@ v3_5 "3.5" $($test),+);
        on_each_version!(@ v3_6 "3.6" $($test),+);
        on_each_version!(@ v3_7 "3.7" $($test),+);
    };
    (@ $module:ident $minor:literal $($test:ident),+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test($minor).await;
                }
            )+
        }
    };
}

on_each_version!(
    ids_are_computed_as_etcd_does,
    a_learner_is_added_and_promoted_and_every_wrong_step_is_refused_by_name,
    a_call_without_a_quorum_has_an_unknown_outcome_and_one_that_was_never_sent_has_none,
    m24_a_nudge_is_a_raft_write_that_changes_no_revision,
    d19_members_with_the_same_keys_have_the_same_hash_at_the_same_revision,
    u08_alarms_are_listed_and_taken_back_one_by_one,
);
