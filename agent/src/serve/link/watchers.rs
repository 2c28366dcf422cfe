//! Who watches, for the metrics and `/readyz`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An operator that restarts dials again within this time: the link counts as up meanwhile.
const GRACE: Duration = Duration::from_mins(1);

/// The open `Watch` streams.
#[derive(Debug, Default)]
pub struct Watchers(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: usize,
    sent: u64,
    last: Option<Instant>,
}

impl Watchers {
    /// Open streams.
    #[must_use]
    pub fn now(&self) -> usize {
        self.with(|counts| counts.now)
    }

    /// Reports sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.with(|counts| counts.sent)
    }

    /// Is the link up, or was it within the last minute?
    #[must_use]
    pub fn linked(&self, now: Instant) -> bool {
        self.with(|counts| {
            counts.now > 0
                || counts
                    .last
                    .is_some_and(|last| now.saturating_duration_since(last) < GRACE)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Counts) -> T) -> T {
        // Plain numbers: a panic elsewhere leaves them true.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts one stream as long as it lives.
#[derive(Debug)]
pub(super) struct Watching(Arc<Watchers>);

impl Watching {
    /// One more.
    pub(super) fn new(watchers: Arc<Watchers>) -> Self {
        watchers.with(|counts| counts.now += 1);
        Self(watchers)
    }

    /// One more report was sent.
    pub(super) fn count(&self) {
        self.0.with(|counts| counts.sent += 1);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.with(|counts| {
            counts.now = counts.now.saturating_sub(1);
            counts.last = Some(Instant::now());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_up_while_somebody_watches_and_for_a_minute_after() {
        let watchers = Arc::new(Watchers::default());
        assert!(!watchers.linked(Instant::now()));
        let (one, other) = (
            Watching::new(Arc::clone(&watchers)),
            Watching::new(Arc::clone(&watchers)),
        );
        drop(one);
        assert_eq!(watchers.now(), 1);
        other.count();
        drop(other);
        assert_eq!((watchers.now(), watchers.sent()), (0, 1));
        assert!(watchers.linked(Instant::now()));
        assert!(!watchers.linked(Instant::now() + GRACE + Duration::from_secs(1)));
    }
}
