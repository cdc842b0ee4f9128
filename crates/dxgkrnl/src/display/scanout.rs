//! Driver calls of the display: the steps of flips, and the screen across power changes.
//!
//! Invariant: one agent at a time carries out steps, with no lock held.
//!
//! Entry points: [`Display::run`], [`Display::screen_off`], [`Display::screen_on`]; the loss and
//! the end of devices.

use super::state::{Display, Flip};
use crate::error::BugCheck;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::display::VID_PN_SOURCE;
use tidegate_ddi::{
    Driver, InterruptType, Irql, OsHandle, Passive, SetVidPnSourceAddress,
    SetVidPnSourceAddressFlags,
};
use tidegate_vidsch::{FlipQueue, FlipStep, PoweredDisplay};

/// Name and result of a step's DDI call.
type Done = (&'static str, Result<(), Status>);

impl Display {
    /// Carries out steps until none is left, unless another agent does. At the first step that
    /// blocks, a work item takes over unless `blocking` gives the caller's PASSIVE level.
    pub(super) fn run(self: &Arc<Self>, level: Irql<'_>, blocking: Option<&Passive>) {
        if !self.state.lock().flips.try_take_right() {
            return;
        }
        loop {
            let step = {
                let mut state = self.state.lock();
                let refresh =
                    self.refresh_at(&state, self.objects.port.platform.now()).max(state.refresh);
                if blocking.is_none() && state.flips.needs_blocking_step(refresh) {
                    break;
                }
                state.flips.next_step(refresh, |flip| flip.address())
            };
            let (ddi, done) = match (step, blocking) {
                (Some(step), Some(blocking)) => self.carry_out(blocking, step),
                (Some(FlipStep::Flip { flip, .. }), None) => self.show(level, &flip),
                (Some(_), None) | (None, _) => return,
            };
            if let Err(status) = done {
                self.objects.port.bug_check(level, BugCheck::DdiFailed { ddi, status });
            }
        }
        self.run_later();
    }

    /// Has a work item carry out the steps.
    fn run_later(self: &Arc<Self>) {
        let display = self.clone();
        self.objects
            .port
            .timer
            .queue_work(Box::new(move |level| display.run(level.into(), Some(level))));
    }

    fn carry_out(&self, level: &Passive, step: FlipStep<Arc<Flip>>) -> Done {
        let driver = || self.objects.port.driver(level);
        match step {
            FlipStep::Vsync(on) => (
                "DxgkDdiControlInterrupt",
                driver().control_interrupt(level, InterruptType::CrtcVsync, on),
            ),
            FlipStep::Flip { flip, first } => match first.then(|| self.set_visible(level, true)) {
                Some((ddi, Err(status))) => (ddi, Err(status)),
                _ => self.show(level.into(), &flip),
            },
            FlipStep::Dark(leaving) => {
                let done = self.set_visible(level, false);
                drop(leaving);
                done
            }
            FlipStep::Restore(powered) => self.restore(level, &*driver(), powered, false),
        }
    }

    fn set_visible(&self, level: &Passive, visible: bool) -> Done {
        let done = self.objects.port.driver(level).set_vid_pn_source_visibility(
            level,
            VID_PN_SOURCE,
            visible,
        );
        ("DxgkDdiSetVidPnSourceVisibility", done)
    }

    fn show(&self, level: Irql<'_>, flip: &Flip) -> Done {
        // Before the interrupt lock: a call that wakes the device must be able to interrupt, and
        // the interrupt routine does not wait for an exclusive call of the driver.
        let driver = self.objects.port.driver(level);
        let held = self.objects.port.interrupt_lock.lock_device();
        let done = driver.set_vid_pn_source_address(&level.raise_to_dirql(&held), address_of(flip));
        ("DxgkDdiSetVidPnSourceAddress", done)
    }

    /// Handles the loss of a device: its queued flips are dropped, and its last picture stays.
    pub(crate) fn device_lost(self: &Arc<Self>, level: &Passive, device: OsHandle) {
        self.take_back(level, |flips| flips.lose(device));
    }

    /// Handles the end of a device: blanks the screen if it shows one of its pictures.
    pub(super) fn leave(self: &Arc<Self>, level: &Passive, device: OsHandle) {
        self.take_back(level, |flips| flips.leave(device));
    }

    /// Restores the screen after an adapter reset, before which it was turned off. The picture of a
    /// surviving device is shown again. Pictures of lost devices are gone.
    pub(crate) fn after_reset(self: &Arc<Self>, level: &Passive) {
        let owner = self.state.lock().flips.owner();
        let device = owner.and_then(|owner| self.objects.devices.lock().get(owner));
        if let Some(device) = device.filter(|device| device.check().is_err()) {
            self.leave(level, device.os_handle);
        }
        self.screen_on(level);
    }

    fn take_back(
        self: &Arc<Self>,
        level: &Passive,
        what: impl FnOnce(&mut FlipQueue<Arc<Flip>>) -> Vec<Arc<Flip>>,
    ) {
        let gone = {
            let mut state = self.state.lock();
            let gone = what(&mut state.flips);
            state.stats.discarded += gone.len() as u64;
            gone
        };
        drop(gone);
        self.run(level.into(), Some(level));
    }

    /// Turns the screen off before power is removed. The caller excludes other threads from
    /// the driver.
    pub(crate) fn screen_off(&self, level: &Passive) {
        let was_on = {
            let mut state = self.state.lock();
            let was_on = state.flips.is_on();
            state.flips.unpowered(|flip| flip.sync_interval);
            was_on
        };
        if !was_on {
            return;
        }
        let driver = self.objects.port.driver_as_it_is();
        // A failure does not matter on a device that loses power.
        let _ = driver.control_interrupt(level, InterruptType::CrtcVsync, false);
        let _ = driver.set_vid_pn_source_visibility(level, VID_PN_SOURCE, false);
    }

    /// Shows the last picture after power and memory are restored. The caller excludes other
    /// threads from the driver.
    pub(crate) fn screen_on(self: &Arc<Self>, level: &Passive) {
        let powered = self.state.lock().flips.powered(|flip| flip.address());
        let Some(powered) = powered else { return };
        let driver = self.objects.port.driver_as_it_is();
        let (_, done) = self.restore(level, driver, powered, true);
        debug_assert_eq!(done, Ok(()), "the driver accepted the same calls before");
        if self.state.lock().flips.programmed() {
            self.run_later();
        }
    }

    /// Programs the display after it has lost its state. `is_off` says that it is dark and without
    /// vertical syncs, so that only what is on is programmed.
    fn restore(
        &self,
        level: &Passive,
        driver: &dyn Driver,
        powered: PoweredDisplay<Arc<Flip>>,
        is_off: bool,
    ) -> Done {
        let PoweredDisplay { shown, next, vsync } = powered;
        let visible = shown.is_some() || next.is_some();
        if (vsync || !is_off)
            && let Err(status) = driver.control_interrupt(level, InterruptType::CrtcVsync, vsync)
        {
            return ("DxgkDdiControlInterrupt", Err(status));
        }
        if (visible || !is_off)
            && let Err(status) = driver.set_vid_pn_source_visibility(level, VID_PN_SOURCE, visible)
        {
            return ("DxgkDdiSetVidPnSourceVisibility", Err(status));
        }
        let held = self.objects.port.interrupt_lock.lock_device();
        let mut done = Ok(());
        for flip in shown.iter().chain(&next) {
            let shows = address_of(flip);
            done = done.and(driver.set_vid_pn_source_address(&level.raise_to_dirql(&held), shows));
        }
        ("DxgkDdiSetVidPnSourceAddress", done)
    }
}

fn address_of(flip: &Flip) -> SetVidPnSourceAddress {
    SetVidPnSourceAddress {
        vid_pn_source_id: VID_PN_SOURCE,
        primary_address: flip.allocation.at(),
        surface: flip.surface,
        // spec: PRE-018
        flags: SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
    }
}
