//! When a report differs from the last one enough to be sent. Pure.

use proto::agent as wire;

use super::space::Space;

/// Sizes of etcd's database count as changed past a fiftieth, and this many bytes: it must not reach its quota unsaid.
const DB_STEP: u64 = 4 << 20;
/// The same for the bytes of the data directory: WAL files come and go in 64 MB.
const DIRECTORY_STEP: u64 = 128 << 20;

/// How often a leader's commit index is told while it grows: when the quorum is lost, what was acknowledged since is what
/// may be lost.
const LEADER_STEP_SECONDS: i64 = 10;

/// Would `new` tell the operator anything that `last` has not? Time alone does not, nor do a voter's indexes: with a
/// hundred writes a second they would be all the traffic there is.
#[must_use]
pub fn is_material(last: &wire::Report, new: &wire::Report) -> bool {
    settled(last, new) != *last
}

/// `new` with the values of `last` where the difference does not matter.
fn settled(last: &wire::Report, new: &wire::Report) -> wire::Report {
    let mut settled = new.clone();
    settled.observed_at = last.observed_at;
    let seconds = |report: &wire::Report| report.observed_at.map_or(0, |at| at.seconds);
    let long_ago = seconds(new) - seconds(last) >= LEADER_STEP_SECONDS;
    if let (Some(settled), Some(last)) = (&mut settled.etcd, &last.etcd) {
        let leads = settled.leader != 0 && settled.leader == settled.member_id;
        settle_etcd(settled, last, leads && long_ago);
    }
    if let (Some(settled), Some(last)) = (&mut settled.data_directory, &last.data_directory)
        && is_small(last.bytes, settled.bytes, DIRECTORY_STEP, 10)
    {
        settled.bytes = last.bytes;
    }
    if let (Some(settled), Some(last)) = (&mut settled.disk, &last.disk)
        && settled.total_bytes == last.total_bytes
        && settled.free_bytes.abs_diff(last.free_bytes) < last.total_bytes / 50
        && Space::from(&*settled).level() == Space::from(last).level()
    {
        settled.free_bytes = last.free_bytes;
        settled.free_inodes = last.free_inodes;
    }
    settled
}

fn settle_etcd(settled: &mut wire::Etcd, last: &wire::Etcd, with_indexes: bool) {
    if !settled.is_learner && !with_indexes {
        settled.commit_index = last.commit_index;
        settled.applied_index = last.applied_index;
    }
    settled.revision = last.revision;
    if is_small(size(last.db_size), size(settled.db_size), DB_STEP, 50) {
        settled.db_size = last.db_size;
    }
    if is_small(size(last.db_size_in_use), size(settled.db_size_in_use), DB_STEP, 10) {
        settled.db_size_in_use = last.db_size_in_use;
    }
}

fn size(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or_default()
}

/// Less than `step`, or than that part of it.
fn is_small(last: u64, new: u64, step: u64, part: u64) -> bool {
    last.abs_diff(new) < step.max(last / part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(etcd: wire::Etcd) -> wire::Report {
        wire::Report {
            etcd: Some(etcd),
            data_directory: Some(wire::DataDirectory::default()),
            disk: Some(wire::Disk {
                total_bytes: 10 << 30,
                free_bytes: 5 << 30,
                ..wire::Disk::default()
            }),
            ..wire::Report::default()
        }
    }

    #[test]
    fn a_voter_under_writes_is_no_news_and_a_learner_is() {
        let at = |is_learner, index| {
            report(wire::Etcd {
                is_learner,
                commit_index: index,
                applied_index: index,
                revision: index,
                ..wire::Etcd::default()
            })
        };
        assert!(!is_material(&at(false, 1), &at(false, 1000)));
        assert!(is_material(&at(true, 1), &at(true, 2)));
        assert!(is_material(&at(true, 7), &at(false, 7)), "a promotion");
    }

    #[test]
    fn a_leader_under_writes_tells_how_far_it_is_now_and_then() {
        let at = |seconds, index, member_id| wire::Report {
            observed_at: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            ..report(wire::Etcd {
                member_id,
                leader: 7,
                commit_index: index,
                ..wire::Etcd::default()
            })
        };
        let last = at(100, 1, 7);
        assert!(!is_material(&last, &at(109, 9, 7)));
        assert!(is_material(&last, &at(110, 9, 7)));
        assert!(!is_material(&last, &at(110, 1, 7)), "nobody writes");
        assert!(!is_material(&at(100, 1, 8), &at(110, 9, 8)), "a follower");
    }

    #[test]
    fn time_alone_is_no_news() {
        let mut later = report(wire::Etcd::default());
        later.observed_at = Some(prost_types::Timestamp { seconds: 9, nanos: 9 });
        assert!(!is_material(&report(wire::Etcd::default()), &later));
    }

    #[test]
    fn a_lost_leader_a_new_term_an_alarm_and_a_dead_port_are_news() {
        let base = wire::Etcd {
            leader: 5,
            term: 2,
            serving: true,
            ..wire::Etcd::default()
        };
        for changed in [
            wire::Etcd {
                leader: 0,
                ..base.clone()
            },
            wire::Etcd {
                term: 3,
                ..base.clone()
            },
            wire::Etcd {
                serving: false,
                ..base.clone()
            },
            wire::Etcd {
                alarms: vec!["NOSPACE".to_owned()],
                ..base.clone()
            },
        ] {
            assert!(is_material(&report(base.clone()), &report(changed)));
        }
    }

    #[test]
    fn sizes_are_told_in_steps_and_a_creeping_one_is_told_too() {
        let sized = |db_size| {
            report(wire::Etcd {
                db_size,
                ..wire::Etcd::default()
            })
        };
        assert!(!is_material(&sized(1000 << 20), &sized(1019 << 20)));
        assert!(is_material(&sized(1000 << 20), &sized(1021 << 20)));
        // Compared with what was told last, so many small steps add up.
        let told = (0..40).scan(sized(0), |last, step| {
            let new = sized(step << 20);
            let news = is_material(last, &new);
            if news {
                *last = new;
            }
            Some(news)
        });
        assert_eq!(told.filter(|news| *news).count(), 9);
    }

    #[test]
    fn free_space_is_told_by_fiftieths_of_the_volume_and_when_it_runs_out() {
        let free = |free_bytes| wire::Report {
            disk: Some(wire::Disk {
                total_bytes: 100 << 30,
                free_bytes,
                ..wire::Disk::default()
            }),
            ..wire::Report::default()
        };
        assert!(!is_material(&free(50 << 30), &free((48 << 30) + 1)));
        assert!(is_material(&free(50 << 30), &free(48 << 30)));
        assert!(is_material(&free(1 << 30), &free(1 << 20)));
    }
}
