//! The invariants of the architecture, watched over a whole run.

use std::collections::BTreeMap;

use operator::plan::{
    facts::{Fact, Facts, Id},
    place::{Place, Volume},
    quorum::Quorum,
    step::{Order, Plan, Step},
    view::View,
};

use super::world::{Disk, Sim, SimProcess, Violation};

/// What must never happen twice: seeds by incarnation, directories by ID.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    pub(super) seeds: BTreeMap<u64, (String, String)>,
    pub(super) bindings: BTreeMap<Id, String>,
    pub(super) starts: BTreeMap<Id, String>,
}

impl Checks {
    fn seeded(&mut self, incarnation: u64, member: &str, nonce: &str) -> Option<String> {
        let seed = (member.to_owned(), nonce.to_owned());
        let first = self.seeds.entry(incarnation).or_insert_with(|| seed.clone());
        (*first != seed).then(|| format!("two seeds in incarnation {incarnation}: {first:?} and {seed:?}"))
    }

    /// An ID is bound to one directory for ever.
    pub(super) fn bound(&mut self, id: Id, nonce: &str) -> Option<String> {
        let first = self.bindings.entry(id).or_insert_with(|| nonce.to_owned());
        (first != nonce).then(|| format!("{id} is bound to {nonce}, and was to {first}"))
    }

    /// And starts on no other.
    pub(super) fn started(&mut self, id: Id, nonce: &str) -> Option<String> {
        let first = self.starts.entry(id).or_insert_with(|| nonce.to_owned());
        if first != nonce {
            return Some(format!("{id} starts on {nonce}, and did on {first}"));
        }
        (self.bindings.get(&id) != Some(first)).then(|| format!("{id} starts on {nonce}, to which it is not bound"))
    }

    /// What is nowhere any more never comes back: it need not be remembered.
    pub(super) fn forget(&mut self, known: impl Fn(&Id) -> bool) {
        self.bindings.retain(|id, _| known(id));
        self.starts.retain(|id, _| known(id));
    }
}

/// How it was when an order came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// There was a cluster.
    pub formed: bool,
    /// The order had been carried out on that directory.
    pub replayed: bool,
    /// The directory was damaged.
    pub damaged: bool,
}

/// Its place has been gone for as long as is waited for it, by Kubernetes' word, or a person wants another one.
fn place_is_gone(facts: &Facts, place: &Place) -> bool {
    let lost = match place.volume {
        Volume::Gone { since } => Some(since),
        Volume::Unknown | Volume::Movable | Volume::Stranded => None,
    };
    let times = [
        place.node.lost_since(),
        lost,
        place.ends,
        place.unplaced,
        place.unprepared,
    ];
    let long_ago = |since: jiff::Timestamp| since + facts.cluster.spec.node_loss <= facts.now;
    place.replace || times.into_iter().flatten().any(long_ago)
}

impl Sim {
    /// Remembers the first one.
    pub(super) fn violated(&mut self, invariant: u8, broken: Option<String>) {
        if let (Some(what), None) = (broken, &self.violation) {
            self.say(|| format!("  ## invariant {invariant}: {what}"));
            self.violation = Some(Violation { invariant, what });
        }
    }

    fn is_kept(&self, member: &str) -> bool {
        self.retained
            .iter()
            .any(|claim| claim.strip_prefix("data-") == Some(member))
    }

    fn must(&mut self, invariant: u8, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violated(invariant, Some(what()));
        }
    }

    /// What an order does to a directory (invariants 4, 6, 12).
    pub(super) fn check_order(&mut self, name: &str, nonce: &str, order: &Order, before: Before) {
        let Before {
            formed,
            replayed,
            damaged,
        } = before;
        self.must(12, !replayed, || {
            format!(
                "{} is carried out by {name} on {nonce}, which has started",
                order.kind()
            )
        });
        match order {
            Order::Seed { incarnation, .. } => {
                let recorded = self.record.seed.as_ref();
                let is_recorded = recorded.is_some_and(|seed| seed.member == name && seed.nonce == nonce);
                self.must(4, is_recorded, || {
                    format!("{name} is told `new` and not recorded as the seed")
                });
                self.must(4, !formed, || format!("{name} is told `new` beside a formed cluster"));
                let twice = self.checks.seeded(*incarnation, name, nonce);
                self.violated(4, twice);
            }
            Order::Quarantine { removed, .. } => {
                // Before the cluster is recorded nobody was led to it, and a damaged seed makes room for another.
                let listed = self.etcd.entry(*removed).is_some();
                self.must(6, !listed || (damaged && self.record.cluster_id.is_none()), || {
                    format!("the directory of {name} is set aside while etcd counts on {removed}")
                });
            }
            Order::Join { .. } | Order::Fence { .. } | Order::Lift { .. } | Order::Recover { .. } => {}
        }
    }

    /// A plan, by the facts that it rests on (invariants 1, 7, 8) and by the truth of that moment (2, 3).
    pub(super) fn check_plan(&mut self, facts: &Facts, plan: &Plan) {
        let count = plan.steps().filter(|step| step.is_consensus()).count();
        self.must(1, count <= 1, || "two changes of membership in one plan".into());
        if self.ending || self.record.cluster_id.is_none() {
            return;
        }
        let judged = operator::plan::quorum::judge(&View::new(facts));
        // What was heard last is all that can be said while reports are late.
        if judged == Quorum::Healthy && self.late.is_empty() {
            let stands = self.etcd.has_quorum();
            self.must(8, stands, || "said to be healthy without a quorum".into());
        }
        let known = matches!(facts.list, Fact::Known { .. });
        let surplus = facts.members.iter().filter(|member| !member.deleting).count()
            > self.record.replicas.unwrap_or_default() as usize;
        for step in plan.steps() {
            let final_one = step.is_consensus()
                || matches!(
                    step,
                    Step::DeleteMember { .. }
                        | Step::ReleaseMember { .. }
                        | Step::Direct {
                            order: Order::Quarantine { .. },
                            ..
                        }
                );
            // What is kept outlives its object (M12).
            let kept = matches!(step, Step::ReleaseMember { member, .. }
                if self.is_kept(member) || plan.steps().any(|other| matches!(other, Step::RetainClaim { member: kept } if kept == member)));
            self.must(7, known || kept || !final_one, || {
                format!("{} without a member list", step.kind())
            });
            self.check_intent(step);
            let Step::Remove { member, id, .. } = step else {
                continue;
            };
            let fact = facts.members.iter().find(|fact| fact.name == *member);
            let gone = fact.is_some_and(|fact| place_is_gone(facts, &fact.place));
            let silent = fact.is_some_and(|fact| fact.link.live().is_none() && !fact.deleting) && !gone;
            self.must(7, surplus || !silent, || {
                format!("{member} is removed because it is not heard")
            });
            let lost = self
                .owner(*id)
                .and_then(|member| member.disk.as_ref())
                .is_none_or(|disk| !disk.usable());
            let wanted = surplus || gone || fact.is_none_or(|fact| fact.deleting);
            self.must(7, wanted || lost, || {
                format!("{member} is removed, and its data are whole")
            });
        }
    }

    /// etcd's own refusal must not be what saves the quorum.
    fn check_intent(&mut self, step: &Step) {
        let (voters, running) = (self.etcd.voters(), self.etcd.healthy());
        let of = |id: &Id| self.etcd.entry(*id);
        let runs = |id: &Id| usize::from(self.etcd.follows(*id));
        match step {
            Step::Remove { id, .. } if of(id).is_some_and(|entry| !entry.learner) => {
                let left = voters - 1;
                let stands = left > 0 && running - runs(id) > left / 2;
                self.must(2, stands, || format!("Remove {id} asks for the end of the quorum"));
            }
            Step::Promote { id, .. } if of(id).is_some_and(|entry| entry.learner) => {
                let stands = running + runs(id) > voters.div_ceil(2);
                self.must(2, stands, || format!("Promote {id} asks for the end of the quorum"));
                let applied = self
                    .owner(*id)
                    .and_then(|member| member.disk.as_ref())
                    .map_or(0, |disk| disk.applied);
                let behind = self.etcd.index.saturating_sub(applied);
                let near = behind <= 500.max(self.etcd.index / 1000);
                self.must(3, near, || format!("{id} is promoted {behind} behind"));
            }
            Step::DeleteMember { member, .. } => {
                let url = self.find(member).map(super::world::SimMember::peer_url);
                let listed = self.etcd.list.iter().any(|entry| Some(&entry.peer_url) == url.as_ref());
                self.must(6, !listed, || format!("{member} is deleted while etcd lists it"));
            }
            _ => {}
        }
    }

    /// Carried out now, it would change something: etcd refuses what was done meanwhile.
    fn still_matters(&self, step: &Step) -> bool {
        match step {
            Step::AddLearner { peer_url, .. } => self.etcd.list.iter().all(|entry| entry.peer_url != *peer_url),
            Step::Promote { id, .. } => self.etcd.entry(*id).is_some_and(|entry| entry.learner),
            Step::Remove { id, .. } => self.etcd.entry(*id).is_some(),
            // Whoever has ceased to lead hands nothing over.
            Step::MoveLeader { via, id, .. } => {
                self.etcd.leader != Some(*id) && self.etcd.leader.is_some() && self.etcd.leader == self.id_of(via)
            }
            _ => true,
        }
    }

    /// A step at the moment when it is carried out.
    pub(super) fn check_step(&mut self, step: &Step) {
        let open = self
            .proposals
            .iter()
            .any(|open| !step.is_same_change(&open.step) && self.still_matters(&open.step));
        self.must(1, !step.is_consensus() || !open, || {
            format!("{} while another change may still be carried out", step.kind())
        });
        match step {
            Step::ReleaseMember { member, .. } if self.record.cluster_id.is_some() && !self.ending => {
                let disk = self.find(member).and_then(|one| one.disk.as_ref());
                let id = disk.and_then(Disk::id);
                let counted_on = id.is_some_and(|id| self.etcd.entry(id).is_some());
                let kept = self.is_kept(member);
                self.must(6, kept || !counted_on, || {
                    format!("the data of {member} go while etcd counts on them")
                });
            }
            // Their memory is all the data there are.
            Step::DeletePod { member, .. } if self.spec.medium == operator::plan::facts::Medium::Memory => {
                let of = self.find(member);
                let id = of.and_then(|member| member.disk.as_ref()).and_then(Disk::id);
                let counted_on = id.is_some_and(|id| self.etcd.entry(id).is_some());
                let pod = of.and_then(|member| member.pod.as_ref());
                let runs = counted_on && pod.is_some_and(|pod| pod.process == SimProcess::Running);
                self.must(6, !runs, || format!("the memory of {member} goes with its Pod"));
            }
            _ => {}
        }
    }

    /// The state as it is now.
    pub(super) fn check(&mut self) {
        let learners = self.etcd.list.iter().filter(|entry| entry.learner).count();
        let most = self.etcd.max_learners;
        self.must(1, learners <= most || !self.etcd.formed(), || {
            format!("{learners} learners")
        });
        // U10: a learner is never behind the client Service.
        let labelled = self.members.iter().find(|member| {
            let id = member.disk.as_ref().and_then(Disk::id);
            let learner = id.and_then(|id| self.etcd.entry(id)).is_some_and(|entry| entry.learner);
            let serves = |process: &SimProcess| *process == SimProcess::Running;
            learner
                && member
                    .pod
                    .as_ref()
                    .is_some_and(|pod| pod.voter_label && serves(&pod.process))
        });
        if let Some(name) = labelled.map(|member| member.name.clone()) {
            self.violated(3, Some(format!("learner {name} is labelled as a voter")));
        }
    }
}
