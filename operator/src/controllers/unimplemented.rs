//! Kinds that nothing acts on yet: each object says so in a condition, instead of silence.

use std::fmt::Debug;

use crds::{
    EtcdDefrag, EtcdDefragPolicy, EtcdRecovery, EtcdSnapshot, EtcdSnapshotPolicy,
    conditions::{self, Change, ConditionStatus, ConditionType, NewCondition, Reason},
};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    Context,
    api::{DEADLINE, FIELD_MANAGER},
};

/// A kind with conditions in its status.
trait Conditioned {
    fn conditions(&self) -> Vec<Condition>;
}

macro_rules! conditioned {
    ($($kind:ident),+ $(,)?) => {
        $(impl Conditioned for $kind {
            fn conditions(&self) -> Vec<Condition> {
                self.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
            }
        })+
    };
}

conditioned!(
    EtcdSnapshot,
    EtcdDefrag,
    EtcdDefragPolicy,
    EtcdSnapshotPolicy,
    EtcdRecovery
);

/// Starts one watch for each such kind; they end with the returned set.
pub(super) fn start(context: &Context) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    watch::<EtcdSnapshot>(context, &mut tasks);
    watch::<EtcdDefrag>(context, &mut tasks);
    watch::<EtcdDefragPolicy>(context, &mut tasks);
    watch::<EtcdSnapshotPolicy>(context, &mut tasks);
    watch::<EtcdRecovery>(context, &mut tasks);
    tasks
}

fn watch<K>(context: &Context, tasks: &mut JoinSet<()>)
where
    K: Conditioned + Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api: Api<K> = match &context.settings.watch_namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    };
    let context = context.clone();
    tasks.spawn(async move {
        let stream = watcher(api, watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let mut stream = std::pin::pin!(stream);
        let mut broken = false;
        loop {
            match stream.try_next().await {
                Ok(Some(object)) => {
                    broken = false;
                    say(&context, &object).await;
                }
                Ok(None) => return,
                Err(error) => {
                    if !std::mem::replace(&mut broken, true) {
                        tracing::warn!(kind = %K::kind(&()), %error, "the watch is broken and is tried again");
                    }
                }
            }
        }
    });
}

async fn say<K>(context: &Context, object: &K)
where
    K: Conditioned + Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = object.conditions();
    let condition = NewCondition {
        type_: ConditionType::NotImplemented,
        status: ConditionStatus::True,
        reason: Reason::NotImplemented,
        message: format!(
            "this version of the operator does not act on objects of kind {}",
            K::kind(&())
        ),
        observed_generation: object.meta().generation,
    };
    if conditions::set(&mut all, condition, Timestamp::now()) == Change::None || context.lease.check(DEADLINE).is_err()
    {
        return;
    }
    let Some(namespace) = object.namespace() else { return };
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"metadata": {"uid": object.uid()}, "status": {"conditions": all}}));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let answer = tokio::time::timeout(DEADLINE, api.patch_status(&object.name_any(), &params, &patch)).await;
    match answer {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(%namespace, name = %object.name_any(), %error, "a condition could not be written");
        }
        Err(_) => tracing::warn!(%namespace, name = %object.name_any(), "a condition was not written in time"),
    }
}
