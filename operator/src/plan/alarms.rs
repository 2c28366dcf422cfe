//! What etcd and the data volumes raise alarm about: CORRUPT, NOSPACE, a database near its quota, a full volume.

use crds::conditions::{self, ConditionType, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proto::{
    exit::DISK_FULL,
    room::{FULL_BYTES, FULL_INODES},
};

use super::{
    divergence,
    facts::{Medium, Member},
    report::ProcessState,
    step::{Plan, Step, WaitReason},
    view::View,
    volumes,
};

/// `quota-backend-bytes` when nothing is said (etcd-facts §3).
const DEFAULT_QUOTA: i64 = 2 << 30;
/// Hundredths of the quota from which on it is said ...
const NEAR: i64 = 95;
/// ... and below which it is said no more.
const NEAR_NO_MORE: i64 = 90;

/// A member has told of this alarm.
#[must_use]
pub fn stands(view: &View, alarm: &str) -> bool {
    let told = |member: &Member| {
        let etcd = member.link.live().and_then(|report| report.etcd.as_ref());
        etcd.is_some_and(|etcd| etcd.alarms.iter().any(|told| told == alarm))
    };
    view.facts.members.iter().any(told)
}

/// Says which volumes are full. No member is replaced for that: its data are good, and a new one would not fit either.
pub(super) fn full_volumes(view: &View, plan: &mut Plan) {
    for member in &view.facts.members {
        if let Some((_, message)) = full_volume(view, member) {
            plan.wait(WaitReason::DiskFull, Some(&member.name), message);
        }
    }
}

/// Why a member's volume is full, and what to do, when it is.
#[must_use]
pub(super) fn full_volume(view: &View, member: &Member) -> Option<(Reason, String)> {
    let report = member.link.last()?;
    let disk = &report.disk;
    let ended = report.process.exit.as_ref().is_some_and(|exit| exit.class == DISK_FULL)
        && matches!(report.process.state, ProcessState::Held | ProcessState::Stopped);
    let no_files = disk.total_inodes > 0 && disk.free_inodes < FULL_INODES;
    let no_bytes = disk.total_bytes > 0 && disk.free_bytes < FULL_BYTES;
    if !(ended || no_files || no_bytes) {
        return None;
    }
    let (name, mib) = (&member.name, disk.total_bytes >> 20);
    let what = if no_files {
        format!(
            "no more files can be made on the volume of {name} (its file system has {})",
            disk.total_inodes
        )
    } else {
        format!("the volume of {name} is full ({mib} MiB)")
    };
    let then = match (ended, view.facts.cluster.spec.medium) {
        (true, Medium::Disk) => ", so its etcd has ended: let spec.storage.size grow; etcd starts again by itself",
        (false, Medium::Disk) => ": let spec.storage.size grow",
        (_, Medium::Memory) => ": it is in memory and keeps its size (spec.storage.size) as long as its Pod lives",
    };
    let reason = if no_files {
        Reason::NoInodesLeft
    } else {
        Reason::NoSpaceLeft
    };
    Some((reason, format!("{what}{then}")))
}

/// Sees to what etcd itself has raised. Not while membership changes.
pub(super) fn answer(view: &View, via: &str, plan: &mut Plan) {
    let Some(since) = view.facts.hashes.corrupt_since.filter(|_| stands(view, "CORRUPT")) else {
        return;
    };
    // The alarm names a member, and often the wrong one (etcd-facts §3): the hashes tell.
    if divergence::are_equal_since(view, since) {
        plan.step(Step::DisarmCorrupt { via: via.to_owned() });
    }
}

/// Says what etcd itself has raised.
pub(super) fn say(view: &View, plan: &mut Plan) {
    if let Some(message) = corrupt(view) {
        plan.wait(WaitReason::Alarm, None, message);
    }
    if stands(view, "NOSPACE") {
        plan.wait(WaitReason::Alarm, None, no_space(view));
    }
}

fn corrupt(view: &View) -> Option<String> {
    stands(view, "CORRUPT").then(|| {
        "etcd has raised a CORRUPT alarm and refuses writes: the members' data are compared, one in the minority is \
         replaced, and the alarm is disarmed once all hold the same"
            .to_owned()
    })
}

fn no_space(view: &View) -> String {
    format!(
        "etcd has raised a NOSPACE alarm and refuses writes: the database has reached its quota of {} MiB. Delete what is \
         not needed, compact, defragment each member, then disarm the alarm; or raise spec.options.quotaBackendBytes",
        quota(view).unwrap_or(0) >> 20
    )
}

/// `None`: there is none.
fn quota(view: &View) -> Option<i64> {
    match view.facts.cluster.spec.options.quota_backend_bytes {
        0 => Some(DEFAULT_QUOTA),
        given => Some(given).filter(|given| *given > 0),
    }
}

fn near_quota(view: &View, old: &[Condition]) -> Option<String> {
    let quota = quota(view)?;
    let part = if conditions::is_true(old, ConditionType::QuotaPressure) {
        NEAR_NO_MORE
    } else {
        NEAR
    };
    let sizes = view.facts.members.iter().filter_map(|member| {
        let size = member.link.live()?.etcd.as_ref()?.db_size;
        (size / part >= quota / 100).then_some(member.name.as_str())
    });
    let large: Vec<&str> = sizes.collect();
    (!large.is_empty()).then(|| {
        format!(
            "the database of {} is about to reach its quota of {} MiB, and then writes are refused: delete what is not \
             needed, compact and defragment, or raise spec.options.quotaBackendBytes",
            large.join(", "),
            quota >> 20
        )
    })
}

/// The conditions of the cluster; without a message it is not so.
pub(super) fn conditions(view: &View, old: &[Condition]) -> [(ConditionType, Reason, Option<String>); 4] {
    let mut full: Vec<(Reason, String)> = Vec::new();
    full.extend(view.facts.members.iter().filter_map(|member| full_volume(view, member)));
    let disk = full.first().map_or(Reason::NoSpaceLeft, |(reason, _)| *reason);
    let words: Vec<String> = full.into_iter().map(|(_, message)| message).collect();
    let (pressure, quota) = if stands(view, "NOSPACE") {
        (Reason::NoSpaceAlarm, Some(no_space(view)))
    } else {
        (Reason::QuotaNearlyReached, near_quota(view, old))
    };
    let (differs, data) = match (divergence::condition(view), corrupt(view)) {
        (Some((reason, message)), _) => (reason, Some(message)),
        (None, alarm) => (Reason::CorruptAlarm, alarm),
    };
    [
        (ConditionType::DataDiverged, differs, data),
        (
            ConditionType::DiskFull,
            disk,
            (!words.is_empty()).then(|| words.join("; ")),
        ),
        (ConditionType::QuotaPressure, pressure, quota),
        (
            ConditionType::VolumeExpansionBlocked,
            Reason::ExpansionRefused,
            volumes::blocked(view),
        ),
    ]
}
