//! The volumes of a member's Pod.

use crds::{Storage, StorageMedium, names};
use k8s_openapi::{
    api::core::v1::{EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, SecretVolumeSource, Volume, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};
use proto::pod::{AGENT_TLS, DATA_VOLUME, RUN_VOLUME};

use super::super::agent_secret_name;

const DATA: &str = "data";
const RUN: &str = "run";
const TLS: &str = "agent-tls";

/// Holds the binary (twice while a newer one is put in place), the socket and etcd's configuration.
const RUN_SIZE: &str = "64Mi";

pub(super) fn all(member: &str, storage: &Storage) -> Vec<Volume> {
    let data = match storage.medium {
        StorageMedium::Disk => Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: names::member_claim(member),
                read_only: None,
            }),
            ..named(DATA)
        },
        StorageMedium::Memory => Volume {
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".into()),
                size_limit: Some(storage.size.clone()),
            }),
            ..named(DATA)
        },
    };
    let run = Volume {
        empty_dir: Some(EmptyDirVolumeSource {
            medium: None,
            size_limit: Some(Quantity(RUN_SIZE.into())),
        }),
        ..named(RUN)
    };
    let tls = Volume {
        secret: Some(SecretVolumeSource {
            secret_name: Some(agent_secret_name(member)),
            // The key is for the one user of the Pod, by its group.
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..named(TLS)
    };
    vec![data, run, tls]
}

fn named(name: &str) -> Volume {
    Volume {
        name: name.into(),
        ..Volume::default()
    }
}

pub(super) fn mount_run() -> VolumeMount {
    mount(RUN, RUN_VOLUME, false)
}

pub(super) fn mount_data(read_only: bool) -> VolumeMount {
    mount(DATA, DATA_VOLUME, read_only)
}

pub(super) fn mount_tls() -> VolumeMount {
    mount(TLS, AGENT_TLS, true)
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
