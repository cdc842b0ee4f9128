//! What the lower layers need of the upper ones.

use super::Adapter;
use crate::display;
use crate::interrupt;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::{DisplayPort, FlipDesc, RecoveryPort};
use crate::recovery::device_loss;
use crate::scheduling::{ReportPort, SignalAction};
use std::sync::Arc;
use tidegate_calls::{Status, TdrTest};
use tidegate_ddi::{EngineId, OsHandle, Passive};
use tidegate_platform::QueueNumber;

impl RecoveryPort for Adapter {
    fn is_blocked(&self, address_space: u32) -> bool {
        self.recovery.is_blocked(address_space)
    }

    fn debug_timeouts(self: Arc<Self>, test: TdrTest) -> Result<(), Status> {
        Adapter::debug_timeouts(&self, test)
    }

    fn commands_refused(
        self: Arc<Self>,
        device: &Arc<Device>,
        engine: EngineId,
        of: (QueueNumber, u64, u64),
    ) {
        device_loss::commands_refused(&self, device, engine, of);
    }

    fn split_refused(self: Arc<Self>, context: &Arc<Context>, offset: u32, what: String) {
        device_loss::split_refused(&self, context, offset, what);
    }
}

impl DisplayPort for Adapter {
    fn begin_flip(
        self: Arc<Self>,
        device: &Arc<Device>,
        desc: FlipDesc,
    ) -> Result<Box<dyn SignalAction>, Status> {
        Ok(display::begin(&self, device, desc)?)
    }

    fn wait_for_vertical_blank(self: Arc<Self>) -> Result<(), Status> {
        display::wait_for_vertical_blank(&self)
    }

    fn device_ends(self: Arc<Self>, level: &Passive, device: OsHandle) {
        display::leave(&self, level, device);
    }
}

impl ReportPort for Adapter {
    fn serve_reports(self: Arc<Self>) {
        interrupt::serve_reports(&self);
    }

    fn flush_reports(&self) {
        interrupt::flush(self);
    }

    fn take_overdue_reports(self: Arc<Self>) {
        interrupt::take_overdue(&self);
    }

    fn ignore_packets(&self, engine: EngineId) -> Option<u32> {
        interrupt::ignore(self, engine)
    }

    fn heed_packets(&self, engine: EngineId) {
        interrupt::count_again(self, engine);
    }
}
