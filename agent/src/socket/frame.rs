//! Frames in a buffer; no I/O.

use std::io;

use prost::Message;
use prost::bytes::{Buf as _, BytesMut};

use super::MAX_FRAME_BYTES;

/// A varint of a length takes at most so many bytes.
const MAX_LENGTH_BYTES: usize = 10;

/// The frame of `message`.
pub(super) fn encode<M: Message>(message: &M) -> io::Result<Vec<u8>> {
    if message.encoded_len() > MAX_FRAME_BYTES {
        return Err(invalid(format!(
            "a message of {} bytes is longer than {MAX_FRAME_BYTES}",
            message.encoded_len()
        )));
    }
    Ok(message.encode_length_delimited_to_vec())
}

/// Takes the first message off the buffer, when it is there as a whole.
pub(super) fn take<M: Message + Default>(buffer: &mut BytesMut) -> io::Result<Option<M>> {
    // The end of the varint decides whether it is whole: the decoder cannot tell "short" from "broken".
    let whole = buffer.iter().take(MAX_LENGTH_BYTES).any(|byte| byte & 0x80 == 0);
    if !whole && buffer.len() < MAX_LENGTH_BYTES {
        return Ok(None);
    }
    let mut rest = &buffer[..];
    let length = prost::decode_length_delimiter(&mut rest).map_err(invalid)?;
    if length > MAX_FRAME_BYTES {
        return Err(invalid(format!(
            "a message of {length} bytes is longer than {MAX_FRAME_BYTES}"
        )));
    }
    if rest.len() < length {
        return Ok(None);
    }
    let head = buffer.len() - rest.len();
    buffer.advance(head);
    let message = M::decode(buffer.split_to(length)).map_err(invalid)?;
    Ok(Some(message))
}

fn invalid(detail: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("agent socket: {detail}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use proto::supervisor::{Done, LogLines};

    #[test]
    fn messages_come_out_whole_however_the_bytes_arrive() {
        let sent = [
            Done {
                request: 7,
                error: "no".to_owned(),
            },
            Done::default(),
            Done {
                request: u64::MAX,
                error: "x".repeat(300),
            },
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(|done| encode(done).unwrap()).collect();
        let mut buffer = BytesMut::new();
        let mut received = Vec::new();
        for byte in bytes {
            buffer.extend_from_slice(&[byte]);
            while let Some(done) = take::<Done>(&mut buffer).unwrap() {
                received.push(done);
            }
        }
        assert_eq!(received, sent);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_frame_that_claims_to_be_too_long_is_refused_before_it_is_read() {
        let mut buffer = BytesMut::from(&[0xff, 0xff, 0xff, 0x7f][..]);
        assert!(take::<Done>(&mut buffer).is_err());
    }

    #[test]
    fn a_length_without_end_is_refused() {
        let mut buffer = BytesMut::from(&[0xff; 10][..]);
        assert!(take::<Done>(&mut buffer).is_err());
    }

    #[test]
    fn a_message_that_the_other_end_would_refuse_is_not_sent() {
        let long = LogLines {
            lines: vec!["x".repeat(MAX_FRAME_BYTES)],
        };
        assert!(encode(&long).is_err());
    }
}
