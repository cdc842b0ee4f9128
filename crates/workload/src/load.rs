//! Loads workloads from files of every readable kind.
//!
//! Purpose: unpacks a file, recognises its kind (`format`), and hands it to the reader of that
//! kind. Invariants: a database is opened in place, read-only. Chrome JSON is read one event
//! at a time. Every other file is read into memory. All but databases on disk are bounded by
//! [`crate::unpack::LARGEST_TRACE_BYTES`]. Entry points: [`load`], [`load_fitted`],
//! [`load_bytes`], [`load_bytes_fitted`], [`files_read_for`].

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::database::{self, Database};
use crate::error::Error;
use crate::format::{self, Format, Unreadable};
use crate::model::Workload;
use crate::recording::{self, Fit, ImportOptions, Recording, Source};
use crate::toml_file::{self, Constants};
use crate::unpack::Unpacked;
use crate::{kineto, nsys, own_timeline, perfetto, presentmon, rocprof, xla};

/// Bytes at the start of a file that decide its kind.
const HEAD_BYTES: usize = 64 << 10;

/// How a file is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Options for traces.
    pub import: ImportOptions,
    /// Values that replace constants (`[let]`) of a TOML workload.
    pub constants: Constants,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// A TOML workload.
    Toml,
    /// A recording.
    Recording(Source),
}

/// Reads a workload or a recording from a file.
///
/// # Errors
/// Everything in [`Error`].
pub fn load(path: &Path, options: &LoadOptions) -> Result<(Workload, Loaded), Error> {
    load_as(path, How::new(options, None))
}

/// Reads as [`load`] does. A recording gets the options that `fit` chooses by its report under
/// `options`. The file is read once.
///
/// # Errors
/// Everything in [`Error`].
pub fn load_fitted(
    path: &Path,
    options: &LoadOptions,
    fit: Fit<'_>,
) -> Result<(Workload, Loaded), Error> {
    load_as(path, How::new(options, Some(fit)))
}

/// The files that reading `path` reads: itself, and for a CSV file of rocprofv3 the others of its
/// run.
pub fn files_read_for(path: &Path) -> Vec<PathBuf> {
    let own = std::iter::once(path.to_owned());
    own.chain(rocprof::siblings(path)).collect()
}

/// How a recording becomes a workload.
struct How<'a> {
    import: ImportOptions,
    constants: &'a Constants,
    fit: Option<Fit<'a>>,
}

impl<'a> How<'a> {
    fn new(options: &'a LoadOptions, fit: Option<Fit<'a>>) -> How<'a> {
        How { import: options.import, constants: &options.constants, fit }
    }
}

fn load_as(path: &Path, how: How<'_>) -> Result<(Workload, Loaded), Error> {
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
        return workload(from_database(&recording, &file)?, &file, how);
    }
    read(opened, Some(path), &file, how)
}

/// Reads a CSV file together with the other files of its run.
fn csv_files(
    path: &Path,
    bytes: Vec<u8>,
    file: &str,
    how: How<'_>,
) -> Result<(Workload, Loaded), Error> {
    let mut files = vec![(file.to_owned(), bytes)];
    for sibling in rocprof::siblings(path) {
        let file = sibling.display().to_string();
        let bytes = std::fs::read(&sibling)
            .map_err(|source| Error::Unreadable { file: file.clone(), source })?;
        files.push((file, bytes));
    }
    let files: Vec<(String, &[u8])> =
        files.iter().map(|(name, bytes)| (name.clone(), &bytes[..])).collect();
    workload(rocprof::csv(&files).map_err(|text| wrong(file, text))?, file, how)
}

/// Reads a workload or a recording from memory. `file` is its name for messages and for
/// `format::detect`.
///
/// # Errors
/// Everything in [`Error`] but [`Error::Unreadable`].
pub fn load_bytes(
    bytes: &[u8],
    file: &str,
    options: &LoadOptions,
) -> Result<(Workload, Loaded), Error> {
    read(bytes, None, file, How::new(options, None))
}

/// Reads from memory as [`load_fitted`] does from a file.
///
/// # Errors
/// Everything in [`Error`] but [`Error::Unreadable`].
pub fn load_bytes_fitted(
    bytes: &[u8],
    file: &str,
    options: &LoadOptions,
    fit: Fit<'_>,
) -> Result<(Workload, Loaded), Error> {
    read(bytes, None, file, How::new(options, Some(fit)))
}

fn read(
    source: impl BufRead,
    path: Option<&Path>,
    file: &str,
    how: How<'_>,
) -> Result<(Workload, Loaded), Error> {
    let unreadable = |source| Error::Unreadable { file: file.to_owned(), source };
    let wrong = |text| wrong(file, text);
    let broken = |error: std::io::Error| wrong(error.to_string());
    let mut source =
        BufReader::with_capacity(HEAD_BYTES, Unpacked::new(source).map_err(unreadable)?);
    if format::detect(source.fill_buf().map_err(broken)?, file) == Ok(Format::ChromeJson) {
        return workload(kineto::read(source).map_err(wrong)?, file, how);
    }
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).map_err(broken)?;
    let recording = match format::detect(&bytes, file).map_err(|found| unknown(file, found))? {
        Format::Toml => {
            let text = std::str::from_utf8(&bytes).unwrap_or_default();
            return Ok((toml_file::parse_with(text, file, how.constants)?, Loaded::Toml));
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
            Some(path) => return csv_files(path, bytes, file, how),
            None => rocprof::csv(&[(file.to_owned(), &bytes)]).map_err(wrong)?,
        },
    };
    drop(bytes);
    workload(recording, file, how)
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

fn workload(recording: Recording, file: &str, how: How<'_>) -> Result<(Workload, Loaded), Error> {
    let kind = Loaded::Recording(recording.source);
    if let Some((name, _)) = how.constants.first() {
        let text =
            format!("a recording has no constant '{name}': only a TOML workload has a [let]");
        return Err(wrong(file, text));
    }
    Ok((recording::workload(recording, file, &how.import, how.fit)?, kind))
}

fn wrong(file: &str, text: String) -> Error {
    Error::Trace { file: file.to_owned(), text }
}

fn unknown(file: &str, Unreadable { found, advice }: Unreadable) -> Error {
    Error::UnknownKind { file: file.to_owned(), found, advice }
}
