//! How many reports of one agent are taken in a second.

use std::time::{Duration, Instant};

/// Reports in a burst. A start of etcd, with everything that changes, makes about ten.
const CAPACITY: u32 = 50;
/// One more every so often.
const REFILL: Duration = Duration::from_millis(100);

/// A token bucket. While it is empty the stream is not read: the transport then makes the agent wait, so what it
/// sends too much costs us neither time nor memory.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: u32,
    refilled: Instant,
}

impl Bucket {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            tokens: CAPACITY,
            refilled: now,
        }
    }

    /// Takes a token, or says how long to wait for one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.refilled);
        let new = u32::try_from(passed.as_millis() / REFILL.as_millis()).unwrap_or(u32::MAX);
        if new >= CAPACITY - self.tokens {
            (self.tokens, self.refilled) = (CAPACITY, now);
        } else {
            self.tokens += new;
            self.refilled += REFILL * new;
        }
        if self.tokens > 0 {
            self.tokens -= 1;
            return Ok(());
        }
        Err((self.refilled + REFILL).saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_ten_reports_a_second_are_taken() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let burst = (0..1000).take_while(|_| bucket.take(start).is_ok()).count();
        assert_eq!(burst, 50);
        assert_eq!(bucket.take(start), Err(REFILL));
        let second_later = start + Duration::from_secs(1);
        assert_eq!((0..1000).take_while(|_| bucket.take(second_later).is_ok()).count(), 10);
    }

    #[test]
    fn a_quiet_agent_gets_its_burst_back_and_no_more() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        while bucket.take(start).is_ok() {}
        let much_later = start + Duration::from_hours(1);
        assert_eq!((0..1000).take_while(|_| bucket.take(much_later).is_ok()).count(), 50);
    }
}
