//! `etcdutl` of the container's own version.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Error, journal::Order};

/// Makes a directory of the database: a cluster of one, with the IDs that follow from its peer URL and its token.
///
/// The database is that of a stopped etcd and has no checksum of a snapshot; that all of the log is in it is proven before.
pub fn restore(etcdutl: &Path, db: &Path, order: &Order, to: &Path) -> Result<(), Error> {
    let name = &order.identity.member_name;
    let mut command = Command::new(etcdutl);
    command
        .args(["snapshot", "restore"])
        .arg(db)
        .arg("--skip-hash-check")
        .arg("--data-dir")
        .arg(to)
        .args(["--name", name])
        .arg("--initial-cluster")
        .arg(format!("{name}={}", order.peer_url))
        .args(["--initial-cluster-token", &order.identity.token])
        .args(["--initial-advertise-peer-urls", &order.peer_url]);
    run(etcdutl, "snapshot restore", command).map(drop)
}

/// The revision of a database that nobody holds.
pub fn revision(etcdutl: &Path, db: &Path) -> Result<u64, Error> {
    const WHAT: &str = "snapshot status";
    let mut command = Command::new(etcdutl);
    command.args(["snapshot", "status"]).arg(db).args(["-w", "json"]);
    let output = run(etcdutl, WHAT, command)?;
    let answer: serde_json::Value = serde_json::from_slice(&output).map_err(|error| Error::Tool {
        program: etcdutl.to_owned(),
        what: WHAT,
        detail: error.to_string(),
    })?;
    answer["revision"].as_u64().ok_or_else(|| Error::Tool {
        program: etcdutl.to_owned(),
        what: WHAT,
        detail: "it tells no revision".to_owned(),
    })
}

fn run(program: &Path, what: &'static str, mut command: Command) -> Result<Vec<u8>, Error> {
    let failed = |detail: String| Error::Tool {
        program: program.to_owned(),
        what,
        detail,
    };
    for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")) {
        command.env_remove(variable);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Err(failed(format!("{}: {last}", output.status)))
}
