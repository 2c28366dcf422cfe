//! The db.
#![no_main]

use std::fs;

use datadir::{Options, inspect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let snap = folder.path().join("member/snap");
    fs::create_dir_all(&snap).expect("a folder");
    fs::write(snap.join("db"), bytes).expect("a file");
    inspect(folder.path(), &Options::default()).expect("files that can be read");
});
