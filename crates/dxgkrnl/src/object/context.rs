//! Contexts: ordered streams of work for one node, of packets or of hardware queues.

use crate::fence::Fence;
use crate::object::device::Device;
use crate::scheduling::hw_priority::{HwPriority, PriorityRequest};
use crate::scheduling::{PacketContext, QueuedPart};
use crate::suspension::{Suspendable, Suspension};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{Priority, Status};
use tidegate_ddi::queue::{CreateContext, QueuePrivateData};
use tidegate_ddi::{DriverHandle, EngineId, OsHandle, Passive};
use tidegate_platform::Mutex;
use tidegate_vidsch::Submitter;

/// Arguments of a creation.
pub(crate) struct ContextDesc {
    pub(crate) node_ordinal: u32,
    /// 0 or one bit.
    pub(crate) engine_affinity: u32,
    pub(crate) hardware_scheduled: bool,
    pub(crate) priority: Priority,
    pub(crate) tag: u32,
    pub(crate) lane: u32,
    /// The memory manager's own context.
    pub(crate) paging: bool,
}

/// One context.
pub(crate) struct Context {
    pub(crate) device: Arc<Device>,
    pub(crate) os_handle: OsHandle,
    pub(crate) driver: DriverHandle,
    pub(crate) engine: EngineId,
    pub(crate) hardware_scheduled: bool,
    pub(crate) tag: u32,
    /// Set for a hardware context once its handle is closed.
    handle_closed: OnceLock<()>,
    /// For hardware contexts: whether it is on the run list.
    pub(crate) suspension: Suspension,
    /// Parts of buffers with physical addresses that it has queued, by number.
    parts: Mutex<BTreeMap<u64, Arc<QueuedPart>>>,
    /// For hardware contexts.
    pub(crate) priority: HwPriority,
}

impl Context {
    /// Creates a context. One for packets is entered into VidSch.
    pub(crate) fn new(device: &Arc<Device>, desc: &ContextDesc) -> Result<Arc<Context>, Status> {
        let objects = &device.objects;
        let engine = engine_of(desc)?;
        objects.port.caps.engine_number(engine).ok_or(Status::INVALID_PARAMETER)?;
        if desc.hardware_scheduled
            && !objects.port.caps.nodes[desc.node_ordinal as usize].context_scheduling
        {
            return Err(Status::NOT_SUPPORTED);
        }
        let os_handle = objects.port.new_handle();
        let args = CreateContext {
            device: device.driver,
            os_handle,
            node_ordinal: engine.node_ordinal,
            engine_affinity: 1 << engine.engine_ordinal,
            hardware_scheduled: desc.hardware_scheduled,
            private_data: QueuePrivateData { tag: desc.tag, lane: desc.lane },
        };
        objects.memory.begin_context(
            device.clone(),
            os_handle,
            (desc.hardware_scheduled, desc.paging),
        );
        let driver = objects.port.driver().create_context(&Passive::enter(), args);
        let driver = driver.inspect_err(|_| objects.memory.end_context(os_handle))?;
        let context = Arc::new(Context {
            device: device.clone(),
            os_handle,
            driver,
            engine,
            hardware_scheduled: desc.hardware_scheduled,
            tag: desc.tag,
            handle_closed: OnceLock::new(),
            suspension: Suspension::new(&objects.port, os_handle, driver),
            parts: objects.port.platform.mutex("parts of a context", BTreeMap::new()),
            priority: HwPriority::new(&objects.port.platform),
        });
        if desc.hardware_scheduled {
            objects.hw_contexts.lock().insert(os_handle, &context);
        } else {
            let tag_and_lane = (desc.tag, desc.lane);
            objects.sched.add_context(os_handle, engine, desc.priority, tag_and_lane);
            objects.contexts.lock().insert(os_handle, &context);
        }
        objects.memory.initialise_context(os_handle);
        Ok(context)
    }
}

impl Context {
    /// Takes it off all lists: the call that destroys it begins. Queued packets are not begun. A
    /// hardware context stays listed as long as it has queues.
    pub(crate) fn retire(&self) {
        let objects = &self.device.objects;
        if self.hardware_scheduled {
            let _first = self.handle_closed.set(());
            self.retire_if_over();
        } else {
            objects.contexts.lock().retire(self.os_handle);
            objects.sched.remove_queue(self.os_handle);
        }
    }

    /// Takes a hardware context off the lists once its handle is closed and its last queue retired.
    /// The later of the two finds both done, because each is done before the other is read.
    pub(crate) fn retire_if_over(&self) {
        let objects = &self.device.objects;
        let is_over = self.handle_closed.get().is_some()
            && !objects.hw_queues.lock().has_queue_of(self.os_handle);
        if is_over {
            objects.hw_contexts.lock().retire(self.os_handle);
        }
    }

    /// The queue of a packet context and what submits its packets.
    pub(crate) fn scheduled(&self) -> (OsHandle, Submitter) {
        (self.os_handle, Submitter::Packets)
    }

    /// A request to change the priority of a hardware context.
    pub(crate) fn priority_request(&self) -> PriorityRequest<'_> {
        PriorityRequest {
            port: &self.device.objects.port,
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

/// The engine of a context: in its node, that of the physical adapter whose bit is set, or of the
/// first one.
// spec: NF-320
fn engine_of(desc: &ContextDesc) -> Result<EngineId, Status> {
    let node_ordinal = desc.node_ordinal;
    match desc.engine_affinity {
        0 => Ok(EngineId { node_ordinal, engine_ordinal: 0 }),
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

impl Drop for Context {
    fn drop(&mut self) {
        let objects = &self.device.objects;
        if !self.hardware_scheduled {
            objects.contexts.lock().remove(self.os_handle);
            objects.sched.remove_queue(self.os_handle);
            // One of them may be on the engine.
            let parts = std::mem::take(&mut *self.parts.lock());
            for part in parts.into_values() {
                let gone = objects.sched.release_or_keep(self.os_handle, part);
                drop(gone);
            }
        }
        objects.port.driver().destroy_context(&Passive::enter(), self.driver);
        objects.memory.end_context(self.os_handle);
        if self.hardware_scheduled {
            // Until the driver has let go of it an acknowledgement may name it.
            objects.hw_contexts.lock().remove(self.os_handle);
        }
    }
}
