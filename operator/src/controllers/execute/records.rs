//! Records: written to a status with an optimistic lock, before they are acted on.

use crds::{EtcdRecovery, EtcdRecoverySpec, LocalObjectReference, etcdrecovery::RecoveryMember};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    super::{api::FIELD_MANAGER, cache},
    Executor,
};
use crate::{
    controllers::error::{PassError, is_conflict, is_not_found, is_taken},
    plan::facts::{Binding, Id, Seed, Version},
    resources, validate,
};

impl Executor<'_> {
    pub(super) async fn latch(
        &self,
        token: &str,
        incarnation: u64,
        deadline: Timestamp,
        keep_version: Option<Version>,
    ) -> Result<(), PassError> {
        let observed = validate::target(&self.cluster(), keep_version);
        self.cluster_record(json!({
            "clusterToken": token,
            "incarnation": incarnation,
            "observed": replacing(self.cluster().status.as_ref().and_then(|status| status.observed.as_ref()), &observed),
            "progressDeadline": Time(deadline),
        }))
        .await
    }

    pub(super) async fn new_incarnation(&self, token: &str, incarnation: u64) -> Result<(), PassError> {
        self.cluster_record(json!({"clusterToken": token, "incarnation": incarnation, "seed": null}))
            .await
    }

    pub(super) async fn record_seed(&self, seed: &Seed) -> Result<(), PassError> {
        self.cluster_record(json!({"seed": {"member": seed.member, "nonce": seed.nonce}}))
            .await
    }

    pub(super) async fn record_cluster_id(&self, id: Id) -> Result<(), PassError> {
        self.cluster_record(json!({"clusterID": id.to_string()})).await
    }

    pub(super) async fn open_history(
        &self,
        token: &str,
        incarnation: u64,
        seed: &Seed,
        cluster_id: Id,
    ) -> Result<(), PassError> {
        self.cluster_record(json!({
            "clusterToken": token,
            "incarnation": incarnation,
            "seed": {"member": seed.member, "nonce": seed.nonce},
            "clusterID": cluster_id.to_string(),
        }))
        .await
    }

    /// No other pass writes it: a cluster has one at a time. The UID keeps it from another object of that name.
    pub(super) async fn record_recovery(
        &self,
        step: &crate::plan::step::Step,
        name: &str,
        uid: &str,
        member: &str,
        incarnation: u64,
    ) -> Result<(), PassError> {
        let patch = json!({
            "metadata": {"uid": uid},
            "status": {"member": member, "incarnation": incarnation},
        });
        let object = self
            .write(
                "recording a decision in a recovery's status",
                self.apis.recoveries.patch_status(name, &params(), &Patch::Merge(patch)),
            )
            .await
            .map_err(|error| match error {
                PassError::Kube { source, .. } if is_not_found(&source) || is_conflict(&source) => {
                    PassError::stale(step, format!("EtcdRecovery {name} is not there any more"))
                }
                other => other,
            })?;
        if let Some(item) = cache::recovery(object) {
            self.world.cache.recoveries.put(item);
        }
        Ok(())
    }

    /// The name is that of the history, so it is written once.
    pub(super) async fn create_recovery(&self, name: &str) -> Result<(), PassError> {
        let mut recovery = EtcdRecovery::new(
            name,
            EtcdRecoverySpec {
                cluster_ref: LocalObjectReference {
                    name: self.key.name.clone(),
                },
                from_member: Some(RecoveryMember {
                    best: Some(true),
                    ..RecoveryMember::default()
                }),
                accept_data_loss: true,
                ..EtcdRecoverySpec::default()
            },
        );
        recovery.metadata.owner_references = resources::owner(&self.cluster()).map(|owner| vec![owner]);
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let created = self
            .write(
                "creating an EtcdRecovery",
                self.apis.recoveries.create(&parameters, &recovery),
            )
            .await;
        match created {
            Ok(object) => {
                if let Some(item) = cache::recovery(object) {
                    self.world.cache.recoveries.put(item);
                }
                Ok(())
            }
            Err(PassError::Kube { source, .. }) if is_taken(&source) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn cluster_record(&self, status: Value) -> Result<(), PassError> {
        let cluster = self.cluster();
        let patch = locked(&cluster.metadata, &status);
        let object = self
            .write(
                "recording a decision in the cluster's status",
                self.apis
                    .clusters
                    .patch_status(&cluster.name_any(), &params(), &Patch::Merge(patch)),
            )
            .await?;
        self.took_cluster(object);
        Ok(())
    }

    pub(super) async fn bind(&self, name: &str, binding: Option<&Binding>, directive: u64) -> Result<(), PassError> {
        let step = crate::plan::step::Step::Bind {
            member: name.into(),
            binding: binding.cloned(),
            directive,
        };
        let member = self.member(&step, name)?;
        let mut status = json!({"directive": directive});
        if let (Some(binding), Value::Object(fields)) = (binding, &mut status) {
            fields.insert(
                "binding".into(),
                json!({"memberID": binding.id.to_string(), "nonce": binding.nonce}),
            );
        }
        let object = self
            .write(
                "recording a decision in a member's status",
                self.apis
                    .members
                    .patch_status(name, &params(), &Patch::Merge(locked(&member.metadata, &status))),
            )
            .await?;
        self.took_member(object);
        Ok(())
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// Refused by the API server when the object has changed since it was read.
fn locked(metadata: &kube::core::ObjectMeta, status: &Value) -> Value {
    json!({
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "status": status,
    })
}

/// A merge patch merges objects; what is not in the new target any more must be said to be gone.
fn replacing<T: serde::Serialize>(old: Option<&T>, new: &T) -> Value {
    let old = serde_json::to_value(old).unwrap_or(Value::Null);
    let new = serde_json::to_value(new).unwrap_or(Value::Null);
    crate::controllers::report::replacing(&old, &new)
}
