//! Owns writing results: a file is written beside its place and moved there when it is whole, so a run that fails half-way
//! leaves nothing half-written.

use crate::BadInput;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file, or standard output for `-`.
pub(crate) fn write(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), BadInput> {
    let result = if path == Path::new("-") { to_stdout(write) } else { to_file(path, write) };
    result.map_err(|e| BadInput(format!("cannot write {}: {e}", path.display())))
}

fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    out.flush()
}

fn to_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.file_name().ok_or_else(|| io::Error::other("not a file name"))?.to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = std::fs::File::create(&part).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    let moved = written.and_then(|()| std::fs::rename(&part, path));
    if moved.is_err() {
        // The part file is ours; when it cannot be removed either, the first error is the one to show.
        let _ = std::fs::remove_file(&part);
    }
    moved
}

/// Writes `value` as JSON with a newline at the end.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), BadInput> {
    write(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::other)?;
        writeln!(out)
    })
}
