//! How large the binaries are.

use std::fs;

use anyhow::{Context, Result};

use super::experiment::Readings;
use crate::kube::project;

/// Those that the images are made of.
pub fn run() -> Result<Readings> {
    Ok(vec![
        ("agent-binary-bytes", size("etcd-agent")?),
        ("operator-binary-bytes", size("etcd-operator")?),
    ])
}

fn size(binary: &str) -> Result<f64> {
    let path = project().join("target/x86_64-unknown-linux-musl/release").join(binary);
    let bytes = fs::metadata(&path)
        .with_context(|| format!("{} is not there; run `make images`", path.display()))?
        .len();
    Ok(f64::from(u32::try_from(bytes)?))
}
