//! Vertical syncs: latched flips and waiters.

use super::state::Display;
use crate::error::BugCheck;
use crate::fence::signal;
use crate::wait_classes::VERTICAL_SYNC;
use std::sync::Arc;
use tidegate_calls::{SignalFlags, Status};
use tidegate_ddi::display::VID_PN_TARGET;
use tidegate_ddi::{Irql, Passive};
use tidegate_platform::{PhysicalAddress, Step, WaitEnd};
use tidegate_trace::{Kind, NameId, Record};
use tidegate_vidsch::LatchedFlip;

impl Display {
    /// DXGK_INTERRUPT_CRTC_VSYNC: a vertical sync latched the surface at `address`.
    pub(crate) fn vsync(self: &Arc<Self>, level: Irql<'_>, target: u32, address: PhysicalAddress) {
        let port = &self.objects.port;
        if target != VID_PN_TARGET {
            return port.bug_check(level, BugCheck::UnknownVidPnTarget(target));
        }
        let now = port.platform.now();
        let (latched, waiters) = {
            let mut state = self.state.lock();
            let refresh = self.refresh_reported(&mut state, now);
            state.stats.vsyncs += 1;
            let latched = state.flips.latched(address.0, refresh, |flip| flip.sync_interval);
            if let Some(latched) = &latched {
                self.count(&mut state, latched, refresh, now);
            }
            state.flips.watch(false);
            (latched, std::mem::take(&mut state.waiters))
        };
        self.record(|lane, now_ns| Record::instant(lane, Kind::VSync, NameId::NONE, now_ns));
        if let Some(LatchedFlip { flip, replaced, .. }) = latched {
            let of =
                |lane, now_ns| Record::span(lane, Kind::Flip, NameId::NONE, flip.queued_ns, now_ns);
            self.record(of);
            // Free the surface before the signal that reports it free.
            drop(replaced);
            if let Some(shown) = flip.shown.clone() {
                signal::signal(level, &[shown], SignalFlags::empty());
            }
        }
        waiters.iter().for_each(|event| event.set(Step::ThreadWake));
        self.run(level, None);
    }

    /// Blocks until the next vertical sync.
    ///
    /// # Errors
    /// CANCELLED when the machine stopped.
    pub(super) fn wait_for_vertical_blank(self: &Arc<Self>, level: &Passive) -> Result<(), Status> {
        let port = &self.objects.port;
        let event = port.platform.event(true);
        {
            let mut state = self.state.lock();
            state.waiters.push(event.clone());
            state.flips.watch(true);
        }
        // A removal releases only the waiters registered before it began.
        port.check()?;
        self.run(level.into(), Some(level));
        match event.wait_for(None, &VERTICAL_SYNC) {
            WaitEnd::Stopped => Err(Status::CANCELLED),
            _ => port.check(),
        }
    }
}
