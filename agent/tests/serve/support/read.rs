//! Short words for what a report says.

use proto::agent as wire;
use proto::agent::data_directory::State as Directory;
use proto::agent::process::State as Process;

pub fn directory(report: &wire::Report) -> Directory {
    report
        .data_directory
        .as_ref()
        .map(wire::DataDirectory::state)
        .unwrap_or_default()
}

pub fn process(report: &wire::Report) -> Process {
    report.process.as_ref().map(wire::Process::state).unwrap_or_default()
}

/// Which directory; empty while there is none.
pub fn nonce(report: &wire::Report) -> String {
    report
        .data_directory
        .as_ref()
        .map(|directory| directory.nonce.clone())
        .unwrap_or_default()
}

/// etcd's client port answers, and etcd has a leader.
pub fn serves(report: &wire::Report) -> bool {
    process(report) == Process::Running
        && report
            .etcd
            .as_ref()
            .is_some_and(|etcd| etcd.serving && etcd.leader != 0)
}

/// An empty directory waits for an order.
pub fn is_unborn(report: &wire::Report) -> bool {
    directory(report) == Directory::Unborn && process(report) == Process::Held && !nonce(report).is_empty()
}

pub fn member_id(report: &wire::Report) -> u64 {
    report.etcd.as_ref().map(|etcd| etcd.member_id).unwrap_or_default()
}

pub fn pid(report: &wire::Report) -> i32 {
    report.process.as_ref().map(|process| process.pid).unwrap_or_default()
}

/// The class of the last end of etcd; empty when there was none.
pub fn exit(report: &wire::Report) -> String {
    report
        .process
        .as_ref()
        .and_then(|process| process.exit.as_ref())
        .map(|exit| exit.class.clone())
        .unwrap_or_default()
}
