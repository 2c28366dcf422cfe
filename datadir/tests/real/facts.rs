//! Identity, terms, indexes, membership, alarms: as etcd and its tools tell them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use datadir::{AlarmKind, Id, Inspection, Options, Schema, Source, State, inspect};
use serde_json::{Value, json};

use crate::server::{Etcd, Outcome, number, until};

fn look(etcd: &Etcd) -> Inspection {
    inspect(&etcd.data_dir(), &Options::default()).unwrap()
}

/// `(id, name, peer URLs, learner)` of each member, by ID.
type Roll = Vec<(u64, String, Vec<String>, bool)>;

fn listed(list: &Value) -> Roll {
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut roll: Roll = list["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| {
            let name = member["name"].as_str().unwrap_or_default().to_owned();
            let learner = member["isLearner"] == true;
            (
                number(&member["ID"]).unwrap(),
                name,
                texts(&member["peerURLs"]),
                learner,
            )
        })
        .collect();
    roll.sort();
    roll
}

fn read(inspection: &Inspection) -> Roll {
    let membership = inspection.facts.membership.as_ref().unwrap();
    let members = membership.members.iter();
    members
        .map(|member| {
            (
                member.id.0,
                member.name.clone(),
                member.peer_urls.clone(),
                member.learner,
            )
        })
        .collect()
}

#[allow(clippy::too_many_lines, reason = "one cluster's life, and all that is known of it")]
pub(crate) fn what_is_read_is_what_etcd_says_of_itself(minor: &str) {
    let few = ["--snapshot-count", "40"];
    let mut first = Etcd::new(minor, "first");
    assert_eq!(look(&first).state, State::Unborn, "nothing is there");
    first.serve("new", &[], &few);
    assert!(first.put(0..90, 100));

    // One member is added and promoted, one stays a learner, one is removed again.
    let mut second = Etcd::new(minor, "second");
    first.ctl(&[
        "member",
        "add",
        "second",
        "--learner",
        "--peer-urls",
        &second.peer_url(),
    ]);
    second.start("existing", &[&first], &few);
    let id = |name: &str| {
        let list = first.ctl(&["member", "list"]);
        let found = listed(&list).into_iter().find(|(_, known, ..)| known == name);
        found.map(|(id, ..)| format!("{id:x}"))
    };
    until("the second member has a name", || id("second").is_some());
    let second_id = id("second").unwrap();
    until("it is promoted", || {
        first
            .ask(
                "POST",
                "/v3/cluster/member/promote",
                &json!({"ID": u64::from_str_radix(&second_id, 16).unwrap().to_string()}).to_string(),
            )
            .is_some_and(|answer| answer.get("members").is_some())
    });
    let learner = r#"{"peerURLs": ["http://127.0.0.1:1"], "isLearner": true}"#;
    let mut gone = 0;
    // Refused until all have been connected for a while.
    until("a learner is added", || {
        let answer = first.ask("POST", "/v3/cluster/member/add", learner);
        gone = answer.and_then(|answer| number(&answer["member"]["ID"])).unwrap_or(0);
        gone != 0
    });
    first.ctl(&["member", "remove", &format!("{gone:x}")]);
    assert!(first.put(90..140, 100));
    first.ctl(&[
        "member",
        "add",
        "third",
        "--learner",
        "--peer-urls",
        "http://127.0.0.1:2",
    ]);
    first.ctl(&["defrag"]);
    let own = number(&first.ctl(&["endpoint", "status"])[0]["Status"]["header"]["member_id"]).unwrap();
    let alarm = json!({"action": "ACTIVATE", "memberID": own.to_string(), "alarm": "NOSPACE"}).to_string();
    first.ask("POST", "/v3/maintenance/alarm", &alarm).unwrap();
    until("the second member has all", || second.keys() == Some(140));

    let list = listed(&first.ctl(&["member", "list"]));
    let status = first.ctl(&["endpoint", "status"])[0]["Status"].clone();
    until("the db is committed", || {
        look(&first).facts.applied == number(&status["raftAppliedIndex"])
    });
    let live = look(&first);
    assert_eq!(live.state, State::InUse);
    // Not by SIGTERM: a leader that is stopped hands over, and the log goes on.
    first.kill();
    for (stopped, inspection) in [(false, live), (true, look(&first))] {
        let facts = &inspection.facts;
        let identity = facts.identity.unwrap();
        assert_eq!(Some(identity.member_id.0), number(&status["header"]["member_id"]));
        assert_eq!(Some(identity.cluster_id.0), number(&status["header"]["cluster_id"]));
        assert_eq!(facts.hard_state.map(|state| state.term), number(&status["raftTerm"]));
        if stopped {
            assert_eq!(inspection.state, State::Intact);
            assert_eq!(facts.revision, number(&status["header"]["revision"]));
            assert_eq!(facts.applied, number(&status["raftAppliedIndex"]));
            assert_eq!(facts.last.map(|last| last.index), number(&status["raftIndex"]));
            assert_eq!(facts.commit, facts.applied);
            assert_eq!(read(&inspection), list);
            let membership = facts.membership.as_ref().unwrap();
            assert_eq!(membership.removed, [Id(gone)]);
            let in_db = minor != "3.5";
            assert_eq!(membership.source, if in_db { Source::Db } else { Source::Log });
            let schema = if in_db {
                Schema::Recorded(format!("{minor}.0"))
            } else {
                Schema::V3_5
            };
            assert_eq!(facts.schema, Some(schema));
            assert_eq!(facts.cluster_version.as_deref(), Some(format!("{minor}.0").as_str()));
            assert_eq!(
                facts
                    .alarms
                    .iter()
                    .map(|alarm| (alarm.member_id.0, alarm.kind))
                    .collect::<Vec<_>>(),
                [(own, AlarmKind::NoSpace)]
            );
            assert!(facts.snapshot.unwrap().index > 0, "snapshots were taken");
            let db = first.data_dir().join("member/snap/db");
            let told = first.util(&["snapshot", "status", db.to_str().unwrap()]);
            assert_eq!(facts.revision, number(&told["revision"]));
            let size = number(&told["totalSize"]).unwrap();
            assert!(facts.sizes.db >= size, "{} {size}", facts.sizes.db);
            assert_ne!(facts.auth_enabled, Some(true));
        }
    }
    second.kill();
    let killed = look(&second);
    assert!(
        matches!(killed.state, State::Intact | State::TornTail),
        "{:?}",
        killed.state
    );
    assert_eq!(read(&killed), list);
}

pub(crate) fn d25_a_first_start_that_found_nobody_leaves_an_unborn_directory(minor: &str) {
    let absent = Etcd::new(minor, "absent");
    let mut joiner = Etcd::new(minor, "joiner");
    joiner.start("existing", &[&absent], &[]);
    assert!(matches!(
        joiner.outcome(std::time::Duration::from_secs(30)),
        Outcome::Ends
    ));
    assert!(joiner.data_dir().join("member/snap/db").exists());
    assert_eq!(look(&joiner).state, State::Unborn);
    let mut seed = Etcd::new(minor, "seed");
    // A voter among three of which two never come: it has saved its first entries, and has applied nothing.
    seed.start("new", &[&absent, &joiner], &[]);
    until("its WAL is there", || {
        datadir::wal::has_saved(&seed.data_dir().join("member/wal")).unwrap()
    });
    seed.kill();
    assert_eq!(look(&seed).state, State::Intact);
}
