//! etcd's membership: one call, through the voter that the plan names. Whatever the answer, the next pass reads again.

use etcd::{Access, Admin, EtcdError, MemberId, Refusal as Refused};

use super::{
    super::{error::PassError, observe},
    Executor,
};
use crate::plan::{
    facts::{Id, Refusal},
    step::Step,
};

/// Longest wait for one call.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(2);

impl Executor<'_> {
    async fn admin(&self, step: &Step, via: &str) -> Result<Admin, PassError> {
        let url = self
            .facts
            .members
            .iter()
            .find(|member| member.name == via)
            .and_then(observe::client_url);
        let Some(url) = url else {
            return Err(PassError::stale(step, format!("{via} has no address")));
        };
        Ok(Admin::new(&url, &Access::Plain, DEADLINE).await?)
    }

    fn answered<T>(&self, answer: Result<T, EtcdError>) -> Result<(), PassError> {
        let refusal = match &answer {
            Ok(_) => None,
            Err(error) => error.refusal().map(|_| Refusal {
                at: self.now(),
                message: error.to_string(),
            }),
        };
        self.with_memory(|memory| memory.refusal = refusal);
        answer.map(drop).map_err(PassError::from)
    }

    pub(super) async fn add_learner(&self, step: &Step, via: &str, peer_url: &str) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        self.answered(admin.add_learner(&[peer_url.to_owned()]).await)
    }

    pub(super) async fn promote(&self, step: &Step, via: &str, id: Id) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        self.answered(admin.promote(MemberId(id.0)).await)
    }

    pub(super) async fn remove(&self, step: &Step, via: &str, id: Id) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        match admin.remove(MemberId(id.0)).await {
            // Removed already: what was wanted.
            Err(error) if error.refusal() == Some(Refused::MemberNotFound) => Ok(()),
            answer => self.answered(answer),
        }
    }

    pub(super) async fn move_leader(&self, step: &Step, via: &str, id: Id) -> Result<(), PassError> {
        let admin = self.admin(step, via).await?;
        self.answered(admin.move_leader(MemberId(id.0)).await)
    }

    pub(super) async fn nudge(&self, step: &Step, via: &str) -> Result<(), PassError> {
        let now = self.now();
        self.with_memory(|memory| memory.nudged = Some(now));
        self.admin(step, via).await?.nudge().await.map_err(PassError::from)
    }
}
