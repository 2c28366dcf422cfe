//! How long to wait before dialling again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// A link that stood for so long has proven itself: the next loss is a new one.
const PROVEN: Duration = Duration::from_secs(10);

/// Doubles from 50 ms to 2 s, each spread over half of itself so that a thousand links do not dial as one.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// A link has ended that was up. One that ends again and again soon after it came up is a failure as any other.
    pub(super) fn was_up(&mut self, lasted: Duration) {
        if lasted >= PROVEN {
            self.next = FIRST;
        }
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
    fn a_link_that_keeps_ending_soon_after_it_came_up_is_dialled_ever_more_slowly() {
        let mut backoff = Backoff::new();
        for _ in 0..8 {
            backoff.was_up(Duration::from_secs(1));
            backoff.wait(1.0);
        }
        assert_eq!(backoff.wait(1.0), LONGEST);
        backoff.was_up(PROVEN);
        assert_eq!(backoff.wait(1.0), FIRST);
    }

    #[test]
    fn chance_spreads_a_wait_over_its_second_half() {
        assert_eq!(Backoff::new().wait(0.0).as_millis(), 25);
        assert_eq!(Backoff::new().wait(0.5).as_micros(), 37_500);
    }
}
