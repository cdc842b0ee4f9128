//! The devices whose work a reset interrupted, as reported by DxgkCbInvalidateHwContext.
//!
//! Invariant: the callback is accepted only while a reset collects, and recoveries are serialised.
//!
//! Entry points: [`ContextLosses::collect`] (around the DDI call), [`ContextLosses::note`] (the
//! callback).

use crate::object::context::Context;
use crate::object::device::Device;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::HwContextLoss;
use tidegate_platform::{Mutex, Platform};

/// The devices whose work a reset interrupted.
#[derive(Default)]
pub(super) struct Blame {
    pub(super) culprits: Vec<Arc<Device>>,
    pub(super) bystanders: Vec<Arc<Device>>,
}

type Losses = Vec<(Arc<Context>, HwContextLoss)>;

/// The contexts named by the driver during a reset; `None` outside a reset.
pub(super) struct ContextLosses(Mutex<Option<Losses>>);

impl ContextLosses {
    pub(super) fn new(platform: &Platform) -> ContextLosses {
        ContextLosses(platform.mutex("contexts that a reset cut off", None))
    }

    /// Runs the reset DDI call and returns the devices named during it.
    pub(super) fn collect<R>(&self, reset: impl FnOnce() -> R) -> (R, Blame) {
        *self.0.lock() = Some(Vec::new());
        let outcome = reset();
        let named = self.0.lock().take().unwrap_or_default();
        let mut blame = Blame::default();
        for (context, loss) in named {
            match loss {
                HwContextLoss::Culprit => blame.culprits.push(context.device.clone()),
                HwContextLoss::Bystander => blame.bystanders.push(context.device.clone()),
            }
        }
        (outcome, blame)
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
