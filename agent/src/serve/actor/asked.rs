//! What the operator asks of the actor.

use std::time::Instant;

use proto::agent as wire;
use tokio::sync::oneshot;

use super::super::directive::{self, Verdict};
use super::super::directory::name;
use super::super::event::NotTaken;
use super::super::orders;
use super::super::poll::Pace;
use super::super::standing::Standing;
use super::super::supervisor::Error;
use super::{Actor, WRITE_LIMIT};

impl Actor {
    pub(super) async fn direct(&mut self, wire: wire::Directive) -> Result<u64, NotTaken> {
        let Some(standing) = &self.state.standing else {
            return Err(self.not_now("what was ordered before could not be read yet".to_owned()));
        };
        let directive = match directive::check(wire, self.state.args.own(), standing, &self.state.directory) {
            Ok(Verdict::Take(directive)) => directive,
            Ok(Verdict::Again) => return Ok(standing.number),
            Err(refusal) => {
                tracing::warn!(%refusal, "directive refused");
                return Err(refusal.into());
            }
        };
        if self.preparing.is_some() {
            // The orders under way write what stood when they were given: a later write would be undone by them.
            return Err(self.not_now("the directory is being prepared".to_owned()));
        }
        let (number, order) = (directive.number, directive.order.clone());
        let (news, forgives) = (standing.is_news(&directive), standing.is_forgiven_by(&directive));
        let mut next = standing.with(directive);
        if forgives {
            next = self.state.forgiving(next);
        }
        if let Err(error) = self.save(&next).await {
            return Err(self.not_now(error.to_string()));
        }
        tracing::info!(number, order = order.name(), "directive taken");
        if news {
            self.try_again();
        }
        if forgives {
            self.state.start_afresh();
        }
        self.state.standing = Some(next);
        self.look_again();
        Ok(number)
    }

    pub(super) fn not_now(&self, detail: String) -> NotTaken {
        NotTaken::NotNow {
            member: self.state.args.member.clone(),
            detail,
        }
    }

    /// Makes it durable; without a supervisor it waits for one, and is lost if the agent ends before: then the operator,
    /// who sees the number in the report, sends it again.
    pub(super) async fn save(&mut self, standing: &Standing) -> Result<(), Error> {
        let Some(link) = &self.state.link else {
            self.state.unsaved = true;
            return Ok(());
        };
        let content = serde_json::to_vec_pretty(standing).map_err(|error| Error::Refused {
            what: "write a file",
            reason: error.to_string(),
        })?;
        link.supervisor
            .request(orders::write(name::STANDING, content), WRITE_LIMIT)
            .await?;
        self.state.unsaved = false;
        Ok(())
    }

    pub(super) fn fresh_report(&mut self, answer: oneshot::Sender<wire::Report>) {
        if self.state.pace() == Pace::Idle {
            let _ = answer.send(self.report());
            return;
        }
        self.fresh.push((Instant::now(), answer));
        self.wanted.send_modify(|wanted| wanted.now += 1);
    }

    pub(super) fn answer_fresh(&mut self, asked: Instant) {
        let report = self.report();
        for (since, answer) in std::mem::take(&mut self.fresh) {
            if since <= asked {
                let _ = answer.send(report.clone());
            } else if !answer.is_closed() {
                self.fresh.push((since, answer));
            }
        }
    }

    pub(super) fn logs(&self, lines: u32, answer: oneshot::Sender<Result<Vec<String>, NotTaken>>) {
        let Some(link) = &self.state.link else {
            let _ = answer.send(Err(self.not_now("no supervisor is connected".to_owned())));
            return;
        };
        let (supervisor, member) = (link.supervisor.clone(), self.state.args.member.clone());
        tokio::spawn(async move {
            let lines = supervisor.logs(lines, WRITE_LIMIT).await;
            let _ = answer.send(lines.map_err(|error| NotTaken::NotNow {
                member,
                detail: error.to_string(),
            }));
        });
    }
}
