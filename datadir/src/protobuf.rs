//! The little of protobuf's wire format that etcd's files need. Never trusts a length.

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// Number and value of a varint.
    Number(u64, u64),
    /// Number and content of a length-delimited field.
    Bytes(u64, &'a [u8]),
    /// A fixed-width field: none that is read here.
    Other,
}

/// The fields of a message; ends with an error at the first byte that is no field.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

/// The bytes are no message, or they end within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = varint(rest)?;
    let number = tag >> 3;
    if number == 0 {
        return None;
    }
    match tag & 7 {
        0 => Some(Field::Number(number, varint(rest)?)),
        1 => take(rest, 8).map(|_| Field::Other),
        2 => {
            let len = varint(rest)?;
            take(rest, len).map(|bytes| Field::Bytes(number, bytes))
        }
        5 => take(rest, 4).map(|_| Field::Other),
        _ => None,
    }
}

fn take<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = left;
    Some(taken)
}

/// A varint of at most ten bytes.
pub(crate) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The values of the varint fields 1 to N; 0 for those that are absent. Other fields are passed over.
pub(crate) fn numbers<const N: usize>(message: &[u8]) -> Result<[u64; N], Malformed> {
    let mut values = [0; N];
    for field in Fields(message) {
        if let Field::Number(number, value) = field?
            && let Some(slot) = usize::try_from(number - 1).ok().and_then(|index| values.get_mut(index))
        {
            *slot = value;
        }
    }
    Ok(values)
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint(&mut bytes.as_slice()), Some(value));
        }
    }

    #[test]
    fn fields_are_told_apart_and_a_length_beyond_the_end_is_malformed() {
        let message = [0x08, 0x05, 0x12, 2, 7, 8, 0x3d, 1, 2, 3, 4];
        let fields: Result<Vec<_>, _> = Fields(&message).collect();
        assert_eq!(
            fields.unwrap(),
            [Field::Number(1, 5), Field::Bytes(2, &[7, 8]), Field::Other]
        );
        for wrong in [
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f, 1][..],
            &[0x08],
            &[0x00, 0x00],
            &[0x0b],
            &[0xff; 11],
        ] {
            assert!(Fields(wrong).any(|field| field.is_err()), "{wrong:?}");
        }
        assert_eq!(
            numbers::<3>(&[0x18, 9, 0x08, 1, 0x08, 2]),
            Ok([2, 0, 9]),
            "the last one counts"
        );
    }
}
