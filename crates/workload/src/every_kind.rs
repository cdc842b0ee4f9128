//! Reads files of every readable kind.
//!
//! Purpose: unpacks a file, recognises its kind (`format`), and hands it to the reader of that
//! kind. Invariants: a database is opened in place, read-only. Chrome JSON is read one event
//! at a time. Every other file is read into memory. All but databases on disk are bounded by
//! [`crate::unpack::LARGEST_TRACE_BYTES`]. Entry points: [`open`], [`read`].

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::contents::Contents;
use crate::database::{self, Database};
use crate::error::Error;
use crate::format::{self, Format, Unreadable};
use crate::recording::Recording;
use crate::unpack::Unpacked;
use crate::{kineto, nsys, own_timeline, perfetto, presentmon, rocprof, xla};

pub use crate::rocprof::siblings;

/// Bytes at the start of a file that decide its kind.
const HEAD_BYTES: usize = 64 << 10;

/// Reads a file.
///
/// # Errors
/// Everything in [`Error`].
pub fn open(path: &Path) -> Result<Contents, Error> {
    let file = path.display().to_string();
    let unreadable = |source| Error::Unreadable { file: file.clone(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unknown(&file, format::of_folder(path)));
    }
    let opened = std::fs::File::open(path).map_err(unreadable)?;
    let mut opened = BufReader::with_capacity(HEAD_BYTES, opened);
    if database::is_database(opened.fill_buf().map_err(unreadable)?) && metadata.is_file() {
        let recording = Database::open(path).map_err(|text| wrong(&file, text))?;
        return from_database(&recording, &file).map(found);
    }
    read_from(opened, Some(path), &file)
}

/// Reads a CSV file together with the other files of its run.
fn csv_files(path: &Path, bytes: Vec<u8>, file: &str) -> Result<Contents, Error> {
    let mut files = vec![(file.to_owned(), bytes)];
    for sibling in rocprof::siblings(path) {
        let file = sibling.display().to_string();
        let bytes = std::fs::read(&sibling)
            .map_err(|source| Error::Unreadable { file: file.clone(), source })?;
        files.push((file, bytes));
    }
    let files: Vec<(String, &[u8])> =
        files.iter().map(|(name, bytes)| (name.clone(), &bytes[..])).collect();
    rocprof::csv(&files).map(found).map_err(|text| wrong(file, text))
}

/// Reads a file from memory. `file` is its name for messages and for [`format::detect`].
///
/// # Errors
/// Everything in [`Error`] but [`Error::Unreadable`].
pub fn read(bytes: &[u8], file: &str) -> Result<Contents, Error> {
    read_from(bytes, None, file)
}

fn read_from(source: impl BufRead, path: Option<&Path>, file: &str) -> Result<Contents, Error> {
    let unreadable = |source| Error::Unreadable { file: file.to_owned(), source };
    let wrong = |text| wrong(file, text);
    let broken = |error: std::io::Error| wrong(error.to_string());
    let mut source =
        BufReader::with_capacity(HEAD_BYTES, Unpacked::new(source).map_err(unreadable)?);
    if format::detect(source.fill_buf().map_err(broken)?, file) == Ok(Format::ChromeJson) {
        return kineto::read(source).map(found).map_err(wrong);
    }
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).map_err(broken)?;
    let recording = match format::detect(&bytes, file).map_err(|found| unknown(file, found))? {
        Format::Toml => {
            return Ok(Contents::Toml(String::from_utf8(bytes).unwrap_or_default()));
        }
        // The first bytes do not determine the kind.
        Format::ChromeJson => kineto::read(&bytes[..]).map_err(wrong)?,
        Format::OwnJson => own_timeline::chrome(&bytes).map_err(wrong)?,
        Format::Perfetto => perfetto::read(&bytes).map_err(wrong)?,
        Format::Sqlite => {
            let database = Database::from_bytes(&bytes).map_err(wrong)?;
            from_database(&database, file)?
        }
        Format::RocprofJson => rocprof::json(&bytes).map_err(wrong)?,
        Format::XlaProfile => xla::read(&bytes).map_err(wrong)?,
        Format::PresentMonCsv => presentmon::read(&bytes).map_err(wrong)?,
        Format::RocprofCsv => match path {
            Some(path) => return csv_files(path, bytes, file),
            None => rocprof::csv(&[(file.to_owned(), &bytes)]).map_err(wrong)?,
        },
    };
    Ok(found(recording))
}

fn from_database(database: &Database, file: &str) -> Result<Recording, Error> {
    let wrong = |text| wrong(file, text);
    if nsys::is_export(database) {
        return nsys::read(database).map_err(wrong);
    }
    if rocprof::is_rocpd(database) {
        return rocprof::rocpd(database).map_err(wrong);
    }
    if rocprof::is_rpd(database) {
        return rocprof::rpd(database).map_err(wrong);
    }
    Err(unknown(file, format::unknown_database(database)))
}

fn found(recording: Recording) -> Contents {
    Contents::Recording(Box::new(recording))
}

fn wrong(file: &str, text: String) -> Error {
    Error::Trace { file: file.to_owned(), text }
}

fn unknown(file: &str, Unreadable { found, advice }: Unreadable) -> Error {
    Error::UnknownKind { file: file.to_owned(), found, advice }
}
