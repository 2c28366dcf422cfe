//! How long to wait before dialling again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Doubles from 50 ms to 2 s, each spread over half of itself so that a thousand links do not dial as one.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// The next wait; `chance` is from 0 to below 1.
    pub(super) fn wait(&mut self, chance: f64) -> Duration {
        let wait = self.next.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        self.next = (self.next * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_two_seconds() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..8).map(|_| backoff.wait(1.0).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn chance_spreads_a_wait_over_its_second_half() {
        assert_eq!(Backoff::new().wait(0.0).as_millis(), 25);
        assert_eq!(Backoff::new().wait(0.5).as_micros(), 37_500);
    }
}
