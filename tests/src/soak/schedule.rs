//! What happens in a soak, all of it chosen by the seed: the same seed, the same rounds.

use std::fmt;

use super::CLUSTERS;

/// One thing that is done to the clusters. Clusters are told by their number, members by their place among the cluster's
/// members at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A Pod is deleted, with time to end or without.
    DeletePod {
        /// Of that cluster.
        cluster: usize,
        /// Of that member.
        member: usize,
        /// Without.
        at_once: bool,
    },
    /// etcd is killed.
    KillEtcd {
        /// Of that cluster.
        cluster: usize,
        /// Of that member.
        member: usize,
    },
    /// etcd is stopped, and goes on after so many seconds.
    FreezeEtcd {
        /// Of that cluster.
        cluster: usize,
        /// Of that member.
        member: usize,
        /// Seconds.
        seconds: u64,
    },
    /// The agent is killed.
    KillAgent {
        /// Of that cluster.
        cluster: usize,
        /// Of that member.
        member: usize,
    },
    /// The acting operator is killed.
    KillOperator,
    /// The cluster is to have another size.
    Scale {
        /// That cluster.
        cluster: usize,
        /// That size.
        to: u32,
    },
    /// A node has no network for so many seconds.
    CutNode {
        /// Not the first one, from which the clients come.
        node: u8,
        /// Seconds.
        seconds: u64,
    },
}

impl Fault {
    /// Its kind in words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DeletePod { .. } => "Pods deleted",
            Self::KillEtcd { .. } => "etcds killed",
            Self::FreezeEtcd { .. } => "etcds frozen",
            Self::KillAgent { .. } => "agents killed",
            Self::KillOperator => "operators killed",
            Self::Scale { .. } => "changes of size",
            Self::CutNode { .. } => "nodes cut off",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |cluster: &usize| CLUSTERS[*cluster].0;
        match self {
            Self::DeletePod {
                cluster,
                member,
                at_once,
            } => {
                let how = if *at_once { " at once" } else { "" };
                write!(f, "delete Pod {member} of {}{how}", name(cluster))
            }
            Self::KillEtcd { cluster, member } => write!(f, "kill etcd {member} of {}", name(cluster)),
            Self::FreezeEtcd {
                cluster,
                member,
                seconds,
            } => write!(f, "freeze etcd {member} of {} for {seconds} s", name(cluster)),
            Self::KillAgent { cluster, member } => write!(f, "kill agent {member} of {}", name(cluster)),
            Self::KillOperator => f.write_str("kill the operator"),
            Self::Scale { cluster, to } => write!(f, "scale {} to {to}", name(cluster)),
            Self::CutNode { node, seconds } => write!(f, "cut node {node} off for {seconds} s"),
        }
    }
}

/// Faults that come one right after the other. The next round begins when every cluster is whole again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// In their order.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        f.write_str(&faults.join(", "))
    }
}

/// Rounds without end.
#[derive(Debug)]
pub struct Schedule {
    random: fastrand::Rng,
    sizes: [u32; CLUSTERS.len()],
}

impl Schedule {
    /// Those of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            sizes: CLUSTERS.map(|_| 3),
        }
    }

    /// A round has one fault that takes a member away, at most, for a cluster must survive it: with one member down out of
    /// three, a second one is the end of a quorum, and in memory, of the data.
    fn loss(&mut self) -> Fault {
        let cluster = self.random.usize(..CLUSTERS.len());
        let member = self.random.usize(..5);
        // In memory, the only member must not be lost.
        let alone = self.sizes[cluster] == 1 && CLUSTERS[cluster].2;
        match self.random.u8(..10) {
            0..3 if !alone => Fault::DeletePod {
                cluster,
                member,
                at_once: self.random.bool(),
            },
            3..6 => Fault::KillEtcd { cluster, member },
            6..8 => Fault::FreezeEtcd {
                cluster,
                member,
                seconds: self.random.u64(1..15),
            },
            8 if self.sizes.iter().all(|size| *size > 1) => Fault::CutNode {
                node: self.random.u8(2..=3),
                seconds: self.random.u64(2..25),
            },
            _ => Fault::KillAgent { cluster, member },
        }
    }

    fn scale(&mut self) -> Fault {
        let cluster = self.random.usize(..CLUSTERS.len());
        let sizes = [1, 3, 5].map(|size| (size, size != self.sizes[cluster]));
        let others: Vec<u32> = sizes
            .into_iter()
            .filter(|(_, other)| *other)
            .map(|(size, _)| size)
            .collect();
        let to = others[self.random.usize(..others.len())];
        self.sizes[cluster] = to;
        Fault::Scale { cluster, to }
    }
}

impl Iterator for Schedule {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let mut faults = Vec::new();
        // Decided before the size changes: a member that is lost while the others are being removed may be the last one.
        let loss = (self.random.u8(..10) < 7).then(|| self.loss());
        let quick = matches!(loss, None | Some(Fault::KillAgent { .. } | Fault::KillEtcd { .. }));
        if loss.is_none() || quick && self.random.bool() {
            faults.push(self.scale());
        }
        faults.extend(loss);
        if self.random.u8(..10) < 4 {
            let at = self.random.usize(..=faults.len());
            faults.insert(at, Fault::KillOperator);
        }
        Some(Round { faults })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_rounds_and_another_one_others() {
        let of = |seed| Schedule::new(seed).take(50).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn no_round_takes_more_than_one_member_and_none_the_only_one_in_memory() {
        for seed in 0..200 {
            let mut sizes = CLUSTERS.map(|_| 3);
            for round in Schedule::new(seed).take(100) {
                let mut lost = 0;
                for fault in &round.faults {
                    match fault {
                        Fault::Scale { cluster, to } => sizes[*cluster] = *to,
                        Fault::DeletePod { cluster, .. } => {
                            lost += 1;
                            assert!(sizes[*cluster] > 1 || !CLUSTERS[*cluster].2, "{round}");
                        }
                        Fault::CutNode { .. } => {
                            lost += 1;
                            assert!(sizes.iter().all(|size| *size > 1), "{round}");
                        }
                        Fault::KillEtcd { .. } | Fault::FreezeEtcd { .. } => lost += 1,
                        Fault::KillAgent { .. } | Fault::KillOperator => {}
                    }
                }
                assert!(lost <= 1 && !round.faults.is_empty(), "{round}");
            }
        }
    }

    #[test]
    fn every_kind_of_fault_comes() {
        let mut kinds: Vec<&str> = Schedule::new(3)
            .take(200)
            .flat_map(|round| round.faults)
            .map(|fault| fault.kind())
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }
}
