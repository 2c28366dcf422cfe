//! The experiments, and how each is run.

use anyhow::{Context, Result};

use super::{
    agent, form, inspect, large, links, quorum_loss, recover, refill, replace, scale, sizes, stand::Stand, ten,
};

/// What one run of an experiment gives: ids of figures, and their values.
pub type Readings = Vec<(&'static str, f64)>;

/// One way to measure one or several figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Sizes of the binaries.
    Sizes,
    /// A data directory is read.
    Inspect,
    /// The operator with many members that are simulated.
    Links,
    /// A cluster in memory forms.
    FormMemory,
    /// A cluster on disks forms.
    FormDisk,
    /// A memory member loses its Pod.
    Replace,
    /// The same with a database of 1 GiB.
    Large,
    /// A disk is emptied.
    EmptyDisk,
    /// A log is damaged.
    WalDamage,
    /// Two memory members lose their Pods.
    LostPods,
    /// Two disks are emptied.
    Recover,
    /// A client writes.
    Agent,
    /// Ten clusters form.
    Ten,
    /// Two nodes are cut off.
    LostNodes,
    /// A cluster grows and shrinks.
    Scale,
    /// A client writes meanwhile.
    WriteGap,
    /// A cluster comes back from a pause.
    Resume,
}

impl Experiment {
    /// All, in the order in which they are run: those that share a stand follow each other.
    pub const ALL: [Self; 17] = [
        Self::Sizes,
        Self::Inspect,
        Self::FormMemory,
        Self::FormDisk,
        Self::Replace,
        Self::LostPods,
        Self::EmptyDisk,
        Self::WalDamage,
        Self::Recover,
        Self::Scale,
        Self::WriteGap,
        Self::Resume,
        Self::Agent,
        Self::Large,
        Self::Ten,
        Self::Links,
        Self::LostNodes,
    ];

    /// Ids of the figures that it gives.
    #[must_use]
    pub fn figures(self) -> &'static [&'static str] {
        match self {
            Self::Sizes => &["agent-binary-bytes", "operator-binary-bytes"],
            Self::Inspect => &["inspect-1g-seconds", "inspect-1g-rss"],
            Self::Links => &["operator-rss-per-member"],
            Self::FormMemory => &["form-first-voter", "form-3-memory"],
            Self::FormDisk => &["form-3-disk"],
            Self::Replace => &["replace-memory-pod"],
            Self::Large => &["replace-memory-1g"],
            Self::EmptyDisk => &["refill-empty-disk"],
            Self::WalDamage => &["refill-wal-damage"],
            Self::LostPods => &["detect-quorum-loss-pods", "detect-quorum-loss-pods-ended"],
            Self::Recover => &["recover-first", "recover-three"],
            Self::Agent => &["agent-rss", "agent-cpu"],
            Self::Ten => &["form-10x3", "operator-rss-10", "operator-cpu-10"],
            Self::LostNodes => &["detect-quorum-loss"],
            Self::Scale => &["grow-3-5", "shrink-5-3"],
            Self::WriteGap => &["write-gap-3-5-3"],
            Self::Resume => &["resume-3"],
        }
    }

    /// Nodes of the Kubernetes that it needs; 0 for none.
    #[must_use]
    pub fn nodes(self) -> u8 {
        match self {
            Self::Sizes | Self::Inspect => 0,
            Self::FormMemory
            | Self::FormDisk
            | Self::Replace
            | Self::Large
            | Self::EmptyDisk
            | Self::WalDamage
            | Self::LostPods
            | Self::Recover
            | Self::Agent
            | Self::Ten
            | Self::Scale
            | Self::WriteGap
            | Self::Resume
            | Self::Links => 1,
            Self::LostNodes => 3,
        }
    }

    /// How often it is run when five runs are asked for: what is the same each time is read once.
    #[must_use]
    pub fn runs(self, asked: usize) -> usize {
        match self {
            Self::Sizes => 1,
            _ => asked,
        }
    }

    /// A run that is not counted comes first, so that all files are in the page cache and all code has run once. Not where
    /// the run itself begins with a time that is not counted.
    #[must_use]
    pub fn has_warm_up(self) -> bool {
        !matches!(
            self,
            Self::Sizes | Self::Inspect | Self::Links | Self::Agent | Self::Large
        )
    }

    /// One run. `number` differs from run to run.
    pub async fn run(self, stand: Option<&Stand>, number: usize) -> Result<Readings> {
        let stand = stand.context("no Kubernetes");
        match self {
            Self::Sizes => sizes::run(),
            Self::Inspect => inspect::run(),
            Self::Links => links::run(stand?).await,
            Self::FormMemory => form::memory(stand?, number).await,
            Self::FormDisk => form::disk(stand?, number).await,
            Self::Replace => Box::pin(replace::run(stand?, number)).await,
            Self::Large => Box::pin(large::run(stand?, number)).await,
            Self::EmptyDisk => refill::empty_disk(stand?, number).await,
            Self::WalDamage => refill::wal_damage(stand?, number).await,
            Self::LostPods => quorum_loss::pods(stand?, number).await,
            Self::Recover => recover::two_disks(stand?, number).await,
            Self::Agent => agent::run(stand?, number).await,
            Self::Ten => ten::run(stand?, number).await,
            Self::LostNodes => quorum_loss::nodes(stand?, number).await,
            Self::Scale => scale::sizes(stand?, number).await,
            Self::WriteGap => Box::pin(scale::write_gap(stand?, number)).await,
            Self::Resume => Box::pin(scale::resume(stand?, number)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::FIGURES;

    #[test]
    fn every_figure_is_measured_by_exactly_one_experiment() {
        let mut measured: Vec<&str> = Experiment::ALL
            .iter()
            .flat_map(|experiment| experiment.figures())
            .copied()
            .collect();
        let mut listed: Vec<&str> = FIGURES.iter().map(|figure| figure.id).collect();
        measured.sort_unstable();
        listed.sort_unstable();
        assert_eq!(measured, listed);
    }
}
