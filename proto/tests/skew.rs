//! Scenario U19: operator, agent and supervisor of different versions understand each other. What version 0.1 puts on the
//! wire is kept here as bytes and must mean the same for ever; what a later version adds must be skipped, and an order that
//! is not known must be seen to be one.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use prost::Message;
use proto::{agent, supervisor};

/// A field and an enum value that no version of today knows: number 9000 with a text, and what a reader makes of it.
const FROM_THE_FUTURE: &[u8] = &[0xc2, 0xb2, 0x04, 0x03, b'n', b'e', b'w'];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The bytes of 0.1 give this message, and so they do with something new behind them.
fn means<M: Message + Default + PartialEq + std::fmt::Debug>(hex: &str, message: &M) {
    let mut wire = bytes(hex);
    assert_eq!(
        M::decode(&wire[..]).unwrap(),
        *message,
        "{:02x?}",
        message.encode_to_vec()
    );
    wire.extend(FROM_THE_FUTURE);
    assert_eq!(
        M::decode(&wire[..]).unwrap(),
        *message,
        "with a field of a later version"
    );
}

fn join() -> agent::Directive {
    agent::Directive {
        number: 7,
        cluster_uid: "uid".into(),
        incarnation: 2,
        nonce: "n".into(),
        order: Some(agent::directive::Order::Join(agent::Join {
            token: "t".into(),
            member_id: 0x0102,
            cluster_id: 0x0304,
            members: vec![agent::Peer {
                name: "c-a".into(),
                id: 0x0102,
                peer_urls: vec!["http://c-a:2380".into()],
            }],
            options: Some(agent::Options {
                quota_backend_bytes: 5,
                auto_compaction_mode: "revision".into(),
                auto_compaction_retention: "9".into(),
                snapshot_count: 6,
            }),
        })),
    }
}

fn report() -> agent::Report {
    agent::Report {
        member: Some(agent::MemberRef {
            name: "c-a".into(),
            namespace: "ns".into(),
            cluster_name: "c".into(),
            cluster_uid: "uid".into(),
        }),
        agent_version: "0.1.0".into(),
        directive: 7,
        data_directory: Some(agent::DataDirectory {
            state: agent::data_directory::State::InUse.into(),
            nonce: "n".into(),
            started: true,
            bytes: 8,
            ..agent::DataDirectory::default()
        }),
        process: Some(agent::Process {
            state: agent::process::State::Running.into(),
            pid: 3,
            restarts: 1,
            ..agent::Process::default()
        }),
        etcd: Some(agent::Etcd {
            member_id: 0x0102,
            cluster_id: 0x0304,
            leader: 0x0102,
            commit_index: 5,
            applied_index: 4,
            serving: true,
            ..agent::Etcd::default()
        }),
        ..agent::Report::default()
    }
}

fn start() -> supervisor::ToSupervisor {
    supervisor::ToSupervisor {
        request: 3,
        message: Some(supervisor::to_supervisor::Message::Start(supervisor::Start {
            kind: supervisor::start::Kind::Once.into(),
            order: 7,
            config: b"name: c-a".to_vec(),
            identity: b"{}".to_vec(),
        })),
    }
}

fn hello() -> supervisor::ToAgent {
    supervisor::ToAgent {
        message: Some(supervisor::to_agent::Message::Hello(supervisor::Hello {
            version: "0.1.0".into(),
            etcd_version: "3.6.16".into(),
            process: Some(supervisor::ProcessState {
                phase: supervisor::process_state::Phase::Running.into(),
                pid: 4,
                served: true,
                repeatable: true,
                ..supervisor::ProcessState::default()
            }),
            ..supervisor::Hello::default()
        })),
    }
}

#[test]
fn u19_an_order_of_0_1_means_the_same_in_every_version() {
    means(JOIN, &join());
}

#[test]
fn u19_a_report_of_0_1_means_the_same_in_every_version() {
    means(REPORT, &report());
}

#[test]
fn u19_what_agent_and_supervisor_of_0_1_say_means_the_same_in_every_version() {
    means(START, &start());
    means(HELLO, &hello());
}

#[test]
fn u19_an_order_of_a_later_version_is_seen_to_be_none_of_ours() {
    // Field 9000 in place of the order: nothing of it is taken for another one.
    let mut wire = agent::Directive { order: None, ..join() }.encode_to_vec();
    wire.extend(FROM_THE_FUTURE);
    let directive = agent::Directive::decode(&wire[..]).unwrap();
    assert_eq!((directive.number, directive.order), (7, None));
    let mut wire = supervisor::ToSupervisor {
        request: 3,
        message: None,
    }
    .encode_to_vec();
    wire.extend(FROM_THE_FUTURE);
    let request = supervisor::ToSupervisor::decode(&wire[..]).unwrap();
    assert_eq!((request.request, request.message), (3, None));
}

#[test]
fn u19_a_state_of_a_later_version_is_taken_for_unknown_and_for_no_other() {
    // `state: 42` of a data directory and of a process.
    let directory = agent::DataDirectory::decode(&[0x08, 42][..]).unwrap();
    assert_eq!(directory.state(), agent::data_directory::State::Unspecified);
    let process = agent::Process::decode(&[0x08, 42][..]).unwrap();
    assert_eq!(process.state(), agent::process::State::Unspecified);
    let phase = supervisor::ProcessState::decode(&[0x08, 42][..]).unwrap();
    assert_eq!(phase.phase(), supervisor::process_state::Phase::Unspecified);
}

const JOIN: &str = "08071203756964180222016e5a490a0174110201000000000000190403000000000000221f0a03632d61110201000000 \
    0000001a0f687474703a2f2f632d613a323338302a11080512087265766973696f6e1a01392006";
const REPORT: &str = "0a110a03632d6112026e731a016322037569641a05302e312e3020072a0908061a016e2808300132060804100330013a \
    21090201000000000000110403000000000000190201000000000000280530046001";
const START: &str = "08031213080110071a096e616d653a20632d6122027b7d";
const HELLO: &str = "0a190a05302e312e301a06332e362e31362a080802100448015001";
