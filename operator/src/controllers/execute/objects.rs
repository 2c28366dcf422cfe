//! Services and the `PodDisruptionBudget`.

use crds::names::ClusterName;
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    super::{api::FIELD_MANAGER, cache, error::PassError, mirror::Mirror},
    Executor,
    members::gone_is_fine,
};
use crate::{
    plan::step::Step,
    resources::{self, Ownership},
};

/// The name under which objects are made: what is applied later is another one's.
const MAKER: &str = "etcd-operator-create";

impl Executor<'_> {
    fn checked_name(&self, step: &Step) -> Result<ClusterName, PassError> {
        ClusterName::new(self.key.name.clone()).map_err(|error| PassError::stale(step, error.to_string()))
    }

    pub(super) async fn apply_headless_service(&self, step: &Step) -> Result<(), PassError> {
        let name = self.checked_name(step)?;
        self.apply_service(step, resources::headless_service(&self.cluster(), &name))
            .await
    }

    pub(super) async fn apply_client_service(&self, step: &Step) -> Result<(), PassError> {
        let name = self.checked_name(step)?;
        self.apply_service(step, resources::client_service(&self.cluster(), &name))
            .await
    }

    async fn apply_service(&self, step: &Step, service: Service) -> Result<(), PassError> {
        let held = self.held(&self.world.cache.services, &service.metadata, |held| &held.metadata);
        let mut bare = service.clone();
        if let Some(spec) = &mut bare.spec {
            spec.traffic_distribution = None;
        }
        let object = self
            .put(step, "applying a Service", &self.apis.services, held, bare, service)
            .await?;
        if let Some(item) = cache::service(object) {
            self.world.cache.services.put(item);
        }
        Ok(())
    }

    pub(super) async fn apply_budget(&self, step: &Step, voters: u32, target: u32) -> Result<(), PassError> {
        let name = self.checked_name(step)?;
        let Some(budget) = resources::pod_disruption_budget(&self.cluster(), &name, voters, target) else {
            return Ok(());
        };
        let held = self.held(&self.world.cache.budgets, &budget.metadata, |held| &held.metadata);
        let object = self
            .put(
                step,
                "applying the PodDisruptionBudget",
                &self.apis.budgets,
                held,
                budget.clone(),
                budget,
            )
            .await?;
        if let Some(item) = cache::budget(object) {
            self.world.cache.budgets.put(item);
        }
        Ok(())
    }

    /// UID of the object of that name that is ours.
    fn held<T>(&self, mirror: &Mirror<T>, wanted: &ObjectMeta, meta: fn(&T) -> &ObjectMeta) -> Option<String> {
        let live = mirror.get(self.key, wanted.name.as_deref()?)?;
        let ours = resources::ownership(meta(&live), &self.facts.cluster.uid) == Ownership::Ours;
        meta(&live).uid.clone().filter(|_| ours)
    }

    /// Corrects the object that is ours, by its UID, or makes one and then corrects it. An object of that name which
    /// somebody else has made is never taken over.
    ///
    /// What is in an object that is made belongs to it for ever; what is applied goes when it is not applied any more. So
    /// it is made with no more than it needs to be ours.
    async fn put<K>(
        &self,
        step: &Step,
        act: &'static str,
        api: &Api<K>,
        held: Option<String>,
        mut bare: K,
        mut object: K,
    ) -> Result<K, PassError>
    where
        K: Resource<DynamicType = ()> + PartialEq + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let name = object.name_any();
        let uid = if held.is_some() {
            held
        } else {
            let params = PostParams {
                field_manager: Some(MAKER.into()),
                ..PostParams::default()
            };
            bare.meta_mut().labels = Some(resources::cluster_labels(&self.key.name));
            bare.meta_mut().annotations = None;
            let made = self.write(act, api.create(&params, &bare)).await;
            let made = made.map_err(|error| self.taken(step, &K::kind(&()), &name, error))?;
            if bare == object {
                return Ok(made);
            }
            made.uid()
        };
        object.meta_mut().uid = uid;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.write(act, api.patch(&name, &params, &Patch::Apply(object))).await
    }

    pub(super) async fn delete_budget(&self, step: &Step) -> Result<(), PassError> {
        let held = self
            .world
            .cache
            .budgets
            .of(self.key)
            .into_iter()
            .find(|budget| budget.name == self.key.name);
        let Some(held) = held else { return Ok(()) };
        let params = super::members::with_uid(&held.uid);
        match self
            .write(
                "deleting the PodDisruptionBudget",
                self.apis.budgets.delete(&held.name, &params),
            )
            .await
        {
            Ok(_) => {
                self.world.cache.budgets.remove(self.key, &held.name, &held.uid);
                Ok(())
            }
            Err(error) => gone_is_fine(step, error),
        }
    }
}
