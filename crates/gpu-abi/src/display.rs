//! The registers of the display: the scanned surface, its address, and the latched address.
//!
//! Size, pitch and flip mode are written first. The write of the address commits all four. A commit
//! at vertical sync is scanned from the next sync on; until then the previous surface is scanned.
//! An immediate commit is scanned from the next line on, even in the middle of a refresh. A commit
//! replaces an earlier one that was not latched.

use crate::Register;
use tidegate_d3dukmdt::{PixelFormat, Surface};

impl Register {
    /// Refresh period in nanoseconds; 0 without a display.
    pub const DISPLAY_PERIOD: Register = Register(512);
    /// Width of the next surface in pixels; height in the high half.
    pub const DISPLAY_SIZE: Register = Register(513);
    /// Pitch of the next surface in bytes; format in the high half.
    pub const DISPLAY_PITCH: Register = Register(514);
    /// Bus address of the next surface. The write commits the surface.
    pub const DISPLAY_ADDRESS: Register = Register(515);
    /// See [`DisplayControl`].
    pub const DISPLAY_CONTROL: Register = Register(516);
    /// Bus address of the surface latched by the last vertical sync; 0 for none.
    pub const DISPLAY_LATCHED: Register = Register(517);
    /// Whether the next commit waits for the vertical sync. See [`DisplayFlip`].
    pub const DISPLAY_FLIP: Register = Register(518);
    /// The number of display registers, starting with `DISPLAY_PERIOD`.
    pub const DISPLAY_REGISTERS: u32 = 7;
}

bitflags::bitflags! {
    /// Bits of [`Register::DISPLAY_CONTROL`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DisplayControl: u64 {
        /// The latched surface is scanned out. Without this bit the screen is dark, and no surface
        /// is read, whether latched or pending.
        const SCAN_OUT = 1;
        /// Each vertical sync raises [`crate::Cause::VSYNC`].
        const VSYNC_INTERRUPT = 1 << 1;
    }
}

bitflags::bitflags! {
    /// Bits of [`Register::DISPLAY_FLIP`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DisplayFlip: u64 {
        /// The commit waits for the next vertical sync. Without this bit the surface is
        /// taken immediately.
        const AT_VSYNC = 1;
    }
}

/// Encodes a surface for the size and pitch registers.
pub fn encode_surface(surface: &Surface) -> (u64, u64) {
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    (two(surface.width, surface.height), two(surface.pitch_bytes, surface.format as u32))
}

/// Decodes the two registers; `None` if the surface is invalid.
pub fn decode_surface(size: u64, pitch: u64) -> Option<Surface> {
    let surface = Surface {
        width: size as u32,
        height: (size >> 32) as u32,
        pitch_bytes: pitch as u32,
        format: PixelFormat::from_number((pitch >> 32) as u32)?,
    };
    surface.bytes().map(|_| surface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surface_goes_through_the_registers() {
        let surface =
            Surface { pitch_bytes: 1024, ..Surface::packed(200, 100, PixelFormat::A8R8G8B8) };
        let (size, pitch) = encode_surface(&surface);
        assert_eq!(decode_surface(size, pitch), Some(surface));
        assert_eq!(decode_surface(0, pitch), None);
        assert_eq!(decode_surface(size, u64::from(surface.pitch_bytes)), None, "no format");
    }
}
