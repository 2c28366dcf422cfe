//! When etcd counts as hung. Pure: answers, missed answers and the time go in.
//!
//! It takes no part before etcd has answered once (the replay of a long WAL is silent) and while it is suspended. Time
//! alone never condemns: a machine that was paused wakes up to an old last answer, so answers must also have been
//! missed one after another.

use std::time::{Duration, Instant};

/// How often it is asked, in parts of the patience. Each question is given as long as the interval.
const QUESTIONS_PER_PATIENCE: u32 = 6;
/// At least so many missed answers in a row, whatever the time.
const LEAST_MISSED: u32 = 4;
/// How long it may take to write its dump.
pub const DUMP_TIME: Duration = Duration::from_secs(5);

/// What is to be done to a hung etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// SIGCONT (a stopped process takes no other signal) and SIGQUIT: it dumps its goroutines and ends.
    Dump,
    /// SIGKILL.
    Kill,
}

/// The watch over one run of etcd.
#[derive(Debug)]
pub struct Watchdog {
    patience: Duration,
    answered: Option<Instant>,
    missed: u32,
    suspended_until: Option<Instant>,
    dumped: Option<Instant>,
    killed: bool,
}

impl Watchdog {
    /// A watch that ends etcd after so long without an answer.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            answered: None,
            missed: 0,
            suspended_until: None,
            dumped: None,
            killed: false,
        }
    }

    /// How often etcd is to be asked once it has served, and how long an answer may take.
    #[must_use]
    pub fn interval(patience: Duration) -> Duration {
        patience / QUESTIONS_PER_PATIENCE
    }

    /// etcd has answered since it was started.
    #[must_use]
    pub fn served(&self) -> bool {
        self.answered.is_some()
    }

    /// It has sent its signals.
    #[must_use]
    pub fn has_acted(&self) -> bool {
        self.dumped.is_some()
    }

    /// etcd has answered.
    pub fn heard(&mut self, now: Instant) {
        self.answered = Some(now);
        self.missed = 0;
    }

    /// etcd has not answered in time.
    pub fn missed(&mut self) {
        self.missed = self.missed.saturating_add(1);
    }

    /// Take no part for so long; zero lifts the suspension.
    pub fn suspend(&mut self, now: Instant, time: Duration) {
        self.suspended_until = now.checked_add(time);
    }

    /// When [`due`](Self::due) is to be asked next without an answer or a missed one; `None`: those tell.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.dumped
            .filter(|_| !self.killed)
            .and_then(|dumped| dumped.checked_add(DUMP_TIME))
    }

    /// What is to be done now. Each act is given once.
    pub fn due(&mut self, now: Instant) -> Option<Act> {
        if let Some(dumped) = self.dumped {
            let kill = !self.killed && now.duration_since(dumped) >= DUMP_TIME;
            self.killed |= kill;
            return kill.then_some(Act::Kill);
        }
        let answered = self.answered?;
        if let Some(until) = self.suspended_until {
            if now < until {
                self.missed = 0;
                return None;
            }
            // The patience begins anew.
            self.suspended_until = None;
            self.answered = Some(now);
            self.missed = 0;
            return None;
        }
        if self.missed < LEAST_MISSED || now.duration_since(answered) < self.patience {
            return None;
        }
        self.dumped = Some(now);
        Some(Act::Dump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn silent(watchdog: &mut Watchdog, from: Instant, seconds: u64) -> Option<(u64, Act)> {
        (0..=seconds).find_map(|second| {
            if second % 5 == 0 {
                watchdog.missed();
            }
            watchdog
                .due(from + Duration::from_secs(second))
                .map(|act| (second, act))
        })
    }

    #[test]
    fn d23_a_silent_etcd_is_dumped_after_the_patience_and_killed_five_seconds_later() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(PATIENCE);
        watchdog.heard(start);
        assert_eq!(silent(&mut watchdog, start, 60), Some((30, Act::Dump)));
        assert!(watchdog.has_acted());
        assert_eq!(watchdog.deadline(), Some(start + Duration::from_secs(35)));
        assert_eq!(watchdog.due(start + Duration::from_secs(34)), None);
        assert_eq!(watchdog.due(start + Duration::from_secs(35)), Some(Act::Kill));
        assert_eq!(watchdog.due(start + Duration::from_secs(36)), None);
        assert_eq!(watchdog.deadline(), None);
    }

    #[test]
    fn d28_a_start_of_any_length_is_not_hung() {
        let mut watchdog = Watchdog::new(PATIENCE);
        assert_eq!(silent(&mut watchdog, Instant::now(), 100_000), None);
        assert!(!watchdog.served());
    }

    #[test]
    fn d28_a_suspended_watchdog_takes_no_part_and_begins_anew_afterwards() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(PATIENCE);
        watchdog.heard(start);
        watchdog.suspend(start, Duration::from_mins(10));
        assert_eq!(silent(&mut watchdog, start, 700), Some((630, Act::Dump)));
    }

    #[test]
    fn a_suspension_can_be_lifted() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(PATIENCE);
        watchdog.heard(start);
        watchdog.suspend(start, Duration::from_mins(10));
        watchdog.suspend(start, Duration::ZERO);
        assert_eq!(silent(&mut watchdog, start, 60), Some((30, Act::Dump)));
    }

    #[test]
    fn an_answer_in_between_starts_the_patience_again() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(PATIENCE);
        watchdog.heard(start);
        assert_eq!(silent(&mut watchdog, start, 29), None);
        let heard = start + Duration::from_secs(29);
        watchdog.heard(heard);
        assert_eq!(silent(&mut watchdog, heard, 60), Some((30, Act::Dump)));
    }

    #[test]
    fn a_machine_that_slept_does_not_make_etcd_hung() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(PATIENCE);
        watchdog.heard(start);
        watchdog.missed();
        assert_eq!(watchdog.due(start + Duration::from_mins(150)), None);
    }
}
