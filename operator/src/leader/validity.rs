//! Proof that this process may act, and for how long.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Proof that this process holds the Lease, and for how long.
#[derive(Debug)]
pub struct Validity(Mutex<Turn>);

#[derive(Clone, Copy, Debug)]
enum Turn {
    None,
    Until(Instant),
    /// There is no election.
    Always,
}

/// This process may not act: the Lease is not held, or does not last long enough for the act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leader Lease is not held for long enough (needed {needed:?}, left {left:?}): another replica may act")]
pub struct NotLeader {
    /// What the act needs.
    pub needed: Duration,
    /// What is left of our turn.
    pub left: Duration,
}

impl Default for Validity {
    /// Not our turn yet.
    fn default() -> Self {
        Self(Mutex::new(Turn::None))
    }
}

impl Validity {
    /// For a process that is the only one by its deployment (`--leader-elect=false`).
    #[must_use]
    pub fn always() -> Self {
        Self(Mutex::new(Turn::Always))
    }

    /// Is there `needed` left of our turn? Asked locally before every act; the act's own deadline is `needed` or
    /// less, so that it ends before another's turn can begin.
    pub fn check(&self, needed: Duration) -> Result<(), NotLeader> {
        let left = self.left(Instant::now());
        if left >= needed {
            Ok(())
        } else {
            Err(NotLeader { needed, left })
        }
    }

    /// Is it our turn?
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.left(Instant::now()).is_zero()
    }

    /// Our turn is over: nothing may be begun any more.
    pub fn revoke(&self) {
        self.set(Turn::None);
    }

    pub(super) fn extend(&self, until: Instant) {
        self.set(Turn::Until(until));
    }

    fn set(&self, turn: Turn) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }

    fn left(&self, now: Instant) -> Duration {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Turn::None => Duration::ZERO,
            Turn::Until(until) => until.saturating_duration_since(now),
            Turn::Always => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_that_would_outlive_our_turn_is_not_begun() {
        let validity = Validity::default();
        assert!(validity.check(Duration::from_millis(1)).is_err());
        validity.extend(Instant::now() + Duration::from_mins(1));
        assert_eq!(validity.check(Duration::from_secs(5)), Ok(()));
        let error = validity.check(Duration::from_secs(61)).unwrap_err();
        assert!(error.left > Duration::from_secs(50) && error.needed == Duration::from_secs(61));
        validity.revoke();
        assert!(!validity.is_held() && validity.check(Duration::from_millis(1)).is_err());
    }

    #[test]
    fn without_an_election_it_is_always_our_turn() {
        assert_eq!(Validity::always().check(Duration::from_secs(1_000_000)), Ok(()));
    }
}
