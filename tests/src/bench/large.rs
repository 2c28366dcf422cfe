//! How fast a memory member comes back that held a large database, against etcd alone that copies one as large.

use std::{
    fs::File,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use etcd::{Access, Admin, testing::free_port};
use etcd_client::{Client, ConnectOptions};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DeleteParams;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{
    experiment::Readings,
    follow::Follow,
    stand::{self, Stand, is_whole},
};
use crate::{
    harness::spec,
    kube::{Binaries, Place},
};

/// What the database holds: 1 GiB.
const VALUES: usize = 1 << 14;
const VALUE_BYTES: usize = 1 << 16;
/// Writes after it, so many that etcd has made a snapshot since and keeps none of the large entries in its log: it is the
/// database that is copied.
const SMALL_WRITES: usize = 20_000;
/// Writes under way at once.
const AT_ONCE: usize = 32;
/// A member that has 1 GiB to copy on a busy machine.
const LIMIT: Duration = Duration::from_mins(5);
const DEADLINE: Duration = Duration::from_secs(30);
/// How often etcd alone is asked to promote its learner.
const ASK: Duration = Duration::from_millis(100);

const CLUSTER: &str = "large";

/// `replace-memory-1g`: from the deletion of its Pod until three vote, as a multiple of what etcd alone takes from
/// `MemberAdd` until the learner votes.
pub async fn run(stand: &Stand, run: usize) -> Result<Readings> {
    let replaced = Box::pin(replaced(stand, run)).await?;
    let alone = alone().await?;
    println!("replace-memory-1g: {replaced:.1} s; etcd alone copies it in {alone:.1} s");
    Ok(vec![("replace-memory-1g", replaced / alone)])
}

async fn replaced(stand: &Stand, run: usize) -> Result<f64> {
    let name = format!("{CLUSTER}-{run}");
    let large = json!({ "storage": { "size": "4Gi" } });
    let cluster = stand.form(&name, &spec::with(stand::memory(), &large)).await?;
    let members = cluster.status.context("a formed cluster has a status")?.members;
    let lost = members.get(run % 3).context("a formed cluster has three members")?;
    let pod = stand.pods().get(&lost.name).await?;
    let ip = pod
        .status
        .and_then(|status| status.pod_ip)
        .context("a member has an address")?;
    let forward = stand
        .world
        .stage
        .kube
        .forward(Place::Node(1), SocketAddr::new(ip.parse()?, 2379))?;
    fill(&format!("http://{}", forward.address())).await?;

    let mut follow = Follow::new(stand.clusters(), &name);
    let begin = Instant::now();
    stand.pods().delete(&lost.name, &DeleteParams::default()).await?;
    let (end, _) = follow
        .until("whole again", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_whole(cluster) && stand::has_new_id(cluster, lost))
        })
        .await?;
    stand.remove(&name).await?;
    Ok((end - begin).as_secs_f64())
}

async fn fill(endpoint: &str) -> Result<()> {
    let options = ConnectOptions::new().with_timeout(DEADLINE);
    let client = &Client::connect([endpoint], Some(options)).await?;
    let value = &vec![7_u8; VALUE_BYTES];
    let large = stream::iter(0..VALUES).map(|n| async move {
        let mut client = client.clone();
        client
            .put(format!("large/{n:06}"), value.as_slice(), None)
            .await
            .map(drop)
    });
    large.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let small = stream::iter(0..SMALL_WRITES).map(|n| async move {
        let mut client = client.clone();
        client.put("small", n.to_string(), None).await.map(drop)
    });
    Ok(small.buffer_unordered(AT_ONCE).try_collect::<()>().await?)
}

/// Seconds that etcd alone takes, in memory too.
async fn alone() -> Result<f64> {
    let memory = tempfile::tempdir_in("/dev/shm").context("no memory-backed folder")?;
    let mut first = Alone::new("first")?;
    first.start(&memory, "new", &format!("first={}", first.peer))?;
    let admin = Admin::new(&first.client, &Access::Plain, DEADLINE).await?;
    let begin = Instant::now();
    while let Err(error) = admin.status().await {
        ensure!(begin.elapsed() < DEADLINE, "etcd alone does not start: {error}");
        sleep(ASK).await;
    }
    fill(&first.client).await?;

    let mut second = Alone::new("second")?;
    let begin = Instant::now();
    let (id, _) = admin.add_learner(std::slice::from_ref(&second.peer)).await?;
    second.start(
        &memory,
        "existing",
        &format!("first={},second={}", first.peer, second.peer),
    )?;
    // It refuses until the learner has the leader's log.
    while let Err(error) = admin.promote(id).await {
        ensure!(begin.elapsed() < LIMIT, "etcd alone: {error}");
        sleep(ASK).await;
    }
    Ok(begin.elapsed().as_secs_f64())
}

/// An etcd without an operator. It ends with this.
struct Alone {
    name: &'static str,
    peer: String,
    client: String,
    child: Option<Child>,
}

impl Alone {
    fn new(name: &'static str) -> Result<Self> {
        let [peer, client] = [free_port()?, free_port()?].map(|port| format!("http://127.0.0.1:{port}"));
        Ok(Self {
            name,
            peer,
            client,
            child: None,
        })
    }

    fn start(&mut self, folder: &TempDir, state: &str, initial: &str) -> Result<()> {
        let log = File::create(folder.path().join(format!("{}.log", self.name)))?;
        let child = Command::new(Binaries::etcd(spec::VERSION)?)
            .args([
                "--name",
                self.name,
                "--initial-cluster-state",
                state,
                "--initial-cluster",
                initial,
            ])
            .args([
                "--initial-advertise-peer-urls",
                &self.peer,
                "--listen-peer-urls",
                &self.peer,
            ])
            .args([
                "--advertise-client-urls",
                &self.client,
                "--listen-client-urls",
                &self.client,
            ])
            .arg("--data-dir")
            .arg(folder.path().join(self.name))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
