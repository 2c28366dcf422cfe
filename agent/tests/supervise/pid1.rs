//! The supervisor as PID 1 of a PID namespace, as in its container.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Pod, children, kill, until};

/// A Pod whose supervisor is PID 1 of a namespace of its own; its process ID outside.
async fn as_pid_1(pod: &mut Pod) -> i32 {
    let mut command = Command::new("unshare");
    command
        .args([
            "--pid",
            "--fork",
            "--kill-child",
            "--",
            env!("CARGO_BIN_EXE_etcd-agent"),
        ])
        .args(pod.arguments());
    pod.supervise_by(command);
    let outer = pod.supervisor_pid();
    until("PID 1 is there (unshare needs root)", || !children(outer).is_empty()).await;
    children(outer)[0]
}

#[tokio::test]
async fn sigterm_to_pid_1_ends_etcd_and_then_the_container() {
    let mut pod = Pod::with_script("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
    let pid1 = as_pid_1(&mut pod).await;
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    pod.wrote("ready").await;
    kill(pid1, Signal::TERM);
    assert_eq!(pod.ended().await.code(), Some(0));
    pod.wrote("bye").await;
}

#[tokio::test]
async fn pid_1_reaps_orphans_and_does_not_take_them_for_etcd() {
    // Each of the inner shells ends before what it has started.
    let script = "for i in 1 2 3 4 5; do sh -c 'sleep 0.2 &'; done; echo ready; while :; do sleep 0.05; done";
    let mut pod = Pod::with_script(script);
    let pid1 = as_pid_1(&mut pod).await;
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    pod.wrote("ready").await;
    until("the orphans are there", || children(pid1).len() > 1).await;
    until("only etcd is left", || children(pid1).len() == 1).await;
    let left = children(pid1)[0];
    let stat = fs::read_to_string(format!("/proc/{left}/stat")).unwrap();
    assert!(!stat.contains(") Z "), "{stat}");
    assert!(agent.stop("test").await.is_ok());
}
