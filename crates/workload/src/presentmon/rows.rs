//! Rows of a PresentMon table as frames.
//!
//! Invariants: a row that cannot be used is counted with line and column, and left out. `NA` and an
//! empty cell are absent values. Times are nanoseconds since the time of the first row. Entry
//! point: [`read`].

use ::csv::{ByteRecord, ReaderBuilder};
use foldhash::HashMap;

use super::clock::{self, Raw};
use super::columns::{Column, Columns, Unit, Version};
use super::frame::{Frame, Gpu};
use crate::recording::{Fault, LONGEST_NS, Position, Recording};

/// A swap chain of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Chain {
    pub process: i64,
    pub address: String,
    pub application: String,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Rows {
    pub chains: Vec<Chain>,
    pub frames: Vec<Frame>,
    /// Frames that a driver or library generated: no program worked on them.
    pub generated: u64,
}

/// Reads a file. Damage is counted in `recording`.
///
/// # Errors
/// A header without needed columns, and text that is not CSV.
pub fn read(bytes: &[u8], recording: &mut Recording) -> Result<Rows, String> {
    let bytes = bytes.strip_prefix(crate::kineto::BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(bytes);
    let wrong = |error: ::csv::Error| format!("{error}; give a CSV file that PresentMon wrote");
    let header: Vec<String> = (reader.byte_headers().map_err(wrong)?.iter())
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
        .collect();
    let columns = Columns::of(&header)?;
    let mut rows = Rows::default();
    let mut numbers: HashMap<Chain, usize> = HashMap::default();
    let mut read: Vec<(Raw, Frame)> = Vec::new();
    let mut origin = Origin::default();
    let mut record = ByteRecord::new();
    let mut lines = Lines { bytes, at: 0, line: 1 };
    while reader.read_byte_record(&mut record).map_err(wrong)? {
        recording.events += 1;
        let line = lines.line_at(record.position().map_or(0, ::csv::Position::byte));
        let row = Row { record: &record, columns: &columns };
        match row.frame(line, &mut origin) {
            Ok(Read::Frame(chain, raw, frame)) => {
                let number = *numbers.entry(chain).or_insert_with_key(|chain| {
                    rows.chains.push(chain.clone());
                    rows.chains.len() - 1
                });
                read.push((raw, Frame { chain: number, ..frame }));
            }
            Ok(Read::Generated) => rows.generated += 1,
            Err(Wrong { column, value, fault }) => {
                recording.at(Position::Cell { line, column: column.place as u64 + 1 });
                let name = row.text(columns.application).unwrap_or_default();
                recording.damaged(&name, column.name, &value, fault);
            }
        }
    }
    rows.frames = clock::times(read, columns.time.1);
    Ok(rows)
}

/// Line numbers of places in a text that only grow. Those of the CSV reader are too small by one
/// where lines end with CR and LF.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line, from 1, of the first byte from `byte` on that does not end a line.
    fn line_at(&mut self, byte: u64) -> u64 {
        let from = usize::try_from(byte).unwrap_or(usize::MAX);
        while let Some(byte) = self.bytes.get(self.at)
            && (self.at < from || matches!(byte, b'\r' | b'\n'))
        {
            self.line += u64::from(*byte == b'\n');
            self.at += 1;
        }
        self.line
    }
}

/// The time of the first row, as it is written.
#[derive(Default)]
struct Origin {
    number: Option<f64>,
    date: Option<i64>,
}

/// A cell that cannot be used.
struct Wrong {
    column: Column,
    value: String,
    fault: Fault,
}

/// What a row is.
enum Read {
    /// A frame of a chain. Its times count from [`Raw::at`].
    Frame(Chain, Raw, Frame),
    Generated,
}

struct Row<'a> {
    record: &'a ByteRecord,
    columns: &'a Columns,
}

impl Row<'_> {
    /// The text of a cell; `None` for one that is absent.
    fn text(&self, column: Column) -> Option<String> {
        let text = String::from_utf8_lossy(self.record.get(column.place)?.trim_ascii());
        (!text.is_empty() && text != "NA").then(|| text.replace(char::is_control, "\u{fffd}"))
    }

    fn need<T>(&self, column: Column, value: Option<T>) -> Result<T, Wrong> {
        let value_text = self.text(column).unwrap_or_default();
        value.ok_or(Wrong { column, value: value_text, fault: Fault::Missing })
    }

    fn number(&self, column: Column) -> Result<Option<f64>, Wrong> {
        let Some(value) = self.text(column) else { return Ok(None) };
        match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(Wrong { column, value, fault: Fault::NotANumber }),
        }
    }

    /// A time in milliseconds as nanoseconds.
    fn span(&self, column: Column) -> Result<Option<i64>, Wrong> {
        let Some(ms) = self.number(column)? else { return Ok(None) };
        let ns = (ms * 1e6).round();
        if ns.abs() > LONGEST_NS as f64 {
            let value = self.text(column).unwrap_or_default();
            return Err(Wrong { column, value, fault: Fault::TooLong });
        }
        Ok(Some(ns as i64))
    }

    /// A length in milliseconds as nanoseconds.
    fn length(&self, column: Column) -> Result<Option<i64>, Wrong> {
        match self.span(column)? {
            Some(..0) => {
                let value = self.text(column).unwrap_or_default();
                Err(Wrong { column, value, fault: Fault::Negative })
            }
            length => Ok(length),
        }
    }

    fn chain(&self) -> Result<Chain, Wrong> {
        let column = self.columns.process;
        let process = self.need(column, self.text(column))?;
        let Ok(process) = process.parse() else {
            return Err(Wrong { column, value: process, fault: Fault::NotANumber });
        };
        let address = self.text(self.columns.chain).unwrap_or_default();
        let application = self.text(self.columns.application).unwrap_or_default();
        Ok(Chain { process, address, application })
    }

    /// The frame, with times that count from its raw time. `origin` is set by the first
    /// row.
    fn frame(&self, line: u64, origin: &mut Origin) -> Result<Read, Wrong> {
        let columns = self.columns;
        let (time, unit) = columns.time;
        let chain = self.chain()?;
        let is_generated = columns
            .frame_type
            .and_then(|column| self.text(column))
            .is_some_and(|kind| !matches!(kind.as_str(), "Application" | "NotSet" | "Unspecified"));
        if is_generated {
            return Ok(Read::Generated);
        }
        let at = self.at(time, unit, origin)?;
        let returned_after = self.need(columns.in_present, self.length(columns.in_present)?)?;
        let (cpu_start, present, frame_ns) = match columns.version {
            Version::One { between } => {
                let between = between.map_or(Ok(None), |column| self.length(column))?;
                let before = between.unwrap_or(0).saturating_sub(returned_after).max(0);
                (-before, 0, between)
            }
            Version::Two { cpu_busy } => {
                let busy = self.need(cpu_busy, self.length(cpu_busy)?)?;
                (0, busy, Some(busy.saturating_add(returned_after)))
            }
        };
        let interval = columns.interval.map_or(Ok(None), |column| self.number(column))?;
        // -1 is an interval that PresentMon does not know.
        let interval = interval.unwrap_or(0.0).clamp(0.0, 4.0) as u32;
        let is_of_next = matches!(columns.version, Version::Two { .. });
        let frame = Frame {
            chain: 0,
            line,
            column: time.place as u64 + 1,
            cpu_start,
            present,
            returned: present.saturating_add(returned_after),
            gpu: self.gpu()?,
            shown: self.shown(present)?,
            interval,
        };
        Ok(Read::Frame(chain, Raw { at, frame_ns, is_of_next }, frame))
    }

    /// The time of a frame since the first row.
    fn at(&self, column: Column, unit: Unit, origin: &mut Origin) -> Result<f64, Wrong> {
        if unit != Unit::Date {
            let at = self.need(column, self.number(column)?)?;
            return Ok(at - *origin.number.get_or_insert(at));
        }
        let value = self.need(column, self.text(column))?;
        let Some(at) = clock::date(&value) else {
            return Err(Wrong { column, value, fault: Fault::NotANumber });
        };
        Ok((at - *origin.date.get_or_insert(at)) as f64)
    }

    fn gpu(&self) -> Result<Option<Gpu>, Wrong> {
        let columns = self.columns.gpu;
        let (start, busy) = (self.span(columns.start)?, self.length(columns.busy)?);
        let end = match self.columns.version {
            Version::One { .. } => self.span(columns.end)?,
            Version::Two { .. } => {
                let length = self.length(columns.end)?;
                start.zip(length).map(|(start, length)| start.saturating_add(length))
            }
        };
        let (Some(start), Some(end), Some(busy)) = (start, end, busy) else { return Ok(None) };
        // Several engines work at once: the busy time is at most the time.
        let busy = busy.min(end.saturating_sub(start));
        Ok((busy > 0).then_some(Gpu { end, busy }))
    }

    /// When the frame was on the screen, counted like `present`.
    fn shown(&self, present: i64) -> Result<Option<i64>, Wrong> {
        let dropped = self.columns.dropped.map_or(Ok(None), |column| self.number(column))?;
        if dropped.is_some_and(|dropped| dropped != 0.0) {
            return Ok(None);
        }
        let until = self.columns.shown.map_or(Ok(None), |column| self.span(column))?;
        let latency = self.columns.latency.map_or(Ok(None), |column| self.span(column))?;
        // Version 1 writes 0 for a frame that was not shown.
        let until = until.filter(|until| *until > 0).map(|until| present.saturating_add(until));
        Ok(until.or(latency.filter(|latency| *latency > 0)))
    }
}
