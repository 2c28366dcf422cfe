//! Kinds that nothing acts on yet: each object says so in a condition, instead of silence.

use std::{fmt::Debug, sync::Arc, time::Duration};

use crds::{
    EtcdDefrag, EtcdDefragPolicy, EtcdSnapshot, EtcdSnapshotPolicy,
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
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    Context,
    api::{FIELD_MANAGER, write},
    error::{PassError, is_conflict, is_not_found},
};

/// The first wait after a condition could not be written.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Conditions that are written at the same time, of each kind.
const AT_ONCE: usize = 8;

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

conditioned!(EtcdSnapshot, EtcdDefrag, EtcdDefragPolicy, EtcdSnapshotPolicy);

/// Starts one watch for each such kind; they end with the returned set.
pub(super) fn start(context: &Context) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    watch::<EtcdSnapshot>(context, &mut tasks);
    watch::<EtcdDefrag>(context, &mut tasks);
    watch::<EtcdDefragPolicy>(context, &mut tasks);
    watch::<EtcdSnapshotPolicy>(context, &mut tasks);
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
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    tasks.spawn(async move {
        let stream = watcher(api, watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let mut stream = std::pin::pin!(stream);
        let mut broken = false;
        let mut said = JoinSet::new();
        loop {
            let event = tokio::select! {
                event = stream.try_next() => event,
                Some(_) = said.join_next(), if !said.is_empty() => continue,
            };
            match event {
                Ok(Some(object)) => {
                    broken = false;
                    let (context, turns) = (context.clone(), Arc::clone(&turns));
                    said.spawn(async move { keep_saying(&context, &turns, &object).await });
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

/// Until it is said: the watch tells of an object once. Nothing waits for it but its own task.
async fn keep_saying<K>(context: &Context, turns: &Semaphore, object: &K)
where
    K: Conditioned + Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug,
{
    let mut wait = FIRST_WAIT;
    loop {
        // The semaphore is never closed.
        let turn = turns.acquire().await;
        let Err(error) = say(context, object).await else { return };
        drop(turn);
        if wait == FIRST_WAIT {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            tracing::warn!(kind = %K::kind(&()), %namespace, %name, %error, "tried again in a moment");
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn say<K>(context: &Context, object: &K) -> Result<(), PassError>
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
    if conditions::set(&mut all, condition, Timestamp::now()) == Change::None {
        return Ok(());
    }
    let Some(namespace) = object.namespace() else {
        return Ok(());
    };
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"metadata": {"uid": object.uid()}, "status": {"conditions": all}}));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let name = object.name_any();
    let answer = api.patch_status(&name, &params, &patch);
    match write(&context.lease, "writing a condition", answer).await {
        // Gone, or another object of that name: nothing is left to be told.
        Err(PassError::Kube { source, .. }) if is_not_found(&source) || is_conflict(&source) => Ok(()),
        answer => answer.map(drop),
    }
}
