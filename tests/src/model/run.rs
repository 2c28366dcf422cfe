//! A run in time: a pass, then a tenth of a second in which everything goes on by itself.

use std::time::Duration;

use operator::plan::{
    self,
    facts::{Facts, Id, Medium},
    place::{Node, Place, Volume},
    step::Plan,
};

use super::{
    agent::Next,
    execute::Answer,
    world::{Disk, Sim, SimProcess},
};

impl Sim {
    /// A person edits `spec.replicas`.
    pub fn scale(&mut self, replicas: u32) {
        self.spec.replicas = replicas;
        self.spec.is_observed = false;
    }

    /// One pass of the operator, then a moment passes. False: the pass had nothing to do.
    pub fn turn(&mut self) -> bool {
        let (facts, plan) = self.decide(&super::planners::Real);
        self.check_plan(&facts, &plan);
        let acted = !plan.chains.is_empty();
        self.execute(&plan);
        let facts = self.facts();
        self.report(&facts, &plan);
        self.pass_time();
        self.late_proposals();
        self.check();
        if let Some(violation) = &self.violation {
            panic!(
                "invariant {}: {}\n{}",
                violation.invariant,
                violation.what,
                self.story()
            );
        }
        acted
    }

    fn execute(&mut self, plan: &Plan) {
        for chain in &plan.chains {
            for step in chain {
                let number = self.steps;
                self.steps += 1;
                if self.faults.crash_before == Some(number) {
                    self.say(|| "  ** killed before the next step".into());
                    self.forget();
                    return;
                }
                if let Some((late, turns)) = self.faults.apply_later
                    && late == number
                    && step.is_consensus()
                {
                    let due = self.now + Duration::from_millis(100) * turns;
                    self.propose(step, Some(due));
                    break;
                }
                if self.proposals.iter().any(|open| open.step.is_same_change(step)) {
                    self.say(|| "  ** no answer either".into());
                    self.unanswered = Some(plan::facts::Unanswered {
                        step: step.clone(),
                        at: self.now,
                    });
                    break;
                }
                let crash = self.faults.crash_after == Some(number);
                let lost = self.faults.lose_answer == Some(number) || crash;
                let answer = if lost { Answer::IsLost } else { Answer::Arrives };
                let done = self.step(step, answer);
                if crash {
                    self.say(|| "  ** killed".into());
                    self.forget();
                    return;
                }
                if !done {
                    break;
                }
            }
        }
    }

    fn late_proposals(&mut self) {
        while let Some(index) = self
            .proposals
            .iter()
            .position(|open| open.due.is_some_and(|due| due <= self.now))
        {
            self.carry_out(index);
        }
    }

    /// The part of the statuses that later plans read, and what the process remembers of the quorum.
    pub(super) fn report(&mut self, facts: &Facts, plan: &Plan) {
        let view = plan::view::View::new(facts);
        for view_of in &view.members {
            let Some(member) = self.find(&view_of.fact.name) else {
                continue;
            };
            let old = crds::EtcdMemberStatus {
                is_voter: member.record.voter,
                member_id: member.record.member_id.map(|id| id.to_string()),
                pod_uid: member.record.pod_uid.clone(),
                ..crds::EtcdMemberStatus::default()
            };
            let status = plan::member_status::member(&view, plan, view_of, 1, &old);
            let write = |member: &mut super::world::SimMember| {
                member.record.voter = status.is_voter;
                member.record.pod_uid.clone_from(&status.pod_uid);
                member.record.member_id = status.member_id.as_deref().and_then(Id::parse);
                member.record.heard |= status.data_directory.is_some();
            };
            self.own(&view_of.fact.name, write);
        }
        self.remember_quorum(&view);
    }

    pub(super) fn remember_quorum(&mut self, view: &plan::view::View) {
        let proven = plan::quorum::proven(view) || self.record.cluster_id.is_none();
        let now = self.now;
        if proven {
            self.unproven_since = None;
        } else {
            self.unproven_since.get_or_insert(now);
        }
    }

    /// Runs until the planner has nothing to do, several times in a row, and the target is reached.
    pub fn settle(&mut self) {
        self.settle_within(600);
    }

    pub fn settle_within(&mut self, turns: usize) {
        let mut quiet = 0;
        for _ in 0..turns {
            let acted = self.turn();
            quiet = if acted || !self.is_whole() { 0 } else { quiet + 1 };
            if quiet > 40 {
                return;
            }
        }
        panic!("not settled after {turns} turns: {}\n{}", self.describe(), self.story());
    }

    /// Runs so many turns, whatever comes of it.
    pub fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.turn();
        }
    }

    /// What the planner would do now.
    #[must_use]
    pub fn plan_now(&self) -> Plan {
        plan::plan(&self.facts())
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_millis(100);
        for pod in self.members.iter_mut().filter_map(|member| member.pod.as_mut()) {
            if pod.agent_starts != u32::MAX {
                pod.agent_starts = pod.agent_starts.saturating_sub(1);
            }
        }
        for index in 0..self.members.len() {
            if let Some(next) = self.next_of(index)
                && self.is_due(index, next)
            {
                self.go(index, next);
            }
        }
        self.sweep();
        self.refresh();
    }

    /// A Pod takes some turns to come up, etcd some to serve.
    fn is_due(&mut self, index: usize, next: Next) -> bool {
        let Some(pod) = &mut self.members[index].pod else {
            return true;
        };
        match next {
            Next::Up => {
                pod.scheduled = true;
                pod.age += 1;
                pod.age > 3
            }
            Next::Serve => match &mut pod.process {
                SimProcess::Starting(age) => {
                    *age += 1;
                    *age > 2
                }
                _ => true,
            },
            Next::PodGone | Next::Restart | Next::Log | Next::End | Next::CatchUp => true,
        }
    }

    // Faults of the world.

    /// The Pod is gone, and with it the memory it had.
    pub fn kill_pod(&mut self, name: &str) {
        let medium = self.spec.medium;
        let member = self.member(name);
        member.pod = None;
        if medium == Medium::Memory {
            member.disk = None;
        }
        self.say(|| format!("  !! Pod {name} is gone"));
        self.refresh();
    }

    /// The node of a member is dead: nothing of it is heard, its Pod cannot end, and a volume that only this node has
    /// (memory, a local disk) is out of reach.
    pub fn lose_node(&mut self, name: &str, volume: Volume) {
        let since = self.now;
        let member = self.member(name);
        member.place.node = Node::Lost { since };
        member.place.volume = volume;
        if let Some(pod) = &mut member.pod {
            pod.up = false;
            pod.process = SimProcess::Absent;
        }
        self.say(|| format!("  !! the node of {name} is lost"));
        self.refresh();
    }

    /// It is back, having lost its memory.
    pub fn node_returns(&mut self, name: &str) {
        let memory = self.spec.medium == Medium::Memory;
        let member = self.member(name);
        member.place = Place::default();
        if memory {
            member.disk = None;
        }
        self.say(|| format!("  !! the node of {name} is back"));
    }

    /// The volume is emptied under a member that then starts again.
    pub fn lose_disk(&mut self, name: &str) {
        let nonce = self.fresh_name("nonce");
        let member = self.member(name);
        member.disk = Some(Disk::empty(nonce));
        if let Some(pod) = &mut member.pod {
            pod.process = SimProcess::Held;
        }
        self.say(|| format!("  !! disk of {name} is emptied"));
        self.refresh();
    }
}
