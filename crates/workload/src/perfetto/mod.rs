//! Reads Perfetto traces with GPU work.
//!
//! Purpose: packets (`packets`) become a recording in one of three ways: GPU render stages
//! (`stages`), kernels and copies of rocprofv3 (`rocprof`), or lanes that tidegate wrote itself
//! (`own`). Invariant: a trace without GPU work is refused with the data sources that would record
//! it. Entry points: [`is_trace`], [`read`].

mod clocks;
mod own;
mod packets;
mod rocprof;
mod stages;

use crate::recording::Recording;
use packets::Packets;
use tidegate_trace::perfetto::wire::{Fields, Value};

/// Packets that are read before a file counts as a trace.
const PROBED_PACKETS: usize = 4;

/// Whether these bytes are packets: messages in field 1, and not text.
pub fn is_trace(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(256)];
    let control = |byte: &u8| *byte < 0x20 && !matches!(*byte, b'\n' | b'\r' | b'\t');
    if std::str::from_utf8(bytes).is_ok() && !head.iter().any(control) {
        return false;
    }
    let mut packets = Fields::of(bytes).take(PROBED_PACKETS).peekable();
    // The last packet of a truncated trace is damaged. The first one identifies the file.
    matches!(packets.peek(), Some(Some((1, Value::Bytes(packet)))) if Fields::of(packet).all(|field| field.is_some()))
        && packets.flatten().all(|(field, value)| field == 1 && matches!(value, Value::Bytes(_)))
}

/// Reads a trace.
///
/// # Errors
/// Bytes that are not packets, or a trace without GPU work.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    let packets = packets::read(bytes)?;
    if own::is_own(&packets) {
        return own::read(packets);
    }
    if rocprof::is_rocprof(&packets) {
        return Ok(rocprof::read(packets));
    }
    if packets.stages.is_empty() {
        return Err(without_work(&packets));
    }
    Ok(stages::read(packets))
}

fn without_work(packets: &Packets) -> String {
    format!(
        "a Perfetto trace without GPU work ({} packets, {} slices); record with a GPU render stage data source \
         such as gpu.renderstages, or give the trace of rocprofv3",
        packets.packets,
        packets.slices.len()
    )
}

#[cfg(test)]
pub(crate) mod tests;
