//! Contexts: ordered streams of work for one node, of packets or of hardware queues.

use crate::fence::Fence;
use crate::memory::SaveAreaUse;
use crate::object::device::Device;
use crate::object::layers::Layers;
use crate::object::older::Acquisitions;
use crate::registry::Registry;
use crate::scheduling::hw_priority::{HwPriority, PriorityRequest};
use crate::scheduling::{PacketContext, QueuedPart, ScheduledQueue};
use crate::suspension::{Suspendable, Suspension};
use crate::timer::{AtPassive, EndAtPassive};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{Priority, Status};
use tidegate_ddi::queue::CreateContext;
use tidegate_ddi::{DriverHandle, EngineId, Irql, OsHandle, Passive};
use tidegate_platform::{Mutex, once};
use tidegate_vidsch::Submitter;

/// Arguments of a creation.
pub(crate) struct ContextDesc {
    pub(crate) node_ordinal: u32,
    /// 0 or one bit.
    pub(crate) engine_affinity: u32,
    pub(crate) hardware_scheduled: bool,
    pub(crate) priority: Priority,
    /// Whether this is the memory manager's own context.
    pub(crate) paging: bool,
}

/// One context.
pub(crate) type Context = AtPassive<ContextBody>;

/// The parts of a context.
pub(crate) struct ContextBody {
    pub(crate) device: Arc<Device>,
    /// The table of packet contexts or of hardware contexts.
    table: Arc<Mutex<Registry<Context>>>,
    pub(crate) os_handle: OsHandle,
    pub(crate) driver: DriverHandle,
    pub(crate) engine: EngineId,
    pub(crate) hardware_scheduled: bool,
    /// Set for a hardware context once its handle is closed.
    pub(super) handle_closed: OnceLock<()>,
    /// Run list membership; hardware contexts only.
    pub(crate) suspension: Suspension,
    /// Queued parts of buffers with physical addresses, by number.
    parts: Mutex<BTreeMap<u64, Arc<QueuedPart>>>,
    /// Scheduling priority; hardware contexts only.
    pub(crate) priority: HwPriority,
    /// The mutexes that it has, and its waits for them; `None` before the first one.
    acquisitions: OnceLock<Arc<Acquisitions>>,
}

impl Context {
    /// Creates a context and enters it into the table of its kind. A packet context is also entered
    /// into VidSch.
    pub(crate) fn new(
        level: &Passive,
        device: &Arc<Device>,
        desc: &ContextDesc,
        table: &Arc<Mutex<Registry<Context>>>,
    ) -> Result<Arc<Context>, Status> {
        let Layers { port, memory, sched, .. } = &*device.layers;
        let engine = engine_of(desc)?;
        port.declared.caps.engine_number(engine).ok_or(Status::INVALID_PARAMETER)?;
        if desc.hardware_scheduled
            && !port.declared.caps.nodes[desc.node_ordinal as usize].context_scheduling
        {
            return Err(Status::NOT_SUPPORTED);
        }
        let os_handle = port.new_handle();
        let args = CreateContext {
            device: device.driver,
            os_handle,
            node_ordinal: engine.node_ordinal,
            engine_affinity: 1 << engine.engine_ordinal,
            hardware_scheduled: desc.hardware_scheduled,
        };
        let kind = match (desc.paging, desc.hardware_scheduled) {
            (true, _) => SaveAreaUse::Paging,
            (false, true) => SaveAreaUse::Fixed,
            (false, false) => SaveAreaUse::Movable,
        };
        memory.begin_context(device.clone(), os_handle, kind);
        let driver = port.driver(level).create_context(level, args);
        let driver = driver.inspect_err(|_| memory.end_context(os_handle))?;
        let body = ContextBody {
            device: device.clone(),
            table: table.clone(),
            os_handle,
            driver,
            engine,
            hardware_scheduled: desc.hardware_scheduled,
            handle_closed: OnceLock::new(),
            suspension: Suspension::new(port, os_handle, driver),
            parts: port.platform.mutex("parts of a context", BTreeMap::new()),
            priority: HwPriority::new(&port.platform),
            acquisitions: OnceLock::new(),
        };
        let context = Arc::new(AtPassive::wrap(&port.timer, body));
        match desc.hardware_scheduled {
            true => sched.lock().add_hardware_context(engine),
            false => sched.lock().add_context(os_handle, engine, desc.priority),
        }
        table.lock().insert(os_handle, &context);
        memory.initialise_context(os_handle);
        Ok(context)
    }
}

impl Context {
    /// Removes the context from all lists at the start of its destruction. Queued packets are
    /// not started.
    pub(crate) fn retire(&self, level: Irql<'_>) {
        self.table.lock().retire(self.os_handle);
        if !self.hardware_scheduled {
            self.device.layers.sched.remove_queue(level, self.os_handle);
        }
        self.end_acquisitions(level);
    }

    /// Returns what the context waits for and has. No wait enters the queue of a context that has
    /// ended.
    pub(crate) fn acquisitions(&self) -> &Arc<Acquisitions> {
        let platform = &self.device.layers.port.platform;
        once::make_alone(&self.acquisitions, || Acquisitions::new(platform))
    }

    /// Signals the mutexes of a context that ends, or whose device is lost.
    pub(crate) fn end_acquisitions(&self, level: Irql<'_>) {
        if let Some(acquisitions) = self.acquisitions.get() {
            acquisitions.end(level);
        }
    }

    /// Returns the queue of a packet context and its submitter.
    pub(crate) fn scheduled(&self) -> ScheduledQueue {
        ScheduledQueue { queue: self.os_handle, submitter: Submitter::Packets }
    }

    /// Starts a request to change the priority of a hardware context.
    pub(crate) fn priority_request(&self) -> PriorityRequest<'_> {
        PriorityRequest {
            port: &self.device.layers.port,
            context: self.driver,
            may_raise: self.device.may_raise_priority,
        }
    }
}

impl PacketContext for Context {
    fn os_handle(&self) -> OsHandle {
        self.os_handle
    }

    fn device_handle(&self) -> OsHandle {
        self.device.os_handle
    }

    fn driver_handle(&self) -> DriverHandle {
        self.driver
    }

    fn engine(&self) -> EngineId {
        self.engine
    }

    fn part(&self, number: u64) -> Option<Arc<QueuedPart>> {
        self.parts.lock().get(&number).cloned()
    }

    fn keep_part(&self, number: u64, part: Arc<QueuedPart>) {
        let over: Vec<_> = {
            let mut parts = self.parts.lock();
            let over = parts.extract_if(.., |_, part| part.is_over()).collect();
            parts.insert(number, part);
            over
        };
        drop(over);
    }

    fn monitored_fences(&self) -> Arc<[Arc<Fence>]> {
        self.device.monitored_fences_of_process()
    }

    fn is_of_kernel(&self) -> bool {
        self.device.is_of_kernel()
    }
}

/// Returns a context's engine: the one in its node on the physical adapter whose bit is set, or on
/// the first adapter if no bit is set.
// spec: NF-320
fn engine_of(desc: &ContextDesc) -> Result<EngineId, Status> {
    let node_ordinal = desc.node_ordinal;
    match desc.engine_affinity {
        0 => Ok(EngineId::of_node(node_ordinal)),
        one if one.is_power_of_two() => {
            Ok(EngineId { node_ordinal, engine_ordinal: one.trailing_zeros() })
        }
        _ => Err(Status::INVALID_PARAMETER),
    }
}

impl Suspendable for Context {
    fn suspension(&self) -> &Suspension {
        &self.suspension
    }
}

impl EndAtPassive for ContextBody {
    fn end(&mut self, level: &Passive) {
        let Layers { port, memory, sched, .. } = &*self.device.layers;
        if !self.hardware_scheduled {
            self.table.lock().remove(self.os_handle);
            sched.remove_queue(level.into(), self.os_handle);
            // The engine may still use a part.
            let parts = std::mem::take(&mut *self.parts.lock());
            for part in parts.into_values() {
                let gone = sched.lock().release_or_keep(self.os_handle, part);
                drop(gone);
            }
        }
        port.driver(level).destroy_context(level, self.driver);
        memory.end_context(self.os_handle);
        if self.hardware_scheduled {
            // An acknowledgement may name the context until the driver has released it.
            self.table.lock().remove(self.os_handle);
            sched.lock().remove_hardware_context(self.engine);
        }
    }
}
