//! The `PersistentVolumeClaim` of a member.

use std::collections::BTreeMap;

use crds::{EtcdMember, Storage, StorageMedium, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements};
use kube::ResourceExt;

use super::metadata::of_member;

/// `data-<m>`, owned by the member. `None` for a member in memory.
#[must_use]
pub fn claim(member: &EtcdMember) -> Option<PersistentVolumeClaim> {
    let Storage {
        size,
        medium,
        storage_class_name,
    } = &member.spec.storage;
    match medium {
        StorageMedium::Memory => None,
        StorageMedium::Disk => Some(PersistentVolumeClaim {
            metadata: of_member(member, names::member_claim(&member.name_any()), BTreeMap::new()),
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".into()]),
                resources: Some(VolumeResourceRequirements {
                    requests: Some([("storage".to_owned(), size.clone())].into()),
                    ..VolumeResourceRequirements::default()
                }),
                storage_class_name: storage_class_name.clone(),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn the_claim_of_a_disk_member() {
        insta::assert_yaml_snapshot!(claim(&fixtures::full_member()).unwrap());
    }

    #[test]
    fn a_member_in_memory_has_no_claim() {
        assert_eq!(claim(&fixtures::memory_member()), None);
    }
}
