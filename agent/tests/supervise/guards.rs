//! Orders for an unborn directory that come when etcd has saved data in it: they had waited for a slow disk, or the agent
//! had looked too early.

use std::fs;
use std::time::{Duration, Instant};

use proto::supervisor::process_state::Phase;
use proto::supervisor::to_supervisor::Message;
use proto::supervisor::{RemoveTree, start};
use rustix::process::Signal;

use crate::harness::{Agent, Pod, etcd, kill, until};

/// A seed that has taken a write and died before the agent has looked again.
async fn born_and_dead(pod: &mut Pod) -> Agent {
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(4, &pod.seed()).await.unwrap();
    pod.client().await.put("kept", "yes", None).await.unwrap();
    kill(agent.state.pid, Signal::KILL);
    agent.until_ended().await;
    agent
}

/// As the agent asks before it sends a first start again.
fn rest() -> Message {
    Message::RemoveTree(RemoveTree {
        reason: "left by a first start".to_owned(),
        unborn_only: true,
    })
}

async fn is_kept(pod: &Pod, agent: &mut Agent) {
    agent.start_repeatable(&pod.repeatable()).await.unwrap();
    let kept = pod.client().await.get("kept", None).await.unwrap();
    assert_eq!(kept.count(), 1);
}

#[tokio::test]
async fn d27_the_rest_of_a_first_start_is_not_deleted_once_etcd_has_saved_something() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = born_and_dead(&mut pod).await;
    assert!(agent.ask(rest()).await.unwrap_err().contains("saved data"));
    assert!(pod.ours("started").exists());
    is_kept(&pod, &mut agent).await;
}

#[tokio::test]
async fn d27_a_first_start_for_another_id_does_not_meet_data_nor_change_whose_they_are() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = born_and_dead(&mut pod).await;
    let before = fs::read_to_string(pod.ours("identity.json")).unwrap();
    for config in [pod.seed(), pod.lonely_join()] {
        let late = agent.start(start::Kind::Once, 5, &config, r#"{"member":"b"}"#).await;
        assert!(late.unwrap_err().contains("unborn directory"));
    }
    assert_eq!(agent.state.phase(), Phase::Waiting);
    assert_eq!(fs::read_to_string(pod.ours("identity.json")).unwrap(), before);
    assert_eq!(fs::read_to_string(pod.ours("once-order")).unwrap(), "4");
    is_kept(&pod, &mut agent).await;
}

#[tokio::test]
async fn d25_a_first_start_is_refused_on_a_wal_in_which_nothing_was_saved() {
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(4, &pod.lonely_join()).await.unwrap();
    agent.until_ended().await;
    // What etcd writes when it creates the file, and then zeros.
    let created = [
        &[4, 0, 0, 0, 0, 0, 0, 0x84, 0x08, 0x04, 0x10, 0x00, 0, 0, 0, 0][..],
        &[4, 0, 0, 0, 0, 0, 0, 0x84, 0x08, 0x01, 0x10, 0x00, 0, 0, 0, 0],
        &[0; 4096],
    ];
    let wal = pod.data().join("member/wal");
    fs::create_dir_all(&wal).unwrap();
    fs::write(wal.join("0000000000000000-0000000000000000.wal"), created.concat()).unwrap();
    assert!(
        agent
            .start_once(4, &pod.seed())
            .await
            .unwrap_err()
            .contains("clear the directory")
    );
    agent.ask(rest()).await.unwrap();
    agent.start_once(4, &pod.seed()).await.unwrap();
    pod.client().await;
}

#[tokio::test]
async fn an_etcd_that_answers_and_dies_again_and_again_is_started_less_and_less_often() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let starts = |pod: &Pod| {
        let output = pod.output();
        output.iter().filter(|line| line.contains("\"etcd started\"")).count()
    };
    let (socket, away) = (pod.path("run/agent.sock"), pod.path("run/away.sock"));
    let mut pauses = Vec::new();
    for _ in 0..4 {
        // It answers: that alone makes no good run.
        let pid = agent.until("etcd serves", |state| state.served).await.pid;
        fs::rename(&socket, &away).unwrap();
        drop(agent);
        let (before, killed) = (starts(&pod), Instant::now());
        kill(pid, Signal::KILL);
        until("etcd is started again", || starts(&pod) > before).await;
        pauses.push(killed.elapsed());
        fs::rename(&away, &socket).unwrap();
        agent = pod.agent().await;
    }
    assert!(pauses[0] < Duration::from_millis(1500), "{pauses:?}");
    assert!(pauses[3] >= Duration::from_secs(2), "{pauses:?}");
}
