//! Carries a plan out. Nothing is decided here: each step says exactly what to do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crds::{EtcdCluster, EtcdMember};
use futures::future::join_all;
use jiff::Timestamp;
use kube::ResourceExt;

use super::{
    World,
    api::Apis,
    error::{PassError, is_taken},
    hashes,
    memory::Memory,
    mirror::ClusterKey,
    observe::Objects,
};
use crate::plan::{
    facts::Facts,
    step::{Plan, Step},
};

mod consensus;
mod identity;
mod members;
mod objects;
mod orders;
mod pods;
mod records;

pub(super) use members::release;

/// What carrying out needs.
pub(super) struct Executor<'w> {
    world: &'w World,
    key: &'w ClusterKey,
    apis: Apis,
    facts: &'w Facts,
    /// The objects as this pass knows them: from its beginning, then from the answers to its own writes. An optimistic
    /// lock on these refuses whatever anybody else has changed meanwhile.
    cluster: Mutex<Arc<EtcdCluster>>,
    members: Mutex<HashMap<String, Arc<EtcdMember>>>,
    memory: &'w Mutex<Memory>,
}

/// What a step has done.
enum Effect {
    /// Something is different now.
    Changed,
    /// It was looked at, and was as it should be.
    AsItWas,
}

/// A step that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub error: PassError,
    /// So many times in a row.
    pub times: u32,
    /// It is a row in which nothing was logged yet, and it is worth it now.
    pub tell: bool,
}

/// What came of a plan.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Steps done, in the order in which they were.
    pub done: Vec<Step>,
    /// The first failure of each chain that failed.
    pub failures: Vec<Failure>,
    /// The objects after the steps.
    pub cluster: Arc<EtcdCluster>,
    /// The same of members.
    pub members: HashMap<String, Arc<EtcdMember>>,
}

impl<'w> Executor<'w> {
    /// For one pass.
    pub(super) fn new(
        world: &'w World,
        key: &'w ClusterKey,
        facts: &'w Facts,
        objects: &Objects,
        memory: &'w Mutex<Memory>,
    ) -> Self {
        Self {
            world,
            key,
            apis: Apis::new(&world.operator.client, &key.namespace),
            facts,
            cluster: Mutex::new(Arc::clone(&objects.cluster)),
            members: Mutex::new(
                objects
                    .members
                    .iter()
                    .map(|member| (member.name.clone(), Arc::clone(&member.value)))
                    .collect(),
            ),
            memory,
        }
    }

    /// All chains at once, the steps of each in order.
    pub(super) async fn run(self, plan: &Plan) -> Outcome {
        let results = join_all(plan.chains.iter().map(|chain| self.chain(chain))).await;
        let mut done = Vec::new();
        let mut failures = Vec::new();
        for (steps, failure) in results {
            done.extend(steps);
            failures.extend(failure);
        }
        Outcome {
            done,
            failures,
            cluster: self.cluster.into_inner().unwrap_or_else(PoisonError::into_inner),
            members: self.members.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }

    async fn chain(&self, steps: &[Step]) -> (Vec<Step>, Option<Failure>) {
        let mut done = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let now = self.now();
            if self.with_memory(|memory| memory.failing.holds_up_here(steps, place, now)) {
                return (done, None);
            }
            let metrics = &self.world.operator.metrics;
            let began = Instant::now();
            let answer = self.step(step).await;
            metrics.step(step.kind(), began.elapsed(), answer.is_ok());
            match answer {
                Ok(effect) => {
                    self.with_memory(|memory| memory.failing.succeeded(step));
                    if matches!(effect, Effect::Changed) {
                        self.tell(step);
                        done.push(step.clone());
                    }
                }
                Err(error) => {
                    metrics.error(error.class());
                    let now = self.now();
                    let (times, tell) = self.with_memory(|memory| memory.failing.failed(step, &error, now));
                    return (done, Some(Failure { error, times, tell }));
                }
            }
        }
        (done, None)
    }

    /// One line for each step that was carried out.
    fn tell(&self, step: &Step) {
        tracing::info!(
            namespace = %self.key.namespace,
            cluster = %self.key.name,
            member = step.member().unwrap_or_default(),
            step = step.kind(),
            detail = %detail(step),
            "done"
        );
    }

    async fn step(&self, step: &Step) -> Result<Effect, PassError> {
        let done = match step {
            // These tell themselves whether anything is different now.
            Step::EnsureAgentIdentity { member } => return self.ensure_identity(step, member).await,
            Step::GrowVolume { member, size } => return self.grow_volume(step, member, size).await,
            Step::DisarmCorrupt { via } => return self.disarm_corrupt(step, via).await,
            Step::CompareHashes { asked } => {
                let cluster = self.facts.cluster.record.cluster_id;
                hashes::start(self.world, self.key, cluster, asked.clone());
                return Ok(Effect::AsItWas);
            }
            Step::Latch {
                token,
                incarnation,
                deadline,
                keep_version,
            } => self.latch(token, *incarnation, *deadline, *keep_version).await,
            Step::NewIncarnation { token, incarnation } => self.new_incarnation(token, *incarnation).await,
            Step::RecordSeed { seed } => self.record_seed(seed).await,
            Step::RecordClusterId { id } => self.record_cluster_id(*id).await,
            Step::RecordRecovery {
                recovery,
                uid,
                member,
                incarnation,
            } => self.record_recovery(step, recovery, uid, member, *incarnation).await,
            Step::OpenHistory {
                token,
                incarnation,
                seed,
                cluster_id,
            } => self.open_history(token, *incarnation, seed, *cluster_id).await,
            Step::CreateRecovery { recovery } => self.create_recovery(recovery).await,
            Step::ShowPod { member, uid, shown } => self.show_pod(step, member, uid, *shown).await,
            Step::Bind {
                member,
                binding,
                directive,
            } => self.bind(member, binding.as_ref(), *directive).await,
            Step::CreateMembers { count, known } => self.create_members(step, *count, known).await,
            Step::MarkBootstrap { member } => self.patch_member_spec(step, member, "bootstrap", true.into()).await,
            Step::SetDormant { member, dormant } => {
                self.patch_member_spec(step, member, "dormant", (*dormant).into()).await
            }
            Step::SetVersion { member, version } => {
                self.patch_member_spec(step, member, "version", version.to_string().into())
                    .await
            }
            Step::DeleteMember { member, uid } => self.delete_member(step, member, uid).await,
            Step::EnsureFinalizer { member, .. } => self.hold_member(step, member).await,
            Step::RetainClaim { member } => self.retain_claim(step, member).await,
            Step::ReleaseMember { member, .. } => self.release_member(step, member).await,
            Step::CreateClaim { member } => self.create_claim(step, member).await,
            Step::CreatePod { member, voter } => self.create_pod(step, member, *voter).await,
            Step::DeletePod { member, uid } => self.delete_pod(step, member, uid).await,
            Step::SetPodImage { member, uid, version } => self.set_pod_image(step, member, uid, *version).await,
            Step::SetAgentImage { member, uid, image } => self.set_agent_image(step, member, uid, image).await,
            Step::LabelPod { member, uid, voter } => self.label_pod(step, member, uid, *voter).await,
            Step::ApplyHeadlessService => self.apply_headless_service(step).await,
            Step::ApplyClientService => self.apply_client_service(step).await,
            Step::ApplyBudget { voters, target } => self.apply_budget(step, *voters, *target).await,
            Step::DeleteBudget => self.delete_budget(step).await,
            Step::Direct {
                member,
                number,
                nonce,
                order,
            } => self.direct(step, member, *number, nonce, order).await,
            Step::Nudge { via, member } => self.nudge(step, via, member).await,
            Step::AddLearner { via, peer_url, .. } => self.add_learner(step, via, peer_url).await,
            Step::Promote { via, id, .. } => self.promote(step, via, *id).await,
            Step::Remove { via, id, .. } => self.remove(step, via, *id).await,
            Step::MoveLeader { via, id, .. } => self.move_leader(step, via, *id).await,
        };
        done.map(|()| Effect::Changed)
    }

    /// One write, while it is our turn.
    async fn write<T>(&self, act: &'static str, answer: impl Future<Output = kube::Result<T>>) -> Result<T, PassError> {
        super::api::write(&self.world.operator.lease, act, answer).await
    }

    fn now(&self) -> Timestamp {
        self.world.now()
    }

    fn cluster(&self) -> Arc<EtcdCluster> {
        Arc::clone(&self.cluster.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn member(&self, step: &Step, name: &str) -> Result<Arc<EtcdMember>, PassError> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members
            .get(name)
            .cloned()
            .ok_or_else(|| PassError::stale(step, format!("there is no member {name}")))
    }

    fn with_memory<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answer to one of our own writes.
    fn took_cluster(&self, object: EtcdCluster) {
        if let Some(item) = super::cache::cluster(object) {
            *self.cluster.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&item.value);
            self.world.cache.clusters.put(item);
        }
    }

    fn took_member(&self, object: EtcdMember) {
        if let Some(item) = super::cache::member(object) {
            let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
            members.insert(item.name.clone(), Arc::clone(&item.value));
            self.world.cache.members.put(item);
        }
    }

    /// A create was refused. When the name is taken, it is remembered: the one who has it may not be seen by the watches.
    fn taken(&self, step: &Step, kind: &str, name: &str, error: PassError) -> PassError {
        match error {
            PassError::Kube { source, .. } if is_taken(&source) => {
                let now = self.now();
                self.with_memory(|memory| memory.taken.insert(format!("{kind}/{name}"), now));
                PassError::stale(step, format!("{kind} {name} exists already"))
            }
            other => other,
        }
    }

    fn member_uid(&self, name: &str) -> Option<String> {
        self.members
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .and_then(|member| member.uid())
    }
}

fn detail(step: &Step) -> String {
    match step {
        Step::Latch { token, incarnation, .. } | Step::NewIncarnation { token, incarnation } => {
            format!("incarnation {incarnation}, token {token}")
        }
        Step::RecordSeed { seed } => format!("directory {}", seed.nonce),
        Step::RecordRecovery {
            recovery, incarnation, ..
        } => format!("{recovery}, incarnation {incarnation}"),
        Step::OpenHistory {
            incarnation,
            cluster_id,
            ..
        } => format!("incarnation {incarnation}, cluster {cluster_id}"),
        Step::CreateRecovery { recovery } => recovery.clone(),
        Step::ShowPod { shown, .. } => format!("shown: {shown}"),
        Step::RecordClusterId { id } => id.to_string(),
        Step::CreateMembers { count, .. } => count.to_string(),
        Step::Bind {
            binding: Some(binding),
            directive,
            ..
        } => {
            format!("{} on directory {}, directive {directive}", binding.id, binding.nonce)
        }
        Step::Bind {
            binding: None,
            directive,
            ..
        } => format!("directive {directive}"),
        Step::Direct { number, order, .. } => format!("{} as directive {number}", order.kind()),
        Step::AddLearner { via, peer_url, .. } => format!("{peer_url} via {via}"),
        Step::Promote { via, id, .. } | Step::Remove { via, id, .. } | Step::MoveLeader { via, id, .. } => {
            format!("{id} via {via}")
        }
        Step::Nudge { via, .. } | Step::DisarmCorrupt { via } => format!("via {via}"),
        Step::GrowVolume { size, .. } => size.text.clone(),
        Step::ApplyBudget { voters, target } => format!("{voters} voters, target {target}"),
        Step::LabelPod { voter, .. } => format!("voter: {voter}"),
        Step::SetDormant { dormant, .. } => format!("dormant: {dormant}"),
        Step::SetVersion { version, .. } | Step::SetPodImage { version, .. } => version.to_string(),
        Step::SetAgentImage { image, .. } => image.clone(),
        Step::MarkBootstrap { .. }
        | Step::CompareHashes { .. }
        | Step::DeleteMember { .. }
        | Step::EnsureFinalizer { .. }
        | Step::RetainClaim { .. }
        | Step::ReleaseMember { .. }
        | Step::EnsureAgentIdentity { .. }
        | Step::CreateClaim { .. }
        | Step::CreatePod { .. }
        | Step::DeletePod { .. }
        | Step::ApplyHeadlessService
        | Step::ApplyClientService
        | Step::DeleteBudget => String::new(),
    }
}
