//! Replacing the supervisor by another binary while etcd runs on.
//!
//! `execve` keeps the process, so etcd stays its child. What must not be lost goes along: the reading ends of etcd's
//! pipes (a closed one would end etcd by SIGPIPE) and what the supervisor knows. Descriptors cannot be taken over by number
//! in safe code, and one left open would leak into the next etcd, so they travel as messages in a socket that becomes
//! the new program's standard input; its other end is closed by the `execve`.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::state::Known;

/// Tells the new program that it takes over. Not for people: there is nothing to take over from a shell.
pub const RESUME: &str = "--resume";
/// State, and the two outputs of etcd.
const MOST_DESCRIPTORS: usize = 3;

/// What goes along.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handover {
    /// What the supervisor knows.
    pub known: Known,
    /// What the container's log had not taken yet, one for each output.
    #[serde(default)]
    pub pending: [Vec<u8>; 2],
}

/// A binary that does not tell its version in this time is not taken.
const TRY_TIME: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const TRY_LOOK: Duration = Duration::from_millis(5);

/// Can this binary run here? A broken one would take etcd with it, as PID 1 ends. Never blocks: etcd's output is read
/// on meanwhile. The caller must not collect ends of processes before it is done.
pub async fn try_binary(binary: &Path) -> io::Result<()> {
    let mut child = Command::new(binary)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| named(binary, &error))?;
    let deadline = Instant::now() + TRY_TIME;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < deadline => sleep(TRY_LOOK).await,
            None => {
                child.kill()?;
                child.wait()?;
                return Err(named(
                    binary,
                    &format!("does not tell its --version within {TRY_TIME:?}"),
                ));
            }
        }
    };
    // It has ended, and a version fits the pipe; what it may have left behind could keep the pipe open.
    let mut told = [0; NAME.len()];
    let is_ours = status.success()
        && child
            .stdout
            .is_some_and(|mut stdout| stdout.read_exact(&mut told).is_ok() && told == *NAME);
    if is_ours {
        return Ok(());
    }
    Err(named(
        binary,
        &format!("is not an etcd-agent that runs here (--version: {status})"),
    ))
}

/// How the answer to `--version` begins.
const NAME: &[u8; 11] = b"etcd-agent ";

/// Becomes `binary`. Returns only when that has failed, and then nothing has changed.
#[must_use]
pub fn become_binary(binary: &Path, handover: &Handover, pipes: &[BorrowedFd<'_>]) -> io::Error {
    match replace(binary, handover, pipes) {
        Ok(never) => match never {},
        Err(error) => named(binary, &error),
    }
}

fn replace(binary: &Path, handover: &Handover, pipes: &[BorrowedFd<'_>]) -> io::Result<std::convert::Infallible> {
    let mut state = File::from(memfd_create("etcd-agent", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&state, handover)?;
    state.rewind()?;
    state.flush()?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(state.as_fd()).chain(pipes.iter().copied()).collect();
    send(&ours, &descriptors)?;

    let program = CString::new(binary.as_os_str().as_encoded_bytes())?;
    let mut arguments = vec![program.clone()];
    for argument in std::env::args_os()
        .skip(1)
        .filter(|argument| argument != RESUME)
        .chain([RESUME.into()])
    {
        arguments.push(CString::new(argument.into_vec())?);
    }
    let environment = std::env::vars_os().map(variable).collect::<Result<Vec<_>, _>>()?;

    let standard_input = rustix::stdio::stdin().try_clone_to_owned()?;

    let error = match rustix::stdio::dup2_stdin(&theirs) {
        Ok(()) => match nix::unistd::execve(&program, &arguments, &environment) {
            Ok(never) => match never {},
            Err(error) => io::Error::from(error),
        },
        Err(error) => error.into(),
    };
    rustix::stdio::dup2_stdin(&standard_input)?;

    Err(error)
}

/// Takes over what the program before has left in standard input, and closes that. The signals it holds back are let
/// through by [`HeldBack::release`].
pub fn take_over() -> io::Result<(Handover, Vec<OwnedFd>)> {
    let mut descriptors = receive(rustix::stdio::stdin())?.into_iter();
    let state = descriptors
        .next()
        .ok_or_else(|| io::Error::other("nothing was handed over"))?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let mut text = Vec::new();
    let mut state = File::from(state);
    state.rewind()?;
    state.read_to_end(&mut text)?;
    Ok((serde_json::from_slice(&text)?, descriptors.collect()))
}

/// Signals that wait until they can be taken: without this, PID 1 would never get one that comes after its program was
/// replaced and before the next one listens.
#[derive(Debug)]
#[must_use]
pub struct HeldBack(());

impl HeldBack {
    /// From now on, until this is dropped or the next program calls [`release`](Self::release).
    pub fn new() -> io::Result<Self> {
        signals().thread_block()?;
        Ok(Self(()))
    }

    /// For the next program, once its signal handlers are in place.
    pub fn release() -> io::Result<()> {
        Ok(signals().thread_unblock()?)
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // The same call has worked in the other direction.
        let _ = Self::release();
    }
}

fn signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD].into_iter().collect()
}

fn variable((key, value): (OsString, OsString)) -> Result<CString, std::ffi::NulError> {
    let mut text = key.into_vec();
    text.push(b'=');
    text.extend(value.into_vec());
    CString::new(text)
}

fn send(socket: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors to hand over"));
    }
    sendmsg(socket, &[IoSlice::new(b"1")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok(descriptors)
}

fn named(binary: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", binary.display()))
}
