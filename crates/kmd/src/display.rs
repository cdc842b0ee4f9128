//! The driver's display entries: capabilities, flips, visibility, and the vertical sync interrupt.
//!
//! A flip is four register writes. The last one, the address, commits it. With FlipOnNextVSync the
//! display latches the surface at its next vertical sync, otherwise immediately. The kernel has one
//! flip in flight at a time and holds the interrupt lock over it, so these entries take no lock.
//! The interrupt routine reads which surface was latched.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::InterruptType;
use tidegate_ddi::display::{SetVidPnSourceAddressFlags, VID_PN_SOURCE};
use tidegate_ddi::{DisplayCaps, SetVidPnSourceAddress};
use tidegate_gpu_abi::Register;
use tidegate_gpu_abi::display::{DisplayControl, DisplayFlip, encode_surface};

impl ReferenceDriver {
    /// Returns the capabilities of the display, if the device has one.
    pub(crate) fn display(&self) -> Option<DisplayCaps> {
        let refresh_period_ns = self.device.read_register(Register::DISPLAY_PERIOD);
        // An absent device reads as all ones.
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

    /// Commits another surface for the display to show.
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

    /// Enables or disables the vertical sync interrupt.
    pub(crate) fn control_vsync(
        &self,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), KmdError> {
        self.check_source(VID_PN_SOURCE)?;
        if interrupt_type != InterruptType::CrtcVsync {
            return Err(KmdError::NotSupported(
                "only the vertical sync interrupt can be turned off",
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
