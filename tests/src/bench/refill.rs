//! How fast the disk of one member is filled again that was emptied or damaged.

use anyhow::{Context, Result};
use crds::{EtcdCluster, MemberRole, etcdcluster::MemberSummary};
use kube::{ResourceExt, api::DeleteParams};
use tokio::time::Instant;

use super::{
    experiment::Readings,
    follow::Follow,
    stand::{self, LIMIT, Stand, is_whole},
};
use crate::harness::{Process, empty, flip_in_log};

const CLUSTER: &str = "refill";

/// `refill-empty-disk`: all of a member's volume is deleted while its etcd runs, and its Pod with it, the leader's at times.
pub async fn empty_disk(stand: &Stand, run: usize) -> Result<Readings> {
    let members = formed(stand).await?;
    let lost = members.get(run % 3).context("a formed cluster has three members")?;
    let volume = supervisor(stand, lost).await?.path(proto::pod::DATA_VOLUME);

    let mut follow = Follow::new(stand.clusters(), CLUSTER);
    let begin = Instant::now();
    empty(&volume)?;
    stand.pods().delete(&lost.name, &DeleteParams::default()).await?;
    let seconds = filled_again(&mut follow, lost, begin).await?;
    Ok(vec![("refill-empty-disk", seconds)])
}

/// `refill-wal-damage`: a byte of a follower's log is flipped, and its etcd is killed.
pub async fn wal_damage(stand: &Stand, run: usize) -> Result<Readings> {
    let members = formed(stand).await?;
    let mut followers = members.iter().filter(|member| member.role != MemberRole::Leader);
    let damaged = followers.nth(run % 2).context("a formed cluster has two followers")?;
    let volume = supervisor(stand, damaged).await?.path(proto::pod::DATA_VOLUME);
    let etcd = Process::etcd(&stand.pods().get(&damaged.name).await?.uid().unwrap_or_default())?;
    // What is flipped must not be written over by what etcd has not written yet.
    etcd.stop()?;
    flip_in_log(&volume)?;

    let mut follow = Follow::new(stand.clusters(), CLUSTER);
    let begin = Instant::now();
    etcd.kill()?;
    let seconds = filled_again(&mut follow, damaged, begin).await?;
    Ok(vec![("refill-wal-damage", seconds)])
}

/// The members of the cluster, whole.
async fn formed(stand: &Stand) -> Result<Vec<MemberSummary>> {
    let cluster = match stand.clusters().get_opt(CLUSTER).await? {
        Some(cluster) => cluster,
        None => stand.form(CLUSTER, &stand::disk()).await?,
    };
    Ok(cluster.status.context("a formed cluster has a status")?.members)
}

async fn supervisor(stand: &Stand, member: &MemberSummary) -> Result<Process> {
    Process::supervisor(&stand.pods().get(&member.name).await?.uid().unwrap_or_default())
}

/// Seconds until the cluster is whole, with that member under a new ID.
async fn filled_again(follow: &mut Follow<EtcdCluster>, lost: &MemberSummary, begin: Instant) -> Result<f64> {
    let (end, _) = follow
        .until("whole again", LIMIT, |cluster| {
            cluster.is_some_and(|cluster| is_whole(cluster) && stand::has_new_id(cluster, lost))
        })
        .await?;
    Ok((end - begin).as_secs_f64())
}
