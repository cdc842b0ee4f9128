//! Protobuf's wire format, as much as a Perfetto trace needs: varints, fixed64, bytes, nested
//! messages.
//!
//! The packet writer calls in; nothing is known here of what the fields mean.

/// One message in the making.
#[derive(Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    pub(crate) fn new() -> Message {
        Message::default()
    }

    pub(crate) fn uint(&mut self, field: u32, value: u64) -> &mut Message {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    pub(crate) fn fixed64(&mut self, field: u32, value: u64) -> &mut Message {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) -> &mut Message {
        self.block(field, value.as_bytes())
    }

    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) -> &mut Message {
        let mut inner = Message::new();
        fill(&mut inner);
        self.block(field, &inner.bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn block(&mut self, field: u32, bytes: &[u8]) -> &mut Message {
        self.key(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Reads the wire format back, for tests alone.
#[cfg(test)]
pub(crate) mod read {
    /// The payload of one field.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) enum Field {
        Uint(u64),
        Bytes(Vec<u8>),
    }

    /// The fields of a message in order; `None` where the bytes are no message.
    pub(crate) fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Field)>> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let field = match key & 7 {
                0 => Field::Uint(varint(&mut bytes)?),
                1 => {
                    let (head, tail) = bytes.split_first_chunk::<8>()?;
                    bytes = tail;
                    Field::Uint(u64::from_le_bytes(*head))
                }
                2 => {
                    let length = varint(&mut bytes)? as usize;
                    let (head, tail) = bytes.split_at_checked(length)?;
                    bytes = tail;
                    Field::Bytes(head.to_vec())
                }
                _ => return None,
            };
            fields.push(((key >> 3) as u32, field));
        }
        Some(fields)
    }

    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes() {
        let mut m = Message::new();
        m.uint(1, 150).text(2, "testing").message(3, |m| {
            m.uint(1, 1);
        });
        m.fixed64(4, 2);
        let mut expected = vec![0x08, 0x96, 0x01, 0x12, 7];
        expected.extend_from_slice(b"testing");
        expected.extend_from_slice(&[0x1a, 2, 8, 1, 0x21, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(m.bytes(), expected);
    }

    #[test]
    fn extremes_come_back() {
        for value in [0, 1, 127, 128, u64::from(u32::MAX), u64::MAX] {
            let mut m = Message::new();
            m.uint(9, value);
            assert_eq!(read::fields(m.bytes()), Some(vec![(9, read::Field::Uint(value))]));
        }
    }
}
