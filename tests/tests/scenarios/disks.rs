//! Disks that are emptied, damaged, exchanged or cannot be read.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use crds::EtcdMember;
use tests::harness::{
    Cluster, FORMATION, Outcome, Process, empty, flip_in_log, holds, log_file, overwrite, record_in_log, scenario,
    spec, until,
};

/// How a damage is made on a data volume.
type Damage = fn(&Path) -> Result<()>;

/// The same member, in the same Pod, with a new ID and with all data. A busy machine has its share in it: what it
/// should take is measured elsewhere.
const REFILL: Duration = Duration::from_mins(1);

async fn id_of(cluster: &Cluster<'_>, member: &str) -> Result<String> {
    let listed = cluster.listed().await?;
    let found = listed.into_iter().find(|listed| listed.name == member);
    Ok(found.context("etcd does not list it")?.id)
}

fn directory_of(member: &EtcdMember) -> Option<(String, String)> {
    let directory = member.status.as_ref()?.data_directory.as_ref()?;
    Some((format!("{:?}", directory.state), directory.detail.clone()))
}

/// Damages the directory of a member whose etcd is killed for it, and waits until it is filled again. `words`: what its status says of it, if
/// it is seen.
async fn heals(cluster: &Cluster<'_>, member: &str, what: &str, damage: Damage, words: &[&str]) -> Result<()> {
    let key = format!("before {what}");
    cluster.etcd().await?.put(&key, "1").await?;
    let (id, pod) = (id_of(cluster, member).await?, cluster.pod_uid(member).await?);
    let (supervisor, etcd) = (Process::supervisor(&pod)?, Process::etcd(&pod)?);
    let volume = cluster.mounted_volume(member).await?;
    let begun = Instant::now();
    etcd.stop()?;
    damage(&volume)?;
    etcd.kill()?;
    let mut told = Vec::new();
    let mut set_aside = false;
    until(&format!("{member} is filled again after {what}"), REFILL, async || {
        set_aside |= fs::read_dir(volume.join("etcd-agent/quarantine")).is_ok_and(|entries| entries.count() > 0);
        if let Some(directory) = directory_of(&cluster.member(member).await?)
            && !told.contains(&directory)
        {
            told.push(directory);
        }
        ensure!(id_of(cluster, member).await? != id, "it has its old ID");
        let mut etcd = cluster.etcd_at(member).await?;
        etcd.get(&key).await?.context("its data are not there yet")
    })
    .await?;
    println!(
        "{what}: filled again after {:.1} s; told: {told:?}",
        begun.elapsed().as_secs_f32()
    );
    let word = |word: &&str| {
        told.iter()
            .any(|(state, detail)| state.contains(*word) || detail.contains(*word))
    };
    // It may be set aside before anybody has looked at the status; then that it was set aside tells that it was found.
    let seen = told.iter().any(|(state, _)| state == "Damaged");
    ensure!(
        !seen || words.iter().all(word),
        "{what}: {words:?} were not told, but {told:?}"
    );
    ensure!(set_aside || words.is_empty(), "{what}: nothing was set aside");
    cluster.settled(3).await?;
    ensure!(
        cluster.pod_uid(member).await? == pod && supervisor.runs(),
        "{what}: it has another Pod"
    );
    until("what was set aside goes once the member votes", FORMATION, async || {
        let left = fs::read_dir(volume.join("etcd-agent/quarantine")).map_or(0, Iterator::count);
        ensure!(left == 0, "D12: {left} are kept");
        Ok(())
    })
    .await
}

/// As a file system that was made anew (D09).
fn anew(volume: &Path) -> Result<()> {
    empty(volume)?;
    Ok(fs::create_dir(volume.join("lost+found"))?)
}

fn zero_a_sector(volume: &Path) -> Result<()> {
    let wal = log_file(volume)?;
    overwrite(&wal, record_in_log(&wal)? & !511, &[0; 512])
}

fn break_a_length(volume: &Path) -> Result<()> {
    let wal = log_file(volume)?;
    overwrite(&wal, record_in_log(&wal)? + 4, &[1])
}

fn db(volume: &Path) -> PathBuf {
    volume.join("member/snap/db")
}

#[test]
fn d01_d02_d09_a_disk_that_was_emptied_is_filled_again_in_the_same_pod_under_a_new_id() -> Outcome {
    scenario("d01", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let seed = cluster.status().await?.cluster_id;
        for member in cluster.member_names().await?.iter().take(2) {
            heals(&cluster, member, "an emptied disk", anew, &[]).await?;
        }
        ensure!(
            cluster.status().await?.cluster_id == seed,
            "D02: another cluster was begun"
        );
        Ok(())
    })
}

#[test]
fn d03_d31_d12_a_damaged_log_is_found_before_etcd_starts_on_it_and_filled_again() -> Outcome {
    scenario("d03", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let members = cluster.member_names().await?;
        heals(
            &cluster,
            &members[0],
            "a flipped byte of the log",
            flip_in_log,
            &["Damaged", "WAL"],
        )
        .await?;
        heals(
            &cluster,
            &members[1],
            "a sector of zeros in the log",
            zero_a_sector,
            &["Damaged", "WAL"],
        )
        .await?;
        heals(
            &cluster,
            &members[2],
            "a broken length in the log",
            break_a_length,
            &["Damaged", "WAL"],
        )
        .await
    })
}

#[test]
fn d05_a_damaged_db_is_named_and_filled_again() -> Outcome {
    scenario("d05", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let members = cluster.member_names().await?;
        let cut: Damage = |volume| Ok(fs::OpenOptions::new().write(true).open(db(volume))?.set_len(5 * 4096)?);
        heals(&cluster, &members[0], "a db that was cut", cut, &["Damaged", "shorter"]).await?;
        heals(
            &cluster,
            &members[1],
            "meta pages of zeros",
            |volume| overwrite(&db(volume), 0, &[0; 8192]),
            &["Damaged", "meta pages"],
        )
        .await?;
        heals(
            &cluster,
            &members[2],
            "a db that is gone",
            |volume| Ok(fs::remove_file(db(volume))?),
            &["Damaged", "missing"],
        )
        .await
    })
}

/// Waits until the member's status tells this of its directory.
async fn told(cluster: &Cluster<'_>, member: &str, state: &str) -> Result<String> {
    until(&format!("{member} says {state}"), REFILL, async || {
        match directory_of(&cluster.member(member).await?) {
            Some((known, detail)) if known == state => Ok(detail),
            other => bail!("it says {other:?}"),
        }
    })
    .await
}

#[test]
fn d06_the_only_member_with_a_damaged_log_is_held_and_nothing_of_it_is_touched() -> Outcome {
    scenario("d06", async |world| {
        let cluster = world.create("c", &spec::disk(1)).await?;
        cluster.settled(1).await?;
        let member = cluster.member_names().await?.remove(0);
        let (pod, volume) = (cluster.pod_uid(&member).await?, cluster.mounted_volume(&member).await?);
        let etcd = Process::etcd(&pod)?;
        etcd.stop()?;
        flip_in_log(&volume)?;
        etcd.kill()?;
        told(&cluster, &member, "Damaged").await?;
        let log = log_file(&volume)?;
        let before = fs::metadata(&log)?.modified()?;
        holds(
            "nothing is touched and etcd is not started",
            Duration::from_secs(10),
            async || {
                ensure!(Process::etcd(&pod).is_err(), "etcd runs");
                ensure!(fs::metadata(&log)?.modified()? == before, "the log was written to");
                ensure!(!volume.join("etcd-agent/quarantine").exists(), "it was set aside");
                Ok(())
            },
        )
        .await
    })
}

/// Copies all of a folder, into an empty one.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let status = Command::new("cp")
        .args(["-a", "--sparse=always"])
        .arg(from.join("."))
        .arg(to)
        .status()?;
    ensure!(status.success(), "cp from {} to {}", from.display(), to.display());
    Ok(())
}

/// Stands still: nobody of the Pod does anything while its disk is changed.
struct Frozen {
    supervisor: Process,
    agent: Process,
    volume: PathBuf,
}

impl Frozen {
    async fn new(cluster: &Cluster<'_>, member: &str) -> Result<Self> {
        let pod = cluster.pod_uid(member).await?;
        let frozen = Self {
            supervisor: Process::supervisor(&pod)?,
            agent: Process::agent(&pod)?,
            volume: cluster.mounted_volume(member).await?,
        };
        frozen.agent.stop()?;
        frozen.supervisor.stop()?;
        if let Ok(etcd) = Process::etcd(&pod) {
            etcd.kill()?;
        }
        Ok(frozen)
    }

    /// Takes the content of `from` in place of its own.
    fn take(&self, from: &Path) -> Result<()> {
        empty(&self.volume)?;
        copy(from, &self.volume)
    }

    fn resume(self) -> Result<()> {
        self.supervisor.go_on()?;
        self.agent.go_on()
    }
}

#[test]
fn d07_d08_disks_of_others_are_held_untouched_and_serve_again_once_they_are_back() -> Outcome {
    scenario("d07", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        let other = world.create("other", &spec::disk(1)).await?;
        cluster.settled(3).await?;
        other.settled(1).await?;
        let before = cluster.listed().await?;
        let members = cluster.member_names().await?;
        let stranger = other.member_names().await?.remove(0);
        let aside = tempfile::tempdir()?;

        // D08: the disk of another cluster.
        let own = aside.path().join("own");
        let theirs = Frozen::new(&other, &stranger).await?;
        let frozen = Frozen::new(&cluster, &members[0]).await?;
        copy(&frozen.volume, &own)?;
        frozen.take(&theirs.volume)?;
        theirs.resume()?;
        frozen.resume()?;
        told(&cluster, &members[0], "Foreign").await?;
        holds(
            "the quorum stands, and nobody replaces it",
            Duration::from_secs(5),
            async || {
                ensure!(cluster.listed().await? == before, "the member list changed");
                Ok(())
            },
        )
        .await?;
        let frozen = Frozen::new(&cluster, &members[0]).await?;
        frozen.take(&own)?;
        frozen.resume()?;
        cluster.settled(3).await?;

        // D07: two disks exchanged.
        let (a, b) = (aside.path().join("a"), aside.path().join("b"));
        let pair = (
            Frozen::new(&cluster, &members[0]).await?,
            Frozen::new(&cluster, &members[1]).await?,
        );
        copy(&pair.0.volume, &a)?;
        copy(&pair.1.volume, &b)?;
        pair.0.take(&b)?;
        pair.1.take(&a)?;
        pair.0.resume()?;
        pair.1.resume()?;
        told(&cluster, &members[0], "Foreign").await?;
        told(&cluster, &members[1], "Foreign").await?;
        let pair = (
            Frozen::new(&cluster, &members[0]).await?,
            Frozen::new(&cluster, &members[1]).await?,
        );
        pair.0.take(&a)?;
        pair.1.take(&b)?;
        pair.0.resume()?;
        pair.1.resume()?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        Ok(())
    })
}

#[test]
fn d10_a_directory_that_cannot_be_read_is_tried_again_and_never_taken_for_empty() -> Outcome {
    scenario("d10", async |world| {
        let cluster = world.create("c", &spec::disk(3)).await?;
        cluster.settled(3).await?;
        let before = cluster.listed().await?;
        let member = cluster.member_names().await?.remove(0);
        let folder = cluster.mounted_volume(&member).await?.join("member");
        let etcd = cluster.etcd_process(&member).await?;
        let mode = fs::metadata(&folder)?.permissions();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o000))?;
        etcd.kill()?;
        let detail = told(&cluster, &member, "Unreadable").await?;
        ensure!(detail.contains("denied"), "{detail}");
        holds("nobody replaces it", Duration::from_secs(8), async || {
            ensure!(cluster.listed().await? == before, "the member list changed");
            Ok(())
        })
        .await?;
        fs::set_permissions(&folder, mode)?;
        cluster.settled(3).await?;
        ensure!(cluster.listed().await? == before, "the member list changed");
        Ok(())
    })
}
