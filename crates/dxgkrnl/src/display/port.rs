//! The display as the objects see it.

use super::flip;
use super::state::Display;
use crate::object::device::Device;
use crate::object::{DisplayPort, FlipDesc};
use crate::scheduling::SignalAction;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{Irql, OsHandle, Passive};

impl DisplayPort for Display {
    fn begin_flip(
        self: Arc<Self>,
        level: Irql<'_>,
        device: &Arc<Device>,
        desc: FlipDesc,
    ) -> Result<Box<dyn SignalAction>, Status> {
        Ok(flip::begin(level, &self, device, desc)?)
    }

    fn wait_for_vertical_blank(self: Arc<Self>, level: &Passive) -> Result<(), Status> {
        Display::wait_for_vertical_blank(&self, level)
    }

    fn device_ends(self: Arc<Self>, level: &Passive, device: OsHandle) {
        self.leave(level, device);
    }
}
