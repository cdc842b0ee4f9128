//! The interrupt state of one adapter: the objects that interrupts need, and pending reports.

use super::report::DpcQueue;
use crate::display::Display;
use crate::driver::DriverPort;
use crate::object::Objects;
use crate::power::PowerTransitions;
use crate::recovery::Recovery;
use std::sync::Arc;
use tidegate_platform::{Mutex, ServiceHandle};

/// The interrupts of one adapter.
pub(crate) struct Interrupts {
    pub(super) objects: Arc<Objects>,
    pub(super) port: Arc<DriverPort>,
    /// `None` for a render-only adapter.
    pub(super) display: Option<Arc<Display>>,
    pub(super) power: Arc<PowerTransitions>,
    pub(super) recovery: Arc<Recovery>,
    pub(super) dpc: DpcQueue,
    /// Runs interrupts and DPCs, if they have their own agent.
    pub(super) worker: Mutex<Option<ServiceHandle>>,
}

impl Interrupts {
    pub(crate) fn new(
        objects: &Arc<Objects>,
        display: Option<&Arc<Display>>,
        power: &Arc<PowerTransitions>,
        recovery: &Arc<Recovery>,
    ) -> Arc<Interrupts> {
        let platform = &objects.port.platform;
        Arc::new(Interrupts {
            dpc: DpcQueue::new(platform),
            worker: platform.mutex("interrupt worker", None),
            objects: objects.clone(),
            port: objects.port.clone(),
            display: display.cloned(),
            power: power.clone(),
            recovery: recovery.clone(),
        })
    }

    /// Ends the worker, if there is one.
    pub(crate) fn stop_worker(&self) {
        let worker = self.worker.lock().take();
        if let Some(worker) = worker {
            worker.stop();
        }
    }

    /// Drops all present and later reports, because the adapter has stopped.
    pub(crate) fn forget(&self) {
        self.dpc.forget();
    }
}
