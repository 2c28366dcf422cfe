//! etcd's two outputs: read from pipes, kept in the [`Tail`], passed on unchanged to the container's own.
//!
//! etcd must never wait for the container's log: writes do not block, and what does not fit into
//! a bounded queue is left out, with a line that says how much. The reading ends of the pipes outlive an `execve` of
//! the supervisor, so etcd notices nothing.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::tail::{Stream, Tail};

/// Written at once; small, as it is copied out of the queue.
const PIECE: usize = 4096;
const QUEUE: usize = 256 * 1024;
const READ: usize = 16 * 1024;

/// The last lines, shared by both outputs.
#[derive(Debug, Clone, Default)]
pub struct SharedTail(Arc<Mutex<Tail>>);

impl SharedTail {
    /// With lines of an earlier supervisor.
    #[must_use]
    pub fn new(tail: Tail) -> Self {
        Self(Arc::new(Mutex::new(tail)))
    }

    /// Never held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the container's own outputs.
#[derive(Debug)]
pub struct Outlet {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: VecDeque<u8>,
    left_out: usize,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) {
        let mut queue = self.queue();
        if queue.bytes.len() + bytes.len() > QUEUE {
            queue.left_out += bytes.len();
            return;
        }
        if queue.left_out > 0 {
            let notice = format!(
                "\netcd-agent: {} bytes of output were left out: the log did not take them\n",
                queue.left_out
            );
            queue.left_out = 0;
            queue.bytes.extend(notice.as_bytes());
        }
        queue.bytes.extend(bytes);
        drop(queue);
        self.changed.notify_one();
    }
}

impl Outlet {
    /// To one of our own outputs, beginning with what an earlier supervisor had not written yet.
    #[must_use]
    pub fn new(to: OwnedFd, pending: Vec<u8>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.queue().bytes.extend(pending);
        let task = tokio::spawn(write_on(Arc::clone(&shared), to));
        Self { shared, task }
    }

    /// Passes these bytes on, never waiting.
    pub fn push(&self, bytes: &[u8]) {
        self.shared.push(bytes);
    }

    /// What is not written yet.
    #[must_use]
    pub fn pending(&self) -> Vec<u8> {
        self.shared.queue().bytes.iter().copied().collect()
    }

    /// Waits until all is written, at most so long.
    pub async fn flush(&self, within: Duration) {
        let written = async {
            while !self.shared.queue().bytes.is_empty() {
                self.shared.emptied.notified().await;
            }
        };
        // What the container's log does not take in that time is lost with the container anyway.
        let _ = timeout(within, written).await;
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn write_on(shared: Arc<Shared>, to: OwnedFd) {
    let mut to = Target::new(to);
    loop {
        let piece: Vec<u8> = shared.queue().bytes.iter().take(PIECE).copied().collect();
        if piece.is_empty() {
            shared.emptied.notify_waiters();
            shared.changed.notified().await;
            continue;
        }
        // When nobody reads the log any more there is nobody to tell; etcd runs on.
        let written = to.write(&piece).await.unwrap_or(piece.len());
        shared.queue().bytes.drain(..written);
    }
}

/// In a container both outputs are pipes. A file or a terminal is written to as it is.
enum Target {
    Pipe(pipe::Sender),
    Other(OwnedFd),
}

impl Target {
    fn new(to: OwnedFd) -> Self {
        match to.try_clone().and_then(pipe::Sender::from_owned_fd) {
            Ok(pipe) => Self::Pipe(pipe),
            Err(_) => Self::Other(to),
        }
    }

    async fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.write(piece).await,
            Self::Other(file) => Ok(rustix::io::write(file, piece)?),
        }
    }
}

/// One of etcd's outputs, for one run of etcd.
#[derive(Debug)]
pub struct Intake {
    /// Kept for an `execve`; the task has its own.
    pipe: OwnedFd,
    task: JoinHandle<()>,
}

impl Intake {
    /// Reads from the pipe until etcd (and who else has it) has closed it.
    pub fn new(pipe: OwnedFd, stream: Stream, tail: SharedTail, outlet: &Outlet) -> io::Result<Self> {
        let reading = pipe::Receiver::from_owned_fd(pipe.try_clone()?)?;
        let shared = Arc::clone(&outlet.shared);
        let task = tokio::spawn(read_on(reading, stream, tail, shared));
        Ok(Self { pipe, task })
    }

    /// The reading end.
    #[must_use]
    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Waits for the last byte of an etcd that has ended, at most so long: a process it has left behind may keep the
    /// pipe open.
    pub async fn finish(mut self, within: Duration) {
        if timeout(within, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

async fn read_on(mut pipe: pipe::Receiver, stream: Stream, tail: SharedTail, outlet: Arc<Shared>) {
    let mut buffer = vec![0; READ];
    // An error cannot come from a pipe that is ours; if it does, the end of reading is all there is to do.
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        let Some(bytes) = buffer.get(..length) else { return };
        tail.lock().push(stream, bytes);
        outlet.push(bytes);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    fn pipe() -> (OwnedFd, OwnedFd) {
        pipe_with(PipeFlags::CLOEXEC).unwrap()
    }

    #[tokio::test]
    async fn what_etcd_writes_is_passed_on_unchanged_and_kept() {
        let (from_etcd, etcd) = pipe();
        let (log, to_log) = pipe();
        let outlet = Outlet::new(to_log, b"earlier ".to_vec());
        let tail = SharedTail::default();
        let intake = Intake::new(from_etcd, Stream::Stderr, tail.clone(), &outlet).unwrap();
        let mut etcd = File::from(etcd);
        etcd.write_all(b"one\ntwo").unwrap();
        drop(etcd);
        intake.finish(Duration::from_secs(5)).await;
        outlet.flush(Duration::from_secs(5)).await;
        drop(outlet);
        // Lets the writing task be dropped, and its end of the pipe with it.
        tokio::task::yield_now().await;
        let mut text = String::new();
        File::from(log).read_to_string(&mut text).unwrap();
        assert_eq!(text, "earlier one\ntwo");
        tail.lock().close();
        assert_eq!(tail.lock().last(9), ["one", "two"]);
    }

    #[tokio::test]
    async fn a_log_that_takes_nothing_never_makes_etcd_wait_and_the_last_lines_are_kept() {
        let (from_etcd, etcd) = pipe();
        let (log, to_log) = pipe();
        let outlet = Outlet::new(to_log, Vec::new());
        let tail = SharedTail::default();
        let intake = Intake::new(from_etcd, Stream::Stderr, tail.clone(), &outlet).unwrap();
        let line = [[b'x'; 1023].as_slice(), b"\n"].concat();
        let writer = std::thread::spawn(move || {
            let mut etcd = File::from(etcd);
            for _ in 0..2000 {
                etcd.write_all(&line).unwrap();
            }
            etcd.write_all(b"last\n").unwrap();
        });
        intake.finish(Duration::from_secs(30)).await;
        writer.join().unwrap();
        assert_eq!(tail.lock().last(1), ["last"]);
        // Once it is read again, all that was queued comes, and then how much was left out.
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            File::from(log).read_to_string(&mut text).unwrap();
            text
        });
        outlet.flush(Duration::from_secs(30)).await;
        outlet.push(b"after\n");
        outlet.flush(Duration::from_secs(30)).await;
        drop(outlet);
        tokio::task::yield_now().await;
        let text = tokio::task::spawn_blocking(|| reader.join().unwrap()).await.unwrap();
        assert!(text.ends_with("after\n"));
        // Each byte has come or is counted.
        let mut parts = text.split("\netcd-agent: ");
        let mut bytes = parts.next().unwrap().len();
        let mut notices = 0;
        for part in parts {
            let (notice, rest) = part.split_once('\n').unwrap();
            let (left_out, words) = notice.split_once(' ').unwrap();
            assert!(words.starts_with("bytes of output were left out"), "{notice}");
            bytes += left_out.parse::<usize>().unwrap() + rest.len();
            notices += 1;
        }
        assert!(notices > 0);
        assert_eq!(bytes, 2000 * 1024 + "last\n".len() + "after\n".len());
    }
}
