//! Which files are generated, and what belongs into each.

use std::error::Error;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::reference;

const NOTICE: &str = "# Generated from the types in crds/ by `cargo run -p crds --example generate`. Do not edit.\n";

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Paths below the root of the workspace, and the content that each must have.
pub(crate) fn generated() -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let crds = crds::definitions::all()?;
    let mut files = Vec::new();
    for crd in &crds {
        files.push((
            definition_path(crd),
            format!("{NOTICE}{}", serde_yaml_ng::to_string(crd)?),
        ));
    }
    files.push(("docs/api.md".to_owned(), reference::render(&crds)?));
    Ok(files)
}

fn definition_path(crd: &CustomResourceDefinition) -> String {
    format!("deploy/crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}
