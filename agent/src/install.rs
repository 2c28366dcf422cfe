//! `etcd-agent install`: puts the binary where the etcd container, whose image is not ours, can run it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use proto::pod;

/// Arguments of `install`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to put the binary. Replaced as a whole: a reader sees the old one or the new one.
    #[arg(long, default_value = pod::BINARY)]
    to: PathBuf,
}

/// Copies the running binary to its place.
pub fn run(args: &Args) -> anyhow::Result<()> {
    put(&args.to)
}

/// Copies the running binary: write, fsync, rename.
pub fn put(to: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("cannot find the path of this binary; is /proc mounted?")?;
    // One name, so a run that was killed half-way leaves nothing that the next one does not overwrite.
    let temporary = to.with_extension("new");
    let mut source = File::open(&own).with_context(|| format!("cannot read {}", own.display()))?;
    let mut copy = File::create(&temporary)
        .with_context(|| format!("cannot write {}; is the run volume mounted there?", temporary.display()))?;
    io::copy(&mut source, &mut copy)
        .and_then(|_| copy.set_permissions(Permissions::from_mode(0o755)))
        .and_then(|()| copy.sync_all())
        .with_context(|| format!("cannot write {}", temporary.display()))?;
    // Closed before it can be run: a binary open for writing gives ETXTBSY.
    drop(copy);
    fs::rename(&temporary, to).with_context(|| format!("cannot put {} in place", to.display()))
}
