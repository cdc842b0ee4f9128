//! The objects of all processes on one adapter, by kernel handle.
//!
//! Invariant: the tables hold weak references. An object being destroyed is in no
//! list (`registry`).

use super::context::{Context, ContextDesc};
use super::device::{Device, DeviceOwner};
use super::doorbell::{Doorbell, Doorbells};
use super::hw_queue::{HwQueue, HwQueueTable};
use super::layers::Layers;
use super::port::{DisplayPort, OpenProcess, RecoveryPort};
use crate::fence::log::LogMode;
use crate::fence::names::ObjectNames;
use crate::fence::{HardwareWaits, LoggedQueue, log_change};
use crate::port::Port;
use crate::registry::Registry;
use crate::stats::Count;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use tidegate_ddi::{Irql, Passive, Status};
use tidegate_platform::Mutex;

/// The objects of one adapter.
pub(crate) struct Objects {
    layers: Arc<Layers>,
    /// The names of the machine's shared objects.
    pub(crate) names: ObjectNames,
    /// Devices of all processes and of the kernel.
    pub(crate) devices: Arc<Mutex<Registry<Device>>>,
    /// Contexts of packets.
    pub(crate) contexts: Arc<Mutex<Registry<Context>>>,
    pub(crate) hw_contexts: Arc<Mutex<Registry<Context>>>,
    pub(crate) hw_queues: Arc<Mutex<HwQueueTable>>,
    pub(crate) doorbells: Arc<Doorbells>,
    /// Contexts that idle engines switch to, so that they keep no process's context loaded. Empty
    /// after the stop.
    pub(crate) idle_contexts: Mutex<Vec<Arc<Context>>>,
    /// Processes that have the adapter open.
    processes: Mutex<Vec<Weak<dyn OpenProcess>>>,
    pub(crate) recovery: Port<dyn RecoveryPort>,
    /// Not attached on a render-only adapter.
    pub(crate) display: Port<dyn DisplayPort>,
}

impl Deref for Objects {
    type Target = Layers;

    fn deref(&self) -> &Layers {
        &self.layers
    }
}

impl Objects {
    /// Creates the objects on these layers. The ports are attached later.
    pub(crate) fn new(layers: Layers, names: &ObjectNames) -> Arc<Objects> {
        let platform = &layers.port.platform;
        Arc::new(Objects {
            devices: Arc::new(platform.mutex("devices", Registry::default())),
            contexts: Arc::new(platform.mutex("contexts", Registry::default())),
            hw_contexts: Arc::new(platform.mutex("hardware contexts", Registry::default())),
            hw_queues: Arc::new(platform.mutex("hardware queues", HwQueueTable::default())),
            doorbells: Doorbells::new(&layers.port),
            idle_contexts: platform.mutex("idle contexts", Vec::new()),
            processes: platform.mutex("processes of an adapter", Vec::new()),
            recovery: Port::default(),
            display: Port::default(),
            names: names.clone(),
            layers: Arc::new(layers),
        })
    }

    /// Creates a device.
    pub(super) fn create_device(
        &self,
        level: &Passive,
        owner: DeviceOwner<'_>,
    ) -> Result<Arc<Device>, Status> {
        Device::new(level, &self.layers, &self.devices, owner)
    }

    /// Creates a context of either kind.
    pub(super) fn create_context(
        &self,
        level: &Passive,
        device: &Arc<Device>,
        desc: &ContextDesc,
    ) -> Result<Arc<Context>, Status> {
        let table = if desc.hardware_scheduled { &self.hw_contexts } else { &self.contexts };
        Context::new(level, device, desc, table)
    }

    /// Returns the live hardware queues for which `is_wanted` holds, in order of creation.
    pub(crate) fn hw_queues_of(&self, is_wanted: impl Fn(&HwQueue) -> bool) -> Vec<Arc<HwQueue>> {
        let live = self.hw_queues.lock().live();
        self.port.stats.add(Count::queues_walked, live.len() as u64);
        live.into_iter().filter(|queue| is_wanted(queue)).collect()
    }

    /// Returns the live packet contexts for which `is_wanted` holds, in order of creation.
    pub(crate) fn contexts_of(&self, is_wanted: impl Fn(&Context) -> bool) -> Vec<Arc<Context>> {
        let live = self.contexts.lock().live();
        live.into_iter().filter(|context| is_wanted(context)).collect()
    }

    /// Returns the live hardware contexts for which `is_wanted` holds, in order of creation.
    pub(crate) fn hw_contexts_of(&self, is_wanted: impl Fn(&Context) -> bool) -> Vec<Arc<Context>> {
        let live = self.hw_contexts.lock().live();
        live.into_iter().filter(|context| is_wanted(context)).collect()
    }

    /// Returns the doorbells for which `is_wanted` holds, in order of creation.
    pub(crate) fn doorbells_of(
        &self,
        is_wanted: impl Fn(&Doorbell) -> bool,
    ) -> impl Iterator<Item = Arc<Doorbell>> {
        self.doorbells.all().into_iter().filter(move |doorbell| is_wanted(doorbell))
    }

    /// Changes the mode of all fence logs. Every queue follows as far as it can. Returns the
    /// first failure.
    pub(crate) fn change_logs(
        &self,
        level: &Passive,
        change: impl FnOnce(&mut LogMode),
    ) -> Result<(), Status> {
        let reader = &self.log_reader;
        reader.change_mode(change);
        let queues = self.hw_queues_of(|queue| queue.logs.is_some());
        let done: Vec<Result<(), Status>> =
            queues.iter().map(|queue| log_change::follow_mode(level, reader, &***queue)).collect();
        done.into_iter().collect()
    }

    /// Reads all fence logs for the timeline, up to now.
    pub(crate) fn read_logs(&self, level: Irql<'_>) {
        let queues = self.hw_queues_of(|queue| queue.logs.is_some());
        let logged: Vec<&dyn LoggedQueue> =
            queues.iter().map(|queue| &***queue as &dyn LoggedQueue).collect();
        self.log_reader.read_for_timeline(level, &logged);
    }

    /// Registers a process that has opened the adapter, so that a removal ends it.
    pub(super) fn enter_process(&self, process: Weak<dyn OpenProcess>) {
        let mut processes = self.processes.lock();
        processes.retain(|known| known.strong_count() > 0);
        processes.push(process);
    }

    /// Returns the processes that have the adapter open.
    pub(crate) fn processes(&self) -> Vec<Arc<dyn OpenProcess>> {
        self.processes.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl HardwareWaits for Objects {
    fn may_hold_waits(&self) -> bool {
        self.hw_queues.lock().has_hardware_waits()
    }
}
