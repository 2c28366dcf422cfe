//! Volumes grow with `spec.storage.size`: the claim of each member, if its class lets it.

use jiff::{SignedDuration, Timestamp};

use super::{
    facts::{Claim, Medium, Member},
    step::{Plan, Step, WaitReason},
    view::View,
};

/// A size, as it is written and in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// As a Kubernetes quantity.
    pub text: String,
    /// The same in bytes.
    pub bytes: u64,
}

/// What is asked for a member so far, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// By its claim; 0 when there is none.
    pub claim: u64,
    /// By its own spec.
    pub spec: u64,
}

/// Kubernetes has refused to let a claim grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// To this size.
    pub bytes: u64,
    /// When.
    pub at: Timestamp,
    /// Its words.
    pub message: String,
}

/// What was refused is tried again after this: a class can be changed.
const AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// Lets the claims grow.
pub(super) fn grow(view: &View, plan: &mut Plan) {
    let spec = &view.facts.cluster.spec;
    if spec.medium != Medium::Disk {
        return;
    }
    for member in view.facts.members.iter().filter(|member| !member.deleting) {
        let claim_is_small = member.claim == Claim::Ours && member.volume.claim < spec.volume.bytes;
        if member.volume.spec >= spec.volume.bytes && !claim_is_small {
            continue;
        }
        if claim_is_small && let Some(refused) = refused(view) {
            plan.wait(WaitReason::VolumeGrowth, Some(&member.name), words(view, refused));
            if view.facts.now.duration_since(refused.at) < AGAIN {
                continue;
            }
        }
        plan.step(Step::GrowVolume {
            member: member.name.clone(),
            size: spec.volume.clone(),
        });
    }
}

fn refused<'f>(view: &View<'f>) -> Option<&'f Refused> {
    let refused = view.facts.growth_refused.as_ref()?;
    (refused.bytes == view.facts.cluster.spec.volume.bytes).then_some(refused)
}

/// The volumes cannot grow, and why.
#[must_use]
pub(super) fn blocked(view: &View) -> Option<String> {
    let wanted = view.facts.cluster.spec.volume.bytes;
    let small = |member: &Member| member.claim == Claim::Ours && member.volume.claim < wanted;
    refused(view)
        .filter(|_| view.facts.members.iter().any(small))
        .map(|refused| words(view, refused))
}

fn words(view: &View, refused: &Refused) -> String {
    format!(
        "the volumes cannot grow to {}: {}; set allowVolumeExpansion on their StorageClass, or replace the members one by \
         one",
        view.facts.cluster.spec.volume.text, refused.message
    )
}
