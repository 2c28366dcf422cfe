//! What a cluster can be told while it runs: one request a connection, as a line of JSON each way, over a socket in the
//! machine's own `/run`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

/// Where the machine listens, in its own mount namespace.
pub(super) const SOCKET: &str = "/run/local-kube.sock";

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Node `n` loses its power: its processes and its network go at once.
    PowerOff(u8),
    /// Node `n` boots. Answered when its programs are started; the Node becomes Ready later.
    PowerOn(u8),
    /// Node `n`'s cable is pulled; it runs on.
    CutOff(u8),
    /// Node `n`'s cable is plugged in again.
    Reconnect(u8),
    /// The image of an archive goes to all nodes that are on.
    LoadImage(PathBuf),
    /// The disk under this `PersistentVolume` is replaced by an empty one.
    LoseVolume(String),
    /// A program of the control plane stops where it is, as if its machine hung.
    Freeze(String),
    /// It goes on.
    Thaw(String),
}

/// The answer to a request: nothing, or what went wrong.
pub(super) type Answer = Result<(), String>;

/// Sends a request to the machine whose first process is that one, and waits for the answer.
pub(super) async fn send(machine: u32, request: &Request) -> Result<()> {
    let socket = format!("/proc/{machine}/root{SOCKET}");
    let stream = UnixStream::connect(&socket)
        .await
        .context("the local cluster does not answer; is it up?")?;
    let mut stream = BufReader::new(stream);
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    match serde_json::from_str::<Answer>(&answer).context("the local cluster ended before it answered")? {
        Ok(()) => Ok(()),
        Err(error) => bail!("{request:?} failed: {error}"),
    }
}

/// Whether a path can be opened from any working folder.
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize()
        .with_context(|| format!("{} is not there; build it first", path.display()))
}
