//! Orders: what is started, what is refused, what is started again.

use std::fs;
use std::time::Duration;

use proto::supervisor::process_state::Phase;
use proto::supervisor::to_supervisor::Message;
use proto::supervisor::{MoveAside, RemoveTree, SetRepeatable, start};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::harness::{Pod, etcd, kill, runs, until};

#[tokio::test]
async fn etcd_is_held_until_it_is_ordered_and_its_identity_is_recorded_before_it_starts() {
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    let mut agent = pod.agent().await;
    assert!(agent.hello.etcd_version.starts_with("3.6."), "{:?}", agent.hello);
    assert_eq!(agent.state.phase(), Phase::Waiting);
    assert_eq!(fs::read_dir(pod.data()).unwrap().count(), 0);

    agent.start_once(7, &pod.seed()).await.unwrap();
    assert_eq!(
        fs::read_to_string(pod.ours("identity.json")).unwrap(),
        r#"{"member":"a"}"#
    );
    let state = agent.until("etcd serves", |state| state.served).await.clone();
    assert_eq!(
        (state.phase(), state.order, state.restarts, state.repeatable),
        (Phase::Running, 7, 0, false)
    );
    until("the start is recorded", || pod.ours("started").exists()).await;
    assert!(
        agent
            .start_once(8, &pod.seed())
            .await
            .unwrap_err()
            .contains("etcd runs")
    );
    // etcd's own log passes through unchanged.
    pod.wrote("ready to serve client requests").await;
    assert!(
        pod.output()
            .iter()
            .any(|line| line.starts_with(r#"{"level":"info","ts":""#) && line.contains("etcdmain"))
    );
}

#[tokio::test]
async fn without_an_agent_a_repeatable_etcd_is_started_again_within_a_second_or_so() {
    let mut pod = Pod::new(&etcd("3.6"));
    let agent = pod.seeded().await;
    let first = agent.state.pid;
    drop(agent);
    kill(first, Signal::KILL);
    until("etcd has ended", || !runs(first)).await;
    let mut agent = pod.agent().await;
    let state = agent
        .until("etcd serves again", |state| state.served && state.pid != first)
        .await;
    assert_eq!((state.restarts, state.phase()), (1, Phase::Running));
    assert_eq!(state.exit.as_ref().unwrap().class, "Killed");
}

#[tokio::test]
async fn with_an_agent_the_agent_orders_the_next_start_and_may_keep_etcd_stopped() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    kill(agent.state.pid, Signal::KILL);
    assert_eq!(agent.until_ended().await, "Killed");
    assert_eq!(agent.state.phase(), Phase::BackingOff);
    agent.stop("somebody looks at the directory").await.unwrap();
    let state = agent.until("it waits", |state| state.phase() == Phase::Waiting).await;
    assert_eq!(state.waiting_for, "somebody looks at the directory");
    assert!(!state.repeatable);
    agent.start_repeatable(&pod.repeatable()).await.unwrap();
    agent.until("etcd serves again", |state| state.served).await;
}

#[tokio::test]
async fn an_agent_that_is_connected_and_says_nothing_does_not_keep_etcd_down() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let first = agent.state.pid;
    kill(first, Signal::KILL);
    agent
        .until("etcd serves again", |state| state.served && state.pid != first)
        .await;
}

#[tokio::test]
async fn d21_an_agent_that_comes_and_goes_does_not_disturb_etcd() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let pid = agent.state.pid;
    for _ in 0..3 {
        drop(agent);
        agent = pod.agent().await;
        assert_eq!(
            (agent.state.pid, agent.state.phase(), agent.state.served),
            (pid, Phase::Running, true)
        );
        assert!(agent.state.repeatable);
    }
}

#[tokio::test]
async fn d27_a_once_order_that_had_its_effect_is_never_replayed() {
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(4, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
    kill(agent.state.pid, Signal::KILL);
    agent.until_ended().await;
    assert_eq!(agent.state.phase(), Phase::Waiting);

    // Neither by the supervisor it was sent to, nor by a later one, nor on a volume that was emptied since.
    assert!(
        agent
            .start_once(4, &pod.seed())
            .await
            .unwrap_err()
            .contains("never replayed")
    );
    pod.kill_container();
    pod.supervise();
    let mut agent = pod.agent().await;
    assert_eq!(agent.state.phase(), Phase::Waiting);
    assert!(
        agent
            .start_once(4, &pod.seed())
            .await
            .unwrap_err()
            .contains("never replayed")
    );
    fs::remove_dir_all(pod.data().join("member")).unwrap();
    assert!(
        agent
            .start_once(4, &pod.seed())
            .await
            .unwrap_err()
            .contains("never replayed")
    );
    assert!(agent.start_once(3, &pod.seed()).await.unwrap_err().contains("older"));
    assert!(agent.start_once(5, &pod.seed()).await.unwrap_err().contains("gone"));
    assert!(
        agent
            .start_repeatable(&pod.repeatable())
            .await
            .unwrap_err()
            .contains("no WAL")
    );

    // Once the directory is another one, a new order is carried out.
    agent
        .ask(Message::RemoveTree(RemoveTree {
            reason: "gone".to_owned(),
        }))
        .await
        .unwrap();
    agent.start_once(5, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
}

#[tokio::test]
async fn d25_a_seed_killed_in_the_middle_of_its_first_start_starts_again_by_the_same_order() {
    for delay in [0, 3, 6, 10, 15, 20, 30, 40, 60, 80] {
        let mut pod = Pod::new(&etcd("3.6"));
        pod.supervise();
        let mut agent = pod.agent().await;
        agent.start_once(4, &pod.seed()).await.unwrap();
        // Not a wait for anything: the moment of the kill is what varies.
        sleep(Duration::from_millis(delay)).await;
        pod.kill_container();
        let wal = pod.data().join("member/wal").exists();
        pod.supervise();
        let mut agent = pod.agent().await;
        let again = agent.start_once(4, &pod.seed()).await;
        if wal {
            assert!(again.unwrap_err().contains("never replayed"), "{delay} ms");
            agent.start_repeatable(&pod.repeatable()).await.unwrap();
        } else {
            again.unwrap_or_else(|error| panic!("{delay} ms: {error}"));
        }
        agent.until("etcd serves", |state| state.served).await;
    }
}

#[tokio::test]
async fn d25_a_join_that_found_no_peer_starts_again_by_the_same_order() {
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(4, &pod.lonely_join()).await.unwrap();
    assert_eq!(agent.until_ended().await, "NoPeers");
    // etcd leaves a db behind, and no WAL.
    assert!(pod.data().join("member/snap/db").exists());
    assert!(!pod.ours("started").exists());
    agent.start_once(4, &pod.lonely_join()).await.unwrap();
    agent
        .until("it has ended again", |state| {
            state.exit.is_some() && state.phase() == Phase::Waiting
        })
        .await;
    agent
        .ask(Message::RemoveTree(RemoveTree {
            reason: "left over".to_owned(),
        }))
        .await
        .unwrap();
    assert!(!pod.data().join("member").exists());
    assert!(pod.ours("identity.json").exists());
    agent.start_once(4, &pod.lonely_join()).await.unwrap();
}

#[tokio::test]
async fn a_fence_keeps_etcd_from_starting_with_and_without_an_agent() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let pid = agent.state.pid;
    agent.write_file("fence", "a recovery goes on").await.unwrap();
    drop(agent);
    kill(pid, Signal::KILL);
    until("etcd has ended", || !runs(pid)).await;
    let mut agent = pod.agent().await;
    agent
        .until("it waits", |state| state.waiting_for.contains("fence"))
        .await;
    assert!(
        agent
            .start_repeatable(&pod.repeatable())
            .await
            .unwrap_err()
            .contains("fence")
    );
    agent.write_file("fence", "").await.unwrap();
    agent.start_repeatable(&pod.repeatable()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
}

#[tokio::test]
async fn a_repeatable_etcd_whose_data_are_gone_is_not_started_as_a_new_one() {
    for lost in ["member", "etcd-agent/identity.json"] {
        let mut pod = Pod::new(&etcd("3.6"));
        let agent = pod.seeded().await;
        let pid = agent.state.pid;
        drop(agent);
        // Stopped, so that nothing is written between the loss and the end.
        kill(pid, Signal::STOP);
        let path = pod.data().join(lost);
        if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
        .unwrap();
        kill(pid, Signal::KILL);
        until("etcd has ended", || !runs(pid)).await;
        let mut agent = pod.agent().await;
        let state = agent.until("it waits", |state| state.phase() == Phase::Waiting).await;
        assert!(
            state.waiting_for.contains("waiting for the agent"),
            "{lost}: {}",
            state.waiting_for
        );
    }
}

#[tokio::test]
async fn a_configuration_that_changes_history_is_not_taken_as_repeatable() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let set = Message::SetRepeatable(SetRepeatable {
        config: pod.seed().into_bytes(),
    });
    assert!(agent.ask(set).await.unwrap_err().contains("initial-cluster-state"));
    agent.stop("test").await.unwrap();
    assert!(
        agent
            .start_repeatable(&pod.seed())
            .await
            .unwrap_err()
            .contains("initial-cluster-state")
    );
    let forced = format!("{}force-new-cluster: true\n", pod.repeatable());
    assert!(
        agent
            .start_repeatable(&forced)
            .await
            .unwrap_err()
            .contains("force-new-cluster")
    );
    assert!(
        agent
            .start(start::Kind::Unspecified, 9, &pod.repeatable(), "")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn the_data_directory_is_moved_or_deleted_only_while_etcd_is_stopped() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let aside = || {
        Message::MoveAside(MoveAside {
            label: "removed-1".to_owned(),
        })
    };
    let delete = || {
        Message::RemoveTree(RemoveTree {
            reason: "test".to_owned(),
        })
    };
    assert!(agent.ask(aside()).await.unwrap_err().contains("etcd runs"));
    assert!(agent.ask(delete()).await.unwrap_err().contains("etcd runs"));
    agent.stop("to be set aside").await.unwrap();
    agent.ask(aside()).await.unwrap();
    assert!(!pod.data().join("member").exists());
    let kept: Vec<_> = fs::read_dir(pod.ours("quarantine"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].join("member/wal").exists() && kept[0].join("identity.json").exists());
    agent.start_once(2, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
}
