//! A newer supervisor takes over by `execve`, etcd running on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use proto::supervisor::Upgrade;
use proto::supervisor::process_state::Phase;
use proto::supervisor::to_supervisor::Message;
use rustix::process::Signal;

use crate::harness::{Agent, Pod, children, etcd, kill, until};

/// The same program as another file, put there as a newer image does it.
fn newer(pod: &Pod) -> PathBuf {
    let newer = pod.path("etcd-agent.2");
    if !newer.exists() {
        let install = Command::new(env!("CARGO_BIN_EXE_etcd-agent"))
            .arg("install")
            .arg("--to")
            .arg(&newer)
            .status();
        assert!(install.unwrap().success());
    }
    newer
}

async fn upgrade(pod: &Pod, mut agent: Agent) -> Agent {
    let binary = newer(pod).to_str().unwrap().to_owned();
    agent.ask(Message::Upgrade(Upgrade { binary })).await.unwrap();
    agent.until_closed().await;
    pod.agent().await
}

/// Open descriptors but sockets: those come and go with every question of the watchdog.
fn descriptors(pid: i32) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    open.filter(|path| fs::read_link(path).is_ok_and(|target| !target.to_string_lossy().starts_with("socket:")))
        .count()
}

#[tokio::test]
async fn etcd_runs_on_under_the_supervisor_that_takes_over() {
    let mut pod = Pod::new(&etcd("3.6"));
    let agent = pod.seeded().await;
    pod.client().await;
    let (before, pid1) = (agent.state.clone(), pod.supervisor_pid());
    let mut agent = upgrade(&pod, agent).await;
    let open = descriptors(pid1);
    for _ in 0..3 {
        agent = upgrade(&pod, agent).await;
    }
    assert_eq!(fs::read_link(format!("/proc/{pid1}/exe")).unwrap(), newer(&pod));
    assert_eq!(descriptors(pid1), open, "descriptors leak from one program to the next");
    assert_eq!(agent.state, before);
    assert!(agent.hello.etcd_version.starts_with("3.6."));

    // What the supervisor knew, it knows: the last lines, and how to start etcd again by itself.
    let lines = agent.logs().await;
    assert!(
        lines.iter().any(|line| line.contains("ready to serve client requests")),
        "{lines:?}"
    );
    drop(agent);
    kill(before.pid, Signal::KILL);
    let mut agent = pod.agent().await;
    let state = agent
        .until("etcd serves again", |state| state.served && state.pid != before.pid)
        .await;
    assert_eq!(
        (state.restarts, state.exit.as_ref().unwrap().class.as_str()),
        (1, "Killed")
    );

    // Its log still comes through, and so does the end.
    pod.client().await;
    let agent = upgrade(&pod, agent).await;
    drop(agent);
    assert_eq!(pod.terminate().await.code(), Some(0));
    pod.wrote("received signal").await;
}

#[tokio::test]
async fn not_one_line_of_etcds_log_is_lost_or_doubled_by_an_upgrade() {
    let script = "i=0; while [ $i -lt 30000 ]; do echo \"line $i\"; i=$((i+1)); done; sleep 600";
    let mut pod = Pod::with_script(script);
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    for _ in 0..5 {
        agent = upgrade(&pod, agent).await;
    }
    pod.wrote("line 29999").await;
    let numbers: Vec<usize> = pod
        .output()
        .iter()
        .filter_map(|line| line.strip_prefix("line "))
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..30000).collect::<Vec<_>>());
    drop(agent);
}

#[tokio::test]
async fn an_etcd_that_ends_during_the_upgrade_is_told_by_the_next_supervisor() {
    for _ in 0..10 {
        let mut pod = Pod::with_script("echo ready; exec sleep 600");
        pod.supervise();
        let mut agent = pod.agent().await;
        agent.start_once(1, "x: y").await.unwrap();
        pod.wrote("ready").await;
        let pid = agent.state.pid;
        let binary = newer(&pod).to_str().unwrap().to_owned();
        agent.ask(Message::Upgrade(Upgrade { binary })).await.unwrap();
        kill(pid, Signal::KILL);
        agent.until_closed().await;
        let mut agent = pod.agent().await;
        assert_eq!(agent.until_ended().await, "Killed");
    }
}

#[tokio::test]
async fn a_sigterm_during_the_upgrade_is_not_lost() {
    for _ in 0..20 {
        let mut pod = Pod::with_script("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
        pod.supervise();
        let mut agent = pod.agent().await;
        agent.start_once(1, "x: y").await.unwrap();
        pod.wrote("ready").await;
        let binary = newer(&pod).to_str().unwrap().to_owned();
        agent.ask(Message::Upgrade(Upgrade { binary })).await.unwrap();
        assert_eq!(pod.terminate().await.code(), Some(0));
        until("etcd was told", || pod.output().iter().any(|line| line == "bye")).await;
    }
}

#[tokio::test]
async fn a_binary_that_does_not_run_here_is_refused_and_etcd_runs_on() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let pid = agent.state.pid;
    let broken = pod.path("broken");
    fs::write(&broken, &fs::read(env!("CARGO_BIN_EXE_etcd-agent")).unwrap()[..4096]).unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    for binary in [broken.to_str().unwrap(), "/bin/true", "/does/not/exist", "etcd-agent"] {
        agent
            .ask(Message::Upgrade(Upgrade {
                binary: binary.to_owned(),
            }))
            .await
            .unwrap_err();
    }
    assert_eq!((agent.state.pid, agent.state.phase()), (pid, Phase::Running));
}

#[tokio::test]
async fn a_binary_that_hangs_is_given_up_and_etcd_can_write_meanwhile() {
    // More than a pipe holds.
    let mut pod = Pod::with_script(
        "while [ ! -e \"$data/go\" ]; do sleep 0.05; done; i=0; \
         while [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i+1)); done; touch \"$data/written\"; exec sleep 600",
    );
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    let hanging = pod.path("hanging");
    fs::write(&hanging, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&hanging, fs::Permissions::from_mode(0o755)).unwrap();
    let binary = hanging.to_str().unwrap().to_owned();
    let (data, supervisor) = (pod.data(), pod.supervisor_pid());
    let meanwhile = async {
        until("the binary is tried", || children(supervisor).len() == 2).await;
        fs::write(data.join("go"), "").unwrap();
        until("etcd has written", || data.join("written").exists()).await;
        assert_eq!(children(supervisor).len(), 2, "the binary was still tried then");
    };
    let (refused, ()) = tokio::join!(agent.ask(Message::Upgrade(Upgrade { binary })), meanwhile);
    assert!(refused.unwrap_err().contains("--version within"));
    assert_eq!(children(supervisor).len(), 1, "it is killed and reaped");
    assert_eq!(agent.state.phase(), Phase::Running);
}

#[tokio::test]
async fn a_supervisor_that_waits_or_backs_off_goes_on_waiting_or_backing_off() {
    let mut pod = Pod::with_script("exit 3");
    pod.supervise();
    let agent = pod.agent().await;
    let mut agent = upgrade(&pod, agent).await;
    assert_eq!(agent.state.phase(), Phase::Waiting);
    datadir::testing::intact(&pod.data(), 7, 9).unwrap();
    agent
        .start(proto::supervisor::start::Kind::Repeatable, 0, "x: y", "{}")
        .await
        .unwrap();
    agent.until_ended().await;
    let mut agent = upgrade(&pod, agent).await;
    agent.until("it goes on", |state| state.restarts >= 2).await;
}
