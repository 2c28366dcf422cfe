//! From a decision and the state of the process to the next act. Pure.

use super::decide::{Decision, Why};
use super::standing::StartKind;

/// The process, as the supervisor has last said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No supervisor is connected.
    Absent,
    /// It waits for a start order.
    Waiting,
    /// etcd runs.
    Running,
    /// etcd has ended and will be started again by the supervisor itself.
    BackingOff,
    /// etcd is being stopped.
    Stopping,
    /// A job of the supervisor's works on the directory.
    Working,
}

/// Circumstances of the act.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The process.
    pub phase: Phase,
    /// A new start is due: no back-off runs.
    pub due: bool,
    /// WAL and identity are there: a start that may be repeated is possible.
    pub repeatable: bool,
    /// The supervisor holds the configuration that it should repeat.
    pub current: bool,
}

/// The next act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// None.
    Nothing,
    /// Order a first start.
    StartOnce(StartKind),
    /// Order a start that may be repeated.
    StartRepeatable,
    /// Give the running etcd's configuration to the supervisor, for restarts without the agent.
    SetRepeatable,
    /// Stop etcd, or the supervisor's own attempts to start it.
    Stop(String),
    /// Make a new nonce, forget what was recorded.
    Renew,
    /// Set the directory aside, then the same.
    SetAside,
    /// Put the fence up.
    PutFence,
    /// Take the fence away.
    LiftFence,
    /// Begin the recovery, or go on with it.
    Recover,
}

impl Act {
    /// For logs.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Nothing => "do nothing",
            Self::StartOnce(_) => "order the first start of etcd",
            Self::StartRepeatable => "order a start of etcd",
            Self::SetRepeatable => "give etcd's configuration for restarts",
            Self::Stop(_) => "stop etcd",
            Self::Renew => "make a new directory nonce",
            Self::SetAside => "set the data directory aside",
            Self::PutFence => "put a fence up",
            Self::LiftFence => "lift the fence",
            Self::Recover => "make a new history of the data directory",
        }
    }
}

/// What to do now.
#[must_use]
pub fn act(decision: &Decision, now: Circumstances) -> Act {
    match now.phase {
        // A file, written whatever etcd does.
        Phase::Stopping | Phase::Running | Phase::Waiting | Phase::BackingOff if *decision == Decision::PutFence => {
            Act::PutFence
        }
        Phase::Absent | Phase::Stopping | Phase::Working => Act::Nothing,
        Phase::Running => match decision {
            Decision::Stop(why) => Act::Stop(stop_reason(why)),
            Decision::LiftFence => Act::LiftFence,
            Decision::Observe if now.repeatable && !now.current => Act::SetRepeatable,
            // Each of the others was made before etcd ran, or is none for a running etcd.
            Decision::Observe
            | Decision::Once(_)
            | Decision::Repeatable
            | Decision::Renew
            | Decision::SetAside
            | Decision::PutFence
            | Decision::Recover
            | Decision::Retry(_)
            | Decision::Wait(_) => Act::Nothing,
        },
        Phase::Waiting => match decision {
            Decision::Once(kind) if now.due => Act::StartOnce(*kind),
            Decision::Repeatable if now.due => Act::StartRepeatable,
            Decision::Renew => Act::Renew,
            Decision::SetAside => Act::SetAside,
            Decision::LiftFence => Act::LiftFence,
            Decision::Recover if now.due => Act::Recover,
            Decision::Once(_)
            | Decision::Repeatable
            | Decision::Recover
            | Decision::PutFence
            | Decision::Observe
            | Decision::Stop(_)
            | Decision::Retry(_)
            | Decision::Wait(_) => Act::Nothing,
        },
        // The supervisor would start it again by itself: only a repeatable start may be left to it.
        Phase::BackingOff => match decision {
            Decision::Repeatable if now.due => Act::StartRepeatable,
            Decision::Repeatable | Decision::Observe | Decision::Retry(_) => Act::Nothing,
            Decision::Once(_) => Act::Stop("a first start stands for this directory".to_owned()),
            Decision::Renew => Act::Stop("the data are gone".to_owned()),
            Decision::SetAside => Act::Stop(stop_reason(&Why::Quarantine)),
            Decision::Recover => Act::Stop(stop_reason(&Why::Recovery)),
            // A start behind it is refused, and it goes in the next moment.
            Decision::LiftFence => Act::LiftFence,
            Decision::PutFence => Act::PutFence,
            Decision::Wait(why) | Decision::Stop(why) => Act::Stop(stop_reason(why)),
        },
    }
}

fn stop_reason(why: &Why) -> String {
    format!("waits for {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions() -> [Decision; 8] {
        [
            Decision::Once(StartKind::Seed),
            Decision::Repeatable,
            Decision::Observe,
            Decision::Stop(Why::Held("maintenance".to_owned())),
            Decision::Renew,
            Decision::SetAside,
            Decision::Retry("EIO".to_owned()),
            Decision::Wait(Why::Removed),
        ]
    }

    fn row(phase: Phase, due: bool, repeatable: bool, current: bool) -> Vec<Act> {
        let now = Circumstances {
            phase,
            due,
            repeatable,
            current,
        };
        decisions().iter().map(|decision| act(decision, now)).collect()
    }

    #[test]
    fn nothing_is_ordered_without_a_supervisor_or_while_etcd_stops() {
        for phase in [Phase::Absent, Phase::Stopping] {
            assert_eq!(row(phase, true, true, false), vec![Act::Nothing; 8]);
        }
    }

    #[test]
    fn a_running_etcd_is_only_ever_stopped_on_a_decision_to_stop() {
        for repeatable in [false, true] {
            for current in [false, true] {
                let mut expected = vec![Act::Nothing; 8];
                expected[3] = Act::Stop("waits for Resume from the operator; held: maintenance".to_owned());
                if repeatable && !current {
                    expected[2] = Act::SetRepeatable;
                }
                assert_eq!(row(Phase::Running, true, repeatable, current), expected);
            }
        }
    }

    #[test]
    fn a_waiting_supervisor_gets_its_start_order_when_it_is_due() {
        let mut expected = vec![Act::Nothing; 8];
        expected[4] = Act::Renew;
        expected[5] = Act::SetAside;
        assert_eq!(row(Phase::Waiting, false, true, false), expected);
        expected[0] = Act::StartOnce(StartKind::Seed);
        expected[1] = Act::StartRepeatable;
        assert_eq!(row(Phase::Waiting, true, true, false), expected);
    }

    #[test]
    fn the_supervisors_own_restarts_are_ended_unless_the_start_is_repeatable() {
        for due in [false, true] {
            let acts = row(Phase::BackingOff, due, true, true);
            for (decision, act) in decisions().iter().zip(&acts) {
                match decision {
                    Decision::Repeatable if due => assert_eq!(*act, Act::StartRepeatable),
                    Decision::Repeatable | Decision::Observe | Decision::Retry(_) => assert_eq!(*act, Act::Nothing),
                    _ => assert!(matches!(act, Act::Stop(_)), "{decision:?} gave {act:?}"),
                }
            }
        }
    }
}
