//! What a Lease says, and what follows from it: pure.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

/// How long a turn lasts for others after its last renewal. As client-go's.
pub(super) const TURN: Duration = Duration::from_secs(15);
/// How much of it we use ourselves: clocks run at slightly different speeds.
pub(super) const OWN_TURN: Duration = Duration::from_secs(13);

/// What we know of the holder.
#[derive(Debug, Default)]
pub(super) struct Observed {
    spec: Option<LeaseSpec>,
    /// When we saw it change, on our own clock.
    since: Option<Instant>,
}

/// What to do with a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It is ours: write it again.
    Renew,
    /// Nobody's turn: take it.
    Take,
    /// Another's turn.
    Wait,
}

impl Observed {
    /// Looks at the Lease as it was just read.
    pub(super) fn see(&mut self, lease: &Lease, me: &str, now: Instant) -> Move {
        if self.spec != lease.spec {
            self.spec.clone_from(&lease.spec);
            self.since = Some(now);
        }
        let Some(spec) = &self.spec else { return Move::Take };
        match spec.holder_identity.as_deref() {
            None | Some("") => Move::Take,
            Some(holder) if holder == me => Move::Renew,
            Some(_) if self.is_over(now) => Move::Take,
            Some(_) => Move::Wait,
        }
    }

    /// There is no Lease. Whoever was seen to hold it may not know yet that it was deleted, and acts on: its turn is
    /// waited for all the same.
    pub(super) fn without_lease(&self, me: &str, now: Instant) -> Move {
        match self.holder() {
            Some(holder) if holder != me && !self.is_over(now) => Move::Wait,
            Some(_) | None => Move::Take,
        }
    }

    /// Has the Lease that was seen last not changed for as long as it lasts?
    fn is_over(&self, now: Instant) -> bool {
        let lasts = self
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(TURN, Duration::from_secs);
        let unchanged = self
            .since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        unchanged > lasts
    }

    /// Whose turn it is.
    pub(super) fn holder(&self) -> Option<&str> {
        self.spec
            .as_ref()?
            .holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }
}

/// The Lease with our name and a new time in it.
pub(super) fn taken(mut lease: Lease, me: &str, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(me) {
        // client-go counts hand-overs; the first holder is none.
        if spec.holder_identity.is_some() {
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
        }
        spec.holder_identity = Some(me.to_owned());
        spec.acquire_time = Some(MicroTime(now));
    }
    spec.lease_duration_seconds = Some(i32::try_from(TURN.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// The Lease given back: anybody may take it at once. As client-go does it.
pub(super) fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(now));
    spec.acquire_time = Some(MicroTime(now));
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().unwrap()
    }

    fn later(seconds: i64) -> Timestamp {
        now() + jiff::SignedDuration::from_secs(seconds)
    }

    #[test]
    fn u11_another_holder_that_renews_is_waited_for_whatever_its_clock_says() {
        let start = Instant::now();
        let mut observed = Observed::default();
        // Its clock is an hour behind ours.
        let mut lease = taken(Lease::default(), "other", later(-3600));
        for beat in 0..20 {
            let at = start + Duration::from_secs(10 * beat);
            assert_eq!(observed.see(&lease, "me", at), Move::Wait);
            lease = taken(lease, "other", later(-3600 + 10 * i64::try_from(beat).unwrap() + 10));
        }
    }

    #[test]
    fn u11_a_dead_holders_turn_is_over_when_its_lease_has_not_changed_for_its_length() {
        let start = Instant::now();
        let mut observed = Observed::default();
        let lease = taken(Lease::default(), "other", later(3600));
        assert_eq!(observed.see(&lease, "me", start), Move::Wait);
        assert_eq!(observed.see(&lease, "me", start + Duration::from_secs(15)), Move::Wait);
        assert_eq!(
            observed.see(&lease, "me", start + Duration::from_millis(15_001)),
            Move::Take
        );
        assert_eq!(observed.holder(), Some("other"));
    }

    #[test]
    fn u11_a_released_lease_is_taken_at_once() {
        let mut observed = Observed::default();
        let lease = released(taken(Lease::default(), "other", now()), now());
        assert_eq!(observed.see(&lease, "me", Instant::now()), Move::Take);
        assert_eq!(observed.holder(), None);
    }

    #[test]
    fn u11_a_deleted_lease_does_not_end_the_turn_of_its_holder() {
        let start = Instant::now();
        let mut observed = Observed::default();
        assert_eq!(observed.without_lease("me", start), Move::Take, "nobody was ever seen");
        observed.see(&taken(Lease::default(), "other", now()), "me", start);
        assert_eq!(
            observed.without_lease("me", start + Duration::from_secs(15)),
            Move::Wait
        );
        assert_eq!(
            observed.without_lease("me", start + Duration::from_millis(15_001)),
            Move::Take
        );
        observed.see(&taken(Lease::default(), "me", now()), "me", start);
        assert_eq!(observed.without_lease("me", start), Move::Take, "it was ours");
    }

    #[test]
    fn hand_overs_are_counted_and_renewals_are_not() {
        let first = taken(Lease::default(), "a", now());
        assert_eq!(first.spec.as_ref().unwrap().lease_transitions, None);
        let renewed = taken(first.clone(), "a", later(5)).spec.unwrap();
        assert_eq!(renewed.acquire_time, Some(MicroTime(now())));
        assert_eq!(
            (renewed.renew_time, renewed.lease_transitions),
            (Some(MicroTime(later(5))), None)
        );
        let second = taken(first, "b", later(9)).spec.unwrap();
        assert_eq!(
            (second.lease_transitions, second.acquire_time),
            (Some(1), Some(MicroTime(later(9))))
        );
    }

    #[test]
    fn our_own_use_of_a_turn_ends_before_others_may_begin_theirs() {
        assert!(OWN_TURN < TURN);
    }
}
