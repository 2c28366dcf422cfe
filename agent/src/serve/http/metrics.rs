//! `/metrics`: made from the last report at each scrape, so nothing is kept twice. Pure.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use proto::agent as wire;
use proto::agent::data_directory::State as DirectoryState;
use proto::agent::process::State as ProcessState;

use crate::serve::link::Watchers;

/// Of the page.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const DIRECTORY_STATES: [DirectoryState; 7] = [
    DirectoryState::Unborn,
    DirectoryState::Intact,
    DirectoryState::TornTail,
    DirectoryState::Damaged,
    DirectoryState::Foreign,
    DirectoryState::InUse,
    DirectoryState::Unreadable,
];
const PROCESS_STATES: [ProcessState; 5] = [
    ProcessState::Absent,
    ProcessState::Held,
    ProcessState::Starting,
    ProcessState::Running,
    ProcessState::Stopped,
];

/// The page.
pub(super) fn page(report: &wire::Report, watchers: &Watchers) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("etcd_agent");
    registry.register_collector(Box::new(Values {
        report: report.clone(),
        watchers: watchers.now(),
        sent: watchers.sent(),
    }));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry)?;
    Ok(page)
}

#[derive(Debug)]
struct Values {
    report: wire::Report,
    watchers: usize,
    sent: u64,
}

impl Collector for Values {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let out = &mut encoder;
        let report = &self.report;
        let process = report.process.clone().unwrap_or_default();
        let directory = report.data_directory.clone().unwrap_or_default();
        let disk = report.disk.unwrap_or_default();

        info(out, report, &process)?;
        counter(
            out,
            "etcd_restarts",
            "Starts of etcd in this container after the first one",
            process.restarts.into(),
        )?;
        counter(
            out,
            "etcd_oom_kills",
            "Kills of etcd by the kernel for memory",
            process.oom_kills.into(),
        )?;
        let state = process.state();
        let all = PROCESS_STATES.map(|one| (one.as_str_name(), one == state));
        states(
            out,
            "etcd_process_state",
            "1 for the state that etcd's process is in",
            &all,
        )?;
        let state = directory.state();
        let all = DIRECTORY_STATES.map(|one| (one.as_str_name(), one == state));
        states(
            out,
            "data_directory_state",
            "1 for the state that the data directory is in",
            &all,
        )?;
        gauge(out, "data_directory_bytes", "Bytes under member/", directory.bytes)?;
        gauge(out, "volume_bytes", "Size of the data volume", disk.total_bytes)?;
        gauge(
            out,
            "volume_free_bytes",
            "Free space of the data volume",
            disk.free_bytes,
        )?;
        gauge(
            out,
            "waiting",
            "1 while the agent waits for somebody or something",
            u64::from(!report.waiting_for.is_empty()),
        )?;
        gauge(
            out,
            "links",
            "Open Watch streams of the operator",
            u64::try_from(self.watchers).unwrap_or(u64::MAX),
        )?;
        counter(out, "reports", "Reports sent to the operator", self.sent)?;
        gauge(out, "directive", "Number of the last directive taken", report.directive)?;
        if let Some(not_after) = report
            .certificate
            .as_ref()
            .and_then(|certificate| certificate.not_after.as_ref())
        {
            let seconds = u64::try_from(not_after.seconds).unwrap_or_default();
            gauge(
                out,
                "certificate_expiry_timestamp_seconds",
                "When the certificate of the link expires",
                seconds,
            )?;
        }
        Ok(())
    }
}

fn info(out: &mut DescriptorEncoder<'_>, report: &wire::Report, process: &wire::Process) -> Result<(), fmt::Error> {
    let labels = [
        ("version", report.agent_version.as_str()),
        ("etcd_version", process.etcd_version.as_str()),
    ];
    let value = ConstGauge::new(1_u64);
    let mut one = out.encode_descriptor("info", "Versions of agent and etcd", None, value.metric_type())?;
    value.encode(one.encode_family(&labels)?)
}

fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    let value = ConstGauge::new(value);
    value.encode(out.encode_descriptor(name, help, None, value.metric_type())?)
}

fn counter(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    let value = ConstCounter::new(value);
    value.encode(out.encode_descriptor(name, help, None, value.metric_type())?)
}

/// One line for each state, so that a query can sum them up over members.
fn states(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, all: &[(&str, bool)]) -> Result<(), fmt::Error> {
    let kind = ConstGauge::new(0_u64).metric_type();
    let mut family = out.encode_descriptor(name, help, None, kind)?;
    for (state, holds) in all {
        ConstGauge::new(u64::from(*holds)).encode(family.encode_family(&[("state", *state)])?)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn parsed() -> HashMap<String, f64> {
        let report = wire::Report {
            process: Some(wire::Process {
                restarts: 3,
                oom_kills: 1,
                state: 4,
                ..wire::Process::default()
            }),
            data_directory: Some(wire::DataDirectory {
                state: 6,
                ..wire::DataDirectory::default()
            }),
            certificate: Some(wire::Certificate {
                not_after: Some(prost_types::Timestamp {
                    seconds: 1_800_000_000,
                    nanos: 0,
                }),
                fingerprint: String::new(),
            }),
            ..wire::Report::default()
        };
        let page = page(&report, &Watchers::default()).unwrap();
        let lines = page.lines().map(|line| Ok(line.to_owned()));
        let scrape = prometheus_parse::Scrape::parse(lines).unwrap();
        let value = |sample: &prometheus_parse::Sample| match sample.value {
            prometheus_parse::Value::Counter(value)
            | prometheus_parse::Value::Gauge(value)
            | prometheus_parse::Value::Untyped(value) => value,
            prometheus_parse::Value::Histogram(_) | prometheus_parse::Value::Summary(_) => f64::NAN,
        };
        let name = |sample: &prometheus_parse::Sample| match sample.labels.get("state") {
            Some(state) => format!("{}/{state}", sample.metric),
            None => sample.metric.clone(),
        };
        scrape
            .samples
            .iter()
            .map(|sample| (name(sample), value(sample)))
            .collect()
    }

    #[test]
    fn a_parser_of_prometheus_finds_every_value() {
        let values = parsed();
        let is = |name: &str, value: f64| {
            assert!(
                (values[name] - value).abs() < f64::EPSILON,
                "{name} is {}",
                values[name]
            );
        };
        is("etcd_agent_etcd_restarts_total", 3.0);
        is("etcd_agent_etcd_oom_kills_total", 1.0);
        is("etcd_agent_reports_total", 0.0);
        is("etcd_agent_links", 0.0);
        is("etcd_agent_data_directory_state/IN_USE", 1.0);
        is("etcd_agent_data_directory_state/UNBORN", 0.0);
        is("etcd_agent_etcd_process_state/RUNNING", 1.0);
        is("etcd_agent_certificate_expiry_timestamp_seconds", 1_800_000_000.0);
        is("etcd_agent_info", 1.0);
    }
}
