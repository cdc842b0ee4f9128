//! Reads CSV files of rocprofv3.
//!
//! Invariants: columns are found by name, since releases differ. A file holds one kind of rows; the
//! kernels, copies and calls of a run lie in files that share a prefix. Entry points: [`read`],
//! [`siblings`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ::csv::{ByteRecord, ReaderBuilder};

use super::run::{Args, Direction, Place, Run, Span};
use crate::recording::{Recording, Remark, Source};

/// Largest distance in time between the files of one run.
const RUN_DISTANCE_NS: i64 = 60_000_000_000;

/// Endings of the file names of a run.
const ENDINGS: [&str; 6] = [
    "_kernel_trace.csv",
    "_memory_copy_trace.csv",
    "_hip_api_trace.csv",
    "_hip_runtime_trace.csv",
    "_hip_runtime_api_trace.csv",
    "_hip_trace.csv",
];

/// The existing other files of the run of a file.
pub fn siblings(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let Some(prefix) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) else {
        return Vec::new();
    };
    let others = ENDINGS.iter().map(|ending| path.with_file_name(format!("{prefix}{ending}")));
    others.filter(|other| other != path && other.is_file()).collect()
}

/// Reads a file of a run and its siblings, each with its name.
///
/// # Errors
/// A row that is not CSV, with its line.
pub fn read(files: &[(String, &[u8])]) -> Result<Recording, String> {
    let mut run = Run::new(Source::RocprofCsv);
    let mut first: Option<(i64, i64)> = None;
    for (name, bytes) in files {
        let wrong = |error| format!("{name}: {error}");
        let extent = extent(bytes).map_err(wrong)?;
        if let (Some(first), Some(extent)) = (first, extent) {
            let apart = (extent.0.saturating_sub(first.1)).max(first.0.saturating_sub(extent.1));
            let file = name.clone();
            if apart > RUN_DISTANCE_NS {
                run.remark(Remark::OtherRun { file });
                continue;
            }
            run.remark(Remark::AlsoRead { file });
        }
        first = first.or(extent);
        rows(bytes, |r| row(&mut run, r)).map_err(wrong)?;
    }
    Ok(run.finish())
}

/// The first start and the last end of a file.
fn extent(bytes: &[u8]) -> Result<Option<(i64, i64)>, String> {
    let mut extent: Option<(i64, i64)> = None;
    rows(bytes, |row| {
        let Span { start, end, .. } = row.span();
        if let (Some(start), Some(end)) = (start, end) {
            let (first, last) = extent.unwrap_or((start, end));
            extent = Some((first.min(start), last.max(end)));
        }
    })?;
    Ok(extent)
}

/// A row with its columns by name.
struct Row<'a> {
    columns: &'a HashMap<String, usize>,
    record: &'a ByteRecord,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<Cow<'_, str>> {
        let field = self.record.get(*self.columns.get(column)?)?;
        Some(String::from_utf8_lossy(field.trim_ascii())).filter(|text| !text.is_empty())
    }

    /// The number in a column; `Agent 4` is 4.
    fn number(&self, column: &str) -> Option<i64> {
        self.text(column)?.rsplit(' ').next()?.parse().ok()
    }

    fn span(&self) -> Span {
        Span {
            start: self.number("Start_Timestamp"),
            end: self.number("End_Timestamp"),
            correlation: self.number("Correlation_Id"),
        }
    }
}

fn rows(bytes: &[u8], mut each: impl FnMut(&Row<'_>)) -> Result<(), String> {
    let bytes = bytes.strip_prefix(crate::kineto::BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(bytes);
    let wrong = |error: ::csv::Error| format!("{error}; give a CSV file that rocprofv3 wrote");
    let headers = reader.byte_headers().map_err(wrong)?;
    let columns: HashMap<String, usize> = (headers.iter().enumerate())
        .map(|(k, header)| (String::from_utf8_lossy(header.trim_ascii()).into_owned(), k))
        .collect();
    let mut record = ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(wrong)? {
        each(&Row { columns: &columns, record: &record });
    }
    Ok(())
}

fn row(run: &mut Run, row: &Row<'_>) {
    let span = row.span();
    let (stream, queue) = (row.number("Stream_Id"), row.number("Queue_Id"));
    if let Some(name) = row.text("Kernel_Name") {
        let device = row.number("Agent_Id").unwrap_or(0);
        run.kernel(&name, Place { device, stream, queue }, span);
    } else if let Some(direction) = row.text("Direction") {
        let direction = Direction::of(&direction);
        let agent = |column| row.number(column).unwrap_or(0);
        let device = direction.device(agent("Source_Agent_Id"), agent("Destination_Agent_Id"));
        run.copy(direction, Place { device, stream, queue: None }, span);
    } else if let Some(function) = row.text("Function")
        && row.text("Domain").is_none_or(|domain| domain.starts_with("HIP_"))
    {
        run.call(&function, row.number("Thread_Id").unwrap_or(0), span, None, Args::default());
    }
}
