//! Owns the display's side of the driver: what it declares, flips, visibility, and the vertical
//! sync interrupt.
//!
//! A flip is four register writes, of which the last, the address, commits. With FlipOnNextVSync
//! the display latches the surface at its next vertical sync; without it, at once. The kernel has
//! one flip under way at a time and holds the interrupt lock over it, so nothing is guarded here.
//! The interrupt routine reads what was latched.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::InterruptType;
use tidegate_ddi::display::{SetVidPnSourceAddressFlags, VID_PN_SOURCE};
use tidegate_ddi::{DisplayCaps, SetVidPnSourceAddress};
use tidegate_gpu_abi::Register;
use tidegate_gpu_abi::display::{DisplayControl, DisplayFlip, encode_surface};

impl ReferenceDriver {
    /// The display, if the device has one.
    pub(crate) fn display(&self) -> Option<DisplayCaps> {
        let refresh_period_ns = self.device.read_register(Register::DISPLAY_PERIOD);
        // A device that is not there reads as all ones.
        let there = refresh_period_ns != 0 && refresh_period_ns != u64::MAX;
        there.then_some(DisplayCaps { refresh_period_ns })
    }

    fn check_source(&self, vid_pn_source_id: u32) -> Result<(), KmdError> {
        if self.display().is_none() {
            return Err(KmdError::NotSupported("the device has no display"));
        }
        if vid_pn_source_id != VID_PN_SOURCE {
            return Err(KmdError::Argument("there is one video present source, number 0"));
        }
        Ok(())
    }

    /// Commits another surface.
    pub(crate) fn flip(&self, args: SetVidPnSourceAddress) -> Result<(), KmdError> {
        self.check_source(args.vid_pn_source_id)?;
        if args.flags.contains(SetVidPnSourceAddressFlags::FLIP_IMMEDIATE) {
            return Err(KmdError::NotSupported(
                "FlipImmediate: the driver declares flips at vertical syncs only",
            ));
        }
        if args.surface.bytes().is_none() {
            return Err(KmdError::Argument("a surface without pixels, or whose rows overlap"));
        }
        let (size, pitch) = encode_surface(&args.surface);
        let mut flip = DisplayFlip::empty();
        flip.set(
            DisplayFlip::AT_VSYNC,
            args.flags.contains(SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC),
        );
        self.device.write_register(Register::DISPLAY_FLIP, flip.bits());
        self.device.write_register(Register::DISPLAY_SIZE, size);
        self.device.write_register(Register::DISPLAY_PITCH, pitch);
        self.device.write_register(Register::DISPLAY_ADDRESS, args.primary_address.0);
        Ok(())
    }

    /// Turns the screen on or off.
    pub(crate) fn show(&self, vid_pn_source_id: u32, visible: bool) -> Result<(), KmdError> {
        self.check_source(vid_pn_source_id)?;
        self.control(DisplayControl::SCAN_OUT, visible);
        Ok(())
    }

    /// Turns the interrupt of vertical syncs on or off.
    pub(crate) fn control_vsync(
        &self,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), KmdError> {
        self.check_source(VID_PN_SOURCE)?;
        if interrupt_type != InterruptType::CrtcVsync {
            return Err(KmdError::NotSupported(
                "the vertical sync is the one interrupt that can be turned off",
            ));
        }
        self.control(DisplayControl::VSYNC_INTERRUPT, enable);
        Ok(())
    }

    fn control(&self, bit: DisplayControl, on: bool) {
        let bits = self.device.read_register(Register::DISPLAY_CONTROL);
        let mut control = DisplayControl::from_bits_truncate(bits);
        control.set(bit, on);
        self.device.write_register(Register::DISPLAY_CONTROL, control.bits());
    }
}
