//! `/status`: the report, for people. IDs as etcd prints them, states by their names. Anyone in the Pod network may read
//! it: the cluster's token and etcd's log, which names keys, are told over the link alone. Pure.

use proto::agent as wire;
use serde::Serialize;

/// The page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View<'a> {
    member: &'a str,
    namespace: &'a str,
    cluster: &'a str,
    cluster_uid: &'a str,
    agent_version: &'a str,
    observed_at: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    waiting_for: &'a str,
    directive: u64,
    data_directory: Directory<'a>,
    process: Process<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<Etcd<'a>>,
    disk_total_bytes: u64,
    disk_free_bytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    certificate_expires: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Directory<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    nonce: &'a str,
    started: bool,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Identity<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    cluster_uid: &'a str,
    incarnation: u64,
    cluster_id: String,
    member_id: String,
    member_name: &'a str,
    nonce: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process<'a> {
    state: &'static str,
    pid: i32,
    started_at: String,
    etcd_version: &'a str,
    supervisor_version: &'a str,
    restarts: u32,
    oom_kills: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_exit: Option<Exit<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Exit<'a> {
    code: i32,
    signal: i32,
    class: &'a str,
    at: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Etcd<'a> {
    member_id: String,
    cluster_id: String,
    leader: String,
    term: u64,
    revision: u64,
    commit_index: u64,
    applied_index: u64,
    is_learner: bool,
    serving: bool,
    receiving_snapshot: bool,
    version: &'a str,
    db_size: i64,
    db_size_in_use: i64,
    alarms: &'a [String],
}

/// The page's content. Indexes are those of the last report: a voter's are not told while they only grow.
pub(super) fn view(report: &wire::Report) -> View<'_> {
    static NO_MEMBER: wire::MemberRef = wire::MemberRef {
        name: String::new(),
        namespace: String::new(),
        cluster_name: String::new(),
        cluster_uid: String::new(),
    };
    let member = report.member.as_ref().unwrap_or(&NO_MEMBER);
    View {
        member: &member.name,
        namespace: &member.namespace,
        cluster: &member.cluster_name,
        cluster_uid: &member.cluster_uid,
        agent_version: &report.agent_version,
        observed_at: time(report.observed_at.as_ref()),
        waiting_for: &report.waiting_for,
        directive: report.directive,
        data_directory: directory(report.data_directory.as_ref()),
        process: process(report.process.as_ref()),
        etcd: report.etcd.as_ref().map(etcd),
        disk_total_bytes: report.disk.as_ref().map_or(0, |disk| disk.total_bytes),
        disk_free_bytes: report.disk.as_ref().map_or(0, |disk| disk.free_bytes),
        certificate_expires: time(
            report
                .certificate
                .as_ref()
                .and_then(|certificate| certificate.not_after.as_ref()),
        ),
    }
}

fn directory(directory: Option<&wire::DataDirectory>) -> Directory<'_> {
    let Some(directory) = directory else {
        return Directory {
            state: "",
            detail: "",
            nonce: "",
            started: false,
            bytes: 0,
            identity: None,
        };
    };
    Directory {
        state: directory.state().as_str_name(),
        detail: &directory.detail,
        nonce: &directory.nonce,
        started: directory.started,
        bytes: directory.bytes,
        identity: directory.identity.as_ref().map(|identity| Identity {
            cluster_uid: &identity.cluster_uid,
            incarnation: identity.incarnation,
            cluster_id: hex(identity.cluster_id),
            member_id: hex(identity.member_id),
            member_name: &identity.member_name,
            nonce: &identity.nonce,
        }),
    }
}

fn process(process: Option<&wire::Process>) -> Process<'_> {
    let Some(process) = process else {
        return Process {
            state: "",
            pid: 0,
            started_at: String::new(),
            etcd_version: "",
            supervisor_version: "",
            restarts: 0,
            oom_kills: 0,
            last_exit: None,
        };
    };
    Process {
        state: process.state().as_str_name(),
        pid: process.pid,
        started_at: time(process.started_at.as_ref()),
        etcd_version: &process.etcd_version,
        supervisor_version: &process.supervisor_version,
        restarts: process.restarts,
        oom_kills: process.oom_kills,
        last_exit: process.exit.as_ref().map(|exit| Exit {
            code: exit.code,
            signal: exit.signal,
            class: &exit.class,
            at: time(exit.at.as_ref()),
        }),
    }
}

fn etcd(etcd: &wire::Etcd) -> Etcd<'_> {
    Etcd {
        member_id: hex(etcd.member_id),
        cluster_id: hex(etcd.cluster_id),
        leader: hex(etcd.leader),
        term: etcd.term,
        revision: etcd.revision,
        commit_index: etcd.commit_index,
        applied_index: etcd.applied_index,
        is_learner: etcd.is_learner,
        serving: etcd.serving,
        receiving_snapshot: etcd.receiving_snapshot,
        version: &etcd.version,
        db_size: etcd.db_size,
        db_size_in_use: etcd.db_size_in_use,
        alarms: &etcd.alarms,
    }
}

fn hex(id: u64) -> String {
    format!("{id:016x}")
}

/// RFC 3339; empty when there is none.
fn time(time: Option<&prost_types::Timestamp>) -> String {
    time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok())
        .map(|time| time.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hex_and_states_are_named() {
        let report = wire::Report {
            data_directory: Some(wire::DataDirectory {
                state: 6,
                ..wire::DataDirectory::default()
            }),
            etcd: Some(wire::Etcd {
                member_id: u64::MAX,
                ..wire::Etcd::default()
            }),
            observed_at: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
            ..wire::Report::default()
        };
        let json = serde_json::to_value(view(&report)).unwrap();
        assert_eq!(json["dataDirectory"]["state"], "IN_USE");
        assert_eq!(json["etcd"]["memberId"], "ffffffffffffffff");
        assert_eq!(json["observedAt"], "1970-01-01T00:00:00Z");
        assert!(serde_json::to_value(view(&wire::Report::default())).is_ok());
    }

    #[test]
    fn neither_the_token_nor_etcds_log_is_shown() {
        let report = wire::Report {
            data_directory: Some(wire::DataDirectory {
                identity: Some(wire::Identity {
                    token: "SECRET".to_owned(),
                    member_name: "c-a".to_owned(),
                    ..wire::Identity::default()
                }),
                ..wire::DataDirectory::default()
            }),
            process: Some(wire::Process {
                exit: Some(wire::Exit {
                    class: "Panic".to_owned(),
                    last_lines: vec!["SECRET".to_owned()],
                    ..wire::Exit::default()
                }),
                ..wire::Process::default()
            }),
            ..wire::Report::default()
        };
        let page = serde_json::to_string(&view(&report)).unwrap();
        assert!(page.contains("c-a") && page.contains("Panic"), "{page}");
        assert!(!page.contains("SECRET"), "{page}");
    }
}
