//! How long to wait before etcd is started again. Pure.

use std::time::Duration;

/// A run this long was a good one: the next failure counts as the first.
const GOOD_RUN: Duration = Duration::from_mins(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts failed runs in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// etcd has ended after running so long: how long to wait now. At once the first time, then 1 s, doubled each time.
    pub fn ended(&mut self, ran: Duration) -> Duration {
        if ran >= GOOD_RUN {
            self.failures = 0;
        }
        let wait = match self.failures {
            0 => Duration::ZERO,
            n => Duration::from_secs(1 << (n - 1).min(10)).min(LONGEST),
        };
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Something else than a run has changed (a new order): the next start is a first one.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_and_the_wait_is_bounded() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..9)
            .map(|_| backoff.ended(Duration::from_secs(1)).as_secs())
            .collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn a_good_run_or_a_new_order_is_a_new_start() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.ended(Duration::ZERO);
        }
        assert_eq!(backoff.ended(GOOD_RUN), Duration::ZERO);
        assert_eq!(backoff.ended(Duration::ZERO), Duration::from_secs(1));
        backoff.reset();
        assert_eq!(backoff.ended(Duration::ZERO), Duration::ZERO);
    }
}
