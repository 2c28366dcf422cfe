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
