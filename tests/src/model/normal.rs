//! Which states are the same: a fingerprint that names and times do not enter, but for what the planner makes of them.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use jiff::Timestamp;
use operator::plan::{
    facts::{Id, Listed, Medium, MemberList, Sent},
    report::Report,
    step::{Order, Step},
};

use super::world::{Disk, Sim, SimMember, SimPod, SimProcess};

/// Names and numbers in the order in which they turn up.
struct Normal<'s> {
    sim: &'s Sim,
    to: DefaultHasher,
    ids: Vec<Id>,
    words: Vec<&'s str>,
}

/// Milliseconds at which an age becomes another one for the planner or for etcd: all of its patiences.
const AGES: [i64; 9] = [1, 200, 500, 2_000, 5_000, 6_000, 8_000, 10_000, 30_000];

impl Sim {
    /// Equal for states from which the same can happen.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut normal = Normal {
            sim: self,
            to: DefaultHasher::new(),
            ids: Vec::with_capacity(8),
            words: Vec::with_capacity(16),
        };
        normal.all();
        normal.to.finish()
    }
}

impl<'s> Normal<'s> {
    fn put(&mut self, value: impl Hash) {
        value.hash(&mut self.to);
    }

    fn id(&mut self, id: Id) {
        let place = self.ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.ids.push(id);
            self.ids.len() - 1
        });
        self.put(place);
    }

    fn some_id(&mut self, id: Option<Id>) {
        self.put(id.is_some());
        if let Some(id) = id {
            self.id(id);
        }
    }

    fn word(&mut self, word: &'s str) {
        let place = self.words.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        });
        self.put(place);
    }

    /// How old it is, as far as that matters; nothing, when it is older than `matters` milliseconds.
    fn age(&mut self, at: Timestamp, matters: i64) {
        let age = self.sim.now.duration_since(at).as_millis();
        let age = i64::try_from(age).unwrap_or(i64::MAX);
        let class = (age < matters).then(|| AGES.iter().filter(|limit| age >= **limit).count());
        self.put(class);
    }

    fn young(&self, at: Timestamp, matters: i64) -> bool {
        self.sim.now.duration_since(at).as_millis() < i128::from(matters)
    }

    fn all(&mut self) {
        let sim = self.sim;
        for member in &sim.members {
            self.word(&member.name);
        }
        self.put((sim.spec.replicas, sim.spec.is_observed, sim.spec.medium));
        self.put((sim.record.token.is_some(), sim.record.replicas));
        self.put(sim.record.cluster_id.map(|id| sim.etcd.cluster_id == Some(id)));
        if let Some(seed) = sim.record.seed.as_ref().filter(|_| sim.record.cluster_id.is_none()) {
            self.word(&seed.member);
            self.word(&seed.nonce);
        }
        self.put((sim.record.cluster_id.is_none()).then_some(sim.record.incarnation));
        self.etcd();
        self.put(sim.members.len());
        for (index, member) in sim.members.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| sim.members.get(before));
            self.member(member, before);
        }
        if let Some(seen) = &sim.cache {
            self.put(seen.len());
            for (index, member) in seen.iter().enumerate() {
                let before = index.checked_sub(1).and_then(|before| seen.get(before));
                self.word(&member.name);
                self.member(member, before);
            }
        }
        self.put(format!("{:?}{:?}{:?}", sim.headless, sim.client, sim.budget));
        self.put((
            sim.ending,
            sim.down,
            sim.violation.is_some(),
            sim.links_down,
            sim.unschedulable,
        ));
        self.memory();
        self.around();
        self.checks();
    }

    fn etcd(&mut self) {
        let etcd = &self.sim.etcd;
        self.put(etcd.list.len());
        for entry in &etcd.list {
            self.id(entry.id);
            self.put((entry.learner, entry.name.is_empty()));
            self.word(&entry.peer_url);
        }
        let mut ids = Vec::new();
        etcd.hash_rest(&mut self.to, &mut |id| ids.push(id));
        for id in ids {
            self.id(id);
        }
        if !etcd.young.is_empty() {
            self.age(self.sim.connected_at, 5_000);
        }
    }

    fn member(&mut self, member: &'s SimMember, before: Option<&SimMember>) {
        self.put(before.map(|before| before.created == member.created));
        self.put((
            member.deleting,
            member.finalizer,
            member.dormant,
            member.bootstrap,
            member.secret,
            member.claim,
        ));
        let record = &member.record;
        self.put((
            record.heard,
            record.voter,
            record.binding.is_some(),
            record.directive > 0,
        ));
        if let Some(binding) = &record.binding {
            self.id(binding.id);
            self.word(&binding.nonce);
        }
        self.some_id(record.member_id);
        let memory = self.sim.spec.medium == Medium::Memory;
        let same_pod = member.pod.as_ref().map(|pod| Some(&pod.uid) == record.pod_uid.as_ref());
        self.put(memory.then_some(same_pod));
        if let Some(sent) = member.sent.as_ref().filter(|sent| self.young(sent.at, 2_000)) {
            self.sent(sent);
        }
        self.put(member.pod.is_some());
        if let Some(pod) = &member.pod {
            self.pod(pod, record.directive);
        }
        self.put(member.disk.is_some());
        if let Some(disk) = &member.disk {
            self.disk(disk);
        }
    }

    fn sent(&mut self, sent: &'s Sent) {
        self.order(&sent.order);
        self.age(sent.at, 2_000);
    }

    fn pod(&mut self, pod: &'s SimPod, recorded: u64) {
        self.age(pod.created, 10_000);
        self.put((pod.deleting, pod.voter_label, pod.scheduled, pod.up, pod.has_agent));
        self.put((&pod.process, pod.directive > recorded));
        if matches!(pod.process, SimProcess::Starting(_)) {
            self.age(pod.started_at, 6_000);
        }
    }

    fn disk(&mut self, disk: &'s Disk) {
        self.word(&disk.nonce);
        self.some_id(disk.id());
        self.put(
            disk.identity
                .map(|(_, cluster)| self.sim.etcd.cluster_id == Some(cluster)),
        );
        self.put((disk.started, disk.unreadable, disk.damaged, disk.removed));
        self.put(disk.expects.filter(|_| !disk.started));
        let index = self.sim.etcd.index;
        self.put(lag(index, disk.applied));
    }

    fn order(&mut self, order: &'s Order) {
        self.put(order.kind());
        match order {
            Order::Join { member_id, members, .. } => {
                self.id(*member_id);
                self.put(members.len());
                for peer in members {
                    self.id(peer.id);
                    self.put(peer.name.is_empty());
                    if !peer.name.is_empty() {
                        self.word(&peer.name);
                    }
                }
            }
            Order::Seed {
                member_id, incarnation, ..
            } => {
                self.id(*member_id);
                self.put(*incarnation == self.sim.record.incarnation);
            }
            Order::Quarantine { removed, .. } => self.id(*removed),
            // Nobody asks for a recovery in this model.
            Order::Fence { .. } | Order::Lift { .. } | Order::Recover { .. } => {}
        }
    }

    fn step(&mut self, step: &'s Step) {
        self.put(step.kind());
        if let Some(member) = step.member() {
            self.word(member);
        }
        match step {
            Step::RecordSeed { seed } => self.word(&seed.nonce),
            Step::Bind {
                binding: Some(binding), ..
            } => {
                self.id(binding.id);
                self.word(&binding.nonce);
            }
            Step::Direct { nonce, order, .. } => {
                self.word(nonce);
                self.order(order);
            }
            Step::AddLearner { via, peer_url, .. } => {
                self.word(via);
                self.word(peer_url);
            }
            Step::Promote { via, id, .. } | Step::Remove { via, id, .. } | Step::MoveLeader { via, id, .. } => {
                self.word(via);
                self.id(*id);
            }
            Step::DeletePod { member, uid } => {
                let pod = self.sim.find(member).and_then(|member| member.pod.as_ref());
                self.put(pod.is_some_and(|pod| pod.uid == *uid));
            }
            // The rest is upkeep, which is never left half done, or says all by its kind and member.
            _ => {}
        }
    }

    /// What the operator remembers.
    fn memory(&mut self) {
        let sim = self.sim;
        self.put(sim.pass.len());
        for chain in &sim.pass {
            self.put(chain.len());
            for step in chain {
                self.step(step);
            }
        }
        if let Some(refusal) = sim.refusal.as_ref().filter(|refusal| self.young(refusal.at, 10_000)) {
            self.put("refused");
            self.age(refusal.at, 10_000);
            self.age(refusal.since, 10_000);
        }
        if let Some(open) = sim.unanswered.as_ref().filter(|open| self.young(open.at, 8_000)) {
            self.put("unanswered");
            self.step(&open.step);
            self.age(open.at, 8_000);
        }
        if let Some(nudged) = sim.nudged.as_ref().filter(|nudged| self.young(nudged.last, 10_000)) {
            self.put("nudged");
            self.age(nudged.last, 500);
        }
        if let Some((read, list)) = &sim.last_list {
            self.age(*read, 2_001);
            self.list(list);
        }
    }

    fn list(&mut self, list: &'s MemberList) {
        self.put(list.members.len());
        for Listed { id, name, learner, .. } in &list.members {
            self.id(*id);
            self.put((name.is_empty(), learner));
        }
    }

    fn around(&mut self) {
        let sim = self.sim;
        for names in [&sim.cut_off, &sim.isolated, &sim.stuck] {
            self.put(names.len());
            for name in names {
                self.word(name);
            }
        }
        self.put(sim.retained.len());
        sim.retained.iter().for_each(|claim| self.word(claim));
        self.put(sim.late.len());
        for (name, (report, at)) in &sim.late {
            self.word(name);
            self.report(report);
            self.age(*at, 2_000);
        }
        self.put(sim.proposals.len());
        for open in &sim.proposals {
            self.step(&open.step);
            self.age(open.at, 8_000);
        }
    }

    fn report(&mut self, report: &'s Report) {
        let directory = &report.directory;
        self.put((directory.state, directory.started, report.process.state));
        self.word(&directory.nonce);
        self.some_id(directory.identity.as_ref().map(|identity| identity.member_id));
        self.put(report.etcd.is_some());
        if let Some(etcd) = &report.etcd {
            self.id(etcd.member_id);
            self.some_id(etcd.leader);
            self.put((etcd.learner, etcd.serving, lag(etcd.commit, etcd.applied)));
        }
    }

    fn checks(&mut self) {
        let checks = &self.sim.checks;
        for (bound, started) in [(&checks.bindings, false), (&checks.starts, true)] {
            self.put((bound.len(), started));
            // In an order that does not depend on the numbers themselves.
            let known = self.ids.clone();
            for id in known {
                if let Some(nonce) = bound.get(&id) {
                    self.id(id);
                    self.word(nonce);
                }
            }
        }
        if let Some((member, nonce)) = checks.seeds.get(&self.sim.record.incarnation)
            && self.sim.record.cluster_id.is_none()
        {
            self.word(member);
            self.word(nonce);
        }
    }
}

/// How far behind, in the eyes of the planner and of etcd.
fn lag(index: u64, applied: u64) -> u8 {
    let behind = index.saturating_sub(applied);
    match behind {
        0 => 0,
        1..=500 => 1,
        _ if applied.saturating_mul(10) >= index.saturating_mul(9) => 2,
        _ => 3,
    }
}
