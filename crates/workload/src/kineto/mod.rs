//! Reads PyTorch profiler (Kineto) traces: JSON, plain or packed, becomes a [`Recording`].
//!
//! Order: bytes (`unpack`) → JSON, mended where a profiler writes what is none (`repair`) → events of interest
//! (`event`) → records. `recording` makes the workload.
//! Entry point: [`import`].

mod event;
mod number;
mod repair;
mod unpack;

use crate::error::Error;
use crate::model::Workload;
use crate::recording::{self, ImportOptions};

pub use unpack::LARGEST_TRACE_BYTES;

/// Whether these bytes look like a packed or plain JSON trace.
pub fn looks_like_trace(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(event::BYTE_ORDER_MARK).unwrap_or(bytes);
    unpack::is_packed(bytes)
        || text.iter().find(|b| !b.is_ascii_whitespace()).is_some_and(|b| matches!(b, b'{' | b'['))
}

/// Reads a trace. `file` is its name for messages.
///
/// # Errors
/// [`Error::Trace`] for a packed file that is cut short, JSON that is not whole or not a trace, and traces without
/// any GPU work.
pub fn import(bytes: &[u8], file: &str, options: &ImportOptions) -> Result<Workload, Error> {
    let wrong = |text: String| Error::Trace { file: file.to_owned(), text };
    let mut text = unpack::unpack(bytes).map_err(wrong)?;
    let recording = event::read(&mut text).map_err(wrong)?;
    drop(text);
    recording::workload(recording, file, options)
}

#[cfg(test)]
mod tests;
