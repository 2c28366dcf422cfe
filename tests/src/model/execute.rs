//! Carries steps out in the model, as the operator's executor would.

use operator::plan::{
    facts::{Budget, Id, Listed, MemberList, MemberRecord, Nudged, Refusal, Sent, ServiceState, Unanswered, Version},
    place::Place,
    step::{Order, Step},
};

use super::{
    etcd::{Change, No},
    world::{Disk, Proposal, Sim, SimMember, SimPod, SimProcess},
};

/// etcd takes no new member before all voters have been connected for so long.
const CONNECTED: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

/// What becomes of a step's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It arrives.
    Arrives,
    /// The step is done, and nobody hears of it.
    IsLost,
    /// Nobody hears of it, and it is done whenever etcd likes, or never.
    Late,
}

impl Sim {
    /// One step. False: it failed, and with it the rest of its chain.
    pub(super) fn step(&mut self, step: &Step, answer: Answer) -> bool {
        self.carried_out += usize::from(!matches!(step, Step::Nudge { .. }));
        let at = self.now;
        self.say(|| format!("{:>9} {}", at.subsec_millisecond(), super::words::step(step)));
        self.refresh();
        self.check_step(step);
        if !step.is_consensus() {
            let done = self.apply(step, answer == Answer::IsLost) == Ok(true);
            self.sweep();
            self.refresh();
            return done && answer != Answer::IsLost;
        }
        self.consensus_calls += 1;
        if Self::via(step).is_some_and(|via| self.id_of(via).is_none()) {
            // Nobody took the call.
            self.say(|| "      not connected".into());
            return false;
        }
        if answer == Answer::Late {
            self.propose(step, None);
            return false;
        }
        let before = self.etcd.has_quorum();
        let result = self.apply(step, false);
        self.refresh();
        let stands = !before || self.etcd.has_quorum();
        self.violated(2, (!stands).then(|| format!("{} took the quorum away", step.kind())));
        match (result, answer) {
            (Ok(_), Answer::IsLost) => {
                self.say(|| "      ** answer lost".into());
                self.forget_answer(step);
                false
            }
            (Ok(_), Answer::Arrives | Answer::Late) => {
                self.refusal = None;
                self.unanswered = None;
                true
            }
            (Err(No::NoAnswer), _) => {
                self.say(|| "      no answer".into());
                self.forget_answer(step);
                false
            }
            // Removed already: what was wanted.
            (Err(No::Refused(etcd::Refusal::MemberNotFound)), _) if matches!(step, Step::Remove { .. }) => true,
            (Err(No::Refused(refusal)), _) => {
                self.say(|| format!("      refused: {refusal:?}"));
                let since = self.refusal.as_ref().map_or(self.now, |refusal| refusal.since);
                self.refusal = Some(Refusal {
                    at: self.now,
                    since,
                    message: format!("{refusal:?}"),
                });
                false
            }
        }
    }

    fn forget_answer(&mut self, step: &Step) {
        self.unanswered = Some(Unanswered {
            step: step.clone(),
            at: self.now,
        });
    }

    /// The call is given up without an answer; etcd goes on with it.
    pub(super) fn propose(&mut self, step: &Step, due: Option<jiff::Timestamp>) {
        self.say(|| "      ** no answer, and still under way".into());
        self.proposals.push(Proposal {
            step: step.clone(),
            at: self.now,
            due,
        });
        self.forget_answer(step);
    }

    /// etcd carries out what nobody waits for any more; it refuses what was done meanwhile.
    pub(super) fn carry_out(&mut self, index: usize) {
        let step = self.proposals.remove(index).step;
        self.say(|| format!("  ** carried out late: {}", super::words::step(&step)));
        self.refresh();
        let _ = match &step {
            // It is in the log already: nobody is asked any more.
            Step::AddLearner { peer_url, .. } => self.etcd.add_learner(peer_url).map(drop),
            Step::Remove { id, .. } => self.etcd.remove(*id),
            Step::Promote { id, .. } => {
                let index = self.etcd.index;
                self.etcd.promote(*id, index)
            }
            Step::MoveLeader { via, id, .. } => match self.id_of(via) {
                Some(via) => self.etcd.move_leader_at(via, *id),
                None => Ok(()),
            },
            _ => Ok(()),
        };
        self.refresh();
    }

    /// A new process of the operator remembers nothing.
    pub(super) fn forget(&mut self) {
        self.refusal = None;
        self.nudged = None;
        self.unanswered = None;
        self.unproven_since = None;
        self.pass.clear();
        self.cache = None;
        self.last_list = None;
        for member in &mut self.members {
            member.sent = None;
        }
    }

    /// Who runs, serves and is connected.
    pub fn refresh(&mut self) {
        self.etcd.max_learners = self.record.version.map_or(1, Version::max_learners);
        let id_of = |member: &SimMember| {
            let (id, cluster) = member.disk.as_ref()?.identity?;
            (self.etcd.cluster_id == Some(cluster)).then_some(id)
        };
        let runs = |member: &&SimMember| {
            let pod = member.pod.as_ref();
            pod.is_some_and(|pod| pod.process == SimProcess::Running && !pod.deleting)
        };
        let running: Vec<Id> = self.members.iter().filter(runs).filter_map(id_of).collect();
        let isolated = |member: &&SimMember| self.isolated.contains(&member.name);
        let far: Vec<Id> = self.members.iter().filter(isolated).filter_map(id_of).collect();
        let before = self.etcd.young.clone();
        if far != self.far {
            self.far.clone_from(&far);
            if far.is_empty() {
                self.etcd.heal();
            } else {
                self.etcd.cut(far);
            }
        }
        if running != self.etcd.running {
            self.etcd.set_running(running);
        }
        if self.etcd.young.iter().any(|pair| !before.contains(pair)) {
            self.connected_at = self.now;
        }
        if self.now.duration_since(self.connected_at) >= CONNECTED {
            self.etcd.grow_old();
        }
    }

    /// A linearizable read of the list.
    #[must_use]
    pub fn read_list(&self) -> MemberList {
        let members = self
            .etcd
            .list
            .iter()
            .map(|entry| Listed {
                id: entry.id,
                name: entry.name.clone(),
                peer_urls: vec![entry.peer_url.clone()],
                learner: entry.learner,
            })
            .collect();
        MemberList {
            cluster_id: self.etcd.cluster_id,
            members,
        }
    }

    /// Changes a member and what the operator's watches show of it: the answer to its own write.
    pub(super) fn own(&mut self, name: &str, change: impl Fn(&mut SimMember)) -> bool {
        let Some(member) = self.find_mut(name) else {
            return false;
        };
        change(member);
        let seen = self.cache.iter_mut().flatten().find(|member| member.name == name);
        if let Some(member) = seen {
            change(member);
        }
        true
    }

    /// As [`Self::own`], refused when somebody else has changed the object since it was read.
    fn locked(&mut self, name: &str, change: impl Fn(&mut SimMember)) -> bool {
        let seen = self.cache.iter().flatten().find(|member| member.name == name);
        let changed = match (seen, self.find(name)) {
            (Some(seen), Some(live)) => seen.deleting != live.deleting,
            _ => false,
        };
        !changed && self.own(name, change)
    }

    fn pod_uid(&self, name: &str) -> Option<&str> {
        Some(self.find(name)?.pod.as_ref()?.uid.as_str())
    }

    fn apply(&mut self, step: &Step, lost: bool) -> Result<bool, No> {
        let done = match step {
            Step::AddLearner { via, peer_url, .. } => self.ask(via, &Change::AddLearner(peer_url.clone()))?,
            Step::Promote { via, id, .. } => {
                let disk = self.owner(*id).and_then(|member| member.disk.as_ref());
                let reached = disk.map_or(0, |disk| disk.applied);
                self.ask(via, &Change::Promote { id: *id, reached })?
            }
            Step::Remove { via, id, .. } => self.ask(via, &Change::Remove(*id))?,
            Step::MoveLeader { via, id, .. } => {
                let via = self.id_of(via).ok_or(No::NoAnswer)?;
                self.etcd.move_leader_at(via, *id).map(|()| true)?
            }
            Step::Direct {
                member,
                number,
                nonce,
                order,
            } => self.direct(member, *number, nonce, order, lost),
            step => self.record_or_object(step),
        };
        Ok(done)
    }

    fn ask(&mut self, via: &str, change: &Change) -> Result<bool, No> {
        let via = self.id_of(via).ok_or(No::NoAnswer)?;
        self.etcd.ask(via, change).map(|()| true)
    }

    /// The ID that the member runs as, if it does.
    pub(super) fn id_of(&self, name: &str) -> Option<Id> {
        let id = self.find(name)?.disk.as_ref()?.id()?;
        self.etcd.running.contains(&id).then_some(id)
    }

    fn direct(&mut self, member: &str, number: u64, nonce: &str, order: &Order, lost: bool) -> bool {
        let taken = self.order(member, number, nonce, order);
        let sent = Sent {
            number,
            order: order.clone(),
            at: self.now,
        };
        if !lost && let Some(member) = self.find_mut(member) {
            member.sent = Some(sent);
        }
        taken
    }

    fn record_or_object(&mut self, step: &Step) -> bool {
        match step {
            Step::Latch {
                token,
                incarnation,
                keep_version,
                ..
            } => {
                self.record.token = Some(token.clone());
                self.record.incarnation = *incarnation;
                self.record.replicas = Some(self.spec.replicas);
                self.record.version = keep_version.or(Some(self.spec.version));
                self.spec.is_observed = true;
            }
            Step::NewIncarnation { token, incarnation } => {
                let formed = self.record.cluster_id.is_some();
                self.violated(4, formed.then(|| "a formed cluster starts over".to_owned()));
                self.record.token = Some(token.clone());
                self.record.incarnation = *incarnation;
                self.record.seed = None;
                // Nothing of the last incarnation was ever recorded as formed.
                let next_id = self.etcd.next_id;
                self.etcd = super::etcd::Etcd::default();
                self.etcd.next_id = next_id;
            }
            Step::RecordSeed { seed } => {
                let second = self.record.seed.is_some();
                self.violated(4, second.then(|| "a second seed is recorded".to_owned()));
                self.record.seed = Some(seed.clone());
            }
            Step::RecordClusterId { id } => self.record.cluster_id = Some(*id),
            Step::CreateMembers { count, known } => {
                if self.names() != *known {
                    return false;
                }
                (0..*count).for_each(|_| self.create_member());
            }
            Step::ApplyHeadlessService => self.headless = ServiceState::Current,
            Step::ApplyClientService => self.client = ServiceState::Current,
            Step::ApplyBudget { voters, target } => {
                self.budget = Budget::Ours {
                    min_available: operator::resources::min_available(*voters, *target),
                    current: true,
                };
            }
            Step::DeleteBudget => self.budget = Budget::Absent,
            Step::Nudge { member, .. } => {
                let before = self.nudged.take().filter(|nudged| nudged.member == *member);
                self.nudged = Some(Nudged {
                    member: member.clone(),
                    since: before.map_or(self.now, |nudged| nudged.since),
                    last: self.now,
                });
            }
            step => return self.member_object(step),
        }
        true
    }

    fn member_object(&mut self, step: &Step) -> bool {
        match step {
            Step::MarkBootstrap { member } => self.own(member, |member| member.bootstrap = true),
            Step::SetDormant { member, dormant } => self.own(member, |member| member.dormant = *dormant),
            Step::SetVersion { member, version } => self.own(member, |member| member.version = *version),
            Step::DeleteMember { member, .. } => self.own(member, |member| member.deleting = true),
            Step::EnsureFinalizer { member, .. } => self.locked(member, |member| member.finalizer = true),
            Step::RetainClaim { member } => {
                self.retained.push(format!("data-{member}"));
                self.own(member, |member| member.claim = false)
            }
            Step::ReleaseMember { member, .. } => self.locked(member, |member| member.finalizer = false),
            Step::EnsureAgentIdentity { member } => self.own(member, |member| member.secret = true),
            Step::CreateClaim { member } => self.own(member, |member| member.claim = true),
            Step::CreatePod { member, voter } => {
                if self.find(member).is_none_or(|member| member.pod.is_some()) {
                    return false;
                }
                let pod = SimPod {
                    uid: self.fresh_name("pod"),
                    created: self.now,
                    age: 0,
                    deleting: false,
                    voter_label: *voter,
                    scheduled: false,
                    up: false,
                    has_agent: true,
                    agent_image: self.rollout.agent_image.clone(),
                    agent_starts: 0,
                    process: SimProcess::Absent,
                    started_at: self.now,
                    directive: 0,
                };
                self.own(member, |member| member.pod = Some(pod.clone()))
            }
            Step::SetAgentImage { member, image, .. } => {
                let fails = self.bad_images.contains(image);
                self.own(member, |member| {
                    if let Some(pod) = &mut member.pod {
                        pod.agent_image.clone_from(image);
                        pod.agent_starts = if fails { u32::MAX } else { 5 };
                    }
                })
            }
            Step::DeletePod { member, uid } => {
                if self.pod_uid(member) == Some(uid) {
                    self.own(member, |member| {
                        if let Some(pod) = &mut member.pod {
                            pod.deleting = true;
                        }
                    });
                }
                true
            }
            Step::LabelPod { member, uid, voter } => {
                self.pod_uid(member) == Some(uid)
                    && self.own(member, |member| {
                        if let Some(pod) = &mut member.pod {
                            pod.voter_label = *voter;
                        }
                    })
            }
            Step::Bind {
                member,
                binding,
                directive,
            } => {
                let again = self
                    .find(member)
                    .is_some_and(|member| member.record.directive >= *directive);
                self.violated(
                    12,
                    again.then(|| format!("directive {directive} of {member} is used twice")),
                );
                let done = self.locked(member, |member| {
                    member.record.directive = *directive;
                    if let Some(binding) = binding {
                        member.record.binding = Some(binding.clone());
                    }
                });
                if let (true, Some(binding)) = (done, binding) {
                    let twice = self.checks.bound(binding.id, &binding.nonce);
                    self.violated(5, twice);
                }
                done
            }
            _ => true,
        }
    }

    fn create_member(&mut self) {
        let name = self.fresh_name("c-");
        let uid = self.fresh_name("uid");
        let version = self.record.version.unwrap_or(self.spec.version);
        let member = SimMember {
            name,
            uid,
            created: self.now,
            deleting: false,
            finalizer: true,
            dormant: false,
            bootstrap: false,
            version,
            secret: false,
            claim: false,
            record: MemberRecord::default(),
            sent: None,
            pod: None,
            place: Place::default(),
            disk: None,
        };
        if let Some(seen) = &mut self.cache {
            seen.push(member.clone());
        }
        self.members.push(member);
    }

    /// IDs that can still turn up somewhere.
    pub(super) fn forget_the_dead(&mut self) {
        let mut known: Vec<Id> = self.etcd.list.iter().map(|entry| entry.id).collect();
        known.extend(
            self.members
                .iter()
                .filter_map(|member| member.disk.as_ref().and_then(Disk::id)),
        );
        known.extend(
            self.members
                .iter()
                .filter_map(|member| Some(member.record.binding.as_ref()?.id)),
        );
        for order in self.pass.iter().flatten() {
            match order {
                Step::Bind {
                    binding: Some(binding), ..
                } => known.push(binding.id),
                Step::Direct {
                    order: Order::Join { member_id, .. } | Order::Seed { member_id, .. },
                    ..
                } => known.push(*member_id),
                _ => {}
            }
        }
        self.checks.forget(|id| known.contains(id));
        let incarnation = self.record.incarnation;
        self.checks.seeds.retain(|of, _| *of >= incarnation);
    }
}
