//! Owns the target `files`: workload files and recorded traces from people whom nobody knows. They are read, and either mean something
//! or are refused with a message.

use crate::input::Input;
use tidegate::workload::{LoadOptions, load_bytes};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let name = if input.byte() == b'{' { "trace.json" } else { "workload.toml" };
    // The first byte belongs to the file: a corpus of files is one of inputs.
    if let Err(error) = load_bytes(data, name, &LoadOptions::default()) {
        assert!(!error.to_string().is_empty(), "a refusal says why");
    }
}
