//! The target: what is being worked on, recorded before anything is made of it.

use super::{
    step::{Plan, Step, WaitReason},
    view::View,
};

impl View<'_> {
    /// The size being worked on; while none is recorded, what is there is what is wanted.
    #[must_use]
    pub fn target(&self) -> usize {
        let recorded = self.facts.cluster.record.replicas;
        recorded.map_or_else(|| self.staying().count(), |replicas| replicas as usize)
    }

    /// A size of 0 is recorded. That none is recorded is another matter.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.facts.cluster.record.replicas == Some(0)
    }

    /// Members that are to stay.
    pub fn staying(&self) -> impl Iterator<Item = &super::view::MemberView<'_>> {
        self.members.iter().filter(|member| !member.fact.deleting)
    }
}

/// Records token, incarnation, target and deadline. False: there is nothing more to do in this pass.
pub(super) fn latch(view: &View, plan: &mut Plan) -> bool {
    let facts = view.facts;
    let (cluster, spec, record) = (&facts.cluster, &facts.cluster.spec, &facts.cluster.record);
    for problem in &spec.invalid {
        plan.wait(WaitReason::InvalidSpec, None, problem.clone());
    }
    let formed = record.cluster_id.is_some();
    if !formed {
        for field in &spec.blocks_formation {
            plan.wait(
                WaitReason::InvalidSpec,
                None,
                format!("{field} is not acted on yet, and without it the cluster would not be what was asked for: it is not formed"),
            );
        }
    }
    if !plan.waits.is_empty() {
        // A formed cluster is kept well whatever was written into its spec: the recorded target stands, if one is.
        return formed && record.replicas.is_some() && record.token.is_some();
    }
    if record.token.is_some() && spec.is_observed {
        return true;
    }
    let incarnation = record.incarnation.max(1);
    plan.step(Step::Latch {
        token: record
            .token
            .clone()
            .unwrap_or_else(|| token(&cluster.namespace, &cluster.name, &cluster.uid, incarnation)),
        incarnation,
        deadline: facts.now + spec.progress_deadline,
        // A version is rolled out, member by member, which comes later; what is latched is what members run.
        keep_version: record.version.filter(|_| formed),
    });
    false
}

/// That time has run out is told by nobody else (M22).
pub(super) fn wake_at_deadline(view: &View, plan: &mut Plan) {
    let left = view
        .facts
        .cluster
        .record
        .deadline
        .map(|deadline| deadline.duration_since(view.facts.now));
    if let Some(left) = left.filter(|left| left > &jiff::SignedDuration::ZERO) {
        plan.look_again(left.unsigned_abs());
    }
}

/// `initial-cluster-token` of an incarnation: the same URLs with another token make other IDs (etcd-facts §1).
#[must_use]
pub(super) fn token(namespace: &str, name: &str, uid: &str, incarnation: u64) -> String {
    if incarnation <= 1 {
        format!("{namespace}-{name}-{uid}")
    } else {
        format!("{namespace}-{name}-{uid}-{incarnation}")
    }
}
