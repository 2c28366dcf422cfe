//! The `StorageClass` `local`: a volume is a tmpfs of exactly the size asked for, on the node that its Pod was scheduled to.
//! `shared`: the same, and every node can have it, as with a disk in a network.
//!
//! The machine makes and holds the mounts, so a volume outlives its node's power failure, as a disk does.

use std::{ffi::CString, fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, future::join};
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{Controller, controller::Action, watcher},
};
use rustix::mount::{MountFlags, mount, mount_remount};
use serde_json::json;

use super::{machine::detach, paths::Folder};

const PROVISIONER: &str = "test.local/tmpfs";
const NODE_ANNOTATION: &str = "volume.kubernetes.io/selected-node";
/// Parameter of a class: `"true"` makes volumes that any node can have.
const MOVABLE: &str = "movable";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

struct Provisioner {
    client: Client,
    folder: Folder,
}

/// Provisions, grows and reclaims volumes for as long as the cluster lives.
pub(super) async fn run(client: Client, folder: Folder) -> Result<()> {
    let claims = Controller::new(
        Api::<PersistentVolumeClaim>::all(client.clone()),
        watcher::Config::default(),
    );
    let volumes = Controller::new(Api::<PersistentVolume>::all(client.clone()), watcher::Config::default());
    let provisioner = Arc::new(Provisioner { client, folder });
    let claims = claims.run(
        async |claim, provisioner: Arc<Provisioner>| provisioner.claim(&claim).await.map_err(Failed),
        again_soon,
        provisioner.clone(),
    );
    let volumes = volumes.run(
        async |volume, provisioner: Arc<Provisioner>| provisioner.volume(&volume).await.map_err(Failed),
        again_soon,
        provisioner,
    );
    join(claims.for_each(async |_| ()), volumes.for_each(async |_| ())).await;
    bail!("the volume provisioner ended")
}

/// What a reconciliation failed with, as the controller wants it.
#[derive(Debug)]
struct Failed(anyhow::Error);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Failed {}

// The controller hands it over as it is.
#[allow(clippy::needless_pass_by_value)]
fn again_soon<K: ResourceExt>(object: Arc<K>, error: &Failed, _: Arc<Provisioner>) -> Action {
    eprintln!("volume provisioner: {}: {error}", object.name_any());
    Action::requeue(Duration::from_millis(500))
}

impl Provisioner {
    async fn claim(&self, claim: &PersistentVolumeClaim) -> Result<Action> {
        let spec = claim.spec.as_ref().context("the claim has no spec")?;
        let request = spec
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref()?.get("storage"));
        let (Some(class), Some(request)) = (&spec.storage_class_name, request) else {
            return Ok(Action::await_change());
        };
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Action::await_change());
        }
        if let Some(volume) = &spec.volume_name {
            self.grow(claim, volume, request).await?;
        } else if let Some(node) = claim.annotations().get(NODE_ANNOTATION) {
            self.provision(claim, class, node, request).await?;
        }
        Ok(Action::await_change())
    }

    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        class: &str,
        node: &str,
        request: &Quantity,
    ) -> Result<()> {
        let Some(class) = Api::<StorageClass>::all(self.client.clone()).get_opt(class).await? else {
            return Ok(());
        };
        if class.provisioner != PROVISIONER {
            return Ok(());
        }
        let name = format!("pvc-{}", claim.uid().context("the claim has no UID")?);
        let path = self.folder.volumes().join(&name);
        let size = bytes(request)?;
        if !path.exists() {
            fs::create_dir(&path)?;
            make(&path, size)?;
        }
        let parameters = class.parameters.as_ref();
        let movable = parameters.is_some_and(|all| all.get(MOVABLE).is_some_and(|value| value == "true"));
        let where_to_use = if movable {
            json!({ "key": "kubernetes.io/hostname", "operator": "Exists" })
        } else {
            json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] })
        };
        let volume: PersistentVolume = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": { PROVISIONED_BY: PROVISIONER } },
            "spec": {
                "capacity": { "storage": request },
                "accessModes": claim.spec.as_ref().and_then(|spec| spec.access_modes.clone()),
                "persistentVolumeReclaimPolicy": class.reclaim_policy,
                "storageClassName": class.name_any(),
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": claim.namespace(), "name": claim.name_any(), "uid": claim.uid(),
                },
                "local": { "path": path },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [where_to_use] }]}},
            },
        }))?;
        match Api::all(self.client.clone())
            .create(&PostParams::default(), &volume)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn grow(&self, claim: &PersistentVolumeClaim, volume: &str, request: &Quantity) -> Result<()> {
        let volumes = Api::<PersistentVolume>::all(self.client.clone());
        let Some(found) = volumes.get_opt(volume).await?.filter(is_ours) else {
            return Ok(());
        };
        let capacity = found
            .spec
            .as_ref()
            .and_then(|spec| spec.capacity.as_ref()?.get("storage"));
        let wanted = bytes(request)?;
        if capacity.map(bytes).transpose()?.is_some_and(|size| size < wanted) {
            mount_remount(
                self.folder.volumes().join(volume),
                MountFlags::empty(),
                options(wanted)?,
            )?;
            let grown = json!({ "spec": { "capacity": { "storage": request } } });
            volumes
                .patch(volume, &PatchParams::default(), &Patch::Merge(grown))
                .await?;
            // The kubelet would say so too, at its next look at a Pod that mounts it.
            let claims = Api::<PersistentVolumeClaim>::namespaced(
                self.client.clone(),
                &claim.namespace().context("the claim has no namespace")?,
            );
            let grown = json!({ "status": { "capacity": { "storage": request } } });
            claims
                .patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(grown))
                .await?;
        }
        Ok(())
    }

    async fn volume(&self, volume: &PersistentVolume) -> Result<Action> {
        let released = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released");
        let policy = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if is_ours(volume) && released && policy == Some("Delete") {
            let path = self.folder.volumes().join(volume.name_any());
            if path.exists() {
                detach(&path)?;
                // Not only the folder: a Pod of a node whose mount was gone may have written beneath it.
                fs::remove_dir_all(&path)?;
            }
            let volumes = Api::<PersistentVolume>::all(self.client.clone());
            match volumes.delete(&volume.name_any(), &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.reason == "NotFound" => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Action::await_change())
    }
}

/// Puts an empty disk of the same size in a volume's place.
pub(super) fn replace(folder: &Folder, volume: &str) -> Result<()> {
    let path = folder.volumes().join(volume);
    let usage = rustix::fs::statvfs(&path).with_context(|| format!("there is no volume {volume}"))?;
    detach(&path)?;
    make(&path, usage.f_blocks * usage.f_frsize)
}

fn make(path: &PathBuf, size: u64) -> Result<()> {
    mount(
        "volume",
        path,
        "tmpfs",
        MountFlags::empty(),
        Some(options(size)?.as_c_str()),
    )
    .with_context(|| format!("cannot mount a volume of {size} bytes at {}", path.display()))
}

fn options(size: u64) -> Result<CString> {
    Ok(CString::new(format!("size={size},mode=0755"))?)
}

fn is_ours(volume: &PersistentVolume) -> bool {
    volume
        .annotations()
        .get(PROVISIONED_BY)
        .is_some_and(|by| by == PROVISIONER)
}

/// The number that a quantity of storage stands for.
fn bytes(quantity: &Quantity) -> Result<u64> {
    let digits = quantity.0.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &quantity.0[digits.len()..] {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        other => bail!(
            "the unit {other:?} of the storage request {:?} is not known here",
            quantity.0
        ),
    };
    // Whole numbers are what users write; a decimal fraction is rounded to whole bytes below.
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let number = |digits: &str| -> Result<u64> {
        if digits.is_empty() {
            Ok(0)
        } else {
            digits.parse().with_context(|| format!("{:?} is no size", quantity.0))
        }
    };
    let scale = 10_u64
        .checked_pow(u32::try_from(fraction.len())?)
        .context("too many digits")?;
    let whole = number(whole)?.checked_mul(factor).context("the size is too large")?;
    Ok(whole + u64::try_from(u128::from(number(fraction)?) * u128::from(factor) / u128::from(scale))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        let size = |text: &str| bytes(&Quantity(text.into())).unwrap();
        assert_eq!(size("64Mi"), 64 << 20);
        assert_eq!(size("1.5Gi"), 3 << 29);
        assert_eq!(size("2G"), 2_000_000_000);
        assert_eq!(size("4096"), 4096);
        assert!(bytes(&Quantity("1Xi".into())).is_err());
        assert!(bytes(&Quantity("x".into())).is_err());
    }
}
