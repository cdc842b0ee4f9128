//! Owns contexts: ordered streams of work for one node, for packets or for hardware queues.

use crate::device::Device;
use crate::fence::{EventSet, Waiter};
use crate::memory::context_allocation;
use crate::sched;
use crate::sched::render::QueuedPart;
use crate::scheduling::Standing;
use crate::suspend::Suspension;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{Priority, Status};
use tidegate_ddi::queue::{CreateContext, QueuePrivateData};
use tidegate_ddi::{DriverHandle, EngineId, OsHandle, Passive};
use tidegate_platform::Mutex;

/// What a context is made with.
pub(crate) struct ContextDesc {
    pub(crate) node_ordinal: u32,
    /// 0 or one bit.
    pub(crate) engine_affinity: u32,
    pub(crate) hardware_scheduled: bool,
    pub(crate) priority: Priority,
    pub(crate) tag: u32,
    pub(crate) lane: u32,
    /// The memory manager's own.
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
    /// Set for a hardware context once its process has no handle of it.
    handle_closed: OnceLock<()>,
    /// Whether it is on the run list; of hardware contexts.
    pub(crate) suspension: Suspension,
    /// Parts of buffers with physical addresses that it has queued, by number.
    parts: Mutex<BTreeMap<u64, Arc<QueuedPart>>>,
    /// Where it stands among others; of hardware contexts.
    pub(crate) standing: Standing,
}

impl Context {
    /// Makes a context; one for packets is entered into VidSch.
    pub(crate) fn new(device: &Arc<Device>, desc: &ContextDesc) -> Result<Arc<Context>, Status> {
        let adapter = &device.adapter;
        let engine = engine_of(desc)?;
        let number = adapter.caps.engine_number(engine).ok_or(Status::INVALID_PARAMETER)?;
        if desc.hardware_scheduled
            && !adapter.caps.nodes[desc.node_ordinal as usize].context_scheduling
        {
            return Err(Status::NOT_SUPPORTED);
        }
        let os_handle = adapter.new_handle();
        let args = CreateContext {
            device: device.driver,
            os_handle,
            node_ordinal: engine.node_ordinal,
            engine_affinity: 1 << engine.engine_ordinal,
            hardware_scheduled: desc.hardware_scheduled,
            private_data: QueuePrivateData { tag: desc.tag, lane: desc.lane },
        };
        context_allocation::begin(device, os_handle, desc);
        let driver = adapter.driver().create_context(&Passive::enter(), args);
        let driver = driver.inspect_err(|_| context_allocation::end(adapter, os_handle))?;
        let context = Arc::new(Context {
            device: device.clone(),
            os_handle,
            driver,
            engine,
            hardware_scheduled: desc.hardware_scheduled,
            tag: desc.tag,
            handle_closed: OnceLock::new(),
            suspension: Suspension::new(&adapter.platform),
            parts: adapter.platform.mutex("parts of a context", BTreeMap::new()),
            standing: Standing::new(&adapter.platform),
        });
        if desc.hardware_scheduled {
            adapter.hw_contexts.lock().insert(os_handle, &context);
        } else {
            adapter.sched.lock().add_context(os_handle, number, desc.priority, desc.tag, desc.lane);
            adapter.contexts.lock().insert(os_handle, &context);
        }
        context_allocation::initialise(adapter, os_handle);
        Ok(context)
    }
}

impl Context {
    /// The call that destroys the context begins. A context for packets is in no list from here on,
    /// and nothing that it holds back is begun. A hardware context is needed as long as it has
    /// queues.
    pub(crate) fn retire(&self) {
        let adapter = &self.device.adapter;
        if self.hardware_scheduled {
            let _first = self.handle_closed.set(());
            self.retire_if_over();
        } else {
            adapter.contexts.lock().retire(self.os_handle);
            sched::remove_context(adapter, self.os_handle);
        }
    }

    /// A hardware context is in no list once its handle is closed and its last queue is retired.
    /// Whichever of the two comes last finds both done, because each is done before the look at the
    /// other.
    pub(crate) fn retire_if_over(&self) {
        let adapter = &self.device.adapter;
        let is_over = self.handle_closed.get().is_some()
            && !adapter.hw_queues.lock().has_queue_of(self.os_handle);
        if is_over {
            adapter.hw_contexts.lock().retire(self.os_handle);
        }
    }

    /// A part that is queued: kept until it is over.
    pub(crate) fn keep_part(&self, number: u64, part: Arc<QueuedPart>) {
        let over: Vec<_> = {
            let mut parts = self.parts.lock();
            let over = parts.extract_if(.., |_, part| part.is_over()).collect();
            parts.insert(number, part);
            over
        };
        drop(over);
    }

    /// The part of this number.
    pub(crate) fn part(&self, number: u64) -> Option<Arc<QueuedPart>> {
        self.parts.lock().get(&number).cloned()
    }
}

/// A context runs on one engine: of its node, that of the physical adapter whose bit is set;
/// without a bit, of the first one.
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

impl Drop for Context {
    fn drop(&mut self) {
        let adapter = &self.device.adapter;
        if !self.hardware_scheduled {
            adapter.contexts.lock().remove(self.os_handle);
            sched::remove_context(adapter, self.os_handle);
            // One of them may be on the engine.
            let parts = std::mem::take(&mut *self.parts.lock());
            for part in parts.into_values() {
                let gone = adapter.sched.lock().let_go(self.os_handle, part);
                drop(gone);
            }
        }
        adapter.driver().destroy_context(&Passive::enter(), self.driver);
        context_allocation::end(adapter, self.os_handle);
        if self.hardware_scheduled {
            // Until the driver has let go of it an acknowledgement may name it.
            adapter.hw_contexts.lock().remove(self.os_handle);
        }
    }
}

/// A context's wait in VidSch as a waiter of a fence; the ticket names the wait.
pub(crate) struct ContextWaiter(pub(crate) Weak<Context>);

impl Waiter for ContextWaiter {
    fn wake(&self, ticket: u64, _events: &mut EventSet) {
        if let Some(context) = self.0.upgrade() {
            sched::wait_satisfied(&context.device.adapter, context.os_handle, ticket);
        }
    }
}
