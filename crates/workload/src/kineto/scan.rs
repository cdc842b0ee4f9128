//! The outer structure of a trace: an object with `traceEvents`, or a bare array; one event at a
//! time.
//!
//! Invariants: at most one event and one block of the file are in memory. A bracket inside a text
//! does not count. Values outside the events are skipped by their brackets and not checked. Entry
//! point: [`scan`].

use std::io::{ErrorKind, Read};
use std::ops::Range;

use crate::recording::Position;

/// Bytes that are read at once.
const BLOCK: usize = 256 << 10;
/// The longest event that is read, in bytes.
const LONGEST_EVENT: usize = 64 << 20;
/// A byte order mark, which some exports begin with.
pub const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Reads the events of a trace.
pub trait EventReader {
    /// Reads the event at the start of `text`, if the event is whole and of common spelling.
    /// Returns its length.
    fn read_common(&mut self, _position: Position, _text: &[u8]) -> Option<usize> {
        None
    }

    /// Reads the JSON of one event.
    ///
    /// # Errors
    /// A text with the offset in the event.
    fn read(&mut self, position: Position, event: &[u8]) -> Result<(), (usize, String)>;
}

/// Passes each event to `reader` and returns the number of events.
///
/// # Errors
/// A truncated file, a file that cannot be unpacked or is not a trace, and errors of `reader`, with
/// the place.
pub fn scan(source: impl Read, reader: &mut impl EventReader) -> Result<u64, String> {
    let mut scanner = Scanner {
        source,
        reader,
        text: Vec::new(),
        at: 0,
        base: 0,
        line: 1,
        line_at: 0,
        events: 0,
    };
    scanner.file()?;
    Ok(scanner.events)
}

struct Scanner<'r, R, E> {
    source: R,
    reader: &'r mut E,
    /// The part of the text that is in memory.
    text: Vec<u8>,
    /// Position in `text`.
    at: usize,
    /// Offset of `text` in the file.
    base: u64,
    /// The current line, from 1, and its offset in the file.
    line: u64,
    line_at: u64,
    events: u64,
}

impl<R: Read, E: EventReader> Scanner<'_, R, E> {
    fn file(&mut self) -> Result<(), String> {
        while self.text.len() < BYTE_ORDER_MARK.len() && self.fill()? {}
        if self.text.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
        }
        match self.peek()? {
            b'{' => self.members()?,
            b'[' => self.array()?,
            _ => {
                return Err(self
                    .unexpected("a trace: an object with \"traceEvents\", or an array of events"));
            }
        }
        match self.next()? {
            Some(_) => Err(self.unexpected("the end of the file")),
            None => Ok(()),
        }
    }

    fn members(&mut self) -> Result<(), String> {
        let mut found = false;
        self.advance(1);
        if self.peek()? != b'}' {
            loop {
                if self.peek()? != b'"' {
                    return Err(self.unexpected("a field's name"));
                }
                let name = self.value()?;
                let is_events = &self.text[name.clone()] == b"\"traceEvents\"";
                self.advance(name.len());
                self.expect(b':', "':'")?;
                match self.peek()? {
                    b'[' if is_events => self.array()?,
                    _ if is_events => {
                        return Err(self.unexpected("an array of events in \"traceEvents\""));
                    }
                    _ => self.skip()?,
                }
                found |= is_events;
                if self.peek()? == b'}' {
                    break;
                }
                self.expect(b',', "',' or '}'")?;
            }
        }
        self.advance(1);
        match found {
            true => Ok(()),
            false => Err(
                "the JSON has no \"traceEvents\"; give a trace exported by the PyTorch profiler \
                          (export_chrome_trace)"
                    .into(),
            ),
        }
    }

    fn array(&mut self) -> Result<(), String> {
        self.advance(1);
        if self.peek()? == b']' {
            self.advance(1);
            return Ok(());
        }
        loop {
            if self.peek()? != b'{' {
                return Err(self.unexpected("an event { … }"));
            }
            self.events += 1;
            let byte = self.base + self.at as u64;
            let position = Position::Event { number: self.events, line: self.line, byte };
            match self.reader.read_common(position, &self.text[self.at..]) {
                Some(length) => self.advance(length),
                None => self.uncommon(position)?,
            }
            if self.peek()? == b']' {
                self.advance(1);
                return Ok(());
            }
            self.expect(b',', "',' or ']'")?;
        }
    }

    /// Reads an event of rare spelling, or one that is not yet whole in memory.
    fn uncommon(&mut self, position: Position) -> Result<(), String> {
        // An error before the end of the event is behind the events before it.
        self.events -= 1;
        let event = self.value()?;
        self.events += 1;
        if let Err((offset, what)) = self.reader.read(position, &self.text[event.clone()]) {
            self.advance(offset.min(event.len()));
            return Err(self.wrong(&what));
        }
        self.advance(event.len());
        Ok(())
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), String> {
        if self.peek()? != byte {
            return Err(self.unexpected(what));
        }
        self.advance(1);
        Ok(())
    }

    /// The next byte other than white space.
    fn peek(&mut self) -> Result<u8, String> {
        self.next()?.ok_or_else(|| self.cut_short())
    }

    /// The same; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<u8>, String> {
        loop {
            let rest = &self.text[self.at..];
            let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.advance(spaces);
            if let Some(byte) = self.text.get(self.at) {
                return Ok(Some(*byte));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// The text or the bracketed value that comes next, whole in memory.
    fn value(&mut self) -> Result<Range<usize>, String> {
        let mut shape = Shape::default();
        let mut end = self.at;
        loop {
            if let Some(length) = shape.end_in(&self.text[end..]) {
                return Ok(self.at..end + length);
            }
            let length = self.text.len() - self.at;
            if length > LONGEST_EVENT {
                return Err(
                    self.wrong(&format!("a value is longer than {} MiB", LONGEST_EVENT >> 20))
                );
            }
            if !self.fill()? {
                self.advance(length);
                return Err(self.cut_short());
            }
            end = self.at + length;
        }
    }

    /// Skips the next value.
    fn skip(&mut self) -> Result<(), String> {
        if !matches!(self.peek()?, b'{' | b'[' | b'"') {
            loop {
                let rest = &self.text[self.at..];
                let length =
                    rest.iter().take_while(|byte| !matches!(byte, b',' | b'}' | b']')).count();
                let ended = length < rest.len();
                self.advance(length);
                if ended {
                    return Ok(());
                }
                if !self.fill()? {
                    return Err(self.cut_short());
                }
            }
        }
        let mut shape = Shape::default();
        loop {
            let length = shape.end_in(&self.text[self.at..]);
            self.advance(length.unwrap_or(self.text.len() - self.at));
            if length.is_some() {
                return Ok(());
            }
            if !self.fill()? {
                return Err(self.cut_short());
            }
        }
    }

    /// Advances by a number of bytes.
    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.at..self.at + bytes];
        // Lines of a part are counted in a byte, 16 at once.
        let is_end = |byte: &u8| u8::from(*byte == b'\n');
        let ends = |part: &[u8]| u64::from(part.iter().map(is_end).sum::<u8>());
        let lines: u64 = passed.chunks(usize::from(u8::MAX)).map(ends).sum();
        if lines > 0 {
            self.line += lines;
            let last = passed.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
            self.line_at = self.base + (self.at + last + 1) as u64;
        }
        self.at += bytes;
    }

    /// Drops the bytes before the position and reads another block; returns whether there was one.
    fn fill(&mut self) -> Result<bool, String> {
        self.text.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        let length = self.text.len();
        self.text.resize(length + BLOCK, 0);
        let read = loop {
            match self.source.read(&mut self.text[length..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.text.truncate(length + read.as_ref().copied().unwrap_or(0));
        read.map(|bytes| bytes > 0).map_err(|error| error.to_string())
    }

    fn cut_short(&self) -> String {
        format!(
            "the trace ends in the middle, at line {} (byte {}), after {} events; it was cut short: copy or export it \
             again",
            self.line,
            self.base + self.at as u64,
            self.events
        )
    }

    fn unexpected(&self, wanted: &str) -> String {
        let rest =
            self.text[self.at..].split(|byte| byte.is_ascii_whitespace()).next().unwrap_or(&[]);
        let found = String::from_utf8_lossy(&rest[..rest.len().min(16)]);
        self.wrong(&format!("'{found}' where {wanted} is expected"))
    }

    fn wrong(&self, what: &str) -> String {
        let byte = self.base + self.at as u64;
        format!(
            "line {}, column {} (byte {byte}): {what}, after {} events; give a JSON trace exported by the PyTorch \
             profiler",
            self.line,
            byte - self.line_at + 1,
            self.events
        )
    }
}

/// State of the search for the end of a value.
#[derive(Default)]
struct Shape {
    depth: u64,
    in_text: bool,
    escaped: bool,
}

impl Shape {
    /// Follows the value through `text`; returns its length in `text` if it ends there.
    fn end_in(&mut self, text: &[u8]) -> Option<usize> {
        for (k, byte) in text.iter().enumerate() {
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => continue,
                }
                if self.in_text || self.depth > 0 {
                    continue;
                }
                return Some(k + 1);
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(k + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            out[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[derive(Default)]
    struct Found(Vec<(Position, String)>);

    impl EventReader for Found {
        fn read(&mut self, position: Position, event: &[u8]) -> Result<(), (usize, String)> {
            self.0.push((position, String::from_utf8(event.to_vec()).unwrap()));
            Ok(())
        }
    }

    fn events(text: &str) -> Result<Vec<(Position, String)>, String> {
        let mut found = Found::default();
        let count = scan(Slow(text.as_bytes()), &mut found)?;
        assert_eq!(count, found.0.len() as u64);
        Ok(found.0)
    }

    #[test]
    fn events_are_found_wherever_blocks_end() {
        let (first, second) = ("{\"x\": \"}{\\\\\"}", "{}");
        let before =
            "{\"a\": [{\"traceEvents\": [1]}, \"}\\\"]\"], \"b\": -1.5,\n \"traceEvents\": [\n";
        let between = ",\n\n ";
        let text = [before, first, between, second, "] , \"c\": {}}\n"].concat();
        let at = |number, line, byte: usize| Position::Event { number, line, byte: byte as u64 };
        let (start, next) = (before.len(), before.len() + first.len() + between.len());
        let expected =
            vec![(at(1, 3, start), first.to_owned()), (at(2, 5, next), second.to_owned())];
        assert_eq!(events(&text), Ok(expected));
        assert_eq!(events("[]").unwrap(), []);
    }

    #[test]
    fn what_is_no_trace_is_told_where() {
        for (text, place) in [
            ("{\"traceEvents\": [{}\n {}]}", "line 2, column 2 (byte 21)"),
            ("{\"traceEvents\": []} x", "column 21"),
            ("{a: 1}", "column 2"),
            ("[{}, 3]", "column 6"),
        ] {
            let error = events(text).unwrap_err();
            assert!(error.contains(place), "{text}: {error}");
        }
        for end in 0..25 {
            let error = events(&"{\"traceEvents\": [{\"a\": 1}]}"[..end]).unwrap_err();
            assert!(error.contains("cut short"), "{end}: {error}");
        }
    }
}
