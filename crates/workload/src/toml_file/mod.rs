//! Reads TOML workloads to [`Workload`], or to a list of mistakes with their places. `SCHEMA.md`
//! has the schema.
//!
//! 1. Constants (`[let]`).
//! 2. Names of buffers, fences and queues (`objects`).
//! 3. Programs and threads (`program`), expectations (`expected`).
//! 4. Checks before a run (`static_check`).
//!
//! Each step continues after a mistake, so that one reading reports them all. A file with a mistake
//! yields no workload.

mod expected;
mod fields;
mod names;
mod objects;
mod operation;
mod program;
mod reader;
mod static_check;

use toml::de::DeTable;

use crate::error::{Error, Problem};
use crate::model::Workload;
pub use names::Constants;
use names::Symbols;
use reader::{Reader, Section};

/// Reads a workload from TOML text; `file` is its name for messages.
///
/// # Errors
/// [`Error::Invalid`] with every mistake found.
pub fn parse(text: &str, file: &str) -> Result<Workload, Error> {
    parse_with(text, file, &Constants::new())
}

/// Reads as [`parse`] does, with these values in place of the file's for constants of `[let]`.
///
/// # Errors
/// [`Error::Invalid`] with every mistake found, and each name that is not a constant of the file.
pub fn parse_with(text: &str, file: &str, constants: &Constants) -> Result<Workload, Error> {
    let reader = Reader::new(text);
    let (table, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, format!("not valid TOML: {}", one_line(error.message())));
    }
    // Mistakes that follow from a syntax error would hide it.
    let workload =
        if syntax.is_empty() { read(&reader, table.get_ref(), file, constants) } else { None };
    let problems = reader.into_problems();
    match workload {
        Some(workload) if problems.is_empty() => Ok(workload),
        _ => Err(Error::Invalid { file: file.into(), problems }),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read<'i>(
    reader: &Reader,
    table: &DeTable<'i>,
    file: &str,
    constants: &Constants,
) -> Option<Workload> {
    let top = Section::new(reader, table, 0, "the workload");
    let name = top.string("name").unwrap_or_else(|| stem(file));
    let description = top.string("description").unwrap_or_default();
    let mut symbols = Symbols::new(reader);
    symbols.read_constants(&top, constants);
    let scale = symbols.scale(&top);
    let local_memory_bytes = top.get("local_memory_bytes").is_some();
    let local_memory_bytes = local_memory_bytes
        .then(|| symbols.constant(&top, "local_memory_bytes", u64::MAX))
        .flatten();
    let mut objects = objects::read(&top, &mut symbols);
    let display = objects::read_display(&top, &symbols, &mut objects);
    let threads = program::read(&top, &symbols, &objects);
    let expects = expected::read(&top, &symbols);
    let frames = objects::read_frames(&top, &symbols);
    top.finish();
    let objects = objects.into_parts();
    let mut workload = Workload {
        name,
        description: description.trim().to_owned(),
        file: file.to_owned(),
        scale,
        local_memory_bytes,
        buffers: objects.0,
        queues: objects.1,
        fences: objects.2,
        threads: threads?,
        expects,
        frames,
        display,
        marks: 0,
        recorded: None,
        warnings: Vec::new(),
    };
    if workload.threads.is_empty() {
        reader.problem(0, "nothing to do: give a [[queue]] a program, or add a [[thread]]".into());
    }
    let warnings: Vec<Problem> = static_check::check(&workload, reader);
    workload.warnings = warnings;
    Some(workload)
}

fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".toml").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests;
