//! Arguments of the display entries, and the caps of a display.
//!
//! There is one video present source and one target, both numbered 0. Several displays, modes and
//! overlays are not supported.

use tidegate_d3dukmdt::Surface;
use tidegate_platform::PhysicalAddress;

/// The number of the source (D3DDDI_VIDEO_PRESENT_SOURCE_ID).
pub const VID_PN_SOURCE: u32 = 0;
/// The number of the target (D3DDDI_VIDEO_PRESENT_TARGET_ID).
pub const VID_PN_TARGET: u32 = 0;

/// Caps of an adapter's display. The published contract has them in the modes of a VidPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayCaps {
    /// Refresh period in nanoseconds; not 0.
    pub refresh_period_ns: u64,
}

bitflags::bitflags! {
    /// DXGK_SETVIDPNSOURCEADDRESS_FLAGS, those in use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SetVidPnSourceAddressFlags: u32 {
        /// The first address after a change of mode.
        const MODE_CHANGE = 1;
        /// Flip immediately, wherever the scan is; the picture tears.
        const FLIP_IMMEDIATE = 1 << 1;
        /// Flip at the next vertical sync. Without this flag the flip is immediate.
        const FLIP_ON_NEXT_VSYNC = 1 << 2;
    }
}

/// DXGKARG_SETVIDPNSOURCEADDRESS. The published structure names the allocation instead of the
/// surface ([`crate::PrimaryDdi`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetVidPnSourceAddress {
    /// The video present source.
    pub vid_pn_source_id: u32,
    /// PrimaryAddress: bus address of the surface.
    pub primary_address: PhysicalAddress,
    /// Format and size.
    pub surface: Surface,
    /// Time of the flip.
    pub flags: SetVidPnSourceAddressFlags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flip_flags_have_their_published_bits() {
        assert_eq!(SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC.bits(), 4);
        assert_eq!(SetVidPnSourceAddressFlags::all().bits(), 7);
    }
}
