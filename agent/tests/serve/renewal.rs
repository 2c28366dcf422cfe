//! A new image of the agent: the supervisor follows it, and etcd runs on.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::binaries;
use crate::support::cluster::{keys, seeded};
use crate::support::pod::Pod;
use crate::support::read::{nonce, pid, serves};
use crate::support::test;

/// What an older image has installed: the same program as another file, which runs.
fn install_another(pod: &Pod) -> PathBuf {
    let binary = pod.volume("run").join("etcd-agent");
    let new = pod.volume("run").join("another");
    fs::copy(binaries::agent(), &new).unwrap();
    let mut file = fs::File::options().append(true).open(&new).unwrap();
    file.write_all(b"of another build").unwrap();
    drop(file);
    // The old one may run.
    fs::rename(&new, &binary).unwrap();
    binary
}

/// The next start of the container will use the agent's own.
async fn in_place(binary: &Path) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while fs::read(binary).unwrap() != fs::read(binaries::agent()).unwrap() {
        assert!(
            Instant::now() < deadline,
            "{} is still of another build",
            binary.display()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn u19_the_supervisor_becomes_the_binary_of_a_new_agent_and_etcd_runs_on() {
    test::run(async |net, ca| {
        let mut pod = Pod::new(&net, &ca, "c-a", "3.6");
        let binary = install_another(&pod);
        pod.start_container_with(&binary);
        pod.start_agent();
        let operator = seeded(&pod, "t").await;
        // With this agent it was replaced before etcd's first start; the next one finds an etcd that runs.
        in_place(&binary).await;
        let before = operator.status().await;
        keys(&pod).await.put("k", "v", None).await.unwrap();

        pod.kill_agent();
        install_another(&pod);
        pod.start_agent();
        in_place(&binary).await;
        let after = pod.link().await.until("etcd serves", serves).await;
        assert_eq!(
            (pid(&after), nonce(&after)),
            (pid(&before), nonce(&before)),
            "etcd runs on"
        );
        assert_eq!(after.process.unwrap().restarts, 0);
        let log = pod.etcd_log();
        assert_eq!(log.matches("supervisor replaced").count(), 2, "{log}");
        // Nothing is done again with an agent of the same build.
        pod.kill_agent();
        pod.start_agent();
        pod.link().await.until("etcd serves", serves).await;
        assert_eq!(pod.etcd_log().matches("supervisor replaced").count(), 2);
    });
}
