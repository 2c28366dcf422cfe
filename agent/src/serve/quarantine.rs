//! What was set aside: kept until the member votes again, and never more than half of the volume. Pure.

/// A directory in quarantine, of which the oldest comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name.
    pub name: String,
    /// Bytes in it.
    pub bytes: u64,
}

/// How the folders begin in which members of a cluster that goes on were set aside. Others (the history that was before
/// a recovery) are not ours to remove.
const OURS: [&str; 2] = ["removed-", "no-wal-"];

/// Those that nobody needs once this member votes: all that they held is in the cluster, and in its own directory.
#[must_use]
pub fn not_needed(quarantined: &[Quarantined]) -> Vec<String> {
    ours(quarantined).map(|aside| aside.name.clone()).collect()
}

/// What setting one more directory aside takes, where a quorum is proven to stand without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// These go before.
    pub remove: Vec<String>,
    /// It is kept itself.
    pub keep: bool,
}

/// Makes room for `bytes` more, within half of a volume of `total` bytes: the oldest go first.
#[must_use]
pub fn make_room(quarantined: &[Quarantined], bytes: u64, total: u64) -> Room {
    let most = total / 2;
    let mut used = quarantined
        .iter()
        .map(|aside| aside.bytes)
        .sum::<u64>()
        .saturating_add(bytes);
    let mut remove = Vec::new();
    for aside in ours(quarantined) {
        if used <= most {
            break;
        }
        used = used.saturating_sub(aside.bytes);
        remove.push(aside.name.clone());
    }
    Room {
        remove,
        keep: used <= most,
    }
}

fn ours(quarantined: &[Quarantined]) -> impl Iterator<Item = &Quarantined> {
    quarantined
        .iter()
        .filter(|aside| OURS.iter().any(|prefix| aside.name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aside(list: &[(&str, u64)]) -> Vec<Quarantined> {
        let one = |(name, bytes): &(&str, u64)| Quarantined {
            name: (*name).to_owned(),
            bytes: *bytes,
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn d12_what_was_set_aside_goes_once_the_member_votes_and_an_older_history_stays() {
        let list = aside(&[("removed-1-t", 5), ("history-1", 5), ("no-wal-t", 5)]);
        assert_eq!(not_needed(&list), ["removed-1-t", "no-wal-t"]);
    }

    #[test]
    fn d12_never_more_than_half_of_the_volume_is_set_aside_and_the_oldest_goes_first() {
        let list = aside(&[("removed-1", 20), ("history-1", 10), ("removed-2", 10)]);
        let room = |bytes| make_room(&list, bytes, 100);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            room(10),
            Room {
                remove: names(&[]),
                keep: true
            }
        );
        assert_eq!(
            room(11),
            Room {
                remove: names(&["removed-1"]),
                keep: true
            }
        );
        assert_eq!(
            room(40),
            Room {
                remove: names(&["removed-1", "removed-2"]),
                keep: true
            }
        );
        assert!(!room(41).keep, "one that is too large alone is not kept");
    }
}
