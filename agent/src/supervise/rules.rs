//! When etcd may be started, and when it is started again. Pure.

use std::time::{Duration, Instant};

use thiserror::Error;

/// What the data volume says.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ground {
    /// The fence file is there.
    pub fenced: bool,
    /// A recovery has begun and is not at its end.
    pub recovering: bool,
    /// A WAL is there in which something was saved.
    pub wal: bool,
    /// A WAL is there in which nothing was saved: what a first start that was killed has left.
    pub rest: bool,
    /// An identity is recorded.
    pub identity: bool,
    /// etcd has once saved something in its WAL here.
    pub started: bool,
    /// The highest Once order that has been used here; 0 when none.
    pub used: u64,
}

/// What a start is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With a configuration that would change history when it were used twice.
    Once {
        /// Number of the directive behind it.
        order: u64,
        /// It makes a member where none is (see [`is_first_start`]), and does not change one that is there.
        first: bool,
    },
    /// With a configuration that only runs what is there.
    Repeatable,
}

/// Why etcd is not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// See [`Ground::fenced`].
    #[error("a fence stands on the data volume; lift it first")]
    Fenced,
    /// See [`Ground::recovering`].
    #[error("a recovery has begun here and is not at its end; send Recover to go on with it")]
    Recovering,
    /// A Repeatable start without a WAL would make a new, empty member.
    #[error("no WAL is there, and a Repeatable start never makes one; waiting for the agent")]
    NoWal,
    /// Nothing says whose data these are.
    #[error("no identity is recorded and none was sent with the order; waiting for the agent")]
    NoIdentity,
    /// A Once order without a number cannot be told from its repetition.
    #[error("a Once order needs the number of the directive behind it")]
    NoNumber,
    /// An older order than one that was used.
    #[error("order {order} is older than order {used}, which was used here; send a new directive")]
    Stale {
        /// The order that was sent.
        order: u64,
        /// The order that was used.
        used: u64,
    },
    /// The order has had its effect.
    #[error("order {order} was used here and is never replayed; send a new directive")]
    Used {
        /// The order that was sent.
        order: u64,
    },
    /// A first start where a member is: etcd would run that one, under the new one's recorded identity.
    #[error("order {order} is for an unborn directory, and etcd has saved data in this one; look at it again")]
    Born {
        /// The order that was sent.
        order: u64,
    },
    /// etcd would come up on such a WAL without voters, and wait for ever.
    #[error(
        "an earlier start has left a WAL in which nothing was saved; clear the directory and send order {order} again"
    )]
    Rest {
        /// The order that was sent.
        order: u64,
    },
    /// The data that were here are gone; an order meant for this directory must not be carried out on an empty one.
    #[error("etcd had started here and its data are gone; clear the directory and send an order for the new one")]
    DataGone,
}

/// May etcd be started? `with_identity`: an identity comes with the order and is recorded before the start.
pub fn may_start(kind: Kind, with_identity: bool, ground: Ground) -> Result<(), Refusal> {
    if ground.fenced {
        return Err(Refusal::Fenced);
    }
    if ground.recovering {
        return Err(Refusal::Recovering);
    }
    match kind {
        Kind::Repeatable if !ground.wal => return Err(Refusal::NoWal),
        Kind::Once { order: 0, .. } => return Err(Refusal::NoNumber),
        Kind::Once { order, .. } if order < ground.used => {
            return Err(Refusal::Stale {
                order,
                used: ground.used,
            });
        }
        Kind::Once { order, .. } if order == ground.used && (ground.wal || ground.started) => {
            return Err(Refusal::Used { order });
        }
        Kind::Once { order, first: true } if ground.wal => return Err(Refusal::Born { order }),
        Kind::Once { .. } if ground.started && !ground.wal => return Err(Refusal::DataGone),
        Kind::Once { order, first: true } if ground.rest => return Err(Refusal::Rest { order }),
        Kind::Once { .. } | Kind::Repeatable => {}
    }
    if with_identity || ground.identity {
        Ok(())
    } else {
        Err(Refusal::NoIdentity)
    }
}

const CLUSTER_STATE: &str = "initial-cluster-state";
/// May a recovery begin, or go on? `open`: the number of the one that has begun and is not at its end.
pub fn may_recover(order: u64, open: Option<u64>, ground: Ground) -> Result<(), Refusal> {
    match open {
        _ if order == 0 => Err(Refusal::NoNumber),
        Some(begun) if order < begun => Err(Refusal::Stale { order, used: begun }),
        // It goes on. Or it is given up for a newer one: of what it has begun nothing has served yet.
        Some(_) => Ok(()),
        None if order < ground.used => Err(Refusal::Stale {
            order,
            used: ground.used,
        }),
        None if order == ground.used => Err(Refusal::Used { order }),
        None if ground.wal => Ok(()),
        None => Err(Refusal::NoWal),
    }
}

/// Keys of etcd's configuration that a Repeatable start must not have: at a second use they change history, or make an
/// empty member where data were expected.
const ONCE_KEYS: [&str; 2] = [CLUSTER_STATE, "force-new-cluster"];

/// The key that makes this configuration one for a Once order, if it has one.
#[must_use]
pub fn once_key(config: &str) -> Option<&'static str> {
    ONCE_KEYS.into_iter().find(|key| has_key(config, key))
}

/// Does it make a member in an empty directory? On one with data etcd ignores all that such a configuration says.
#[must_use]
pub fn is_first_start(config: &str) -> bool {
    has_key(config, CLUSTER_STATE)
}

/// In YAML of any style: a mapping may stand in one line and its keys in quotes.
fn has_key(config: &str, key: &str) -> bool {
    let is_of_a_word = |char: char| char.is_alphanumeric() || char == '-' || char == '_';
    config.match_indices(key).any(|(at, _)| {
        let before = config[..at].chars().next_back();
        let after = config[at + key.len()..].trim_start_matches(['"', '\'', ' ', '\t']);
        !before.is_some_and(is_of_a_word) && after.starts_with(':')
    })
}

/// A run this long was a good one: its end is not the same failure over again. An answer to the watchdog is no sign of
/// that: it comes before etcd has a quorum, and before most of what etcd dies of.
const GOOD_RUN: Duration = Duration::from_mins(1);
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How long a connected agent is given to order something after an end of etcd, or after it has connected.
pub const AGENT_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before etcd is started again by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    failed: u32,
}

impl Backoff {
    /// The wait after one more end of etcd, which had run so long. One that could not be started has run no time.
    pub fn next(&mut self, ran: Duration) -> Duration {
        if ran >= GOOD_RUN {
            self.failed = 0;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << self.failed.min(16)).min(LONGEST_WAIT);
        self.failed = self.failed.saturating_add(1);
        wait
    }
}

/// When etcd is started again by itself, unless the agent orders otherwise before.
///
/// Without an agent: after the back-off. With one: it is given [`AGENT_PATIENCE`], so that it can look at the directory
/// and order (or `Stop`, when that takes longer); one that is connected and says nothing counts as none. An agent that
/// comes and goes delays it at most twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    ended: Instant,
    backed_off: Instant,
    at: Instant,
}

impl Restart {
    /// etcd has ended now.
    #[must_use]
    pub fn after_end(now: Instant, wait: Duration, agent: bool) -> Self {
        let mut restart = Self {
            ended: now,
            backed_off: now + wait,
            at: now + wait,
        };
        if agent {
            restart.agent_up(now);
        }
        restart
    }

    /// When it is due.
    #[must_use]
    pub fn at(&self) -> Instant {
        self.at
    }

    /// The agent has connected.
    pub fn agent_up(&mut self, now: Instant) {
        self.at = self
            .backed_off
            .max((now + AGENT_PATIENCE).min(self.ended + 2 * AGENT_PATIENCE));
    }

    /// The agent is gone.
    pub fn agent_down(&mut self) {
        self.at = self.backed_off;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BORN: Ground = Ground {
        fenced: false,
        recovering: false,
        wal: true,
        rest: false,
        identity: true,
        started: true,
        used: 4,
    };
    const UNBORN: Ground = Ground {
        fenced: false,
        recovering: false,
        wal: false,
        rest: false,
        identity: true,
        started: false,
        used: 4,
    };
    const EMPTY: Ground = Ground {
        fenced: false,
        recovering: false,
        wal: false,
        rest: false,
        identity: false,
        started: false,
        used: 0,
    };

    #[test]
    fn d27_a_once_order_is_used_again_only_where_it_had_no_effect() {
        let table = [
            // A first start, with the identity that must be recorded before it.
            (4, true, EMPTY, Ok(())),
            (4, false, EMPTY, Err(Refusal::NoIdentity)),
            (0, true, EMPTY, Err(Refusal::NoNumber)),
            // The same order again after a crash before etcd wrote its WAL.
            (4, false, UNBORN, Ok(())),
            // After a crash before anything was saved in it.
            (
                4,
                false,
                Ground { rest: true, ..UNBORN },
                Err(Refusal::Rest { order: 4 }),
            ),
            // After it had written it.
            (4, true, BORN, Err(Refusal::Used { order: 4 })),
            // After its data were lost.
            (4, true, Ground { wal: false, ..BORN }, Err(Refusal::Used { order: 4 })),
            (5, true, Ground { wal: false, ..BORN }, Err(Refusal::DataGone)),
            // The marker was lost in a crash, the WAL speaks for itself.
            (
                4,
                true,
                Ground { started: false, ..BORN },
                Err(Refusal::Used { order: 4 }),
            ),
            (3, true, UNBORN, Err(Refusal::Stale { order: 3, used: 4 })),
            (5, true, Ground { fenced: true, ..UNBORN }, Err(Refusal::Fenced)),
            (
                5,
                true,
                Ground {
                    recovering: true,
                    ..UNBORN
                },
                Err(Refusal::Recovering),
            ),
        ];
        for (order, identity, ground, wanted) in table {
            assert_eq!(
                may_start(Kind::Once { order, first: true }, identity, ground),
                wanted,
                "order {order}, {ground:?}"
            );
        }
    }

    #[test]
    fn a_first_start_never_meets_data_that_are_there_and_a_recovery_does() {
        let once = |first| may_start(Kind::Once { order: 5, first }, true, BORN);
        assert_eq!(once(true), Err(Refusal::Born { order: 5 }));
        assert_eq!(once(false), Ok(()));
        assert!(is_first_start("name: a\ninitial-cluster-state: \"existing\"\n"));
        assert!(!is_first_start("name: a\nforce-new-cluster: true\n"));
    }

    #[test]
    fn a_repeatable_start_needs_wal_and_identity_and_no_fence() {
        let table = [
            (false, BORN, Ok(())),
            (
                true,
                Ground {
                    identity: false,
                    ..BORN
                },
                Ok(()),
            ),
            (
                false,
                Ground {
                    identity: false,
                    ..BORN
                },
                Err(Refusal::NoIdentity),
            ),
            (true, UNBORN, Err(Refusal::NoWal)),
            (true, EMPTY, Err(Refusal::NoWal)),
            (false, Ground { fenced: true, ..BORN }, Err(Refusal::Fenced)),
            (
                false,
                Ground {
                    recovering: true,
                    ..BORN
                },
                Err(Refusal::Recovering),
            ),
        ];
        for (identity, ground, wanted) in table {
            assert_eq!(may_start(Kind::Repeatable, identity, ground), wanted, "{ground:?}");
        }
    }

    #[test]
    fn d27_a_recovery_goes_on_after_a_crash_and_is_never_done_twice() {
        let begun = Ground {
            recovering: true,
            ..BORN
        };
        let table = [
            (5, None, BORN, Ok(())),
            (5, Some(5), begun, Ok(())),
            (5, Some(5), Ground { wal: false, ..begun }, Ok(())),
            (4, None, BORN, Err(Refusal::Used { order: 4 })),
            (3, None, BORN, Err(Refusal::Stale { order: 3, used: 4 })),
            (4, Some(5), begun, Err(Refusal::Stale { order: 4, used: 5 })),
            (6, Some(5), begun, Ok(())),
            (5, None, UNBORN, Err(Refusal::NoWal)),
            (0, None, BORN, Err(Refusal::NoNumber)),
            // Who is recovered is fenced before.
            (5, None, Ground { fenced: true, ..BORN }, Ok(())),
        ];
        for (order, open, ground, wanted) in table {
            assert_eq!(may_recover(order, open, ground), wanted, "order {order}, open {open:?}");
        }
    }

    #[test]
    fn a_configuration_that_changes_history_is_recognised() {
        assert_eq!(once_key("name: a\ninitial-cluster: a=http://x:1\n"), None);
        assert_eq!(
            once_key("name: a\ninitial-cluster-state: new\n"),
            Some("initial-cluster-state")
        );
        assert_eq!(
            once_key("{\n  \"force-new-cluster\": true\n}"),
            Some("force-new-cluster")
        );
        assert_eq!(
            once_key("{name: a, 'force-new-cluster' : true}"),
            Some("force-new-cluster")
        );
        assert_eq!(
            once_key("name: \"my-force-new-cluster-0\"\nmy-initial-cluster-state: x\n"),
            None
        );
    }

    #[test]
    fn the_back_off_grows_to_a_bound_and_starts_over_after_a_good_run() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..8)
            .map(|_| u64::try_from(backoff.next(Duration::from_secs(5)).as_millis()).unwrap_or(u64::MAX))
            .collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 15000, 15000]);
        assert_eq!(backoff.next(GOOD_RUN), FIRST_WAIT);
        assert_eq!(backoff.next(Duration::ZERO), 2 * FIRST_WAIT);
    }

    #[test]
    fn without_an_agent_etcd_starts_again_after_the_back_off() {
        let now = Instant::now();
        assert_eq!(Restart::after_end(now, FIRST_WAIT, false).at(), now + FIRST_WAIT);
    }

    #[test]
    fn a_connected_agent_is_waited_for_and_one_that_goes_is_not() {
        let now = Instant::now();
        let mut restart = Restart::after_end(now, FIRST_WAIT, true);
        assert_eq!(restart.at(), now + AGENT_PATIENCE);
        restart.agent_down();
        assert_eq!(restart.at(), now + FIRST_WAIT);
    }

    #[test]
    fn an_agent_that_comes_and_goes_does_not_keep_etcd_down() {
        let now = Instant::now();
        let mut restart = Restart::after_end(now, FIRST_WAIT, false);
        for second in 0..100 {
            restart.agent_up(now + Duration::from_secs(second));
        }
        assert_eq!(restart.at(), now + 2 * AGENT_PATIENCE);
        let mut late = Restart::after_end(now, LONGEST_WAIT, true);
        late.agent_up(now);
        assert_eq!(late.at(), now + LONGEST_WAIT);
    }
}
