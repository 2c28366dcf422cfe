//! Records as etcd writes them (`server/storage/wal/encoder.go`).

use super::record::kind;
use crate::inspection::HardState;
use crate::protobuf::put_varint;

/// One record with its length and padding. The CRC runs on.
pub(crate) fn record(kind: u64, crc: &mut u32, data: &[u8]) -> Vec<u8> {
    if kind != kind::CRC {
        *crc = crc32c::crc32c_append(*crc, data);
    }
    let mut body = vec![0x08];
    put_varint(&mut body, kind);
    body.push(0x10);
    put_varint(&mut body, u64::from(*crc));
    if !data.is_empty() {
        body.push(0x1a);
        put_varint(&mut body, data.len() as u64);
        body.extend_from_slice(data);
    }
    let padding = (8 - body.len() % 8) % 8;
    let mut length = body.len() as u64;
    if padding > 0 {
        length |= (0x80 | padding as u64) << 56;
    }
    let mut framed = length.to_le_bytes().to_vec();
    framed.append(&mut body);
    framed.resize(framed.len() + padding, 0);
    framed
}

/// The data of a hard state.
pub(crate) fn hard_state(state: HardState) -> Vec<u8> {
    numbers(&[state.term, state.vote.0, state.commit])
}

/// Varint fields 1, 2, ...
pub(crate) fn numbers(values: &[u64]) -> Vec<u8> {
    let mut data = Vec::new();
    for (field, value) in (1_u64..).zip(values) {
        put_varint(&mut data, field << 3);
        put_varint(&mut data, *value);
    }
    data
}
