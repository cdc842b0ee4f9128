//! Power transitions of one adapter, with its objects, counted calls and display.

use super::state::{Device, EngineState, Power};
use crate::display::Display;
use crate::object::Objects;
use crate::object::hw_queue::HwQueue;
use crate::suspension::{self, Suspendable, Suspended};
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{ComponentState, DevicePowerState, EngineId, Passive};
use tidegate_platform::planted;

/// The power transitions of one adapter.
pub(crate) struct PowerTransitions {
    pub(super) objects: Arc<Objects>,
    pub(super) power: Arc<Power>,
    /// `None` for a render-only adapter.
    pub(super) display: Option<Arc<Display>>,
}

impl PowerTransitions {
    pub(crate) fn new(
        objects: &Arc<Objects>,
        power: &Arc<Power>,
        display: Option<&Arc<Display>>,
    ) -> Arc<PowerTransitions> {
        let (objects, power, display) = (objects.clone(), power.clone(), display.cloned());
        Arc::new(PowerTransitions { objects, power, display })
    }

    /// Returns the device's power state.
    pub(crate) fn device_state(&self) -> DevicePowerState {
        match self.power.state.lock().device {
            Device::D0 | Device::GoingDown => DevicePowerState::D0,
            Device::Changing(_) | Device::D3 => DevicePowerState::D3,
        }
    }

    /// Returns the engine's own power state. An engine in F0 has no power while its adapter is
    /// in D3.
    ///
    /// # Panics
    /// If there is no such engine.
    pub(crate) fn engine_state(&self, engine: EngineId) -> ComponentState {
        match self.power.state.lock().engines[engine].state {
            EngineState::F0 | EngineState::GoingDown => ComponentState::F0,
            EngineState::Changing(_) | EngineState::F1 => ComponentState::F1,
        }
    }

    /// Takes every hardware context off the run list until the returned hold ends. Blocks until the
    /// driver has acknowledged, for at most the TDR delay.
    ///
    /// # Errors
    /// DEVICE_REMOVED when a driver contract was broken.
    pub(crate) fn suspend_contexts(&self, level: &Passive) -> Result<Suspended, Status> {
        self.objects.port.check()?;
        Ok(self.hold_all_contexts(level))
    }

    pub(super) fn hold_all_contexts(&self, level: &Passive) -> Suspended {
        let contexts = self.objects.hw_contexts_of(|_| true).into_iter();
        let contexts = contexts.map(|context| context as Arc<dyn Suspendable>);
        suspension::hold(&self.objects.port, level, contexts.collect())
    }

    pub(super) fn must_be_managed(&self) -> Result<(), Status> {
        self.objects.port.check()?;
        if self.power.is_managed() { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
    }

    /// Returns whether the engines selected by `of` have announced, incomplete work.
    pub(super) fn has_announced_work(&self, of: impl Fn(EngineId) -> bool) -> bool {
        let (objects, platform) = (&self.objects, &self.objects.port.platform);
        if planted!(platform, AnnouncedWorkUnseen) {
            return false;
        }
        platform.fence();
        let announced = objects.doorbells_of(|d| of(d.queue.engine()) && d.has_work()).next();
        announced.is_some() || self.has_kernel_mode_work(of)
    }

    /// Returns whether the engines selected by `of` have incomplete work of kernel-mode queues.
    pub(super) fn has_kernel_mode_work(&self, of: impl Fn(EngineId) -> bool) -> bool {
        let objects = &self.objects;
        let kernel = |q: &HwQueue| of(q.engine()) && !q.user_mode_submission && q.has_work(objects);
        !objects.hw_queues_of(kernel).is_empty()
    }
}
