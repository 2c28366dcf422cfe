//! The framing of the socket between sidecar and supervisor: each frame is a varint length and one message
//! (prost's length-delimited encoding). Both ends are ours, yet may be of different versions.

mod frame;

use std::io;
use std::marker::PhantomData;

use prost::Message;
use prost::bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The longest message either end takes. The longest one sent is an answer to `Logs`: 200 lines of
/// [`MAX_LINE_BYTES`](crate::supervise::MAX_LINE_BYTES).
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// Splits a connection into the messages that come (`In`) and those that go (`Out`).
#[must_use]
pub fn split<In: Message + Default, Out: Message>(stream: UnixStream) -> (Receiver<In>, Sender<Out>) {
    let (read, write) = stream.into_split();
    let receiver = Receiver {
        read,
        buffer: BytesMut::new(),
        message: PhantomData,
    };
    (
        receiver,
        Sender {
            write,
            message: PhantomData,
        },
    )
}

/// The incoming half.
#[derive(Debug)]
pub struct Receiver<M> {
    read: OwnedReadHalf,
    buffer: BytesMut,
    message: PhantomData<fn() -> M>,
}

impl<M: Message + Default> Receiver<M> {
    /// The next message; `None` when the other end has closed. Cancel-safe: nothing is lost when the future is
    /// dropped. After an error the connection is of no more use.
    pub async fn next(&mut self) -> io::Result<Option<M>> {
        loop {
            if let Some(message) = frame::take(&mut self.buffer)? {
                return Ok(Some(message));
            }
            if self.read.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }
}

/// The outgoing half.
#[derive(Debug)]
pub struct Sender<M> {
    write: OwnedWriteHalf,
    message: PhantomData<fn(M)>,
}

impl<M: Message> Sender<M> {
    /// Sends one message. Not cancel-safe: a dropped future may leave half a frame behind, so the connection must
    /// then be closed.
    pub async fn send(&mut self, message: &M) -> io::Result<()> {
        self.write.write_all(&frame::encode(message)?).await
    }
}
