//! Damaged events of a trace, and recordings that are too long.
//!
//! Purpose: a reader reports a damaged event with its position and leaves it out; the report counts
//! them and shows the first few. A recording whose span exceeds [`LONGEST_NS`] is refused with the
//! position of the outlier. Entry points: [`Damage`], [`Extent`].

use std::fmt;

use serde::{Serialize, Serializer};

/// The longest event and the longest recording that are read, in nanoseconds: 24 hours.
pub const LONGEST_NS: i64 = 24 * 3600 * 1_000_000_000;
/// Damaged events that are shown.
const SHOWN: usize = 5;
/// Characters of an event's name and of a value that are shown.
const SHOWN_CHARACTERS: usize = 60;

/// Position of an event in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// An event of a JSON text.
    Event {
        /// Its number in the file, from 1.
        number: u64,
        /// The line where it begins, from 1.
        line: u64,
        /// The byte where it begins, from 0, unpacked.
        byte: u64,
    },
    /// A cell of a text table.
    Cell {
        /// Its line, from 1.
        line: u64,
        /// Its column in the table, from 1.
        column: u64,
    },
    /// A row of a table.
    Row {
        /// The table.
        table: &'static str,
        /// The row's id.
        row: i64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { number, line, byte } => {
                write!(f, "event {number} (line {line}, byte {byte})")
            }
            Self::Cell { line, column } => write!(f, "line {line}, column {column}"),
            Self::Row { table, row } => write!(f, "row {row} of {table}"),
        }
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The fault of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It is absent.
    Missing,
    /// It is not a finite number.
    NotANumber,
    /// It does not fit in 64 bits.
    OutOfRange,
    /// It is a length below zero.
    Negative,
    /// It is a length above [`LONGEST_NS`].
    TooLong,
    /// Its time is far from the times of nearly all other events.
    Outside,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is missing",
            Self::NotANumber => "is not a finite number",
            Self::OutOfRange => "does not fit in 64 bits",
            Self::Negative => "is below zero",
            Self::TooLong => "is longer than 24 h",
            Self::Outside => "is far outside of the recording",
        })
    }
}

/// An event that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// Its position; `None` where the format has none.
    pub position: Option<Position>,
    /// Its name, cut to 60 characters.
    pub name: String,
    /// The field.
    pub field: &'static str,
    /// The field's value as written, cut to 60 characters.
    pub value: String,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, name, field, value, fault } = self;
        if let Some(position) = position {
            write!(f, "{position}, ")?;
        }
        match fault {
            Fault::Missing => write!(f, "'{name}': {field} {fault}"),
            _ => write!(f, "'{name}': {field} {value} {fault}"),
        }
    }
}

/// The damaged events of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Their number.
    pub count: u64,
    /// The first few.
    pub first: Vec<Damaged>,
}

impl Damage {
    /// Counts an event that is left out.
    pub fn add(
        &mut self,
        position: Option<Position>,
        name: &str,
        field: &'static str,
        value: &str,
        fault: Fault,
    ) {
        self.count += 1;
        if self.first.len() < SHOWN {
            let cut = |text: &str| text.chars().take(SHOWN_CHARACTERS).collect();
            self.first.push(Damaged { position, name: cut(name), field, value: cut(value), fault });
        }
    }

    /// Report lines: the count, and a line for each event that is shown.
    pub fn lines(&self) -> Vec<String> {
        if self.count == 0 {
            return Vec::new();
        }
        let shown = self.first.len() as u64;
        let first =
            if self.count > shown { format!(", the first {shown}:") } else { ":".to_owned() };
        let head = format!("{} damaged events are left out{first}", self.count);
        std::iter::once(head).chain(self.first.iter().map(|event| format!("  {event}"))).collect()
    }
}

/// The ends of a recording, in nanoseconds: the first starts and the last ends, with their events.
#[derive(Debug, Clone, Default)]
pub struct Extent {
    /// The first few starts, in order.
    first: Vec<(i64, Option<Position>)>,
    /// The last few ends, the latest first.
    last: Vec<(i64, Option<Position>)>,
}

impl Extent {
    /// Takes an event in.
    pub fn add(&mut self, start: i64, end: i64, position: Option<Position>) {
        insert(&mut self.first, (start, position), |new, old| new < old);
        insert(&mut self.last, (end, position), |new, old| new > old);
    }

    /// The position of an event, if it is one of the first or last.
    pub fn position(&self, start: i64, end: i64) -> Option<Position> {
        let first = self.first.iter().find(|(at, _)| *at == start);
        first.or_else(|| self.last.iter().find(|(at, _)| *at == end)).and_then(|(_, at)| *at)
    }

    /// Takes out the position of an event, so that another event of the same time has its own.
    pub fn take_position(&mut self, start: i64, end: i64) -> Option<Position> {
        for (list, time) in [(&mut self.first, start), (&mut self.last, end)] {
            if let Some(place) = list.iter().position(|(at, _)| *at == time) {
                return list.remove(place).1;
            }
        }
        None
    }

    /// Checks the span. `starts` are the starts of all events; the outlier is the end that is
    /// farther from their median.
    ///
    /// # Errors
    /// A sentence: the recording is longer than [`LONGEST_NS`].
    pub fn check(&self, starts: impl Iterator<Item = i64>) -> Result<(), String> {
        let (Some(first), Some(last)) = (self.first.first(), self.last.first()) else {
            return Ok(());
        };
        let span = i128::from(last.0) - i128::from(first.0);
        if span <= i128::from(LONGEST_NS) {
            return Ok(());
        }
        let mut starts: Vec<i64> = starts.collect();
        let middle = starts.len() / 2;
        let median = starts.select_nth_unstable(middle).1;
        let away = |at: i64| (i128::from(at) - i128::from(*median)).unsigned_abs();
        let (outlier, verb, side) = match away(first.0) > away(last.0) {
            true => (first, "starts", "before"),
            false => (last, "ends", "after"),
        };
        let place = outlier.1.map_or("an event".to_owned(), |position| position.to_string());
        let hours = |ns: u128| ns as f64 / 3.6e12;
        Err(format!(
            "the recording spans {:.1} h, and at most {} h are read: {place} {verb} {:.1} h {side} the event in the \
             middle; correct or remove it, or record a shorter window",
            hours(span.unsigned_abs()),
            LONGEST_NS / 3_600_000_000_000,
            hours(away(outlier.0))
        ))
    }
}

/// Puts an end into its place in a list of the few outermost.
fn insert(
    list: &mut Vec<(i64, Option<Position>)>,
    new: (i64, Option<Position>),
    is_outside: fn(i64, i64) -> bool,
) {
    let place = list.iter().rposition(|(at, _)| !is_outside(new.0, *at)).map_or(0, |k| k + 1);
    if place < SHOWN {
        list.truncate(SHOWN - 1);
        list.insert(place, new);
    }
}
