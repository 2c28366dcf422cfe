//! The Secret with the certificate of a member's agent: read, made and replaced by name.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::{
    super::{
        api::{FIELD_MANAGER, call},
        error::{PassError, is_not_found},
    },
    Effect, Executor,
};
use crate::{
    pki,
    plan::step::Step,
    resources::{self, Ownership},
};

impl Executor<'_> {
    pub(super) async fn ensure_identity(&self, step: &Step, name: &str) -> Result<Effect, PassError> {
        let member = self.member(step, name)?;
        let uid = member.metadata.uid.clone().unwrap_or_default();
        let secret_name = resources::agent_secret_name(name);
        let bundle = self.world.operator.ca.bundle();
        let now = self.now();
        let cluster_uid = &self.facts.cluster.uid;
        let live = match call("reading the Secret of an agent", self.apis.secrets.get(&secret_name)).await {
            Ok(secret) => Some(secret),
            Err(PassError::Kube { source, .. }) if is_not_found(&source) => None,
            Err(error) => return Err(error),
        };
        let wanted = || -> Result<_, PassError> {
            Ok(resources::agent_secret(
                &member,
                pki::agent_secret(&bundle, name, cluster_uid, now)?,
            ))
        };
        let effect = match live {
            None => {
                let params = PostParams {
                    field_manager: Some(FIELD_MANAGER.into()),
                    ..PostParams::default()
                };
                self.write(
                    "creating the Secret of an agent",
                    self.apis.secrets.create(&params, &wanted()?),
                )
                .await?;
                Effect::Changed
            }
            Some(live) if resources::ownership(&live.metadata, &uid) != Ownership::Ours => {
                return Err(PassError::NameTaken {
                    kind: "Secret",
                    name: secret_name,
                });
            }
            Some(live) if pki::needs_renewal(&live.metadata, &bundle, name, cluster_uid, now).is_some() => {
                let wanted = wanted()?;
                let patch = json!({
                    "metadata": {"uid": live.metadata.uid, "annotations": wanted.metadata.annotations},
                    "data": wanted.data,
                });
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.into()),
                    ..PatchParams::default()
                };
                self.write(
                    "replacing the Secret of an agent",
                    self.apis.secrets.patch(&secret_name, &params, &Patch::Merge(patch)),
                )
                .await?;
                Effect::Changed
            }
            Some(_) => Effect::AsItWas,
        };
        let fingerprint = bundle.fingerprint();
        self.with_memory(|memory| memory.identities.insert(uid, (fingerprint, now)));
        Ok(effect)
    }
}
