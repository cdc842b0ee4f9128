//! Target `files`: workload files and recordings of every format from an unknown source.
//!
//! Invariant: a file is parsed, or refused with a message. The corpus has a small file per format.

use crate::input::Input;
use tidegate::workload::{LoadOptions, load_bytes};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    // The first byte is part of the file, so that a folder of files is a corpus. Databases are
    // recognised by more bytes.
    let name = match input.byte() {
        b'{' => "trace.json",
        // A packet of a Perfetto trace, or the header of a table.
        b'\n' | b'"' => "recording",
        _ => "workload.toml",
    };
    if let Err(error) = load_bytes(data, name, &LoadOptions::default()) {
        assert!(!error.to_string().is_empty(), "a refusal has a message");
    }
}
