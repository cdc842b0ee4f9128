//! Unpacks gzip files.
//!
//! Invariant: the unpacked length is bounded by [`LARGEST_TRACE_BYTES`].
//! Entry points: [`is_packed`], [`unpack`].

use std::io::Read;

/// The longest trace that is read, unpacked. A small packed file can claim to be endless.
pub const LARGEST_TRACE_BYTES: u64 = 4 << 30;

/// Whether these bytes are gzip.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// The bytes of a packed trace. Other bytes are returned as they are.
///
/// # Errors
/// A sentence: packed data that is damaged, cut short or too long.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if !is_packed(&bytes) {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    // Several members one after the other are one file.
    let mut reader = flate2::bufread::MultiGzDecoder::new(bytes.as_slice()).take(LARGEST_TRACE_BYTES + 1);
    match reader.read_to_end(&mut text) {
        Ok(_) if text.len() as u64 > LARGEST_TRACE_BYTES => Err(format!(
            "the trace is longer than {} GiB when unpacked; record a shorter window",
            LARGEST_TRACE_BYTES >> 30
        )),
        Ok(_) => Ok(text),
        Err(error) => Err(format!(
            "the packed data is damaged or cut short after {} bytes of {} unpacked ({error}); \
             copy the file again or record it again",
            text.len(),
            bytes.len()
        )),
    }
}
