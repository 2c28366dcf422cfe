//! Member objects: made, changed, deleted, released.

use std::collections::BTreeSet;

use crds::{annotations, names::ClusterName};
use futures::future::try_join_all;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{
    super::{
        api::{FIELD_MANAGER, call, write},
        error::{PassError, is_conflict, is_not_found},
    },
    Executor,
};
use crate::{
    leader::Validity,
    plan::step::Step,
    resources::{self, MemberTarget, Ownership},
};

impl Executor<'_> {
    /// Members' names are made by the API server, so nothing but a live look keeps a lost answer from becoming a
    /// member too many.
    pub(super) async fn create_members(&self, step: &Step, count: usize, known: &[String]) -> Result<(), PassError> {
        let cluster = self.cluster();
        let uid = cluster.uid().unwrap_or_default();
        let selector = format!("{}={}", crds::labels::CLUSTER, self.key.name);
        let live = call(
            "listing members",
            self.apis.members.list(&ListParams::default().labels(&selector)),
        )
        .await?;
        let ours: BTreeSet<String> = live
            .items
            .iter()
            .filter(|member| resources::ownership(&member.metadata, &uid) == Ownership::Ours)
            .map(ResourceExt::name_any)
            .collect();
        if !known.iter().eq(ours.iter()) && ours != known.iter().cloned().collect() {
            for member in live.items {
                self.took_member(member);
            }
            return Err(PassError::stale(step, "other members exist than were known"));
        }
        let name =
            ClusterName::new(self.key.name.clone()).map_err(|error| PassError::stale(step, error.to_string()))?;
        let status = cluster.status.clone().unwrap_or_default();
        let (Some(observed), Some(token)) = (&status.observed, &status.cluster_token) else {
            return Err(PassError::stale(step, "no target is recorded"));
        };
        let target = MemberTarget {
            cluster: &cluster,
            name: &name,
            observed,
            token,
            bootstrap: false,
            initial_cluster: "",
        };
        let object = resources::member(&target);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let made = try_join_all(
            (0..count).map(|_| self.write("creating a member", self.apis.members.create(&params, &object))),
        )
        .await?;
        for member in made {
            self.took_member(member);
        }
        Ok(())
    }

    pub(super) async fn patch_member_spec(
        &self,
        step: &Step,
        name: &str,
        field: &str,
        value: Value,
    ) -> Result<(), PassError> {
        let member = self.member(step, name)?;
        let mut spec = serde_json::Map::new();
        spec.insert(field.to_owned(), value);
        let patch = json!({
            "metadata": {"uid": member.metadata.uid, "resourceVersion": member.metadata.resource_version},
            "spec": spec,
        });
        let object = self
            .write(
                "changing a member",
                self.apis.members.patch(name, &params(), &Patch::Merge(patch)),
            )
            .await?;
        self.took_member(object);
        Ok(())
    }

    pub(super) async fn delete_member(&self, step: &Step, name: &str, uid: &str) -> Result<(), PassError> {
        match self
            .write("deleting a member", self.apis.members.delete(name, &with_uid(uid)))
            .await
        {
            Ok(answer) => {
                // The object while it waits for its finalizers; a status when it is gone.
                if let Some(object) = answer.left() {
                    self.took_member(object);
                }
                Ok(())
            }
            Err(error) => gone_is_fine(step, error),
        }
    }

    /// Puts our finalizer on a member that lives without it.
    pub(super) async fn hold_member(&self, step: &Step, name: &str) -> Result<(), PassError> {
        let member = self.member(step, name)?;
        let mut finalizers = member.finalizers().to_vec();
        finalizers.push(annotations::MEMBER_FINALIZER.to_owned());
        let patch = json!({"metadata": {
            "uid": member.metadata.uid,
            "resourceVersion": member.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let object = self
            .write(
                "putting the finalizer on a member",
                self.apis.members.patch(name, &params(), &Patch::Merge(patch)),
            )
            .await?;
        self.took_member(object);
        Ok(())
    }

    pub(super) async fn release_member(&self, step: &Step, name: &str) -> Result<(), PassError> {
        let member = self.member(step, name)?;
        match release(&self.apis, &self.world.operator.lease, &member).await {
            Ok(()) => Ok(()),
            Err(error) => gone_is_fine(step, error),
        }
    }
}

/// Takes our finalizer off a member.
pub(in crate::controllers) async fn release(
    apis: &super::Apis,
    lease: &Validity,
    member: &crds::EtcdMember,
) -> Result<(), PassError> {
    let left: Vec<&String> = member
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != annotations::MEMBER_FINALIZER)
        .collect();
    let patch = json!({"metadata": {
        "uid": member.metadata.uid,
        "resourceVersion": member.metadata.resource_version,
        "finalizers": left,
    }});
    write(
        lease,
        "releasing a member",
        apis.members.patch(&member.name_any(), &params(), &Patch::Merge(patch)),
    )
    .await?;
    Ok(())
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

pub(super) fn with_uid(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// The object is gone already. Another one of that name, or a newer state of it: nothing was done.
pub(super) fn gone_is_fine(step: &Step, error: PassError) -> Result<(), PassError> {
    match error {
        PassError::Kube { source, .. } if is_not_found(&source) => Ok(()),
        PassError::Kube { source, act } if is_conflict(&source) => Err(PassError::stale(
            step,
            format!("{act}: it is another object, or has changed"),
        )),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16) -> PassError {
        let status = Status::failure("no", "Why").with_code(code);
        PassError::Kube {
            act: "releasing a member",
            source: Box::new(kube::Error::Api(status.boxed())),
        }
    }

    #[test]
    fn a_release_on_an_old_state_is_not_done() {
        let step = Step::ReleaseMember {
            member: "a".into(),
            uid: "1".into(),
        };
        assert!(gone_is_fine(&step, answer(404)).is_ok());
        let stale = gone_is_fine(&step, answer(409)).unwrap_err();
        assert!(
            matches!(stale, PassError::Stale { .. }) && stale.is_momentary(),
            "{stale}"
        );
        assert!(matches!(gone_is_fine(&step, answer(403)), Err(PassError::Kube { .. })));
    }
}
