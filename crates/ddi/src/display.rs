//! Owns the arguments of the display's entries: where a driver scans a picture from, and what a
//! display is like.
//!
//! There is one video present source and one target, both numbered 0: several displays, modes and
//! overlays are not driven.

use tidegate_d3dukmdt::Surface;
use tidegate_platform::PhysicalAddress;

/// The number of the one source (D3DDDI_VIDEO_PRESENT_SOURCE_ID).
pub const VID_PN_SOURCE: u32 = 0;
/// The number of the one target (D3DDDI_VIDEO_PRESENT_TARGET_ID).
pub const VID_PN_TARGET: u32 = 0;

/// What a driver says about the display of its adapter. The published contract has it in the modes
/// of a VidPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayCaps {
    /// How long a refresh takes, in nanoseconds; not 0.
    pub refresh_period_ns: u64,
}

bitflags::bitflags! {
    /// DXGK_SETVIDPNSOURCEADDRESS_FLAGS, as far as they are used.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SetVidPnSourceAddressFlags: u32 {
        /// The first address after a change of mode.
        const MODE_CHANGE = 1;
        /// At once, wherever the scan is: tears.
        const FLIP_IMMEDIATE = 1 << 1;
        /// At the next vertical sync. Without it the display takes the surface at once.
        const FLIP_ON_NEXT_VSYNC = 1 << 2;
    }
}

/// DXGKARG_SETVIDPNSOURCEADDRESS. The published structure names the allocation, from which a driver
/// knows the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetVidPnSourceAddress {
    /// Whose picture it is.
    pub vid_pn_source_id: u32,
    /// PrimaryAddress: where the surface stands on the bus.
    pub primary_address: PhysicalAddress,
    /// What it looks like.
    pub surface: Surface,
    /// When it is to be shown.
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
