//! The devices whose work hung or was interrupted by a reset (decision 141). The driver names
//! contexts by DxgkCbInvalidateHwContext.
//!
//! Invariant: the callback is accepted only while a reset collects, and recoveries are serialised.
//!
//! Entry points: [`ContextLosses::collect`] (around the DDI call), [`ContextLosses::note`] (the
//! callback).

use super::report::WorkAtReset;
use crate::object::context::Context;
use crate::object::device::Device;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{HwContextLoss, OsHandle};
use tidegate_platform::{Mutex, Platform};

/// A device at fault, and which of its work the engine ran.
#[derive(Clone)]
pub(super) struct Culprit {
    pub(super) device: Arc<Device>,
    /// The context whose work the engine ran; `None` if unknown.
    pub(super) context: Option<OsHandle>,
    /// The packet that the engine ran; `None` for a hardware queue, or if unknown.
    pub(super) packet: Option<u32>,
}

impl Culprit {
    /// The device of which only the fault is known.
    pub(super) fn of_device(device: Arc<Device>) -> Culprit {
        Culprit { device, context: None, packet: None }
    }

    /// Work of a context ran.
    pub(super) fn of_context(context: &Context) -> Culprit {
        let (device, context) = (context.device.clone(), Some(context.os_handle));
        Culprit { device, context, packet: None }
    }

    /// Returns the index of its work: what the engine ran, or else the first of its device. Returns
    /// whether the engine's facts name it.
    // spec: PRE-104
    pub(super) fn find_work(&self, work: &[WorkAtReset]) -> Option<(usize, bool)> {
        let known = |work: &WorkAtReset| {
            let by_packet = self.packet.is_some_and(|id| u64::from(id) == work.fence_id);
            let by_context = self.context == Some(work.context);
            (by_context && by_packet, by_context && work.running, by_context, work.running)
        };
        let own = work.iter().enumerate().filter(|(_, w)| w.device == self.device.os_handle);
        // The first of equals.
        let (at, found) = own.rev().max_by_key(|(_, work)| known(work))?;
        Some((at, known(found) != (false, false, false, false)))
    }
}

/// The devices whose work the resets of one recovery interrupted.
#[derive(Default)]
pub(super) struct Blame {
    pub(super) culprits: Vec<Culprit>,
    pub(super) bystanders: Vec<Arc<Device>>,
}

impl Blame {
    /// Blames the suspects if the driver has named no culprit.
    pub(super) fn fall_back_to(&mut self, suspects: &[Culprit]) {
        if self.culprits.is_empty() {
            self.culprits.extend_from_slice(suspects);
        }
    }
}

type Losses = Vec<(Arc<Context>, HwContextLoss)>;

/// The contexts named by the driver during a reset; `None` outside a reset.
pub(super) struct ContextLosses(Mutex<Option<Losses>>);

impl ContextLosses {
    pub(super) fn new(platform: &Platform) -> ContextLosses {
        ContextLosses(platform.mutex("contexts that a reset cut off", None))
    }

    /// Runs the reset DDI call and adds the devices named during it to `blame`.
    pub(super) fn collect<R>(&self, blame: &mut Blame, reset: impl FnOnce() -> R) -> R {
        *self.0.lock() = Some(Vec::new());
        let outcome = reset();
        let named = self.0.lock().take().unwrap_or_default();
        for (context, loss) in named {
            match loss {
                HwContextLoss::Culprit => blame.culprits.push(Culprit::of_context(&context)),
                HwContextLoss::Bystander => blame.bystanders.push(context.device.clone()),
            }
        }
        outcome
    }

    /// Records what a reset did to a context.
    ///
    /// # Errors
    /// INVALID_PARAMETER outside a reset.
    pub(super) fn note(&self, context: Arc<Context>, loss: HwContextLoss) -> Result<(), Status> {
        let refused = match &mut *self.0.lock() {
            Some(named) => {
                named.push((context, loss));
                None
            }
            None => Some(context),
        };
        if refused.is_some() { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
    }
}
