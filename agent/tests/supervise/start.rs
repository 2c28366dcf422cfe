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
            unborn_only: true,
        }))
        .await
        .unwrap();
    agent.start_once(5, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
}

#[tokio::test]
async fn d27_after_a_once_order_etcd_waits_for_an_agent_however_long_none_is_there() {
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(4, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
    let pid = agent.state.pid;
    drop(agent);
    kill(pid, Signal::KILL);
    until("etcd has ended", || !runs(pid)).await;
    // The time is what is tested: longer than any pause before a restart of an etcd that had served.
    sleep(Duration::from_secs(2)).await;
    let agent = pod.agent().await;
    assert_eq!((agent.state.phase(), agent.state.restarts), (Phase::Waiting, 0));
}

#[tokio::test]
async fn d27_an_order_is_not_used_up_by_a_start_that_did_not_come_to_its_end() {
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    let mut agent = pod.agent().await;
    // Each step of a start fails once: the identity, the number of the order, the configuration file.
    for obstacle in ["data/etcd-agent/.new", "data/etcd-agent/once-order", "run/etcd.new"] {
        fs::create_dir_all(pod.path(obstacle)).unwrap();
        agent.start_once(4, &pod.seed()).await.unwrap_err();
        assert_eq!(agent.state.pid, 0, "{obstacle}");
        fs::remove_dir(pod.path(obstacle)).unwrap();
    }
    agent.start_once(4, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
}

#[tokio::test]
async fn d25_a_seed_killed_at_any_moment_of_its_first_start_comes_up_all_the_same() {
    for minor in ["3.5", "3.6", "3.7"] {
        for delay in [0, 5, 10, 15, 20, 30, 40, 60, 80, 120] {
            let mut pod = Pod::new(&etcd(minor));
            pod.supervise();
            let mut agent = pod.agent().await;
            agent.start_once(4, &pod.seed()).await.unwrap();
            // Not a wait for anything: the moment of the kill is what varies.
            sleep(Duration::from_millis(delay)).await;
            pod.kill_container();
            pod.supervise();
            let mut agent = pod.agent().await;
            // As the agent does it: what etcd has not saved anything in is cleared, and the same order is sent again.
            let clear = RemoveTree {
                reason: "left by a first start".to_owned(),
                unborn_only: true,
            };
            if agent.ask(Message::RemoveTree(clear)).await.is_ok() {
                agent.start_once(4, &pod.seed()).await.unwrap();
            } else {
                let again = agent.start_once(4, &pod.seed()).await;
                assert!(again.unwrap_err().contains("never replayed"), "{minor}, {delay} ms");
                agent.start_repeatable(&pod.repeatable()).await.unwrap();
            }
            // Takes a write: an etcd without voters answers on its metrics port, too.
            pod.client().await;
        }
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
            unborn_only: true,
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
            unborn_only: false,
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
