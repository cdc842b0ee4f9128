//! Output files: checked before a command runs, written whole or not at all.
//!
//! - A regular file is replaced atomically: a temporary beside it is renamed over it. Links stay,
//!   and so do owner and permissions.
//! - Anything else (device node, FIFO, descriptor below /dev/fd) is written through.
//! - `-`, /dev/stdout and /dev/fd/1 are standard output; tables are then left out.
//!
//! - No output replaces a file that the command reads, under whatever name. [`Outputs`] knows the
//!   inputs and is the only way to write a file.
//!
//! Entry points: [`Outputs::of`] before the command, [`Outputs::write`] and [`Outputs::write_json`]
//! in it, [`Outputs::lines`] after it. Rooms: `place` (targets of paths) · `paths` (paths of a
//! command line).

mod paths;
mod place;

use crate::BadInput;
use crate::streams::end_for_stdout;
use clap::ArgMatches;
use paths::PathUse;
use place::Place;
use std::cell::RefCell;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// The outputs of a command: writable, distinct, and apart from its inputs.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Files that the command reads, each by the argument that names it.
    inputs: Vec<(String, PathBuf)>,
    taken: Vec<(String, PathBuf, Place)>,
    /// Absolute paths of the files that were written, in order.
    written: RefCell<Vec<PathBuf>>,
}

/// Most files of one folder that are named one by one.
const MOST_NAMED: usize = 4;

impl Outputs {
    /// Checks the outputs of a command line against each other and against its inputs. Nothing is
    /// written or opened.
    ///
    /// # Errors
    ///
    /// A path that cannot be written, an output that is an input, or two outputs whose paths lead
    /// to one place.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Outputs, BadInput> {
        let mut outputs = Outputs::default();
        let uses = paths::uses(matches);
        for (argument, path, _) in uses.iter().filter(|(.., used)| *used == PathUse::Reads) {
            for file in tidegate::workload::files_read_for(path) {
                outputs.inputs.push((argument.clone(), file));
            }
        }
        for (argument, path, _) in uses.iter().filter(|(.., used)| *used == PathUse::Writes) {
            outputs.add(argument, path)?;
        }
        Ok(outputs)
    }

    /// Checks one more output.
    ///
    /// # Errors
    ///
    /// As for [`Outputs::of`].
    pub(crate) fn add(&mut self, flag: &str, path: &Path) -> Result<(), BadInput> {
        let shown = path.display();
        let place = self.place(path).map_err(|why| BadInput(format!("{flag} {shown}: {why}")))?;
        if let Some((other, first, _)) =
            self.taken.iter().find(|(_, _, taken)| taken.is_same(&place))
        {
            return Err(BadInput(format!(
                "{flag} {shown} and {other} {} lead to the same place; give each output its own place",
                first.display()
            )));
        }
        self.taken.push((flag.to_owned(), path.to_owned(), place));
        Ok(())
    }

    /// The target of an output. Fails if it is an input.
    fn place(&self, path: &Path) -> Result<Place, String> {
        let place = Place::of(path)?;
        match self.inputs.iter().find(|(_, input)| place.is_file_of(input)) {
            Some((argument, input)) => Err(format!(
                "this file is an input ({argument} {}); name another file",
                input.display()
            )),
            None => Ok(place),
        }
    }

    /// Checks that files can be created in `folder`, and creates the folder if it is missing.
    ///
    /// # Errors
    ///
    /// A folder that cannot be created or written.
    pub(crate) fn folder(flag: &str, folder: &Path) -> Result<(), BadInput> {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("cannot create the folder: {e}"))
            .and_then(|()| place::check_folder(folder))
            .map_err(|why| BadInput(format!("{flag} {}: {why}", folder.display())))
    }

    /// Returns whether standard output is an output file; tables are then left out.
    pub(crate) fn take_stdout(&self) -> bool {
        self.taken.iter().any(|(_, _, place)| matches!(place, Place::Stdout { .. }))
    }

    /// Writes an output.
    ///
    /// # Errors
    ///
    /// The path and the system's error, or the input that is there. Errors of standard output end
    /// the process.
    pub(crate) fn write(
        &self,
        path: &Path,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), BadInput> {
        let written = match self.place(path) {
            Ok(Place::Stdout { .. }) => {
                let mut out = BufWriter::new(io::stdout().lock());
                content(&mut out)
                    .and_then(|()| out.flush())
                    .unwrap_or_else(|error| end_for_stdout(&error));
                return Ok(());
            }
            Ok(Place::Descriptor { number, .. }) => {
                place::duplicate(number).and_then(|f| fill(f, content))
            }
            Ok(Place::Stream { path, .. }) => {
                OpenOptions::new().write(true).open(path).and_then(|f| fill(f, content))
            }
            Ok(Place::File { path: target, .. }) => {
                replace(&target, content).map(|()| self.written.borrow_mut().push(absolute(path)))
            }
            Err(why) => return Err(BadInput(format!("cannot write {}: {why}", path.display()))),
        };
        written.map_err(|e| BadInput(format!("cannot write {}: {e}", path.display())))
    }

    /// A line for each file that was written. Many that follow each other in one folder share one.
    pub(crate) fn lines(&self) -> Vec<String> {
        let written = self.written.borrow();
        let mut lines = Vec::new();
        for files in written.chunk_by(|a, b| a.parent() == b.parent()) {
            match files {
                [first, .., last] if files.len() > MOST_NAMED => lines.push(format!(
                    "wrote {} files, {} to {}",
                    files.len(),
                    first.display(),
                    last.display()
                )),
                _ => lines.extend(files.iter().map(|file| format!("wrote {}", file.display()))),
            }
        }
        lines
    }

    /// Writes `value` as JSON with a newline at the end.
    ///
    /// # Errors
    ///
    /// As for [`Outputs::write`].
    pub(crate) fn write_json(
        &self,
        path: &Path,
        value: &impl serde::Serialize,
    ) -> Result<(), BadInput> {
        self.write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
            writeln!(out)
        })
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn fill(file: File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    content(&mut out)?;
    out.flush()
}

/// Replaces a regular file by a temporary beside it, or makes a new one. The temporary is removed
/// on every error.
fn replace(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let temporary = tempfile::Builder::new()
        .prefix(".tidegate-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    if let Ok(old) = std::fs::metadata(path) {
        // The owner can be kept only by root; the permissions are set after it, because a change
        // of owner clears some of them.
        let _ = fchown(temporary.as_file(), Some(old.uid()), Some(old.gid()));
        temporary.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    }
    fill(temporary.reopen()?, content)?;
    temporary.persist(path).map_err(|e| e.error)?;
    Ok(())
}
