//! Files → workloads, whatever kind they are.
//!
//! This room owns the recognition of kinds: by content first (a packed file or JSON is a trace), else TOML. `cli`
//! calls in.

use std::path::Path;

use crate::error::Error;
use crate::kineto::{self, LARGEST_TRACE_BYTES};
use crate::model::Workload;
use crate::recording::ImportOptions;
use crate::toml_file;

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// For traces.
    pub import: ImportOptions,
}

/// Which kind a file was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// A TOML workload.
    Toml,
    /// A profiler trace.
    Kineto,
}

/// Reads a workload or a trace from a file.
///
/// # Errors
/// Everything in [`Error`].
pub fn load(path: &Path, options: &LoadOptions) -> Result<(Workload, Loaded), Error> {
    let file = path.display().to_string();
    let unreadable = |source| Error::Unreadable { file: file.clone(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        let found = "a folder".to_owned();
        return Err(Error::UnknownKind { file, found });
    }
    if metadata.len() > LARGEST_TRACE_BYTES {
        let found = format!("a file of {} bytes", metadata.len());
        return Err(Error::UnknownKind { file, found });
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    load_bytes(&bytes, &file, options)
}

/// Reads a workload or a trace from memory; `file` is its name for messages and tells nothing else, but that a
/// `.toml` file is TOML even when it begins with a bracket.
///
/// # Errors
/// Everything in [`Error`] but [`Error::Unreadable`].
pub fn load_bytes(bytes: &[u8], file: &str, options: &LoadOptions) -> Result<(Workload, Loaded), Error> {
    let named_toml = file.ends_with(".toml");
    if !named_toml && (kineto::looks_like_trace(bytes) || file.ends_with(".json") || file.ends_with(".gz")) {
        return Ok((kineto::import(bytes, file, &options.import)?, Loaded::Kineto));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((toml_file::parse(text, file)?, Loaded::Toml)),
        Err(error) => {
            let found = format!("byte {} is no text", error.valid_up_to());
            Err(Error::UnknownKind { file: file.to_owned(), found })
        }
    }
}
