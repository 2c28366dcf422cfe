//! Pods and claims.

use crds::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    super::{api::FIELD_MANAGER, cache, error::PassError},
    Effect, Executor,
    members::{gone_is_fine, with_uid},
};
use crate::{
    plan::{
        facts::Version,
        step::Step,
        volumes::{Refused, Size},
    },
    resources::{self, AGENT_CONTAINER, ETCD_CONTAINER, INSTALL_CONTAINER, Images},
    validate,
};

impl Executor<'_> {
    fn images(&self) -> Images<'_> {
        Images {
            etcd_repository: &self.world.operator.settings.etcd_image_repository,
            agent: &self.world.operator.settings.agent_image,
        }
    }

    pub(super) async fn create_claim(&self, step: &Step, name: &str) -> Result<(), PassError> {
        let member = self.member(step, name)?;
        let Some(claim) = resources::claim(&member) else {
            return Ok(());
        };
        let object = match self
            .write(
                "creating a PersistentVolumeClaim",
                self.apis.claims.create(&post(), &claim),
            )
            .await
        {
            Ok(object) => object,
            Err(error) => return Err(self.taken(step, "PersistentVolumeClaim", &claim.name_any(), error)),
        };
        if let Some(item) = cache::claim(&object) {
            self.world.cache.claims.put(item);
        }
        Ok(())
    }

    /// The claim outlives its member: the cluster is its owner then, so that its end lets the disk go and nothing else.
    pub(super) async fn retain_claim(&self, step: &Step, member: &str) -> Result<(), PassError> {
        let name = names::member_claim(member);
        let Some(held) = self.world.cache.claims.get(self.key, &name) else {
            return Ok(());
        };
        let uid = self.member_uid(member).unwrap_or_default();
        let cluster = OwnerReference {
            controller: Some(false),
            block_owner_deletion: Some(false),
            ..resources::owner(&self.cluster()).ok_or_else(|| PassError::stale(step, "the cluster has no UID"))?
        };
        let owners: Vec<&OwnerReference> = held
            .owners
            .iter()
            .filter(|owner| owner.uid != uid && owner.uid != cluster.uid)
            .chain([&cluster])
            .collect();
        let patch = json!({"metadata": {
            "uid": held.uid,
            "labels": {crds::labels::RETAINED: "true"},
            "ownerReferences": owners,
        }});
        match self.patch_claim("keeping a PersistentVolumeClaim", &name, patch).await {
            Ok(()) => Ok(()),
            Err(error) => gone_is_fine(step, error),
        }
    }

    /// The member's spec first: a claim that is made anew is made from it. That Kubernetes refuses is no failure of the
    /// step, but something to be said.
    pub(super) async fn grow_volume(&self, step: &Step, member: &str, size: &Size) -> Result<Effect, PassError> {
        let of_spec = validate::bytes(&self.member(step, member)?.spec.storage.size);
        let mut effect = Effect::AsItWas;
        if of_spec < size.bytes {
            let storage = json!({"size": size.text});
            self.patch_member_spec(step, member, "storage", storage).await?;
            effect = Effect::Changed;
        }
        let name = names::member_claim(member);
        let held = self.world.cache.claims.get(self.key, &name);
        let Some(claim) = held.filter(|claim| claim.bytes < size.bytes) else {
            return Ok(effect);
        };
        let patch = json!({
            "metadata": {"uid": claim.uid},
            "spec": {"resources": {"requests": {"storage": size.text}}},
        });
        match self
            .patch_claim("letting a PersistentVolumeClaim grow", &name, patch)
            .await
        {
            Ok(()) => {
                self.with_memory(|memory| memory.growth_refused = None);
                Ok(Effect::Changed)
            }
            Err(error) => match error.refused() {
                Some(message) => {
                    let (bytes, at) = (size.bytes, self.now());
                    self.with_memory(|memory| memory.growth_refused = Some(Refused { bytes, at, message }));
                    Ok(effect)
                }
                None => gone_is_fine(step, error).map(|()| effect),
            },
        }
    }

    async fn patch_claim(&self, act: &'static str, name: &str, patch: Value) -> Result<(), PassError> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        let object = self.write(act, self.apis.claims.patch(name, &params, &patch)).await?;
        if let Some(item) = cache::claim(&object) {
            self.world.cache.claims.put(item);
        }
        Ok(())
    }

    pub(super) async fn create_pod(&self, step: &Step, name: &str, voter: bool) -> Result<(), PassError> {
        let member = self.member(step, name)?;
        let pod = resources::pod(&member, &self.facts.cluster.uid, &self.images(), voter);
        let object = match self.write("creating a Pod", self.apis.pods.create(&post(), &pod)).await {
            Ok(object) => object,
            Err(error) => return Err(self.taken(step, "Pod", name, error)),
        };
        if let Some(item) = cache::pod(&object) {
            self.world.cache.pods.put(item);
        }
        Ok(())
    }

    pub(super) async fn delete_pod(&self, step: &Step, name: &str, uid: &str) -> Result<(), PassError> {
        match self
            .write("deleting a Pod", self.apis.pods.delete(name, &with_uid(uid)))
            .await
        {
            Ok(answer) => {
                if let Some(item) = answer.left().as_ref().and_then(cache::pod) {
                    self.world.cache.pods.put(item);
                }
                Ok(())
            }
            Err(error) => gone_is_fine(step, error),
        }
    }

    pub(super) async fn set_pod_image(
        &self,
        step: &Step,
        name: &str,
        uid: &str,
        version: Version,
    ) -> Result<(), PassError> {
        let image = format!("{}:v{version}", self.images().etcd_repository);
        let patch = json!({
            "metadata": {"uid": uid},
            "spec": {"containers": [{"name": ETCD_CONTAINER, "image": image}]},
        });
        self.patch_pod(step, "changing the image of a Pod", name, Patch::Strategic(patch))
            .await
    }

    /// The Pod of the running agent, and of the next start of the Pod on its node.
    pub(super) async fn set_agent_image(
        &self,
        step: &Step,
        name: &str,
        uid: &str,
        image: &str,
    ) -> Result<(), PassError> {
        self.world
            .rollouts
            .take_turn(&self.world.cache, self.key, image, self.now())
            .map_err(|why| PassError::stale(step, why))?;
        let containers = [INSTALL_CONTAINER, AGENT_CONTAINER].map(|name| json!({"name": name, "image": image}));
        let goes = self.world.cache.pods.get(self.key, name);
        let goes = goes.and_then(|pod| pod.agent_container.clone());
        let metadata = json!({"uid": uid, "annotations": {crds::annotations::AGENT_GOES: goes}});
        let patch = json!({"metadata": metadata, "spec": {"initContainers": containers}});
        self.patch_pod(step, "changing the image of an agent", name, Patch::Strategic(patch))
            .await
    }

    pub(super) async fn label_pod(&self, step: &Step, name: &str, uid: &str, voter: bool) -> Result<(), PassError> {
        let mut labels = serde_json::Map::new();
        let value = if voter {
            Value::from(crds::labels::ROLE_VOTER)
        } else {
            Value::Null
        };
        labels.insert(crds::labels::ROLE.to_owned(), value);
        let patch = json!({"metadata": {"uid": uid, "labels": labels}});
        self.patch_pod(step, "labelling a Pod", name, Patch::Merge(patch)).await
    }

    /// Without the label no Service leads to it; the annotation keeps it known as ours.
    pub(super) async fn show_pod(&self, step: &Step, name: &str, uid: &str, shown: bool) -> Result<(), PassError> {
        let (labels, hidden) = if shown {
            (json!({crds::labels::CLUSTER: self.key.name}), Value::Null)
        } else {
            (
                json!({crds::labels::CLUSTER: null, crds::labels::ROLE: null}),
                Value::from(self.key.name.clone()),
            )
        };
        let patch = json!({"metadata": {
            "uid": uid,
            "labels": labels,
            "annotations": {crds::annotations::HIDDEN_FROM: hidden},
        }});
        self.patch_pod(step, "showing or hiding a Pod", name, Patch::Merge(patch))
            .await
    }

    async fn patch_pod(
        &self,
        step: &Step,
        act: &'static str,
        name: &str,
        patch: Patch<Value>,
    ) -> Result<(), PassError> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        match self.write(act, self.apis.pods.patch(name, &params, &patch)).await {
            Ok(object) => {
                if let Some(item) = cache::pod(&object) {
                    self.world.cache.pods.put(item);
                }
                Ok(())
            }
            Err(error) => gone_is_fine(step, error),
        }
    }
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PostParams::default()
    }
}
