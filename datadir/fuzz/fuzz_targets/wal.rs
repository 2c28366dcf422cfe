//! The log, and the one write to it.
#![no_main]

use std::fs;

use datadir::{Options, State, inspect, wal::extend_commit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let wal = folder.path().join("member/wal");
    fs::create_dir_all(&wal).expect("a folder");
    fs::write(wal.join("0000000000000000-0000000000000000.wal"), bytes).expect("a file");
    let before = inspect(folder.path(), &Options::default()).expect("files that can be read");
    if extend_commit(&wal).is_ok() {
        let after = inspect(folder.path(), &Options::default()).expect("files that can be read");
        assert_eq!(after.facts.last, before.facts.last);
        assert_eq!(after.facts.hard_state.map(|state| state.commit), before.facts.last.map(|last| last.index));
        assert!(!matches!(after.state, State::TornTail));
    }
});
