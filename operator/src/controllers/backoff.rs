//! Steps that fail: each is held up by itself, so that one which cannot be done does not slow the others of its cluster.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use super::error::PassError;
use crate::plan::step::{Plan, Step};

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST: Duration = Duration::from_secs(30);
/// So many failures in a row that usually pass by themselves are not said.
pub(super) const PATIENCE: u32 = 5;

/// How long to wait after so many failures in a row: twice as long each time.
#[must_use]
pub(super) fn wait(failures: u32) -> Duration {
    FIRST
        .saturating_mul(1 << failures.saturating_sub(1).min(10))
        .min(LONGEST)
}

/// The steps of one cluster that failed the last time.
#[derive(Debug, Default)]
pub(super) struct Failing(HashMap<String, Row>);

/// Failures of one step in a row.
#[derive(Debug)]
struct Row {
    times: u32,
    /// `None`: it is not held up.
    until: Option<Timestamp>,
    /// For a person; `None` while it usually passes by itself.
    words: Option<String>,
    said: Option<String>,
}

/// What it does, and to what; not with which values.
fn key(step: &Step) -> String {
    format!("{} {}", step.kind(), step.member().unwrap_or_default())
}

impl Failing {
    /// Must the step wait, because it failed a moment ago?
    #[must_use]
    pub(super) fn holds_up(&self, step: &Step, now: Timestamp) -> bool {
        !self.0.is_empty()
            && self
                .0
                .get(&key(step))
                .is_some_and(|row| row.until.is_some_and(|until| now < until))
    }

    /// As [`Self::holds_up`], for the step at that place of a chain. A number is recorded for the order that follows it:
    /// while the order must wait, recording one would be a write for nothing, many times a second.
    #[must_use]
    pub(super) fn holds_up_here(&self, chain: &[Step], place: usize, now: Timestamp) -> bool {
        let Some(step) = chain.get(place) else { return false };
        let order = chain.get(place + 1).filter(|_| matches!(step, Step::Bind { .. }));
        self.holds_up(step, now) || order.is_some_and(|order| self.holds_up(order, now))
    }

    /// It was done.
    pub(super) fn succeeded(&mut self, step: &Step) {
        if !self.0.is_empty() {
            self.0.remove(&key(step));
        }
    }

    /// It failed. Says how many times in a row, and whether that is worth a line that was not written yet.
    pub(super) fn failed(&mut self, step: &Step, error: &PassError, now: Timestamp) -> (u32, bool) {
        let quiet = error.is_refusal() || error.is_end_of_namespace();
        let row = self.0.entry(key(step)).or_insert(Row {
            times: 0,
            until: None,
            words: None,
            said: None,
        });
        row.times = row.times.saturating_add(1);
        // What has just changed is read again at once, and the planner itself knows when a refused call is due again.
        let at_once = quiet || (row.times == 1 && error.is_momentary());
        row.until = (!at_once).then(|| now + wait(row.times));
        let worth =
            !quiet && !matches!(error, PassError::NotLeader(_)) && (!error.is_momentary() || row.times > PATIENCE);
        row.words = worth.then(|| error.words());
        let tell = worth && row.said != row.words;
        if tell {
            row.said.clone_from(&row.words);
        }
        (row.times, tell)
    }

    /// Forgets what is not planned any more.
    pub(super) fn keep(&mut self, plan: &Plan) {
        if !self.0.is_empty() {
            let planned: Vec<String> = plan.steps().map(key).collect();
            self.0.retain(|step, _| planned.contains(step));
        }
    }

    /// After how long the first of those is due again that were held up at `start`, when the pass began, or are since.
    #[must_use]
    pub(super) fn due(&self, start: Timestamp, now: Timestamp) -> Option<Duration> {
        let held = self
            .0
            .values()
            .filter_map(|row| row.until.filter(|until| *until > start));
        let left = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or_default();
        held.map(left).min()
    }

    /// What fails again and again, for the conditions.
    #[must_use]
    pub(super) fn words(&self) -> Vec<String> {
        let lasting = self.0.values().filter(|row| row.times > 1);
        let mut words: Vec<String> = lasting.filter_map(|row| row.words.clone()).collect();
        words.sort();
        words.dedup();
        words
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::plan::{facts::Id, step::Order};

    fn step(member: &str) -> Step {
        Step::CreatePod {
            member: member.into(),
            voter: false,
        }
    }

    fn silent() -> PassError {
        PassError::KubeSilent { act: "creating a Pod" }
    }

    #[test]
    fn the_wait_doubles_up_to_a_limit() {
        assert_eq!(wait(1), Duration::from_millis(100));
        assert_eq!(wait(2), Duration::from_millis(200));
        assert_eq!(wait(20), LONGEST);
    }

    #[test]
    fn a_step_that_keeps_failing_holds_up_itself_only() {
        let mut failing = Failing::default();
        let mut now = Timestamp::UNIX_EPOCH;
        for _ in 0..20 {
            failing.failed(&step("a"), &silent(), now);
            now += SignedDuration::from_mins(1);
        }
        failing.failed(&step("a"), &silent(), now);
        assert_eq!(failing.due(now, now), Some(LONGEST));
        assert!(failing.holds_up(&step("a"), now));
        assert!(!failing.holds_up(&step("b"), now));
        assert!(!failing.holds_up(&Step::ApplyClientService, now));
        assert!(!failing.holds_up(&step("a"), now + SignedDuration::from_secs(30)));
        failing.succeeded(&step("a"));
        assert!(!failing.holds_up(&step("a"), now));
        assert_eq!(failing.due(now, now), None);
    }

    #[test]
    fn no_number_is_recorded_for_an_order_that_must_wait() {
        let bind = Step::Bind {
            member: "a".into(),
            binding: None,
            directive: 7,
        };
        let order = Step::Direct {
            member: "a".into(),
            number: 7,
            nonce: String::new(),
            order: Order::Quarantine {
                incarnation: 1,
                removed: Id(1),
            },
        };
        let chain = [bind, order];
        let mut failing = Failing::default();
        let now = Timestamp::UNIX_EPOCH;
        assert!(!failing.holds_up_here(&chain, 0, now));
        failing.failed(&chain[1], &silent(), now);
        assert!(failing.holds_up_here(&chain, 0, now));
        assert!(failing.holds_up_here(&chain, 1, now));
        assert!(!failing.holds_up_here(&chain, 0, now + SignedDuration::from_secs(1)));
    }

    #[test]
    fn what_only_changed_meanwhile_is_tried_again_at_once_and_not_said() {
        let mut failing = Failing::default();
        let now = Timestamp::UNIX_EPOCH;
        let stale = PassError::stale(&step("a"), "it changed");
        assert_eq!(failing.failed(&step("a"), &stale, now), (1, false));
        assert!(!failing.holds_up(&step("a"), now));
        assert_eq!(failing.due(now, now), None);
        assert_eq!(failing.failed(&step("a"), &stale, now), (2, false));
        assert!(failing.holds_up(&step("a"), now));
        assert!(failing.words().is_empty());
    }

    #[test]
    fn u24_what_fails_again_is_said_once_and_is_a_fact_until_it_is_planned_no_more() {
        let mut failing = Failing::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(failing.failed(&step("a"), &silent(), now), (1, true));
        assert!(failing.words().is_empty());
        assert_eq!(failing.failed(&step("a"), &silent(), now), (2, false));
        assert_eq!(failing.words().len(), 1);
        let mut plan = Plan::default();
        plan.step(step("a"));
        failing.keep(&plan);
        assert_eq!(failing.words().len(), 1);
        failing.keep(&Plan::default());
        assert!(failing.words().is_empty());
    }
}
