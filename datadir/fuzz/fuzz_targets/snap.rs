//! A v2 snapshot that the log knows.
#![no_main]

use std::fs;

use datadir::{Options, inspect, testing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let log = testing::log(7, 9, 5).snapshot(5, 1);
    testing::directory(folder.path(), &log, 5).expect("a directory");
    let name = "member/snap/0000000000000001-0000000000000005.snap";
    fs::write(folder.path().join(name), bytes).expect("a file");
    inspect(folder.path(), &Options::default()).expect("files that can be read");
});
