//! What is searched: where it begins, which faults may happen, and how many.

use operator::plan::facts::Medium;

use super::{
    super::{
        moves::Move,
        planners::Real,
        settle::End,
        world::{Sim, SimProcess},
    },
    Node,
};

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operator is killed, or hands over.
    Operator,
    /// It is killed in the middle of its upkeep.
    OperatorInUpkeep,
    /// Calls without an answer.
    Answers,
    /// Pods go.
    Pods,
    /// Data go or are damaged.
    Disks,
    /// etcd is killed.
    Etcd,
    /// Pods find no node.
    Nodes,
    /// Agents are not heard, or late.
    Links,
    /// The watches lag behind.
    Watches,
    /// Members are cut off from each other.
    Network,
    /// Leadership moves.
    Elections,
    /// People delete and remove.
    People,
    /// The whole cluster is deleted.
    End,
}

/// One search.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// etcd's version.
    pub version: &'static str,
    /// Where the data are.
    pub medium: Medium,
    /// The size it begins with.
    pub size: u32,
    /// It begins as a whole cluster; else from nothing.
    pub formed: bool,
    /// Sizes that it may be edited to.
    pub sizes: &'static [u32],
    /// How many edits.
    pub edits: u8,
    /// Which faults.
    pub kinds: &'static [Fault],
    /// How many.
    pub faults: u8,
}

use Fault::{
    Answers, Disks, Elections, End as Ending, Etcd, Links, Network, Nodes, Operator, OperatorInUpkeep, People, Pods,
    Watches,
};

const EVERYTHING: &[Fault] = &[
    Operator, Answers, Pods, Disks, Etcd, Nodes, Links, Watches, Network, Elections, People,
];

/// The full search.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "three members form, on disks",
        version: "3.6.16",
        medium: Medium::Disk,
        size: 3,
        formed: false,
        sizes: &[1, 2],
        edits: 1,
        kinds: &[Operator, OperatorInUpkeep, Answers, Pods, Disks, Links, People, Ending],
        faults: 1,
    },
    Profile {
        name: "three members form, in memory, etcd 3.5",
        version: "3.5.35",
        medium: Medium::Memory,
        size: 3,
        formed: false,
        sizes: &[],
        edits: 0,
        kinds: &[Operator, Answers, Pods, Etcd, Links],
        faults: 2,
    },
    Profile {
        name: "one to three and back, on disks",
        version: "3.6.16",
        medium: Medium::Disk,
        size: 1,
        formed: true,
        sizes: &[3, 1],
        edits: 2,
        kinds: &[Operator, Answers, Pods, Disks, Links, Elections],
        faults: 1,
    },
    Profile {
        name: "three members, everything, on disks",
        version: "3.6.16",
        medium: Medium::Disk,
        size: 3,
        formed: true,
        sizes: &[],
        edits: 0,
        kinds: EVERYTHING,
        faults: 2,
    },
    Profile {
        name: "three members, everything, in memory",
        version: "3.7.3",
        medium: Medium::Memory,
        size: 3,
        formed: true,
        sizes: &[],
        edits: 0,
        kinds: &[Operator, Answers, Pods, Etcd, Nodes, Links, Watches, Network, People],
        faults: 2,
    },
    Profile {
        name: "three, four and two, on disks",
        version: "3.6.16",
        medium: Medium::Disk,
        size: 3,
        formed: true,
        sizes: &[4, 2],
        edits: 1,
        kinds: EVERYTHING,
        faults: 1,
    },
    Profile {
        name: "paused and resumed",
        version: "3.6.16",
        medium: Medium::Disk,
        size: 3,
        formed: true,
        sizes: &[0, 3],
        edits: 2,
        kinds: &[Operator, Answers, Pods, Disks, Links, Watches, Ending],
        faults: 1,
    },
    Profile {
        name: "five members, everything, on disks",
        version: "3.6.16",
        medium: Medium::Disk,
        size: 5,
        formed: true,
        sizes: &[3],
        edits: 1,
        kinds: EVERYTHING,
        faults: 1,
    },
];

impl Profile {
    /// Where it begins.
    #[must_use]
    pub fn starts(&self) -> Vec<Sim> {
        let mut sim = Sim::new(self.size, self.version, self.medium);
        sim.leader_index = true;
        sim.logging = false;
        if self.formed {
            let end = sim.settle_calmly(&Real, &mut |_| false);
            assert_eq!(end, End::Whole, "{}", sim.describe());
            // So that a learner has something to catch up with.
            sim.etcd.index = 10_000;
            for disk in sim.members.iter_mut().filter_map(|member| member.disk.as_mut()) {
                disk.applied = sim.etcd.index;
            }
            sim.forget();
        }
        vec![sim]
    }

    /// What happens without any fault.
    pub(super) fn calm(node: &Node, moves: &mut Vec<Move>) {
        let sim = &node.sim;
        if sim.pass.is_empty() {
            moves.push(Move::Look);
            if sim.proposals.is_empty() && is_waiting(sim) {
                moves.push(Move::Minute);
            }
            if sim.unanswered.is_some() {
                moves.push(Move::Moment);
            }
        } else {
            moves.push(Move::Act);
            if sim.pass.len() > 1 {
                moves.push(Move::ActOnMembership);
            }
        }
        if !sim.proposals.is_empty() {
            moves.extend([Move::CarryOut, Move::GiveUp]);
        }
        for (index, member) in sim.members.iter().enumerate() {
            if sim.next_of(index).is_some() {
                moves.push(Move::Go(member.name.clone()));
            }
            if member.disk.as_ref().is_some_and(|disk| disk.unreadable) {
                moves.push(Move::ShowDisk(member.name.clone()));
            }
        }
        moves.extend(sim.cut_off.iter().cloned().map(Move::Hear));
        moves.extend(sim.isolated.iter().cloned().map(Move::Rejoin));
        moves.extend(sim.stuck.iter().cloned().map(Move::Unstick));
        moves.extend(sim.late.keys().cloned().map(Move::DeliverReport));
        if sim.cache.is_some() {
            moves.push(Move::ResumeWatches);
        }
    }

    /// What may go wrong.
    pub(super) fn faulty(&self, sim: &Sim, moves: &mut Vec<Move>) {
        for kind in self.kinds {
            match kind {
                Operator => moves.extend([Move::Crash, Move::HandOver]),
                OperatorInUpkeep => moves.extend((0..12).map(Move::LookAndDie)),
                Answers if !sim.pass.is_empty() => moves.extend([Move::LoseAnswer, Move::AnswerLate]),
                Watches => moves.push(Move::StallWatches),
                Ending => moves.push(Move::DeleteCluster),
                People if sim.etcd.formed() => moves.push(Move::AddStranger),
                _ => {}
            }
        }
        for member in &sim.members {
            let name = || member.name.clone();
            let runs = member.pod.as_ref().is_some_and(|pod| pod.process != SimProcess::Absent);
            for kind in self.kinds {
                match kind {
                    Pods if member.pod.is_some() => moves.extend([Move::LosePod(name()), Move::EvictPod(name())]),
                    Disks => moves.extend([Move::LoseDisk(name()), Move::DamageDisk(name()), Move::HideDisk(name())]),
                    Etcd if runs => moves.push(Move::KillEtcd(name())),
                    Nodes if member.pod.as_ref().is_none_or(|pod| !pod.up) => moves.push(Move::Stick(name())),
                    Links if runs => moves.extend([Move::CutOff(name()), Move::DelayReport(name())]),
                    Network if runs => moves.push(Move::Isolate(name())),
                    Elections if runs => moves.push(Move::Lead(name())),
                    People => moves.extend([Move::DeleteMember(name()), Move::RemoveByHand(name())]),
                    _ => {}
                }
            }
        }
    }

    /// It counts against the number of faults.
    pub(super) fn is_fault(it: &Move) -> bool {
        match it {
            Move::Look
            | Move::Act
            | Move::ActOnMembership
            | Move::CarryOut
            | Move::GiveUp
            | Move::Go(_)
            | Move::Moment
            | Move::Minute
            | Move::ShowDisk(_)
            | Move::Unstick(_)
            | Move::Hear(_)
            | Move::Rejoin(_)
            | Move::DeliverReport(_)
            | Move::ResumeWatches
            | Move::Scale(_) => false,
            Move::LookAndDie(_)
            | Move::LoseAnswer
            | Move::AnswerLate
            | Move::Crash
            | Move::HandOver
            | Move::LosePod(_)
            | Move::EvictPod(_)
            | Move::LoseDisk(_)
            | Move::DamageDisk(_)
            | Move::HideDisk(_)
            | Move::KillEtcd(_)
            | Move::Stick(_)
            | Move::CutOff(_)
            | Move::Isolate(_)
            | Move::DelayReport(_)
            | Move::StallWatches
            | Move::DeleteMember(_)
            | Move::RemoveByHand(_)
            | Move::AddStranger
            | Move::Lead(_)
            | Move::DeleteCluster => true,
        }
    }
}

/// The operator waits for time to pass, or something of the world does.
fn is_waiting(sim: &Sim) -> bool {
    let now = sim.now;
    let within = |at, seconds| now.duration_since(at) < jiff::SignedDuration::from_secs(seconds);
    let fresh = sim.members.iter().any(|member| {
        let sent = member.sent.as_ref().is_some_and(|sent| within(sent.at, 2));
        let pod = member.pod.as_ref().is_some_and(|pod| within(pod.created, 10));
        let starting = |process: &SimProcess| matches!(process, SimProcess::Starting(_));
        let starts = member
            .pod
            .as_ref()
            .is_some_and(|pod| starting(&pod.process) && within(pod.started_at, 6));
        sent || pod || starts
    });
    sim.down || sim.refusal.is_some() || sim.unanswered.is_some() || !sim.etcd.young.is_empty() || fresh
}
