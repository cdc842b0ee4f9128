//! The display calls of a process: what the adapter shows, flips, and vertical syncs.

use super::Process;
use super::calls::entered;
use crate::object::device::Device;
use crate::object::port::FlipDesc;
use crate::scheduling::{Signal, SignalAction};
use std::sync::Arc;
use tidegate_calls::{DisplayInfo, Present, PresentQueue, SignalFlags, Status};
use tidegate_ddi::{EntryGroup, Passive};

impl Process {
    pub(super) fn display(&self) -> Option<DisplayInfo> {
        let caps = self.objects.port.declared.caps.display?;
        Some(DisplayInfo { refresh_period_ns: caps.refresh_period_ns })
    }

    pub(super) fn present(&self, args: Present) -> Result<(), Status> {
        let level = &entered();
        let desc = || {
            let shown = args
                .shown
                .map(|shown| self.signal_targets(&[shown], SignalFlags::empty()))
                .transpose()?;
            Ok(FlipDesc {
                vid_pn_source_id: args.vid_pn_source_id,
                allocation: self.allocation(args.allocation)?,
                surface: args.surface,
                sync_interval: args.sync_interval,
                shown: shown.and_then(|mut targets| targets.pop()),
            })
        };
        match args.queue {
            PresentQueue::Context(context) => {
                let context = self.context(context)?;
                context.device.check()?;
                self.take_room(1)?;
                let flip = self.begin_flip(level, &context.device, desc()?)?;
                self.objects.sched.signal(level, &[context.scheduled()], Signal::action(flip));
            }
            PresentQueue::HwQueue(queue) => {
                let queue = self.hw_queue(queue)?;
                queue.device.check()?;
                if queue.user_mode_submission {
                    return Err(Status::GRAPHICS_PRESENT_DENIED);
                }
                self.take_room(1)?;
                let flip = self.begin_flip(level, &queue.device, desc()?)?;
                self.objects.sched.signal(level, &[queue.scheduled()], Signal::action(flip));
            }
        }
        Ok(())
    }

    pub(super) fn wait_for_vertical_blank_event(&self) -> Result<(), Status> {
        let level = &entered();
        self.objects.display.get().ok_or(Status::NOT_SUPPORTED)?.wait_for_vertical_blank(level)
    }

    fn begin_flip(
        &self,
        level: &Passive,
        device: &Arc<Device>,
        desc: FlipDesc,
    ) -> Result<Box<dyn SignalAction>, Status> {
        let display = self.objects.display.get().ok_or(Status::NOT_SUPPORTED)?;
        let driver = self.objects.port.driver(level);
        if driver.has(EntryGroup::Primaries) {
            driver.create_primary(level, desc.surface)?;
        }
        display.begin_flip(level.into(), device, desc)
    }
}
