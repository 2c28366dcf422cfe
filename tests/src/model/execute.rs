//! Carries plans out in the model, with the faults of a run.

use std::time::Duration;

use operator::plan::{
    facts::{Budget, MemberRecord, Nudged, Refusal, Sent, ServiceState, Unanswered},
    place::Place,
    step::{Plan, Step},
};

use super::{
    etcd::No,
    world::{Sim, SimMember, SimPod, SimProcess},
};

/// etcd takes no new member before all voters have been connected for so long.
const CONNECTED: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

impl Sim {
    pub fn execute(&mut self, plan: &Plan) {
        for chain in &plan.chains {
            for step in chain {
                let number = self.steps;
                self.steps += 1;
                if self.faults.crash_before == Some(number) {
                    self.log.push(format!("  ** killed before {step:?}"));
                    self.forget();
                    return;
                }
                if let Some((late, turns)) = self.faults.apply_later
                    && late == number
                    && step.is_consensus()
                {
                    self.propose(step, turns);
                    break;
                }
                if self.proposals.iter().any(|(_, open)| open.is_same_change(step)) {
                    self.log.push(format!("  ** no answer either: {step:?}"));
                    self.unanswered = Some(Unanswered {
                        step: step.clone(),
                        at: self.now,
                    });
                    break;
                }
                let lost = self.faults.lose_answer == Some(number) || self.faults.crash_after == Some(number);
                if !self.step(step, lost) {
                    break;
                }
                if self.faults.crash_after == Some(number) {
                    self.log.push("  ** killed".into());
                    self.forget();
                    return;
                }
                if lost {
                    self.log.push("  ** answer lost".into());
                    if step.is_consensus() {
                        self.unanswered = Some(Unanswered {
                            step: step.clone(),
                            at: self.now,
                        });
                    }
                    break;
                }
            }
        }
    }

    /// A new process of the operator remembers nothing.
    fn forget(&mut self) {
        self.refusal = None;
        self.nudged = None;
        self.unanswered = None;
        for member in &mut self.members {
            member.sent = None;
        }
    }

    /// The call is given up after 2 s without an answer; etcd goes on with it.
    fn propose(&mut self, step: &Step, turns: u32) {
        self.log
            .push(format!("  ** no answer, carried out {turns} turns later: {step:?}"));
        let at = self.now + Duration::from_millis(100) * turns;
        self.proposals.push((at, step.clone()));
        self.unanswered = Some(Unanswered {
            step: step.clone(),
            at: self.now,
        });
    }

    pub fn late_proposals(&mut self) {
        let now = self.now;
        let due: Vec<Step> = self
            .proposals
            .extract_if(.., |(at, _)| *at <= now)
            .map(|(_, step)| step)
            .collect();
        for step in due {
            self.log.push(format!("  ** carried out late: {step:?}"));
            self.refresh_running();
            // Refused when it was done meanwhile.
            let _ = self.apply(&step, true);
            self.refresh_running();
        }
    }

    fn step(&mut self, step: &Step, lost: bool) -> bool {
        self.log.push(format!("{:>9} {step:?}", self.now.subsec_millisecond()));
        self.refresh_running();
        let before = self.etcd.has_quorum();
        self.check_step(step);
        self.consensus_calls += usize::from(step.is_consensus());
        for (_, open) in &self.proposals {
            assert!(
                !step.is_consensus() || step.is_same_change(open),
                "invariant 1: {step:?} while {open:?} may still be carried out\n{}",
                self.story()
            );
        }
        let answer = self.apply(step, lost);
        self.refresh_running();
        if before && step.is_consensus() {
            assert!(
                self.etcd.has_quorum(),
                "invariant 2: {step:?} took the quorum away\n{}",
                self.story()
            );
        }
        match answer {
            Ok(done) => {
                if step.is_consensus() {
                    self.refusal = None;
                    if !lost {
                        self.unanswered = None;
                    }
                }
                done
            }
            Err(No::Refused(refusal)) => {
                self.log.push(format!("      refused: {refusal:?}"));
                let since = self.refusal.as_ref().map_or(self.now, |refusal| refusal.since);
                self.refusal = Some(Refusal {
                    at: self.now,
                    since,
                    message: format!("{refusal:?}"),
                });
                false
            }
            Err(No::NoAnswer) => {
                self.log.push("      no answer".into());
                self.unanswered = Some(Unanswered {
                    step: step.clone(),
                    at: self.now,
                });
                false
            }
        }
    }

    /// Who runs, serves and is connected.
    pub fn refresh_running(&mut self) {
        let version = self.record.version;
        self.etcd.max_learners = version.map_or(1, operator::plan::facts::Version::max_learners);
        let running = self
            .members
            .iter()
            .filter_map(|member| {
                let pod = member.pod.as_ref()?;
                let (id, _) = member.disk.as_ref()?.identity?;
                (pod.process == SimProcess::Running && !pod.deleting).then_some(id)
            })
            .collect();
        let before = self.etcd.young.len();
        self.etcd.set_running(running);
        if self.etcd.young.len() > before {
            self.connected_at = self.now;
        }
        if self.now.duration_since(self.connected_at) >= CONNECTED {
            self.etcd.grow_old();
        }
    }

    fn apply(&mut self, step: &Step, lost: bool) -> Result<bool, No> {
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
                assert!(
                    self.record.cluster_id.is_none(),
                    "a formed cluster starts over\n{}",
                    self.story()
                );
                self.record.token = Some(token.clone());
                self.record.incarnation = *incarnation;
                self.record.seed = None;
                // Nothing of the last incarnation was ever recorded as formed.
                self.etcd.cluster_id = None;
                self.etcd.list.clear();
                self.etcd.leader = None;
            }
            Step::RecordSeed { seed } => {
                assert!(self.record.seed.is_none(), "a second seed\n{}", self.story());
                self.record.seed = Some(seed.clone());
            }
            Step::RecordClusterId { id } => self.record.cluster_id = Some(*id),
            Step::CreateMembers { count, known } => {
                let live: Vec<String> = self.names();
                if live != *known {
                    return Ok(false);
                }
                for _ in 0..*count {
                    self.create_member();
                }
            }
            Step::MarkBootstrap { member } => self.member(member).bootstrap = true,
            Step::SetDormant { member, dormant } => self.member(member).dormant = *dormant,
            Step::SetVersion { member, version } => self.member(member).version = *version,
            Step::DeleteMember { member, .. } => {
                let url = self.member(member).peer_url();
                assert!(
                    self.record.cluster_id.is_none() || self.etcd.list.iter().all(|entry| entry.peer_url != url),
                    "{member} is deleted while etcd lists it\n{}",
                    self.story()
                );
                self.member(member).deleting = true;
            }
            Step::EnsureFinalizer { member, .. } => self.member(member).finalizer = true,
            Step::RetainClaim { member } => {
                self.member(member).claim = false;
                self.retained.push(format!("data-{member}"));
            }
            Step::ReleaseMember { member, .. } => self.member(member).finalizer = false,
            Step::EnsureAgentIdentity { member } => self.member(member).secret = true,
            Step::CreateClaim { member } => self.member(member).claim = true,
            Step::CreatePod { member, voter } => {
                let (uid, now) = (self.fresh_name("pod"), self.now);
                let agent_image = self.rollout.agent_image.clone();
                let member = self.member(member);
                if member.pod.is_some() {
                    return Ok(false);
                }
                member.pod = Some(SimPod {
                    uid,
                    created: now,
                    age: 0,
                    deleting: false,
                    voter_label: *voter,
                    scheduled: false,
                    up: false,
                    has_agent: true,
                    agent_image,
                    agent_starts: 0,
                    process: SimProcess::Absent,
                    directive: 0,
                });
            }
            Step::DeletePod { member, .. } => {
                if let Some(pod) = &mut self.member(member).pod {
                    pod.deleting = true;
                }
            }
            Step::SetAgentImage { member, image, .. } => {
                let fails = self.bad_images.contains(image);
                if let Some(pod) = &mut self.member(member).pod {
                    pod.agent_image.clone_from(image);
                    pod.agent_starts = if fails { u32::MAX } else { 5 };
                }
            }
            Step::SetPodImage { .. }
            | Step::GrowVolume { .. }
            | Step::CompareHashes { .. }
            | Step::DisarmCorrupt { .. } => {}
            Step::RecordRecovery { .. }
            | Step::OpenHistory { .. }
            | Step::CreateRecovery { .. }
            | Step::ShowPod { .. } => {
                unreachable!("no recovery is asked for in this model\n{}", self.story())
            }
            Step::Nudge { member, .. } => {
                let before = self.nudged.take().filter(|nudged| nudged.member == *member);
                self.nudged = Some(Nudged {
                    member: member.clone(),
                    since: before.map_or(self.now, |nudged| nudged.since),
                    last: self.now,
                });
            }
            Step::LabelPod { member, voter, .. } => {
                if let Some(pod) = &mut self.member(member).pod {
                    pod.voter_label = *voter;
                }
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
            Step::Bind {
                member,
                binding,
                directive,
            } => {
                let record = &mut self.member(member).record;
                assert!(*directive > record.directive, "a directive number is used twice");
                record.directive = *directive;
                if let Some(binding) = binding {
                    record.binding = Some(binding.clone());
                    let binding = binding.clone();
                    self.checks.bound(binding.id, &binding.nonce);
                }
            }
            Step::Direct {
                member,
                number,
                nonce,
                order,
            } => {
                let taken = self.order(member, *number, nonce, order);
                let now = self.now;
                if !lost {
                    self.member(member).sent = Some(Sent {
                        number: *number,
                        order: order.clone(),
                        at: now,
                    });
                }
                return Ok(taken);
            }
            Step::AddLearner { peer_url, .. } => drop(self.etcd.add_learner(peer_url)?),
            Step::Promote { id, .. } => {
                let applied = self
                    .members
                    .iter()
                    .filter_map(|member| member.disk.as_ref())
                    .find(|disk| disk.identity.is_some_and(|(own, _)| own == *id))
                    .map_or(0, |disk| disk.applied);
                let behind = self.etcd.index.saturating_sub(applied);
                assert!(
                    behind <= 500.max(self.etcd.index / 1000),
                    "invariant 3: promoted {behind} behind"
                );
                self.etcd.promote(*id, applied)?;
            }
            Step::Remove { id, .. } => self.etcd.remove(*id)?,
            Step::MoveLeader { id, .. } => self.etcd.move_leader(*id)?,
        }
        Ok(true)
    }

    fn create_member(&mut self) {
        let name = self.fresh_name("c-");
        let uid = self.fresh_name("uid");
        let version = self.record.version.unwrap();
        self.members.push(SimMember {
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
        });
    }
}
