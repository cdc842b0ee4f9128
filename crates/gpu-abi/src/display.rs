//! Owns the registers of the display: what is scanned out, from where, and what has been latched.
//!
//! Size, pitch and the moment of the flip are written first; the write of the address commits all
//! four. A commit that waits for the vertical sync is scanned from the next one on; until then the
//! surface before it is scanned. A commit that does not wait is scanned from the next line on, in
//! the middle of a refresh too. A commit before the last one was latched replaces it.

use crate::Register;
use tidegate_d3dukmdt::{PixelFormat, Surface};

impl Register {
    /// How long a refresh takes, in nanoseconds; 0 where there is no display.
    pub const DISPLAY_PERIOD: Register = Register(512);
    /// Width of the next surface in pixels, and in the high half its height.
    pub const DISPLAY_SIZE: Register = Register(513);
    /// Pitch of the next surface in bytes, and in the high half its format.
    pub const DISPLAY_PITCH: Register = Register(514);
    /// A write commits the next surface: where it stands on the bus.
    pub const DISPLAY_ADDRESS: Register = Register(515);
    /// What the display does; see [`DisplayControl`].
    pub const DISPLAY_CONTROL: Register = Register(516);
    /// Where the surface stands that was latched by the last vertical sync; 0 for none.
    pub const DISPLAY_LATCHED: Register = Register(517);
    /// Whether the next commit waits for the vertical sync; see [`DisplayFlip`].
    pub const DISPLAY_FLIP: Register = Register(518);
    /// The number of registers of a display, from the first one on.
    pub const DISPLAY_REGISTERS: u32 = 7;
}

bitflags::bitflags! {
    /// Bits of [`Register::DISPLAY_CONTROL`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DisplayControl: u64 {
        /// The latched surface is scanned out. Without it the screen is dark, and no surface is
        /// read, latched or pending.
        const SCAN_OUT = 1;
        /// Each vertical sync raises [`crate::Cause::VSYNC`].
        const VSYNC_INTERRUPT = 1 << 1;
    }
}

bitflags::bitflags! {
    /// Bits of [`Register::DISPLAY_FLIP`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DisplayFlip: u64 {
        /// The commit waits for the next vertical sync. Without it the display takes the surface at
        /// once.
        const AT_VSYNC = 1;
    }
}

/// A surface as the size and pitch registers hold it.
pub fn encode_surface(surface: &Surface) -> (u64, u64) {
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    (two(surface.width, surface.height), two(surface.pitch_bytes, surface.format as u32))
}

/// Reads the two registers; `None` when they hold no surface that makes sense.
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
