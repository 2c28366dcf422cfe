//! The table, and the file that keeps the figures.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::figures::{all, find, median};
use crate::kube::project;

/// What was measured of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The median of the runs.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The most that it should be; the least of what is better the more there is (see `figures`).
    pub wanted: f64,
    /// Each run's value, in order.
    pub runs: Vec<f64>,
    /// The machine's load average over the last minute, when the runs were done. Other work slows all times.
    pub load: f64,
}

/// Figures by their ids.
pub type Measurements = BTreeMap<String, Measured>;

/// Where the figures are kept.
#[must_use]
pub fn file() -> PathBuf {
    project().join("target/bench/figures.json")
}

/// The figure of that id from its runs; `None` without a run.
#[must_use]
pub fn summarize(id: &str, runs: &[f64]) -> Option<Measured> {
    let figure = find(id)?;
    Some(Measured {
        value: rounded(median(runs)?),
        unit: figure.unit.into(),
        wanted: figure.wanted,
        runs: runs.iter().copied().map(rounded).collect(),
        load: load(),
    })
}

/// Adds the figures to those of the file; a figure that was not measured this time stays as it was.
pub fn keep(path: &Path, new: &Measurements) -> Result<()> {
    let mut all: Measurements = match fs::read(path) {
        Ok(kept) => serde_json::from_slice(&kept)
            .with_context(|| format!("{} cannot be read; delete it and measure again", path.display()))?,
        Err(_) => Measurements::new(),
    };
    all.extend(new.iter().map(|(id, measured)| (id.clone(), measured.clone())));
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, serde_json::to_vec_pretty(&all)?).with_context(|| format!("cannot write {}", path.display()))
}

/// The table, one line a figure, in the order of [`all`].
#[must_use]
pub fn table(measurements: &Measurements) -> String {
    let mut text = format!(
        "{:<24} {:>12} {:>12} {:>6} {:>5}  {:>11}  {}\n",
        "figure", "median", "wanted", "unit", "", "Go operator", "runs"
    );
    for figure in all() {
        let Some(measured) = measurements.get(figure.id) else {
            continue;
        };
        let runs: Vec<String> = measured.runs.iter().map(f64::to_string).collect();
        let (sign, verdict) = if figure.at_least {
            (">=", if measured.value >= measured.wanted { "" } else { "UNDER" })
        } else {
            ("<=", if measured.value <= measured.wanted { "" } else { "OVER" })
        };
        let _ = writeln!(
            text,
            "{:<24} {:>12} {:>12} {:>6} {:>5}  {:>11}  {}",
            figure.id,
            measured.value,
            format!("{sign} {}", measured.wanted),
            measured.unit,
            verdict,
            figure.go_operator,
            runs.join(" ")
        );
    }
    text
}

/// To three digits after the point: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn load() -> f64 {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages
        .split_whitespace()
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_one_figure_leaves_the_others_in_the_file() {
        let folder = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
        let path = folder.join("figures.json");
        let first = Measurements::from([("agent-rss".into(), summarize("agent-rss", &[7.0]).unwrap())]);
        keep(&path, &first).unwrap();
        let second = Measurements::from([("agent-cpu".into(), summarize("agent-cpu", &[0.1, 0.3, 0.2]).unwrap())]);
        keep(&path, &second).unwrap();
        let all: Measurements = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["agent-cpu", "agent-rss"]);
        assert!((all["agent-cpu"].value - 0.2).abs() < 1e-9);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_figure_over_its_limit_is_marked_in_the_table() {
        let over = Measurements::from([("agent-rss".into(), summarize("agent-rss", &[12.5]).unwrap())]);
        assert!(table(&over).contains("OVER"));
        let met = Measurements::from([("agent-rss".into(), summarize("agent-rss", &[12.0]).unwrap())]);
        assert!(!table(&met).contains("OVER"));
    }

    #[test]
    fn a_figure_that_should_be_large_is_marked_when_it_is_not() {
        let states =
            |value| Measurements::from([("search-states".into(), summarize("search-states", &[value]).unwrap())]);
        assert!(table(&states(9e5)).contains("UNDER"));
        let met = table(&states(2e6));
        assert!(!met.contains("UNDER") && !met.contains("OVER"), "{met}");
    }
}
