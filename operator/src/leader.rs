//! Leader election on a Lease, and how long our turn is proven to last.

use std::time::Duration;

/// Proof that this process holds the lease, and for how long.
#[derive(Debug, Default)]
pub struct Validity {}

/// This process may not act: the lease is not held, or does not last long enough for the act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leader lease is not held for long enough (needed {needed:?}, left {left:?}): another replica may act")]
pub struct NotLeader {
    /// What the act needs.
    pub needed: Duration,
    /// What is left of the lease.
    pub left: Duration,
}

impl Validity {
    /// Is there `needed` left of our turn? Asked locally before every act; the act's own deadline is `needed`.
    pub fn check(&self, needed: Duration) -> Result<(), NotLeader> {
        Err(NotLeader {
            needed,
            left: Duration::ZERO,
        })
    }
}
