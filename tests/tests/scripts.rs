//! Golden scripts: each file of `tests/scripts` is a story of one piece of the protocol. Lines that begin at the margin are
//! what happens (`tests/src/model/script.rs` says which there are); the indented ones are what the operator does then, as
//! the real planner decides it on the model. `REWRITE=1` writes what it does now: read the difference.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{fs, path::Path};

use tests::model::script::Script;

#[test]
fn every_story_is_told_as_it_happens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let told = fs::read_to_string(&file).unwrap();
        let at_the_margin = told.split_inclusive('\n').filter(|line| !line.starts_with(' '));
        let script: String = at_the_margin.collect();
        let name = file.file_name().unwrap().to_string_lossy();
        let script = Script::parse(&script).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let happens = script.run().unwrap_or_else(|failure| panic!("{name}: {failure}"));
        if happens == told {
            continue;
        }
        if std::env::var_os("REWRITE").is_some() {
            fs::write(&file, &happens).unwrap();
        } else {
            wrong.push(format!("{name} tells another story than what happens:\n{happens}"));
        }
    }
    assert!(wrong.is_empty(), "{}\nREWRITE=1 writes these", wrong.join("\n"));
}
