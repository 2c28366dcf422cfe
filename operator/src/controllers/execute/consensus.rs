//! etcd's membership: one call, through the voter that the plan names. Whatever the answer, the next pass reads again.

use etcd::{Access, Admin, Alarm, Applied, EtcdError, MemberId, Refusal as Refused};

use super::{
    super::{error::PassError, links, remote},
    Effect, Executor,
};
use crate::plan::{
    facts::{Id, Nudged, Refusal, Unanswered},
    step::Step,
};

/// Longest wait for one call.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(2);

/// What must be left of our turn: a raft write is two calls.
const TURN: std::time::Duration = std::time::Duration::from_millis(4500);

/// Raft writes further apart than this are made for different needs.
const NUDGES_APART: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

impl Executor<'_> {
    async fn admin(&self, step: &Step, via: &str) -> Result<Admin, PassError> {
        let url = self
            .facts
            .members
            .iter()
            .find(|member| member.name == via)
            .and_then(remote::client_url);
        let Some(url) = url else {
            return Err(PassError::stale(step, format!("{via} has no address")));
        };
        let admin = Admin::new(&url, &Access::Plain, DEADLINE).await?;
        // After it is connected, just before the call.
        self.world.operator.lease.check(TURN)?;
        Ok(admin)
    }

    fn answered<T>(&self, step: &Step, answer: Result<T, EtcdError>) -> Result<(), PassError> {
        let at = self.now();
        self.with_memory(|memory| match &answer {
            Ok(_) => {
                memory.refusal = None;
                memory.unanswered = None;
            }
            Err(error) if error.applied() == Applied::Unknown => {
                let step = step.clone();
                memory.unanswered = Some(Unanswered { step, at });
            }
            // What was asked for before, without an answer, may be carried out all the same.
            Err(error) => {
                let since = memory.refusal.as_ref().map_or(at, |refusal| refusal.since);
                let message = error.to_string();
                memory.refusal = error.refusal().map(|_| Refusal { at, since, message });
            }
        });
        answer.map(drop).map_err(PassError::from)
    }

    pub(super) async fn add_learner(&self, step: &Step, via: &str, peer_url: &str) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        self.answered(step, admin.add_learner(&[peer_url.to_owned()]).await)
    }

    pub(super) async fn promote(&self, step: &Step, via: &str, id: Id) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        self.answered(step, admin.promote(MemberId(id.0)).await)
    }

    pub(super) async fn remove(&self, step: &Step, via: &str, id: Id) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        match admin.remove(MemberId(id.0)).await {
            // Removed already: what was wanted.
            Err(error) if error.refusal() == Some(Refused::MemberNotFound) => Ok(()),
            answer => self.answered(step, answer),
        }
    }

    /// By the leader's own agent, which etcd lets in whatever it asks of clients.
    pub(super) async fn move_leader(&self, step: &Step, via: &str, id: Id) -> Result<(), PassError> {
        self.world.operator.lease.check(TURN)?;
        let answer = links::move_leader(self.world, &self.key.namespace, via, id, DEADLINE).await;
        let at = self.now();
        self.with_memory(|memory| {
            memory.unanswered = match &answer {
                Err(PassError::Agent(error)) if error.may_have_been_taken() => {
                    Some(Unanswered { step: step.clone(), at })
                }
                _ => None,
            };
        });
        answer
    }

    /// Every CORRUPT alarm there is: each names a member, and which one means nothing.
    pub(super) async fn disarm_corrupt(&self, step: &Step, via: &str) -> Result<Effect, PassError> {
        let admin = self.admin(step, via).await?;
        let mut effect = Effect::AsItWas;
        for (member, alarm) in admin.alarms().await? {
            if alarm == Alarm::Corrupt {
                self.world.operator.lease.check(TURN)?;
                admin.disarm(member, alarm).await?;
                effect = Effect::Changed;
            }
        }
        Ok(effect)
    }

    pub(super) async fn nudge(&self, step: &Step, via: &str, member: &str) -> Result<(), PassError> {
        let last = self.now();
        self.with_memory(|memory| {
            // After a while without any, a new need.
            let before = memory.nudged.take().filter(|nudged| nudged.member == member);
            let since = before
                .filter(|nudged| last.duration_since(nudged.last) < NUDGES_APART)
                .map_or(last, |nudged| nudged.since);
            let member = member.to_owned();
            memory.nudged = Some(Nudged { member, since, last });
        });
        self.admin(step, via).await?.nudge().await.map_err(PassError::from)
    }
}
