//! The layout of a picture in memory: size, pitch, order of bytes.

use serde::{Deserialize, Serialize};

/// A pixel's format (D3DDDIFORMAT); all of 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum PixelFormat {
    /// Bytes in the order blue, green, red, alpha.
    A8R8G8B8 = 21,
    /// Bytes in the order red, green, blue, alpha.
    A8B8G8R8 = 32,
}

impl PixelFormat {
    /// Bytes of a pixel.
    pub const BYTES: u32 = 4;

    /// Returns the format with this number.
    pub fn from_number(number: u32) -> Option<PixelFormat> {
        [PixelFormat::A8R8G8B8, PixelFormat::A8B8G8R8].into_iter().find(|f| *f as u32 == number)
    }
}

/// Limit on the pixels of a surface in either direction.
pub const MAX_SURFACE_PIXELS: u32 = 16_384;

/// A picture in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surface {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Pitch: bytes from the start of a row to the next.
    pub pitch_bytes: u32,
    /// Its format.
    pub format: PixelFormat,
}

impl Surface {
    /// Creates a surface without gaps between rows.
    pub fn packed(width: u32, height: u32, format: PixelFormat) -> Surface {
        Surface { width, height, pitch_bytes: width.saturating_mul(PixelFormat::BYTES), format }
    }

    /// Size in bytes from its first pixel to its last; `None` for an invalid surface: no pixels,
    /// too many, or rows that overlap or are not aligned to pixels.
    pub fn bytes(&self) -> Option<u64> {
        let sizes = [self.width, self.height];
        let row = self.width.checked_mul(PixelFormat::BYTES)?;
        let right = sizes.iter().all(|s| (1..=MAX_SURFACE_PIXELS).contains(s))
            && self.pitch_bytes >= row
            && self.pitch_bytes.is_multiple_of(PixelFormat::BYTES);
        right.then(|| u64::from(self.pitch_bytes) * u64::from(self.height - 1) + u64::from(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_the_headers_numbers() {
        assert_eq!((PixelFormat::A8R8G8B8 as u32, PixelFormat::A8B8G8R8 as u32), (21, 32));
        assert_eq!(PixelFormat::from_number(32), Some(PixelFormat::A8B8G8R8));
        assert_eq!(PixelFormat::from_number(22), None);
    }

    #[test]
    fn a_surface_ends_with_its_last_pixel() {
        let packed = Surface::packed(3, 2, PixelFormat::A8B8G8R8);
        assert_eq!(packed.bytes(), Some(24));
        assert_eq!(Surface { pitch_bytes: 16, ..packed }.bytes(), Some(28));
        for wrong in [
            Surface { width: 0, ..packed },
            Surface { height: 0, ..packed },
            Surface { pitch_bytes: 8, ..packed },
            Surface { pitch_bytes: 13, ..packed },
            Surface { width: u32::MAX, ..packed },
            Surface { height: MAX_SURFACE_PIXELS + 1, ..packed },
        ] {
            assert_eq!(wrong.bytes(), None, "{wrong:?}");
        }
    }
}
