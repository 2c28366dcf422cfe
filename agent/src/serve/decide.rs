//! May etcd start, and how? One pure, total function over what is known (design: agent.md, "The rejoin decision").

use std::fmt;

use super::directory::State;
use super::space::Space;
use super::standing::StartKind;
use crate::supervise::exit::Class;

/// What is recorded beside the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing.
    Absent,
    /// This cluster object, this member, this history, this directory.
    Ours,
    /// Another of these.
    NotOurs,
}

/// How etcd's last run on this directory has ended, as far as it bears on the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastExit {
    /// It has not ended, or in a way that a new start may mend, or a person has said to try again.
    MayRestart,
    /// etcd says that its member was removed from the cluster.
    Removed,
    /// etcd says that its data are damaged.
    Damage {
        /// The class of the exit.
        class: String,
    },
}

/// Ends after which a new start on the same data is no help, and may hide what is wrong.
const DAMAGE: [Class; 6] = [
    Class::WalCorrupt,
    Class::WalGap,
    Class::DbCorrupt,
    Class::DbMissing,
    Class::LostRaftLog,
    Class::Inconsistent,
];

impl LastExit {
    /// What a class means for the next start. The name comes from the supervisor, which may be of another version: one
    /// that is not known here is no reason to keep etcd down.
    #[must_use]
    pub fn of(class: &str) -> Self {
        if class == Class::Removed.to_string() {
            Self::Removed
        } else if DAMAGE.iter().any(|damage| class == damage.to_string()) {
            Self::Damage {
                class: class.to_owned(),
            }
        } else {
            Self::MayRestart
        }
    }
}

/// What the decision is made from.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; the table's columns"
)]
pub struct Facts<'a> {
    /// The state of etcd's data.
    pub state: &'a State,
    /// etcd has once written its WAL here.
    pub started: bool,
    /// The directory has a nonce.
    pub has_nonce: bool,
    /// What is recorded.
    pub recorded: Recorded,
    /// `member/` is there, and nothing says that it is what a first start of ours has left.
    pub stray: bool,
    /// The first start that stands for this nonce.
    pub start: Option<StartKind>,
    /// Why etcd is to be kept stopped, when it is.
    pub hold: Option<&'a str>,
    /// This directory is to be set aside.
    pub quarantine: bool,
    /// The fence, as it is and as it is to be.
    pub fence: Fence,
    /// The recovery of this directory.
    pub recovery: Recovery,
    /// How etcd's last run on it has ended.
    pub exit: &'a LastExit,
}

/// The fence, as it is and as it is to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fence {
    /// None stands, and none is wanted.
    #[default]
    Down,
    /// One stands.
    Stands,
    /// One is to be put up.
    Wanted,
    /// The one that stands is to go.
    ToGo,
}

/// The recovery of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recovery {
    /// None.
    #[default]
    None,
    /// It is to begin, or to go on.
    Ordered,
    /// It has begun, and what was ordered is not known any more.
    Forsaken,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Put the fence up, whatever etcd does.
    PutFence,
    /// Take the fence away.
    LiftFence,
    /// Make a new history of the directory, or go on with that.
    Recover,
    /// Start, once, under the first start that stands. What a failed first start left behind is cleared before.
    Once(StartKind),
    /// Start; may be repeated by the supervisor.
    Repeatable,
    /// etcd runs: leave it alone.
    Observe,
    /// etcd runs and must not.
    Stop(Why),
    /// Make a new nonce and forget what was recorded: the data are gone, or there never were any. What is there all the
    /// same (a db without WAL may hold data) is set aside before.
    Renew,
    /// Set the directory aside, then [`Decision::Renew`].
    SetAside,
    /// Look again in a while; do nothing else.
    Retry(String),
    /// Wait for somebody's word.
    Wait(Why),
}

/// Why etcd does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// No first start is ordered for this directory.
    NoOrder,
    /// A Hold stands.
    Held(String),
    /// A Quarantine stands.
    Quarantine,
    /// Data, and nothing recorded beside them.
    NotRecorded,
    /// Data of somebody else.
    Foreign(String),
    /// Damaged data.
    Damaged(String),
    /// etcd exits as removed.
    Removed,
    /// etcd has ended for want of space, and there is not enough yet.
    NoRoom(Space),
    /// A fence stands.
    Fenced,
    /// A recovery is to begin, or to go on.
    Recovery,
}

/// The decision.
#[must_use]
pub fn decide(facts: Facts<'_>) -> Decision {
    let fenced = (facts.fence == Fence::Stands).then_some(Why::Fenced);
    let held = facts.hold.map(|reason| Why::Held(reason.to_owned())).or(fenced);
    match facts.state {
        State::Unreadable { error } => Decision::Retry(error.clone()),
        _ if facts.fence == Fence::Wanted => Decision::PutFence,
        // While it goes on the directory may look like anything.
        State::InUse if facts.recovery != Recovery::None => Decision::Stop(Why::Recovery),
        _ if facts.recovery == Recovery::Ordered => Decision::Recover,
        _ if facts.recovery == Recovery::Forsaken => Decision::Wait(Why::Recovery),
        _ if facts.fence == Fence::ToGo => Decision::LiftFence,
        State::InUse => match held {
            Some(why) => Decision::Stop(why),
            None if facts.quarantine => Decision::Stop(Why::Quarantine),
            None => Decision::Observe,
        },
        State::Unborn | State::Intact | State::TornTail | State::Damaged { .. } | State::Foreign { .. }
            if facts.quarantine =>
        {
            Decision::SetAside
        }
        State::Unborn => unborn(facts, held),
        State::Intact | State::TornTail => match (held, facts.recorded) {
            (Some(why), _) => Decision::Wait(why),
            (None, Recorded::Absent) => Decision::Wait(Why::NotRecorded),
            (None, Recorded::NotOurs) => {
                Decision::Wait(Why::Foreign("its recorded identity is not this member's".to_owned()))
            }
            (None, Recorded::Ours) => match facts.exit {
                LastExit::MayRestart => Decision::Repeatable,
                LastExit::Removed => Decision::Wait(Why::Removed),
                LastExit::Damage { class } => Decision::Wait(Why::Damaged(format!("etcd ended with {class}"))),
            },
        },
        State::Damaged { detail } => Decision::Wait(held.unwrap_or_else(|| Why::Damaged(detail.clone()))),
        State::Foreign { detail } => Decision::Wait(held.unwrap_or_else(|| Why::Foreign(detail.clone()))),
    }
}

/// A directory without a WAL. A hold does not keep it from getting its nonce: nothing starts by that.
fn unborn(facts: Facts<'_>, held: Option<Why>) -> Decision {
    if facts.started || facts.stray || !facts.has_nonce || facts.recorded == Recorded::NotOurs {
        return Decision::Renew;
    }
    match (held, facts.start, facts.exit) {
        (Some(why), _, _) => Decision::Wait(why),
        (None, None, _) => Decision::Wait(Why::NoOrder),
        (None, Some(_), LastExit::Removed) => Decision::Wait(Why::Removed),
        // There are no data that could be damaged; what a killed first start has left is cleared (scenario D25).
        (None, Some(kind), LastExit::MayRestart | LastExit::Damage { .. }) => Decision::Once(kind),
    }
}

/// The short sentence of the report.
impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOrder => out.write_str("a Seed or Join from the operator"),
            Self::Held(reason) => write!(out, "Resume from the operator; held: {reason}"),
            Self::Quarantine => out.write_str("the directory to be set aside"),
            Self::NotRecorded => {
                out.write_str("the operator to confirm data that have no identity recorded beside them")
            }
            Self::Foreign(detail) => write!(out, "a person; the data are foreign: {detail}"),
            Self::Damaged(detail) => write!(out, "the operator; the data are damaged: {detail}"),
            Self::NoRoom(space) => write!(out, "space: {space}; let the volume grow"),
            Self::Fenced => out.write_str("the fence to be lifted by the operator"),
            Self::Recovery => out.write_str("the recovery of its data to go on"),
            Self::Removed => out.write_str("the operator; etcd says that this member was removed from the cluster"),
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
