//! Before a new history opens, no member of the old one may serve again: each is fenced, or provably gone, or a person has
//! taken it on himself. That one cannot be reached proves nothing.

use super::super::{
    facts::{Link, Recovery},
    place::{Node, Volume},
    report::{DirectoryState, Report},
    view::{MemberView, View},
};

/// What is known of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Its agent has put the fence on disk, and its etcd has ended.
    Fenced,
    /// Its agent is heard; the fence is on its way.
    ToFence,
    /// It is not heard, and cannot run: its node is gone for good, or its volume is.
    Gone,
    /// A person takes it for gone.
    Assumed,
    /// It is not heard.
    Silent,
}

pub(super) fn of(member: &MemberView, recovery: Option<&Recovery>) -> Proof {
    match &member.fact.link {
        Link::Up { report, .. } if is_fenced(report) => Proof::Fenced,
        Link::Up { .. } => Proof::ToFence,
        Link::Down { .. } | Link::None => {
            if is_gone(member) {
                return Proof::Gone;
            }
            let assumed = recovery.is_some_and(|recovery| recovery.assume_gone.contains(&member.fact.name));
            if assumed { Proof::Assumed } else { Proof::Silent }
        }
    }
}

/// By Kubernetes' word or a person's, not by silence: on a node that is only not heard, etcd may run on with a volume that
/// Kubernetes has given up.
fn is_gone(member: &MemberView) -> bool {
    let place = &member.fact.place;
    match place.node {
        Node::Gone { .. } | Node::OutOfService { .. } => true,
        Node::Unknown | Node::Ready => matches!(place.volume, Volume::Gone { .. }),
        Node::Lost { .. } => false,
    }
}

/// On disk, and obeyed.
pub(super) fn is_fenced(report: &Report) -> bool {
    report.directory.fenced && report.directory.state != DirectoryState::InUse
}

/// Members that keep the new history from opening, in words; those that a person must see to first.
pub(super) fn missing(view: &View, recovery: &Recovery) -> Vec<String> {
    let mut silent = Vec::new();
    let mut fencing = Vec::new();
    for member in &view.members {
        let name = &member.fact.name;
        match of(member, Some(recovery)) {
            Proof::Fenced | Proof::Gone | Proof::Assumed => {}
            Proof::ToFence => fencing.push(format!("{name} is being fenced")),
            Proof::Silent => silent.push(format!(
                "{name} is neither fenced nor provably gone: make its agent reachable, or name it in assumeGone of \
                 a new EtcdRecovery (if it still runs, its clients write into a history that is given up)"
            )),
        }
    }
    silent.extend(fencing);
    silent
}
