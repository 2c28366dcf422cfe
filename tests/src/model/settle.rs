//! The end of all faults, and what must follow: from wherever it is, the cluster gets to its target.

use operator::plan::facts::Medium;

use super::{
    moves::Move,
    planners::Planner,
    world::{Disk, Sim},
};

/// What became of a run without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The target is reached, and nothing is left to do.
    Whole,
    /// Nothing happens any more, and the target is not reached.
    Stuck,
    /// It does not come to rest.
    Restless,
}

/// More moves than any run without faults takes.
const MOST: usize = 600;

impl Sim {
    /// All faults end: what was cut off is connected, what was held up goes on.
    pub fn heal(&mut self) {
        self.stuck.clear();
        self.cut_off.clear();
        self.isolated.clear();
        self.late.clear();
        self.cache = None;
        self.unschedulable = false;
        self.links_down = false;
        for member in &mut self.members {
            if let Some(disk) = &mut member.disk {
                disk.unreadable = false;
            }
        }
        self.refresh();
    }

    /// A quorum of those who vote have their data: without that there is nothing that membership alone could do.
    #[must_use]
    pub fn can_be_whole(&self) -> bool {
        if self.ending {
            return true;
        }
        if !self.etcd.formed() {
            // A lone member that is damaged before it ever served waits for a person.
            let damaged = |disk: &Disk| disk.damaged;
            let mut disks = self.members.iter().filter_map(|member| member.disk.as_ref());
            return self.spec.replicas != 1 || !disks.any(damaged);
        }
        // All voters' objects were deleted: their claims are kept, and nothing is made in their place (M12).
        let mut voters = self.etcd.list.iter().filter(|entry| !entry.learner);
        let deleted = |id| self.owner(id).is_none_or(|member| member.deleting);
        if self.spec.medium == Medium::Disk && voters.all(|entry| deleted(entry.id)) {
            return false;
        }
        let whole = self
            .etcd
            .list
            .iter()
            .filter(|entry| !entry.learner)
            .filter(|entry| {
                let owner = self.owner(entry.id);
                let lasts = |disk: &Disk| {
                    disk.started
                        && !disk.damaged
                        && !disk.removed
                        && disk.identity.map(|(_, of)| of) == self.etcd.cluster_id
                };
                owner.is_some_and(|member| {
                    let pod = self.spec.medium == Medium::Disk || member.pod.as_ref().is_some_and(|pod| !pod.deleting);
                    pod && member.disk.as_ref().is_some_and(lasts)
                })
            })
            .count();
        whole > self.voters() / 2
    }

    /// The next move of a run without faults.
    fn next_calm(&self) -> Option<Move> {
        if !self.proposals.is_empty() {
            return Some(if self.etcd.has_quorum() {
                Move::CarryOut
            } else {
                Move::GiveUp
            });
        }
        if !self.pass.is_empty() {
            return Some(Move::Act);
        }
        if let Some(index) = (0..self.members.len()).find(|index| self.next_of(*index).is_some()) {
            return Some(Move::Go(self.members[index].name.clone()));
        }
        if self.down {
            return Some(Move::Minute);
        }
        None
    }

    /// Goes on without faults until nothing is left to do. `seen` is shown each state; true: its end is known to be good.
    pub fn settle_calmly(&mut self, planner: &dyn Planner, seen: &mut dyn FnMut(&Self) -> bool) -> End {
        let mut idle = 0;
        for _ in 0..MOST {
            if seen(self) {
                return End::Whole;
            }
            if let Some(next) = self.next_calm() {
                self.perform(&next, planner);
                idle = 0;
                continue;
            }
            let before = (self.carried_out, self.pass.len());
            self.perform(&Move::Look, planner);
            if (self.carried_out, self.pass.len()) != before {
                idle = 0;
                continue;
            }
            // Nothing to do now: in a while, perhaps.
            idle += 1;
            match idle {
                1 | 2 => self.perform(&Move::Moment, planner),
                3 => self.perform(&Move::Minute, planner),
                _ if self.is_right() => return End::Whole,
                _ => return End::Stuck,
            };
        }
        End::Restless
    }

    /// It is whole, and all around it is as it should be.
    #[must_use]
    pub fn is_right(&self) -> bool {
        use operator::plan::facts::{Budget, ServiceState};
        let strangers = self
            .etcd
            .list
            .iter()
            .any(|entry| !entry.peer_url.contains(".c.ns.svc:"));
        let whole = if strangers {
            let mut without = self.clone();
            without.etcd.list.retain(|entry| entry.peer_url.contains(".c.ns.svc:"));
            without.is_whole()
        } else {
            self.is_whole()
        };
        if self.ending {
            return whole;
        }
        let target = self.spec.replicas;
        if target == 0 {
            return whole;
        }
        let wanted = operator::resources::min_available(target, target);
        let budget = match self.budget {
            Budget::Ours { min_available, current } => current && min_available == wanted,
            Budget::Absent | Budget::Foreign => wanted.is_none(),
        };
        whole && budget && self.headless == ServiceState::Current && self.client == ServiceState::Current
    }
}
