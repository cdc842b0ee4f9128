//! The tables of the interrupt routine: queues by hardware number, fences by address.
//!
//! Their lock is the driver's interrupt lock. The routine holds it from cause to last report,
//! callbacks included. Passive code takes it to change the view. After passive code has removed an
//! object and released the lock, no routine reports that object. Reporting a destroyed fence would
//! be a bug check.

use crate::KmdError;
use crate::objects::{HwQueue, Instance, Objects};
use foldhash::{HashMap, HashMapExt};
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tidegate_ddi::{Callbacks, DriverHandle, EngineId, EngineMap, OsHandle};
use tidegate_gpu_abi::{AddressSpaceId, GpuVa, QueueId};

/// The owner of a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The driver: the queue carries the packets of an engine.
    Node,
    /// The kernel.
    Queue { driver: DriverHandle, os: OsHandle, context: OsHandle },
}

/// What interrupt reports need of a hardware queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueView {
    pub(crate) owner: Owner,
    pub(crate) engine: EngineId,
    pub(crate) address_space: AddressSpaceId,
    /// The progress fence, if it is a monitored fence.
    pub(crate) monitored_progress: Option<GpuVa>,
}

impl QueueView {
    pub(crate) fn of_engine(engine: EngineId) -> QueueView {
        QueueView {
            owner: Owner::Node,
            engine,
            address_space: AddressSpaceId(0),
            monitored_progress: None,
        }
    }

    pub(crate) fn of_queue(driver: DriverHandle, queue: &HwQueue, context: OsHandle) -> QueueView {
        QueueView {
            owner: Owner::Queue { driver, os: queue.os_handle, context },
            engine: queue.engine,
            address_space: queue.address_space,
            monitored_progress: queue.progress_fence.is_none().then_some(queue.progress_current),
        }
    }
}

/// The view. Maps are never iterated where the order would be observable.
pub(crate) struct InterruptView {
    /// `None` before start and after stop: the routine then claims no interrupt.
    pub(crate) callbacks: Option<Arc<dyn Callbacks>>,
    /// Whether native fences are enabled. If not, every signal is of a monitored fence.
    pub(crate) native_fences: bool,
    /// Whether the device reports native fence signals and monitored fence writes as the
    /// same event.
    pub(crate) fence_kinds_alike: bool,
    /// The last packet of each engine that was reported as complete, 0 before the first.
    pub(crate) reported: EngineMap<u32>,
    pub(crate) queues: HashMap<QueueId, QueueView>,
    /// The kernel's global handle of the fence whose CurrentValue has this address.
    pub(crate) fences: HashMap<(AddressSpaceId, GpuVa), OsHandle>,
    /// Queues that a fault has stopped, whose report named the engine only, oldest first. A reset
    /// of the engine names their contexts.
    pub(crate) unnamed_faults: Vec<(EngineId, QueueId)>,
}

impl InterruptView {
    pub(crate) fn new() -> InterruptView {
        InterruptView {
            callbacks: None,
            native_fences: false,
            fence_kinds_alike: false,
            reported: EngineMap::new(0, 0, |_| 0),
            queues: HashMap::new(),
            fences: HashMap::new(),
            unnamed_faults: Vec::new(),
        }
    }

    /// Removes a hardware queue.
    pub(crate) fn remove_queue(&mut self, id: QueueId) {
        self.queues.remove(&id);
        self.unnamed_faults.retain(|(_, queue)| *queue != id);
    }

    /// Removes and returns the queues of an engine whose fault was reported without them.
    pub(crate) fn take_unnamed_faults(&mut self, engine: EngineId) -> Vec<QueueId> {
        let taken = self.unnamed_faults.extract_if(.., |(of, _)| *of == engine);
        taken.map(|(_, queue)| queue).collect()
    }

    /// Adds a reference to `global` at each of these addresses.
    pub(crate) fn bind(
        &mut self,
        objects: &mut Objects,
        global: DriverHandle,
        address_space: AddressSpaceId,
        current_value: GpuVa,
        monitored_value: GpuVa,
    ) -> Result<(), KmdError> {
        let fence = objects.fences.get_mut(global)?;
        if let Some(known) = find(&mut fence.instances, address_space, current_value) {
            known.opens += 1;
            return Ok(());
        }
        match self.fences.entry((address_space, current_value)) {
            Entry::Occupied(_) => {
                Err(KmdError::Argument("another open fence has its CurrentValue at this address"))
            }
            Entry::Vacant(free) => {
                free.insert(fence.os_handle);
                fence.instances.push(Instance {
                    address_space,
                    current_value,
                    monitored_value,
                    opens: 1,
                });
                Ok(())
            }
        }
    }

    /// Removes a reference to the address.
    pub(crate) fn unbind(
        &mut self,
        objects: &mut Objects,
        global: DriverHandle,
        address_space: AddressSpaceId,
        current_value: GpuVa,
    ) {
        let Ok(fence) = objects.fences.get_mut(global) else { return };
        let Some(known) = find(&mut fence.instances, address_space, current_value) else { return };
        known.opens -= 1;
        if known.opens == 0 {
            fence.instances.retain(|i| i.opens > 0);
            self.fences.remove(&(address_space, current_value));
        }
    }
}

fn find(
    instances: &mut [Instance],
    address_space: AddressSpaceId,
    current_value: GpuVa,
) -> Option<&mut Instance> {
    instances
        .iter_mut()
        .find(|i| (i.address_space, i.current_value) == (address_space, current_value))
}
