//! What is generated from the types is what is in the repository.

#![allow(clippy::unwrap_used, reason = "a test that fails by unwrap says where")]

#[path = "../examples/generate/files.rs"]
mod files;
#[path = "../examples/generate/reference.rs"]
mod reference;

use std::collections::BTreeSet;
use std::fs;

#[test]
fn generated_files_are_as_the_types_say() {
    for (path, content) in files::generated().unwrap() {
        let found = fs::read_to_string(files::workspace().join(&path)).unwrap_or_default();
        assert!(
            found == content,
            "{path} is out of date: run `cargo run -p crds --example generate`"
        );
    }
}

#[test]
fn no_definition_is_left_over_from_a_kind_that_is_gone() {
    let generated: BTreeSet<_> = files::generated().unwrap().into_iter().map(|(path, _)| path).collect();
    for entry in fs::read_dir(files::workspace().join("deploy/crds")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            generated.contains(&format!("deploy/crds/{name}")),
            "deploy/crds/{name} belongs to no kind"
        );
    }
}

#[test]
fn every_definition_can_be_applied_by_kubectl() {
    // `kubectl apply` keeps the whole object in an annotation, and annotations hold 256 KiB together.
    for crd in crds::definitions::all().unwrap() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < 256 * 1024, "{} takes {size} bytes", crd.spec.names.plural);
    }
}
