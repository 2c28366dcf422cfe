//! The supervisor follows the agent's image: when that was changed in place, the etcd container still runs the binary that
//! the Pod began with. It is replaced by `execve`, etcd staying its child.

use std::fs::File;
use std::io::{self, Read, Take};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use proto::supervisor::Upgrade;
use proto::supervisor::to_supervisor::Message as Order;
use tokio::sync::mpsc;

use super::event::Event;
use super::supervisor::Supervisor;
use crate::install;

/// The binary that the etcd container starts with, in the run volume.
const BINARY: &str = "etcd-agent";
/// The one that takes over. It stays, because its place in the run volume is what the supervisor was given.
const NEXT: &str = "etcd-agent.next";
/// The supervisor tries a binary before it becomes it.
const LIMIT: Duration = Duration::from_secs(20);
/// Compared at a time.
const BLOCK: u64 = 64 * 1024;

/// Does it as the one act that is under way: orders given meanwhile would be lost with the supervisor.
pub async fn run(connected: Supervisor, run_volume: PathBuf, events: mpsc::Sender<Event>) {
    if let Err(error) = supervisor(connected, &run_volume).await {
        tracing::warn!(error = format!("{error:#}"), "the supervisor stays what it is");
    }
    // The agent ends when nobody takes events any more.
    let _ = events.send(Event::Acted(Ok(()))).await;
}

/// Replaces the supervisor, when the run volume holds another binary than the one that runs here.
///
/// The supervisor first, then the file that its next start would use: whatever ends in between leaves a file that is
/// another one still, and it is done again.
async fn supervisor(supervisor: Supervisor, run_volume: &Path) -> anyhow::Result<()> {
    let (binary, next) = (run_volume.join(BINARY), run_volume.join(NEXT));
    let (old, new) = (binary.clone(), next.clone());
    let prepared = tokio::task::spawn_blocking(move || prepare(&old, &new)).await?;
    if !prepared? {
        return Ok(());
    }
    let order = Order::Upgrade(Upgrade {
        binary: next.display().to_string(),
    });
    supervisor.request(order, LIMIT).await?;
    tracing::info!("the supervisor is replaced by this version's");
    tokio::task::spawn_blocking(move || put_in_place(&next, &binary)).await??;
    // What was asked of it now would be lost.
    let _ = tokio::time::timeout(LIMIT, supervisor.gone()).await;
    Ok(())
}

/// True: the new binary is there, and is another one.
fn prepare(binary: &Path, next: &Path) -> anyhow::Result<bool> {
    // Where nothing was installed, there is nothing to keep equal.
    if !binary.is_file() {
        return Ok(false);
    }
    let own = std::env::current_exe().context("cannot find the path of this binary; is /proc mounted?")?;
    let equal = is_equal(&own, binary).with_context(|| format!("cannot compare {}", binary.display()))?;
    if !equal {
        install::put(next)?;
    }
    Ok(!equal)
}

fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        block(&one, &mut left)?;
        block(&other, &mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

fn block(file: &File, into: &mut Vec<u8>) -> io::Result<()> {
    into.clear();
    let mut part: Take<&File> = file.take(BLOCK);
    part.read_to_end(into)?;
    Ok(())
}

/// Another name of the same file, so that it takes no room twice.
fn put_in_place(next: &Path, binary: &Path) -> anyhow::Result<()> {
    let link = binary.with_extension("link");
    match std::fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    std::fs::hard_link(next, &link)
        .and_then(|()| std::fs::rename(&link, binary))
        .with_context(|| format!("cannot put {} in place", binary.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn binaries_are_compared_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let mut content = vec![7; 200_000];
        let one = file("one", &content);
        assert!(is_equal(&one, &file("same", &content)).unwrap());
        assert!(!is_equal(&one, &file("shorter", &content[1..])).unwrap());
        content[199_999] = 8;
        assert!(!is_equal(&one, &file("other", &content)).unwrap());
    }

    #[test]
    fn the_binary_that_takes_over_is_the_one_that_the_next_start_uses() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, next) = (folder.path().join(BINARY), folder.path().join(NEXT));
        assert!(!prepare(&binary, &next).unwrap(), "nothing was installed");
        std::fs::write(&binary, "old").unwrap();
        assert!(prepare(&binary, &next).unwrap());
        // A second time after an end in between.
        assert!(prepare(&binary, &next).unwrap());
        put_in_place(&next, &binary).unwrap();
        assert!(next.is_file(), "its place is what the supervisor was given");
        assert!(!prepare(&binary, &next).unwrap(), "it is done");
    }
}
