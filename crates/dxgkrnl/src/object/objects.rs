//! The objects of all processes on one adapter, by the kernel's handle.
//!
//! Invariant: the tables hold weakly. An object that a call destroys is in no list (`registry`).

use super::context::Context;
use super::device::Device;
use super::doorbell::{Doorbell, DoorbellTable, Victimised};
use super::hw_queue::{HwQueue, HwQueueTable};
use super::idle_contexts::IdleContexts;
use super::process::Process;
use crate::driver::DriverPort;
use crate::fence::log::{LogMode, LogReader};
use crate::fence::{Fences, HardwareWaits, LoggedQueue, log_change};
use crate::memory::Memory;
use crate::registry::Registry;
use crate::scheduling::Scheduling;
use crate::stats::Count;
use std::sync::{Arc, Weak};
use tidegate_ddi::{Dispatch, OsHandle, Status};
use tidegate_platform::Mutex;

/// The objects of one adapter.
pub(crate) struct Objects {
    pub(crate) port: Arc<DriverPort>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) fences: Arc<Fences>,
    pub(crate) sched: Arc<Scheduling>,
    pub(crate) log_reader: LogReader,
    /// Contexts to which engines switch that would keep the last one loaded; `None` after the stop.
    pub(crate) idle_contexts: Mutex<Option<IdleContexts>>,
    /// Devices of all processes, and the kernel's own.
    pub(crate) devices: Mutex<Registry<Device>>,
    /// Contexts of packets.
    pub(crate) contexts: Mutex<Registry<Context>>,
    pub(crate) hw_contexts: Mutex<Registry<Context>>,
    pub(crate) hw_queues: Mutex<HwQueueTable>,
    pub(crate) doorbells: Mutex<DoorbellTable>,
    /// Orders every create, connect, disconnect and destroy of a doorbell; see `doorbell`.
    pub(crate) transition: Mutex<()>,
    /// Doorbells that the driver victimised inside the present transition.
    pub(super) victimised: Mutex<Vec<Victimised>>,
    /// Processes that have the adapter open.
    processes: Mutex<Vec<Weak<Process>>>,
}

impl Objects {
    pub(crate) fn new(
        port: &Arc<DriverPort>,
        memory: &Arc<Memory>,
        fences: &Arc<Fences>,
        sched: &Arc<Scheduling>,
    ) -> Arc<Objects> {
        let platform = &port.platform;
        Arc::new(Objects {
            devices: platform.mutex("devices", Registry::default()),
            contexts: platform.mutex("contexts", Registry::default()),
            hw_contexts: platform.mutex("hardware contexts", Registry::default()),
            hw_queues: platform.mutex("hardware queues", HwQueueTable::default()),
            doorbells: platform.mutex("doorbells", DoorbellTable::default()),
            transition: platform.mutex("doorbell transition", ()),
            victimised: platform.mutex("victimised doorbells", Vec::new()),
            processes: platform.mutex("processes of an adapter", Vec::new()),
            port: port.clone(),
            memory: memory.clone(),
            fences: fences.clone(),
            sched: sched.clone(),
            log_reader: LogReader::new(memory),
            idle_contexts: platform.mutex("idle contexts", None),
        })
    }

    /// The hardware queues for which `is_wanted` and that no call destroys, in order of creation.
    pub(crate) fn hw_queues_of(&self, is_wanted: impl Fn(&HwQueue) -> bool) -> Vec<Arc<HwQueue>> {
        let live = self.hw_queues.lock().live();
        live.into_iter().filter(|queue| is_wanted(queue)).collect()
    }

    /// The same of the contexts of packets.
    pub(crate) fn contexts_of(&self, is_wanted: impl Fn(&Context) -> bool) -> Vec<Arc<Context>> {
        let live = self.contexts.lock().live();
        live.into_iter().filter(|context| is_wanted(context)).collect()
    }

    /// The same of the hardware contexts.
    pub(crate) fn hw_contexts_of(&self, is_wanted: impl Fn(&Context) -> bool) -> Vec<Arc<Context>> {
        let live = self.hw_contexts.lock().live();
        live.into_iter().filter(|context| is_wanted(context)).collect()
    }

    /// The doorbells for which `is_wanted`, in order of creation.
    pub(crate) fn doorbells_of(
        &self,
        is_wanted: impl Fn(&Doorbell) -> bool,
    ) -> impl Iterator<Item = Arc<Doorbell>> {
        let all = self.doorbells.lock().all();
        self.port.stats.add(Count::doorbells_walked, all.len() as u64);
        all.into_iter().filter(move |doorbell| is_wanted(doorbell))
    }

    /// The doorbells of one hardware queue: one, or two while a ring is resized.
    pub(crate) fn doorbells_of_queue(&self, hw_queue: OsHandle) -> Vec<Arc<Doorbell>> {
        let found = self.doorbells.lock().of_queue(hw_queue);
        self.port.stats.add(Count::doorbells_walked, found.len() as u64);
        found
    }

    /// Changes the mode of all fence logs. Every queue follows as far as it can; the first refusal is
    /// returned.
    pub(crate) fn change_logs(&self, change: impl FnOnce(&mut LogMode)) -> Result<(), Status> {
        let reader = &self.log_reader;
        reader.change_mode(change);
        let queues = self.hw_queues_of(|queue| queue.logs.is_some());
        let done: Vec<Result<(), Status>> =
            queues.iter().map(|queue| log_change::follow_mode(reader, &**queue)).collect();
        done.into_iter().collect()
    }

    /// Reads all fence logs for the timeline, up to now.
    pub(crate) fn read_logs(&self) {
        let queues = self.hw_queues_of(|queue| queue.logs.is_some());
        let logged: Vec<&dyn LoggedQueue> =
            queues.iter().map(|queue| &**queue as &dyn LoggedQueue).collect();
        self.log_reader.read_for_timeline(&Dispatch::enter(), &logged);
    }

    /// Enters a process that has opened the adapter, so that a removal ends it.
    pub(super) fn enter_process(&self, process: &Arc<Process>) {
        let mut processes = self.processes.lock();
        processes.retain(|known| known.strong_count() > 0);
        processes.push(Arc::downgrade(process));
    }

    /// The processes that have the adapter open.
    pub(crate) fn processes(&self) -> Vec<Arc<Process>> {
        self.processes.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl HardwareWaits for Objects {
    fn has_user_mode_queues(&self) -> bool {
        !self.hw_queues_of(|queue| queue.user_mode_submission).is_empty()
    }
}
