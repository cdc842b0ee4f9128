//! Loads workloads from files of every readable kind.
//!
//! Purpose: makes a workload of what the readers found in a file. With the feature `import` the
//! readers are in `every_kind`; without it `toml_kind` reads only TOML. Entry points:
//! [`load`], [`load_fitted`], [`load_bytes`], [`load_bytes_fitted`], [`files_read_for`].

use std::path::{Path, PathBuf};

use crate::contents::Contents;
use crate::error::Error;
#[cfg(feature = "import")]
use crate::every_kind as reader;
use crate::model::Workload;
use crate::recording::{self, Fit, ImportOptions, Recording, Source};
use crate::toml_file::{self, Constants};
#[cfg(not(feature = "import"))]
use crate::toml_kind as reader;

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
    workload(reader::open(path)?, &path.display().to_string(), How::new(options, None))
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
    workload(reader::open(path)?, &path.display().to_string(), How::new(options, Some(fit)))
}

/// The files that reading `path` reads: itself, and for a CSV file of rocprofv3 the others of its
/// run.
pub fn files_read_for(path: &Path) -> Vec<PathBuf> {
    let own = std::iter::once(path.to_owned());
    own.chain(reader::siblings(path)).collect()
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
    workload(reader::read(bytes, file)?, file, How::new(options, None))
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
    workload(reader::read(bytes, file)?, file, How::new(options, Some(fit)))
}

fn workload(contents: Contents, file: &str, how: How<'_>) -> Result<(Workload, Loaded), Error> {
    match contents {
        Contents::Toml(text) => {
            Ok((toml_file::parse_with(&text, file, how.constants)?, Loaded::Toml))
        }
        Contents::Recording(recording) => of_recording(*recording, file, how),
    }
}

fn of_recording(
    recording: Recording,
    file: &str,
    how: How<'_>,
) -> Result<(Workload, Loaded), Error> {
    let kind = Loaded::Recording(recording.source);
    if let Some((name, _)) = how.constants.first() {
        let text =
            format!("a recording has no constant '{name}': only a TOML workload has a [let]");
        return Err(Error::Trace { file: file.to_owned(), text });
    }
    Ok((recording::workload(recording, file, &how.import, how.fit)?, kind))
}
