//! Protobuf's wire format: writes messages, and reads the fields of a message.
//!
//! Invariant: a reader copies nothing, and a damaged message ends the iteration with `None` for its
//! last field. Entry points: `Message`, [`Fields`], [`Value`].

/// A message that is being written.
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

/// The payload of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Of a varint or of a fixed length.
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; 0 for bytes.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes; none for a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Number(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }

    /// The bytes as text.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// Adds the numbers of a repeated field, packed or not.
    pub fn add_to(self, numbers: &mut Vec<u64>) {
        match self {
            Value::Number(number) => numbers.push(number),
            Value::Bytes(mut packed) => {
                while let Some(number) = varint(&mut packed) {
                    numbers.push(number);
                }
            }
        }
    }
}

/// The fields of a message. A damaged field is the last one and is `None`.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of this message.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
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
    fn a_repeated_field_is_read_packed_and_number_by_number() {
        let mut numbers = vec![7];
        Value::Number(150).add_to(&mut numbers);
        Value::Bytes(&[0x96, 0x01, 2]).add_to(&mut numbers);
        assert_eq!(numbers, [7, 150, 150, 2]);
    }

    #[test]
    fn fields_of_every_wire_type_are_read_and_damage_ends_the_message() {
        let bytes =
            [0x08, 0x96, 0x01, 0x12, 2, b'o', b'k', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let fields: Vec<_> = Fields::of(&bytes).flatten().collect();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"ok")),
            (3, Value::Number(1)),
            (4, Value::Number(2)),
        ];
        assert_eq!(fields, expected);
        for damaged in [&bytes[..2], &bytes[..6], &bytes[..10], &[0x0b][..], &[0xff; 12][..]] {
            assert_eq!(Fields::of(damaged).last(), Some(None));
        }
    }

    #[test]
    fn extremes_come_back() {
        for value in [0, 1, 127, 128, u64::from(u32::MAX), u64::MAX] {
            let mut m = Message::new();
            m.uint(9, value);
            let read: Vec<_> = Fields::of(m.bytes()).collect();
            assert_eq!(read, [Some((9, Value::Number(value)))]);
        }
    }
}
