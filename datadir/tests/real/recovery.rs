//! The commit index moved to the end of the log, and what a forced new cluster keeps then.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use datadir::wal::extend_commit;
use datadir::{Options, inspect};

use crate::server::{Etcd, until};

pub(crate) fn an_extended_commit_keeps_every_acknowledged_write(minor: &str) {
    let mut members: Vec<Etcd> = ["a", "b", "c"].iter().map(|name| Etcd::new(minor, name)).collect();
    for at in 0..3 {
        let mut own = members.remove(at);
        let others: Vec<&Etcd> = members.iter().collect();
        own.start("new", &others, &[]);
        members.insert(at, own);
    }
    until("all know a leader", || {
        members.iter().all(|member| member.keys().is_some())
    });
    assert!(members[0].put(0..500, 100));
    // All at once, right after the last acknowledgement: the others learn of it with the next message only.
    for member in &members {
        member.signal("STOP");
    }
    members.iter_mut().for_each(Etcd::kill);
    let facts = |etcd: &Etcd| inspect(&etcd.data_dir(), &Options::default()).unwrap().facts;
    let longest = members.iter().max_by_key(|member| facts(member).last).unwrap();
    let before = facts(longest);
    let last = before.last.unwrap();

    let mut survivor = longest.copy();
    let wal = survivor.data_dir().join("member/wal");
    let extended = extend_commit(&wal).unwrap();
    assert_eq!(extended.to, last);
    assert!(!extend_commit(&wal).unwrap().written, "a second time");
    assert_eq!(facts(&survivor).hard_state.unwrap().commit, last.index);
    survivor.serve("new", &[], &["--force-new-cluster"]);
    assert_eq!(survivor.keys(), Some(500));
    assert!(survivor.put(500..501, 3));
    survivor.stop();
    assert_eq!(facts(&survivor).membership.unwrap().members.len(), 1);
}
