//! Unpacks gzip files while they are read.
//!
//! Invariant: the unpacked length is bounded by [`LARGEST_TRACE_BYTES`].
//! Entry point: [`Unpacked`].

use std::io::{BufRead, Error, Read, Result};

use flate2::bufread::MultiGzDecoder;

/// The longest trace that is read, unpacked, in bytes. A small packed file can claim to be endless.
pub const LARGEST_TRACE_BYTES: u64 = 4 << 30;

/// Whether a file that begins with these bytes is gzip.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// The content of a file, unpacked where it is packed. Its errors are complete messages.
pub struct Unpacked<R> {
    file: Kind<R>,
    /// Bytes read so far.
    bytes: u64,
}

enum Kind<R> {
    Plain(R),
    /// Several members one after the other are one file.
    Packed(Box<MultiGzDecoder<R>>),
}

impl<R: BufRead> Unpacked<R> {
    /// # Errors
    /// Errors of the file's reader.
    pub fn new(mut file: R) -> Result<Self> {
        let packed = is_packed(file.fill_buf()?);
        let file = if packed {
            Kind::Packed(Box::new(MultiGzDecoder::new(file)))
        } else {
            Kind::Plain(file)
        };
        Ok(Self { file, bytes: 0 })
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let at = self.bytes;
        let read = match &mut self.file {
            Kind::Plain(file) => file.read(out).map_err(|error| {
                Error::new(error.kind(), format!("it cannot be read beyond byte {at}: {error}"))
            }),
            Kind::Packed(file) => file.read(out).map_err(|error| {
                let text = format!(
                    "the packed data is damaged or cut short after {at} bytes unpacked ({error}); \
                     copy the file again or record it again"
                );
                Error::new(error.kind(), text)
            }),
        }?;
        self.bytes += read as u64;
        if self.bytes > LARGEST_TRACE_BYTES {
            let most = LARGEST_TRACE_BYTES >> 30;
            return Err(Error::other(format!(
                "longer than {most} GiB when unpacked; record a shorter window"
            )));
        }
        Ok(read)
    }
}
