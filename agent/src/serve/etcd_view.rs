//! From etcd's answers to the report's view of it. Pure.

use proto::agent as wire;

use super::identity::Identity;
use super::poll::Polled;

/// What the report says of etcd after this answer; `before` is what it said before, as long as etcd has run on since.
/// `None` when etcd has not been heard since its last start.
#[must_use]
pub fn view(polled: &Polled, before: Option<&wire::Etcd>, identity: Option<&Identity>) -> Option<wire::Etcd> {
    let metrics = polled.metrics.as_ref();
    match (&polled.status, metrics) {
        (Ok(status), _) => Some(wire::Etcd {
            member_id: status.member_id.0,
            cluster_id: status.cluster_id.0,
            leader: status.leader.map_or(0, |id| id.0),
            term: status.term,
            commit_index: status.commit_index,
            applied_index: status.applied_index,
            is_learner: status.is_learner,
            db_size: status.db_size,
            db_size_in_use: status.db_size_in_use,
            version: status.version.clone(),
            alarms: alarms(&status.errors),
            serving: true,
            receiving_snapshot: metrics.is_some_and(|metrics| metrics.receiving_snapshot),
            revision: u64::try_from(status.revision).unwrap_or_default(),
        }),
        (Err(_), Some(metrics)) => {
            let before = before.cloned().unwrap_or_default();
            let member_id = metrics.member_id.or(identity.map(|identity| identity.member_id.0));
            Some(wire::Etcd {
                member_id: member_id.unwrap_or(before.member_id),
                cluster_id: identity.map_or(before.cluster_id, |identity| identity.cluster_id.0),
                // The page tells whether there is a leader, not which one, unless it is this member.
                leader: match (metrics.has_leader, metrics.is_leader) {
                    (true, true) => member_id.unwrap_or_default(),
                    (true, false) => before.leader,
                    (false, _) => 0,
                },
                term: before.term,
                commit_index: metrics.committed,
                applied_index: metrics.applied,
                is_learner: metrics.is_learner.unwrap_or(before.is_learner),
                db_size: metrics.db_size,
                db_size_in_use: metrics.db_size_in_use,
                version: before.version,
                alarms: before.alarms,
                serving: false,
                receiving_snapshot: metrics.receiving_snapshot,
                revision: before.revision,
            })
        }
        (Err(_), None) => before.map(|before| wire::Etcd {
            serving: false,
            ..before.clone()
        }),
    }
}

/// The names of the alarms in the errors of a Status. etcd writes `memberID:… alarm:NOSPACE`, and other sentences.
fn alarms(errors: &[String]) -> Vec<String> {
    let mut names: Vec<String> = errors
        .iter()
        .filter_map(|error| error.split("alarm:").nth(1))
        .map(|rest| {
            rest.split_whitespace()
                .next()
                .unwrap_or_default()
                .chars()
                .take(32)
                .collect()
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
#[path = "etcd_view_tests.rs"]
mod tests;
