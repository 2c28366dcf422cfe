//! Ends of etcd, and of the supervisor.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use proto::supervisor::process_state::Phase;
use rustix::process::Signal;

use crate::harness::{Pod, etcd, kill, runs, until};

#[tokio::test]
async fn sigterm_goes_on_to_etcd_at_once_and_the_supervisor_ends_with_it() {
    for minor in ["3.5", "3.6", "3.7"] {
        let mut pod = Pod::new(&etcd(minor));
        let mut agent = pod.seeded().await;
        let pid = agent.state.pid;
        // etcd catches signals only once it is ready.
        pod.client().await;
        let status = pod.terminate().await;
        assert_eq!(status.code(), Some(0), "{minor}: {status}");
        assert!(!runs(pid));
        pod.wrote("received signal").await;
        // The agent is told before the end.
        agent.until_closed().await;
        assert_eq!(agent.state.exit.as_ref().unwrap().class, "Clean", "{minor}");
    }
}

#[tokio::test]
async fn sigterm_ends_a_supervisor_that_waits_or_backs_off() {
    let mut pod = Pod::with_script("exit 3");
    pod.supervise();
    let mut agent = pod.agent().await;
    assert_eq!(pod.terminate().await.code(), Some(0));
    agent.until_closed().await;
    pod.kill_container();

    pod.supervise();
    let mut agent = pod.agent().await;
    datadir::testing::intact(&pod.data(), 7, 9).unwrap();
    agent
        .start(proto::supervisor::start::Kind::Repeatable, 0, "x: y", "{}")
        .await
        .unwrap();
    agent
        .until("it backs off", |state| state.phase() == Phase::BackingOff)
        .await;
    let begun = Instant::now();
    assert_eq!(pod.terminate().await.code(), Some(0));
    assert!(begun.elapsed().as_secs() < 5);
}

#[tokio::test]
async fn the_supervisor_ends_with_etcds_code_when_etcd_does_not_stop_as_it_should() {
    let mut pod = Pod::with_script("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done");
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    pod.wrote("ready").await;
    assert_eq!(pod.terminate().await.code(), Some(5));
    drop(agent);
}

#[tokio::test]
async fn stop_kills_an_etcd_that_does_not_stop_in_its_grace() {
    let mut pod = Pod::with_script("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    pod.wrote("ready").await;
    let stop = proto::supervisor::Stop {
        grace_seconds: 1,
        reason: "test".to_owned(),
    };
    agent
        .ask(proto::supervisor::to_supervisor::Message::Stop(stop))
        .await
        .unwrap();
    assert_eq!(agent.until_ended().await, "Killed");
    assert_eq!(agent.state.waiting_for, "test");
}

#[tokio::test]
async fn an_etcd_that_cannot_be_run_is_told_in_hello_and_at_the_start() {
    let mut pod = Pod::new(std::path::Path::new("/does/not/exist"));
    pod.supervise();
    let mut agent = pod.agent().await;
    assert_eq!(agent.hello.etcd_version, "");
    assert!(agent.hello.etcd_version_error.contains("/does/not/exist"));
    assert!(
        agent
            .start_once(1, &pod.seed())
            .await
            .unwrap_err()
            .contains("/does/not/exist")
    );
    assert_eq!(agent.state.phase(), Phase::Waiting);
}

#[tokio::test]
async fn nothing_of_the_supervisor_leaks_into_etcd() {
    let mut pod = Pod::with_script("ls -l /proc/self/fd; env; echo end");
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    agent.until_ended().await;
    pod.wrote("end").await;
    let output = pod.output();
    let open: Vec<_> = output.iter().filter(|line| line.contains(" -> ")).collect();
    // Descriptors that the test has itself inherited go through; runc hands none over.
    let inherited = Command::new("ls")
        .args(["-l", "/proc/self/fd"])
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let inherited = String::from_utf8(inherited.stdout)
        .unwrap()
        .lines()
        .filter(|line| line.contains(" -> "))
        .count();
    // The shell's own script.
    assert!(open.len() <= inherited + 1, "{open:?}");
    assert!(!output.iter().any(|line| line.starts_with("ETCD_")), "{output:?}");
}

#[tokio::test]
async fn the_last_lines_are_told_and_all_lines_are_passed_on() {
    let script = "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo 'panic: odd' >&2; exit 2";
    let mut pod = Pod::with_script(script);
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, "x: y").await.unwrap();
    assert_eq!(agent.until_ended().await, "Panic");
    let exit = agent.state.exit.clone().unwrap();
    assert_eq!((exit.code, exit.signal, exit.last_lines.len()), (2, 0, 20));
    assert!(exit.last_lines.contains(&"panic: odd".to_owned()));
    pod.wrote("line 499").await;
    assert_eq!(
        pod.output().iter().filter(|line| line.starts_with("line ")).count(),
        500
    );
}

#[tokio::test]
async fn ends_of_a_real_etcd_are_told_by_their_class() {
    for minor in ["3.5", "3.6", "3.7"] {
        let mut pod = Pod::new(&etcd(minor));
        pod.supervise();
        let mut agent = pod.agent().await;
        let bad = format!("{}heartbeat-interval: 5m\n", pod.seed());
        agent.start_once(1, &bad).await.unwrap();
        assert_eq!(agent.until_ended().await, "BadConfig", "{minor}");
        let other = pod.seed().replace("name: a", "name: b");
        agent.start_once(2, &other).await.unwrap();
        assert_eq!(next_end(&mut agent, 1).await, "InitialClusterMismatch", "{minor}");
        let taken = TcpListener::bind(("127.0.0.1", pod.client_port)).unwrap();
        agent.start_once(3, &pod.seed()).await.unwrap();
        assert_eq!(next_end(&mut agent, 2).await, "PortInUse", "{minor}");
        drop(taken);
    }
}

#[tokio::test]
async fn damage_of_a_real_etcds_data_is_told_by_its_class() {
    for minor in ["3.5", "3.6", "3.7"] {
        let mut pod = Pod::new(&etcd(minor));
        let mut agent = pod.seeded().await;
        let mut client = pod.client().await;
        for number in 0..50 {
            client
                .put(format!("key-{number}"), vec![b'x'; 1000], None)
                .await
                .unwrap();
        }
        agent.stop("to be damaged").await.unwrap();
        let wal = fs::read_dir(pod.data().join("member/wal"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "wal"))
            .unwrap();
        let whole = fs::read(&wal).unwrap();
        let mut broken = whole.clone();
        let middle = broken.windows(20).position(|bytes| bytes == [b'x'; 20]).unwrap() + 5;
        broken[middle] = b'y';
        fs::write(&wal, broken).unwrap();
        agent.start_repeatable(&pod.repeatable()).await.unwrap();
        assert_eq!(next_end(&mut agent, 1).await, "WalCorrupt", "{minor}");
        agent.stop("to be damaged otherwise").await.unwrap();
        fs::write(&wal, whole).unwrap();
        let db = pod.data().join("member/snap/db");
        let mut pages = fs::read(&db).unwrap();
        pages[..8192].fill(0);
        fs::write(&db, pages).unwrap();
        agent.start_repeatable(&pod.repeatable()).await.unwrap();
        assert_eq!(next_end(&mut agent, 2).await, "DbCorrupt", "{minor}");
    }
}

#[tokio::test]
async fn a_killed_etcd_is_told_within_a_tenth_of_a_second() {
    let mut pod = Pod::new(&etcd("3.6"));
    let mut agent = pod.seeded().await;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let pid = agent.state.pid;
        let begun = Instant::now();
        kill(pid, Signal::KILL);
        agent.until("the end is told", |state| state.pid != pid).await;
        waits.push(begun.elapsed());
        agent.start_repeatable(&pod.repeatable()).await.unwrap();
        agent.until("etcd serves", |state| state.served).await;
    }
    waits.sort();
    assert!(waits[2].as_millis() < 100, "{waits:?}");
    until("etcd runs", || runs(agent.state.pid)).await;
}

/// The class of the end after so many restarts.
async fn next_end(agent: &mut crate::harness::Agent, restarts: u32) -> String {
    agent.until("it has started", |state| state.restarts >= restarts).await;
    agent.until_ended().await
}
