//! The list of figures.

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its id, by which it is asked for and kept.
    pub id: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// The most that it should be; the least when `at_least` is set.
    pub wanted: f64,
    /// More is better.
    pub at_least: bool,
    /// The same figure of the Go operator of this API, on such a machine with this local Kubernetes; empty where it has
    /// nothing to compare.
    pub go_operator: &'static str,
}

const fn figure(
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    wanted: f64,
    go_operator: &'static str,
) -> Figure {
    Figure {
        id,
        what,
        unit,
        wanted,
        at_least: false,
        go_operator,
    }
}

const MIB: f64 = 1_048_576.0;

/// Figures of the benchmarks, in the order of the table.
pub const FIGURES: [Figure; 26] = [
    figure(
        "form-first-voter",
        "cluster created -> first voter Available",
        "s",
        4.0,
        "5.3",
    ),
    figure("form-3-memory", "cluster created -> 3 voters, memory", "s", 6.0, "31.5"),
    figure("form-3-disk", "cluster created -> 3 voters, disk", "s", 6.0, "34.9"),
    figure(
        "replace-memory-pod",
        "Pod of a memory member deleted -> 3 voters",
        "s",
        6.0,
        "14.1",
    ),
    figure(
        "replace-memory-1g",
        "the same with 1 GiB -> 3 voters, as a multiple of what etcd alone takes to copy it",
        "x",
        1.5,
        "",
    ),
    figure(
        "refill-empty-disk",
        "a disk emptied and its Pod deleted -> 3 voters",
        "s",
        8.0,
        "198",
    ),
    figure(
        "refill-wal-damage",
        "a follower's log damaged, its etcd killed -> 3 voters",
        "s",
        8.0,
        "minutes",
    ),
    figure(
        "detect-quorum-loss",
        "2 of 3 nodes cut off -> QuorumLost",
        "s",
        5.0,
        "> 90",
    ),
    figure(
        "detect-quorum-loss-pods",
        "2 of 3 memory Pods deleted -> QuorumLost",
        "s",
        5.0,
        "> 90",
    ),
    figure(
        "detect-quorum-loss-pods-ended",
        "the same, from the end of the second etcd",
        "s",
        5.0,
        "",
    ),
    figure(
        "recover-first",
        "2 of 3 disks emptied, Automatic -> a new history serves",
        "s",
        10.0,
        "never",
    ),
    figure("recover-three", "the same -> 3 voters", "s", 20.0, "never"),
    figure("grow-3-5", "scaled from 3 to 5 -> 5 voters, memory", "s", 8.0, ""),
    figure("shrink-5-3", "scaled from 5 to 3 -> 3 voters, memory", "s", 4.0, ""),
    figure("resume-3", "resumed after a pause -> Available, disk", "s", 5.0, ""),
    figure(
        "write-gap-3-5-3",
        "a client's longest pause through 3 -> 5 -> 3, disk",
        "s",
        1.5,
        "",
    ),
    figure(
        "form-10x3",
        "10 memory clusters created at once -> all 3 voters",
        "s",
        20.0,
        "43.7",
    ),
    figure(
        "operator-rss-10",
        "operator resident, those 10 clusters up",
        "MiB",
        25.0,
        "65",
    ),
    figure(
        "operator-cpu-10",
        "operator's share of a core over 60 s, idle",
        "%",
        0.8,
        "0.8",
    ),
    figure(
        "operator-rss-per-member",
        "operator resident, for each of 500 members",
        "KiB",
        43.0,
        "",
    ),
    figure("agent-rss", "agent resident, a client writes 100/s", "MiB", 12.0, ""),
    figure(
        "agent-cpu",
        "agent's share of a core, a client writes 100/s",
        "%",
        0.5,
        "",
    ),
    figure(
        "inspect-1g-seconds",
        "inspect of a data directory of 1 GiB, warm",
        "s",
        1.0,
        "",
    ),
    figure(
        "inspect-1g-rss",
        "inspect of a data directory of 1 GiB, resident",
        "MiB",
        16.0,
        "",
    ),
    figure("agent-binary-bytes", "etcd-agent, stripped", "bytes", 12.0 * MIB, ""),
    figure(
        "operator-binary-bytes",
        "etcd-operator, stripped",
        "bytes",
        20.0 * MIB,
        "",
    ),
];

/// Figures of the full search (`make search`), which needs no cluster.
pub const SEARCH: [Figure; 2] = [
    Figure {
        at_least: true,
        ..figure("search-states", "distinct states that were searched", "", 1e6, "")
    },
    figure("search-seconds", "time of the full search", "s", 600.0, ""),
];

/// Every figure that there is.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().chain(&SEARCH)
}

/// The figure of that id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.id == id)
}

/// The middle of the values; of an even number of them, the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => sorted.get(middle).copied(),
        _ => Some(f64::midpoint(*sorted.get(middle - 1)?, *sorted.get(middle)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order_or_on_one_outlier() {
        assert_eq!(median(&[5.0, 1.0, 100.0, 3.0, 4.0]), Some(4.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn no_two_figures_share_an_id() {
        let ids: std::collections::BTreeSet<_> = all().map(|figure| figure.id).collect();
        assert_eq!(ids.len(), all().count());
    }
}
