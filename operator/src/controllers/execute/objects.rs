//! Services and the `PodDisruptionBudget`.

use crds::names::ClusterName;
use kube::api::{Patch, PatchParams};

use super::{
    super::{
        api::{FIELD_MANAGER, call},
        cache,
        error::PassError,
    },
    Executor,
    members::gone_is_fine,
};
use crate::{plan::step::Step, resources};

impl Executor<'_> {
    fn checked_name(&self, step: &Step) -> Result<ClusterName, PassError> {
        ClusterName::new(self.key.name.clone()).map_err(|error| PassError::stale(step, error.to_string()))
    }

    pub(super) async fn apply_headless_service(&self, step: &Step) -> Result<(), PassError> {
        let name = self.checked_name(step)?;
        self.apply_service(
            &name.headless_service(),
            resources::headless_service(&self.cluster(), &name),
        )
        .await
    }

    pub(super) async fn apply_client_service(&self, step: &Step) -> Result<(), PassError> {
        let name = self.checked_name(step)?;
        self.apply_service(
            &name.client_service(),
            resources::client_service(&self.cluster(), &name),
        )
        .await
    }

    async fn apply_service(&self, name: &str, service: k8s_openapi::api::core::v1::Service) -> Result<(), PassError> {
        let object = call(
            "applying a Service",
            self.apis.services.patch(name, &apply(), &Patch::Apply(service)),
        )
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
        let object = call(
            "applying the PodDisruptionBudget",
            self.apis
                .budgets
                .patch(&name.pod_disruption_budget(), &apply(), &Patch::Apply(budget)),
        )
        .await?;
        if let Some(item) = cache::budget(object) {
            self.world.cache.budgets.put(item);
        }
        Ok(())
    }

    pub(super) async fn delete_budget(&self) -> Result<(), PassError> {
        let held = self
            .world
            .cache
            .budgets
            .of(self.key)
            .into_iter()
            .find(|budget| budget.name == self.key.name);
        let Some(held) = held else { return Ok(()) };
        let params = super::members::with_uid(&held.uid);
        match call(
            "deleting the PodDisruptionBudget",
            self.apis.budgets.delete(&held.name, &params),
        )
        .await
        {
            Ok(_) => {
                self.world.cache.budgets.remove(self.key, &held.name, &held.uid);
                Ok(())
            }
            Err(error) => gone_is_fine(error),
        }
    }
}

fn apply() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}
