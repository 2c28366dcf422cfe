//! The invariants of the architecture, watched over a whole run.

use std::collections::BTreeMap;

use operator::plan::{
    facts::{Fact, Facts, Id},
    place::{Place, Volume},
    step::{Order, Plan, Step},
};

use super::world::Sim;

#[derive(Default)]
pub struct Checks {
    seeds: BTreeMap<u64, (String, String)>,
    bindings: BTreeMap<Id, String>,
    starts: BTreeMap<Id, String>,
}

impl Checks {
    /// Invariant 4: `new` at most once an incarnation, for one member and one directory.
    pub fn seeded(&mut self, incarnation: u64, member: &str, nonce: &str, formed: bool) {
        assert!(!formed, "invariant 4: a seed beside a formed cluster");
        let seed = (member.to_owned(), nonce.to_owned());
        let first = self.seeds.entry(incarnation).or_insert_with(|| seed.clone());
        assert_eq!(*first, seed, "invariant 4: two seeds in incarnation {incarnation}");
    }

    /// Invariant 5: an ID is bound to one directory for ever.
    pub fn bound(&mut self, id: Id, nonce: &str) {
        let first = self.bindings.entry(id).or_insert_with(|| nonce.to_owned());
        assert_eq!(first, nonce, "invariant 5: {id} is bound to a second directory");
    }

    /// Invariant 5: and starts on no other.
    pub fn started(&mut self, id: Id, nonce: &str) {
        let first = self.starts.entry(id).or_insert_with(|| nonce.to_owned());
        assert_eq!(first, nonce, "invariant 5: {id} started on a second directory");
        assert_eq!(
            self.bindings.get(&id),
            Some(&*first),
            "invariant 5: {id} started unbound"
        );
    }
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
    /// Invariant 7: unknown is not absent. What cannot be taken back rests on nothing that was not heard.
    pub fn check_plan(&self, facts: &Facts, plan: &Plan) {
        let formed = self.record.cluster_id.is_some();
        if !formed || self.ending {
            return;
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
                if plan.steps().any(|other| matches!(other, Step::RetainClaim { member: kept } if kept == member)) || self.retained.contains(&format!("data-{member}")));
            assert!(
                known || kept || !final_one,
                "invariant 7: {step:?} without a member list\n{}",
                self.story()
            );
            let Step::Remove { member, .. } = step else { continue };
            let silent = facts
                .members
                .iter()
                .find(|fact| fact.name == *member)
                .is_some_and(|fact| fact.link.live().is_none() && !fact.deleting && !place_is_gone(facts, &fact.place));
            assert!(
                surplus || !silent,
                "invariant 7: {member} is removed because it is not heard\n{}",
                self.story()
            );
        }
    }

    /// Invariants 2 and 6, by the truth of the model: etcd's own refusal must not be what saves the quorum.
    pub fn check_step(&self, step: &Step) {
        let (voters, running) = (self.etcd.voters(), self.etcd.healthy());
        let of = |id: &Id| self.etcd.list.iter().find(|entry| entry.id == *id);
        let runs = |id: &Id| usize::from(self.etcd.running.contains(id));
        match step {
            Step::Remove { id, .. } if of(id).is_some_and(|entry| !entry.learner) => {
                let left = voters - 1;
                assert!(
                    left > 0 && running - runs(id) > left / 2,
                    "invariant 2: {step:?} asks for the end of the quorum\n{}",
                    self.story()
                );
            }
            Step::Promote { id, .. } if of(id).is_some_and(|entry| entry.learner) => assert!(
                running + runs(id) > voters.div_ceil(2),
                "invariant 2: {step:?} asks for the end of the quorum\n{}",
                self.story()
            ),
            Step::ReleaseMember { member, .. } if self.etcd.formed() && !self.ending => {
                let disk = self
                    .members
                    .iter()
                    .find(|one| one.name == *member)
                    .and_then(|one| one.disk.as_ref());
                let id = disk.and_then(|disk| disk.identity).map(|(id, _)| id);
                let kept = self.retained.contains(&format!("data-{member}"));
                assert!(
                    kept || id.is_none_or(|id| of(&id).is_none()),
                    "invariant 6: the data of {member} go while etcd counts on them\n{}",
                    self.story()
                );
            }
            _ => {}
        }
    }

    pub fn check(&mut self) {
        self.refresh_running();
        let learners = self.etcd.list.iter().filter(|entry| entry.learner).count();
        assert!(
            learners <= self.etcd.max_learners,
            "{learners} learners\n{}",
            self.story()
        );
        // U10: a learner is never behind the client Service.
        for member in &self.members {
            let listed = member
                .disk
                .as_ref()
                .and_then(|disk| disk.identity)
                .and_then(|(id, _)| self.etcd.list.iter().find(|entry| entry.id == id));
            let learner = listed.is_some_and(|entry| entry.learner);
            let labelled = member.pod.as_ref().is_some_and(|pod| pod.voter_label);
            assert!(
                !(learner && labelled),
                "learner {} is labelled as a voter\n{}",
                member.name,
                self.story()
            );
        }
    }
}
