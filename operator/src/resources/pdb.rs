//! The `PodDisruptionBudget` of a cluster.

use crds::{EtcdCluster, labels, names::ClusterName};
use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use super::metadata::of_cluster;

/// Voters that an eviction must leave: the quorum of the larger of what is and what is to be. `None` at zero voters,
/// when a budget would only block drains.
#[must_use]
pub fn min_available(voters: u32, target: u32) -> Option<u32> {
    (voters > 0).then(|| voters.max(target) / 2 + 1)
}

/// The budget over voters; `None`: there must be none.
#[must_use]
pub fn pod_disruption_budget(
    cluster: &EtcdCluster,
    name: &ClusterName,
    voters: u32,
    target: u32,
) -> Option<PodDisruptionBudget> {
    let min_available = min_available(voters, target)?;
    let selector = [(labels::CLUSTER, name.as_str()), (labels::ROLE, labels::ROLE_VOTER)];
    Some(PodDisruptionBudget {
        metadata: of_cluster(cluster, name.pod_disruption_budget()),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(i32::try_from(min_available).unwrap_or(i32::MAX))),
            selector: Some(LabelSelector {
                match_labels: Some(selector.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn an_eviction_leaves_the_quorum_of_the_larger_size() {
        let rows = [
            (1, 3, 2),
            (3, 3, 2),
            (3, 5, 3),
            (5, 3, 3),
            (2, 1, 2),
            (1, 1, 1),
            (7, 7, 4),
            (3, 0, 2),
        ];
        for (voters, target, wanted) in rows {
            assert_eq!(min_available(voters, target), Some(wanted), "{voters} of {target}");
        }
        assert_eq!(min_available(0, 3), None);
    }

    #[test]
    fn the_budget_covers_voters_only() {
        let (cluster, name) = fixtures::cluster();
        insta::assert_yaml_snapshot!(pod_disruption_budget(&cluster, &name, 3, 3).unwrap());
    }
}
