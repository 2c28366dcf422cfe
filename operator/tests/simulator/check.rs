//! The invariants of the architecture, watched over a whole run.

use std::collections::BTreeMap;

use operator::plan::facts::Id;

use super::world::Sim;

#[derive(Default)]
pub(crate) struct Checks {
    seeds: BTreeMap<u64, (String, String)>,
    bindings: BTreeMap<Id, String>,
    starts: BTreeMap<Id, String>,
}

impl Checks {
    /// Invariant 4: `new` at most once an incarnation, for one member and one directory.
    pub(crate) fn seeded(&mut self, incarnation: u64, member: &str, nonce: &str, formed: bool) {
        assert!(!formed, "invariant 4: a seed beside a formed cluster");
        let seed = (member.to_owned(), nonce.to_owned());
        let first = self.seeds.entry(incarnation).or_insert_with(|| seed.clone());
        assert_eq!(*first, seed, "invariant 4: two seeds in incarnation {incarnation}");
    }

    /// Invariant 5: an ID is bound to one directory for ever.
    pub(crate) fn bound(&mut self, id: Id, nonce: &str) {
        let first = self.bindings.entry(id).or_insert_with(|| nonce.to_owned());
        assert_eq!(first, nonce, "invariant 5: {id} is bound to a second directory");
    }

    /// Invariant 5: and starts on no other.
    pub(crate) fn started(&mut self, id: Id, nonce: &str) {
        let first = self.starts.entry(id).or_insert_with(|| nonce.to_owned());
        assert_eq!(first, nonce, "invariant 5: {id} started on a second directory");
        assert_eq!(
            self.bindings.get(&id),
            Some(&*first),
            "invariant 5: {id} started unbound"
        );
    }
}

impl Sim {
    pub(crate) fn check(&mut self) {
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
