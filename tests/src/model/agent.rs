//! Kubelet, the agents and etcd's processes: what each does next by itself, and what an order does.

use operator::plan::{
    facts::Medium,
    step::{Order, Step},
};

use super::{
    check::Before,
    world::{Disk, Sim, SimProcess},
};

/// What comes next for a member, without anybody's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its Pod, which is being deleted, is gone.
    PodGone,
    /// Its Pod is scheduled, its volume bound, its agent and its supervisor are up.
    Up,
    /// etcd is started again on a directory with a recorded identity.
    Restart,
    /// The first start gets so far that a log is written.
    Log,
    /// etcd serves.
    Serve,
    /// etcd has learnt that it was removed, and ends.
    End,
    /// A learner or follower has applied some of what it has missed.
    CatchUp,
}

/// A learner in this distance is in sync in etcd's eyes, and not in ours.
const NEARLY: u64 = 600;

impl Sim {
    /// What the member of that index does next.
    #[must_use]
    pub fn next_of(&self, index: usize) -> Option<Next> {
        let member = &self.members[index];
        let pod = member.pod.as_ref()?;
        if member.place.node.lost_since().is_some() {
            return None;
        }
        if pod.deleting {
            return Some(Next::PodGone);
        }
        if !pod.up {
            let placed = !self.unschedulable && !self.stuck.contains(&member.name);
            let bound = self.spec.medium == Medium::Memory || member.claim;
            return (placed && bound && member.secret).then_some(Next::Up);
        }
        let disk = member.disk.as_ref()?;
        if disk.unreadable || disk.damaged {
            return None;
        }
        let (id, cluster) = disk.identity?;
        let rogue = self.etcd.formed() && self.etcd.cluster_id != Some(cluster);
        let listed = self.etcd.entry(id);
        let in_touch = self.in_touch(&member.name);
        match &pod.process {
            SimProcess::Absent => None,
            SimProcess::Held => disk.usable().then_some(Next::Restart),
            SimProcess::Starting(0) => Some(Next::Log),
            SimProcess::Starting(_) if rogue || !self.etcd.formed() => Some(Next::Serve),
            SimProcess::Starting(_) => match listed {
                Some(entry) if !entry.name.is_empty() => Some(Next::Serve),
                Some(_) => in_touch.then_some(Next::Serve),
                None => in_touch.then_some(Next::End),
            },
            SimProcess::Running if rogue || !self.etcd.formed() => None,
            SimProcess::Running if !in_touch => None,
            SimProcess::Running => match listed {
                None => Some(Next::End),
                Some(_) => (disk.applied < self.etcd.index).then_some(Next::CatchUp),
            },
        }
    }

    /// Does it.
    pub fn go(&mut self, index: usize, next: Next) {
        let name = self.members[index].name.clone();
        match next {
            Next::PodGone => {
                let memory = self.spec.medium == Medium::Memory;
                let member = &mut self.members[index];
                member.pod = None;
                member.place = operator::plan::place::Place::default();
                if memory {
                    member.disk = None;
                }
            }
            Next::Up => {
                if self.members[index].disk.is_none() {
                    let nonce = self.fresh_name("nonce");
                    self.members[index].disk = Some(Disk::empty(nonce));
                }
                if let Some(pod) = &mut self.members[index].pod {
                    pod.scheduled = true;
                    pod.up = true;
                    pod.process = SimProcess::Held;
                }
            }
            Next::Restart => self.start(index, SimProcess::Starting(1)),
            Next::Log => self.log_is_written(index),
            Next::Serve => {
                let peer_url = self.members[index].peer_url();
                if let Some((id, cluster)) = self.members[index].disk.as_ref().and_then(|disk| disk.identity)
                    && (!self.etcd.formed() || self.etcd.cluster_id == Some(cluster))
                {
                    self.etcd.publish(id, cluster, &name, &peer_url);
                }
                if let Some(pod) = &mut self.members[index].pod {
                    pod.process = SimProcess::Running;
                }
            }
            Next::End => {
                let member = &mut self.members[index];
                if let (Some(pod), Some(disk)) = (&mut member.pod, &mut member.disk) {
                    pod.process = SimProcess::Held;
                    disk.removed = true;
                }
            }
            Next::CatchUp => {
                let to = self.etcd.index;
                if let Some(disk) = &mut self.members[index].disk {
                    disk.applied = if disk.applied.saturating_add(NEARLY) < to {
                        to - NEARLY
                    } else {
                        to
                    };
                }
            }
        }
        self.refresh();
    }

    fn start(&mut self, index: usize, process: SimProcess) {
        let now = self.now;
        if let Some(pod) = &mut self.members[index].pod {
            pod.process = process;
            pod.started_at = now;
        }
    }

    /// The point from which an ID has started on a directory.
    fn log_is_written(&mut self, index: usize) {
        let listed = self.etcd.list.len();
        let member = &mut self.members[index];
        let (Some(pod), Some(disk)) = (&mut member.pod, &mut member.disk) else {
            return;
        };
        // etcd compares the list in its configuration with the one its peers give.
        if disk.expects.is_some_and(|count| count != listed) && !disk.started {
            pod.process = SimProcess::Held;
            let name = member.name.clone();
            self.say(|| format!("      {name}: member count is unequal"));
            return;
        }
        disk.started = true;
        pod.process = SimProcess::Starting(1);
        if let (Some(id), nonce) = (disk.id(), disk.nonce.clone()) {
            let broken = self.checks.started(id, &nonce);
            self.violated(5, broken);
        }
    }

    /// Takes an order, as an agent does: `new` and `existing` only for the directory it is meant for, and only once.
    pub fn order(&mut self, name: &str, number: u64, nonce: &str, order: &Order) -> bool {
        if self.links_down || self.cut_off.iter().any(|cut| cut == name) {
            return false;
        }
        let fresh = self.fresh_name("nonce");
        let replays = self.agents_replay;
        let formed = self.etcd.formed();
        let Some(index) = self.members.iter().position(|member| member.name == name) else {
            return false;
        };
        let member = &mut self.members[index];
        let (Some(pod), Some(disk)) = (&mut member.pod, &mut member.disk) else {
            return false;
        };
        if !pod.up || pod.deleting || number <= pod.directive {
            return false;
        }
        let once = matches!(order, Order::Seed { .. } | Order::Join { .. });
        let refused = nonce != disk.nonce || (disk.started && !replays) || pod.process != SimProcess::Held;
        if once && (refused || disk.unreadable || disk.damaged) {
            return false;
        }
        let before = Before {
            formed,
            replayed: once && disk.started,
            damaged: disk.damaged,
        };
        match order {
            Order::Seed {
                member_id,
                cluster_id,
                incarnation,
                ..
            } => {
                disk.incarnation = *incarnation;
                disk.identity = Some((*member_id, *cluster_id));
                disk.expects = None;
            }
            Order::Join {
                member_id,
                cluster_id,
                members,
                incarnation,
                ..
            } => {
                disk.incarnation = *incarnation;
                disk.identity = Some((*member_id, *cluster_id));
                disk.expects = Some(members.len());
            }
            // Nobody asks for a recovery in this model.
            Order::Fence { .. } | Order::Lift { .. } | Order::Recover { .. } => {}
            Order::Quarantine { removed, .. } => {
                if disk.id() != Some(*removed) {
                    return false;
                }
                *disk = Disk::empty(fresh);
                pod.process = SimProcess::Held;
            }
        }
        pod.directive = number;
        if once {
            self.start(index, SimProcess::Starting(0));
        }
        self.check_order(name, nonce, order, before);
        self.refresh();
        true
    }

    /// Objects that nothing holds any more go, with all that is under them.
    pub(super) fn sweep(&mut self) {
        self.members.retain(|member| !member.deleting || member.finalizer);
    }

    /// Nothing is between that member and the leader, if there is one.
    fn in_touch(&self, name: &str) -> bool {
        let cut = |name: &str| self.isolated.iter().any(|one| one == name);
        let leader = self.etcd.leader.and_then(|id| self.owner(id));
        leader.is_some_and(|leader| cut(&leader.name) == cut(name))
    }

    /// The voter that a call goes through.
    pub(super) fn via(step: &Step) -> Option<&str> {
        match step {
            Step::AddLearner { via, .. }
            | Step::Promote { via, .. }
            | Step::Remove { via, .. }
            | Step::MoveLeader { via, .. } => Some(via),
            _ => None,
        }
    }
}
