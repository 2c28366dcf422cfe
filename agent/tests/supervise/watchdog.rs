//! An etcd that does not answer.

use std::time::{Duration, Instant};

use proto::supervisor::Watchdog;
use proto::supervisor::to_supervisor::Message;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::harness::{Pod, etcd, kill, runs, until};

#[tokio::test]
async fn d23_a_hung_etcd_dumps_its_goroutines_and_is_started_again() {
    for minor in ["3.5", "3.6", "3.7"] {
        let mut pod = Pod::new(&etcd(minor)).patience(2);
        let agent = pod.seeded().await;
        let pid = agent.state.pid;
        drop(agent);
        kill(pid, Signal::STOP);
        until("the hung etcd is gone", || !runs(pid)).await;
        let mut agent = pod.agent().await;
        let state = agent
            .until("etcd serves again", |state| state.served && state.pid != pid)
            .await;
        assert_eq!(state.exit.as_ref().unwrap().class, "Hung", "{minor}");
        pod.wrote("SIGQUIT: quit").await;
        pod.wrote("runtime.goexit").await;
    }
}

#[tokio::test]
async fn d23_an_etcd_that_does_not_even_dump_is_killed() {
    // Serves its metrics as far as the watchdog asks, and takes no signal but SIGKILL.
    let script = "trap '' QUIT CONT TERM; mkdir -p $data/member/wal; touch $data/member/wal/0.wal
        grep -q x \"$2\"; exec >&2; echo ready; while :; do sleep 0.05; done";
    let mut pod = Pod::with_script(script).patience(1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!("listen-metrics-urls: http://{}\n", listener.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.0 404 Not Found\r\n\r\n").unwrap();
        listener
    });
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, &config).await.unwrap();
    agent.until("it has answered once", |state| state.served).await;
    let listener = answers.join().unwrap();
    let begun = Instant::now();
    assert_eq!(agent.until_ended().await, "Hung");
    assert_eq!(agent.state.exit.as_ref().unwrap().signal, 9);
    assert!(begun.elapsed() > Duration::from_secs(5), "it had the time to dump");
    drop(listener);
}

#[tokio::test]
async fn d28_a_start_that_takes_longer_than_the_patience_is_left_alone() {
    let mut pod = Pod::new(&etcd("3.6")).patience(1);
    pod.supervise();
    let mut agent = pod.agent().await;
    agent.start_once(1, &pod.seed()).await.unwrap();
    let pid = agent.state.pid;
    kill(pid, Signal::STOP);
    assert!(!agent.state.served);
    // The time is what is tested: several times the patience, with nobody listening.
    sleep(Duration::from_secs(4)).await;
    assert!(runs(pid));
    kill(pid, Signal::CONT);
    let state = agent.until("etcd serves", |state| state.served).await;
    assert_eq!((state.pid, state.restarts), (pid, 0));
}

#[tokio::test]
async fn d28_a_suspended_watchdog_leaves_a_silent_etcd_alone_and_comes_back() {
    let mut pod = Pod::new(&etcd("3.6")).patience(1);
    let mut agent = pod.seeded().await;
    let pid = agent.state.pid;
    agent
        .ask(Message::Watchdog(Watchdog { suspend_seconds: 600 }))
        .await
        .unwrap();
    kill(pid, Signal::STOP);
    // The time is what is tested.
    sleep(Duration::from_secs(4)).await;
    assert!(runs(pid));
    agent
        .ask(Message::Watchdog(Watchdog { suspend_seconds: 0 }))
        .await
        .unwrap();
    assert_eq!(agent.until_ended().await, "Hung");
}

#[tokio::test]
async fn d28_a_defragmentation_longer_than_the_patience_is_left_alone() {
    for minor in ["3.5", "3.6", "3.7"] {
        let mut pod = Pod::new(&etcd(minor)).patience(1);
        let mut agent = pod.seeded().await;
        let pid = agent.state.pid;
        let mut client = pod.client().await;
        let mut longest = Duration::ZERO;
        // The database grows until its defragmentation takes longer than the patience.
        for _ in 0..6 {
            for number in 0..150 {
                client
                    .put(format!("key-{number}"), vec![b'x'; 1024 * 1024], None)
                    .await
                    .unwrap();
            }
            let begun = Instant::now();
            client.defragment().await.unwrap();
            longest = longest.max(begun.elapsed());
            if longest > Duration::from_secs(2) {
                break;
            }
        }
        println!("{minor}: the longest defragmentation took {longest:?}");
        agent
            .ask(Message::Watchdog(Watchdog { suspend_seconds: 0 }))
            .await
            .unwrap();
        assert_eq!(
            (agent.state.pid, agent.state.restarts),
            (pid, 0),
            "{minor}: {longest:?}"
        );
        assert!(
            longest > Duration::from_secs(1),
            "{minor}: {longest:?} is too short to show anything"
        );
    }
}
