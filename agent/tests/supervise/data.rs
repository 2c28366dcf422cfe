//! What a power cut leaves on the disk.

use std::fs::{self, OpenOptions};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Pod, etcd, kill};

#[tokio::test]
async fn d04_a_torn_wal_is_repaired_by_etcd_itself() {
    for minor in ["3.5", "3.6", "3.7"] {
        let mut pod = Pod::new(&etcd(minor));
        let mut agent = pod.seeded().await;
        let mut client = pod.client().await;
        let pid = agent.state.pid;
        // Killed under load, so that the last records are in the WAL and not in the db yet.
        let load = tokio::spawn(async move {
            let mut number = 0;
            while client.put(format!("key-{number}"), vec![b'x'; 500], None).await.is_ok() {
                number += 1;
            }
            number
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        kill(pid, Signal::KILL);
        assert!(load.await.unwrap() > 10);
        agent.until_ended().await;
        agent.stop("the power is cut").await.unwrap();

        let wal = fs::read_dir(pod.data().join("member/wal"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "wal"))
            .unwrap();
        let content = fs::read(&wal).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap();
        OpenOptions::new()
            .write(true)
            .open(&wal)
            .unwrap()
            .set_len(end as u64 - 50)
            .unwrap();

        agent.start_repeatable(&pod.repeatable()).await.unwrap();
        agent.until("etcd serves", |state| state.served).await;
        pod.wrote("repaired WAL").await;
        let kept = pod.client().await.get("key-5", None).await.unwrap();
        assert_eq!(kept.count(), 1, "{minor}");
    }
}
