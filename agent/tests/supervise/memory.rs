//! Kills for memory, in a memory cgroup of the test's own.

use std::fs;
use std::path::{Path, PathBuf};

use proto::supervisor::start;

use crate::harness::{Pod, etcd};

/// A memory cgroup below this process's own.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let path_of = |controller: &str| {
            own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                (fields.next()?.split(',').any(|name| name == controller)).then(|| fields.next())?
            })
        };
        let (mount, path, limit) = match path_of("memory") {
            Some(path) => ("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"),
            None => ("/sys/fs/cgroup", path_of("").expect("no memory cgroup"), "memory.max"),
        };
        let name = format!("etcd-agent-test-{}", std::process::id());
        // Under cgroup v2 a group with processes has no children with limits, so a sibling is made.
        let parent = Path::new(mount).join(path.trim_start_matches('/'));
        let parent = if limit == "memory.max" {
            parent.parent().unwrap().to_owned()
        } else {
            parent
        };
        let group = parent.join(name);
        fs::create_dir(&group).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; this test needs root and a memory cgroup it may write to",
                group.display()
            )
        });
        let group = Self(group);
        fs::write(group.0.join(limit), bytes.to_string()).unwrap();
        group
    }

    fn add(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Empty once its processes are reaped.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} is left behind", self.0.display());
    }
}

#[tokio::test]
async fn d29_an_etcd_killed_for_memory_is_told_as_such_and_started_again() {
    let group = Group::new(80 * 1024 * 1024);
    let mut pod = Pod::new(&etcd("3.6"));
    pod.supervise();
    group.add(pod.supervisor_pid());
    let mut agent = pod.agent().await;
    agent.start_once(1, &pod.seed()).await.unwrap();
    agent.until("etcd serves", |state| state.served).await;
    let mut client = pod.client().await;
    // Every answer holds all values at once.
    for number in 0..100 {
        if client
            .put(format!("key-{number}"), vec![b'x'; 1024 * 1024], None)
            .await
            .is_err()
        {
            break;
        }
    }
    let reader = tokio::spawn(async move {
        let all = etcd_client::GetOptions::new().with_prefix();
        while client.get("key-", Some(all.clone())).await.is_ok() {}
    });
    assert_eq!(agent.until_ended().await, "OutOfMemory");
    reader.await.unwrap();
    assert_eq!(
        (agent.state.oom_kills, agent.state.exit.as_ref().unwrap().signal),
        (1, 9)
    );
    agent
        .start(start::Kind::Repeatable, 0, &pod.repeatable(), "")
        .await
        .unwrap();
    agent.until("etcd serves again", |state| state.served).await;
    assert_eq!(agent.state.restarts, 1);
    // A kill by somebody else is not taken for one.
    crate::harness::kill(agent.state.pid, rustix::process::Signal::KILL);
    agent
        .until("it has ended again", |state| {
            state.exit.as_ref().is_some_and(|exit| exit.class == "Killed")
        })
        .await;
    assert_eq!(agent.state.oom_kills, 1);
    pod.kill_container();
}

#[tokio::test]
async fn d29_counts_go_on_when_the_whole_container_was_killed_and_a_clean_end_is_none_of_them() {
    let mut pod = Pod::with_script("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done");
    pod.supervise();
    let mut agent = pod.agent().await;
    assert_eq!((agent.state.restarts, agent.state.exit.is_none()), (0, true));
    agent.start_once(1, "x: y").await.unwrap();
    pod.wrote("ready").await;
    let kept = pod.path("run/supervisor.json");
    let counted = |text: &str| fs::read_to_string(&kept).is_ok_and(|content| content.contains(text));
    crate::harness::until("the run is noted", || counted("\"starts\":1") && !counted("null")).await;
    pod.kill_container();

    pod.supervise();
    let mut agent = pod.agent().await;
    assert_eq!(agent.state.exit.as_ref().unwrap().class, "Vanished");
    agent.start_once(2, "x: y").await.unwrap();
    agent
        .until("the second start is counted", |state| state.restarts == 1)
        .await;
    pod.wrote("ready").await;
    pod.terminate().await;
    pod.kill_container();

    pod.supervise();
    let mut agent = pod.agent().await;
    assert!(agent.state.exit.is_none(), "{:?}", agent.state.exit);
    agent.start_once(3, "x: y").await.unwrap();
    agent
        .until("the third start is counted", |state| state.restarts == 2)
        .await;
    pod.kill_container();

    // What somebody else wrote there stops nothing.
    fs::write(&kept, "nonsense").unwrap();
    pod.supervise();
    assert_eq!(pod.agent().await.state.restarts, 0);
    pod.wrote("cannot read what was counted before").await;
    pod.kill_container();
}
