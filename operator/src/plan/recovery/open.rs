//! The new history: recorded, then ordered.

use sha2::{Digest, Sha256};

use super::super::{
    facts::{Binding, Id, Recovery, Seed},
    orders,
    report::{DirectoryState, RecoveryPhase},
    step::{Order, Plan, Step},
    target,
    view::{MemberView, View},
};
use super::proofs::{self, Proof};

/// Takes old Pods out of the Services, records the new history, and orders it.
pub(super) fn open(view: &View, recovery: &Recovery, name: &str, plan: &mut Plan) {
    let Some(member) = view.member(name) else { return };
    let cluster = &view.facts.cluster;
    let incarnation = cluster.record.incarnation.max(1) + 1;
    let token = target::token(&cluster.namespace, &cluster.name, &cluster.uid, incarnation);
    let seed = Seed {
        member: name.to_owned(),
        nonce: nonce(&cluster.uid, incarnation, name),
    };
    let (_, cluster_id) = ids(member, &token);
    // Those that are fenced run no etcd; whoever may still run one must not be led to.
    let mut steps: Vec<Step> = view
        .members
        .iter()
        .filter(|other| {
            matches!(
                proofs::of(other, Some(recovery)),
                Proof::Gone | Proof::Assumed | Proof::Silent
            )
        })
        .filter_map(|other| {
            let pod = other
                .fact
                .pod
                .ours()
                .filter(|pod| pod.cluster_label || pod.voter_label)?;
            Some(Step::ShowPod {
                member: other.fact.name.clone(),
                uid: pod.uid.clone(),
                shown: false,
            })
        })
        .collect();
    if (recovery.member.as_deref(), recovery.incarnation) != (Some(name), Some(incarnation)) {
        steps.push(Step::RecordRecovery {
            recovery: recovery.name.clone(),
            uid: recovery.uid.clone(),
            member: name.to_owned(),
            incarnation,
        });
    }
    steps.push(Step::OpenHistory {
        token: token.clone(),
        incarnation,
        seed: seed.clone(),
        cluster_id,
    });
    steps.extend(orders(view, member, &seed, &token, incarnation));
    plan.chain(steps);
}

/// Sees to it that the one who begins it has its order.
pub(super) fn rebuild(view: &View, plan: &mut Plan) {
    let record = &view.facts.cluster.record;
    let (Some(seed), Some(token)) = (&record.seed, &record.token) else {
        return;
    };
    let Some(member) = view.member(&seed.member) else {
        return;
    };
    let Some(report) = member.fact.link.live() else { return };
    let begun = report
        .recovery
        .as_ref()
        .is_some_and(|recovery| recovery.incarnation == record.incarnation && recovery.phase != RecoveryPhase::Done);
    let done = report
        .directory
        .identity
        .as_ref()
        .is_some_and(|identity| identity.incarnation >= record.incarnation);
    let whole = matches!(
        report.directory.state,
        DirectoryState::Intact | DirectoryState::TornTail | DirectoryState::Foreign
    );
    if begun || done || !whole {
        return;
    }
    let steps = orders(view, member, seed, token, record.incarnation);
    let due = steps.iter().all(|step| match step {
        Step::Direct { order, .. } => orders::not_just_sent(view.facts, member.fact, order, plan),
        _ => true,
    });
    if due {
        plan.chain(steps);
    }
}

/// Bind the new ID to the new directory, then order it.
fn orders(view: &View, member: &MemberView, seed: &Seed, token: &str, incarnation: u64) -> Vec<Step> {
    let Some(report) = member.fact.link.live() else {
        return Vec::new();
    };
    let (member_id, cluster_id) = ids(member, token);
    let number = orders::next_number(member.fact);
    let name = member.fact.name.clone();
    vec![
        Step::Bind {
            member: name.clone(),
            binding: Some(Binding {
                id: member_id,
                nonce: seed.nonce.clone(),
            }),
            directive: number,
        },
        Step::Direct {
            member: name,
            number,
            // The directory that is there now.
            nonce: report.directory.nonce.clone(),
            order: Order::Recover {
                token: token.to_owned(),
                incarnation,
                member_id,
                cluster_id,
                new_nonce: seed.nonce.clone(),
                options: view.facts.cluster.spec.options.clone(),
            },
        },
    ]
}

/// The IDs that follow from peer URL and token.
fn ids(member: &MemberView, token: &str) -> (Id, Id) {
    let id = etcd::member_id(&[member.fact.peer_url.as_str()], token);
    (Id(id.0), Id(etcd::cluster_id(&[id]).0))
}

/// Which directory the new one is. The same each time, so that an order that is sent again is the same order.
fn nonce(cluster_uid: &str, incarnation: u64, member: &str) -> String {
    let digest = Sha256::digest(format!("{cluster_uid}/{incarnation}/{member}"));
    digest
        .iter()
        .take(16)
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
