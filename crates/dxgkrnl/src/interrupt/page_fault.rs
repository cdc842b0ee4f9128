//! Page faults: what a report names, whether it makes sense, and which devices are lost.
//!
//! Order for a hardware queue: 1. at interrupt level flags, engine and handle are checked, and the
//! handle becomes an object; 2. the DPC checks the rest; 3. the named devices are in error; 4. what
//! the flags say must be reset is, as after a timeout. A report that makes no sense stops the
//! adapter.
//!
//! Entry points: [`resolve`], [`hw_queue_faulted`], [`packet_faulted`].

use super::port::InterruptPort;
use crate::adapter::Adapter;
use crate::driver::FailurePort;
use crate::error::BugCheck;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::hw_queue::HwQueue;
use std::sync::Arc;
use tidegate_calls::{DeviceState, FaultReport};
use tidegate_ddi::{EngineId, OsHandle, PageFault, PageFaultFlags};
use tidegate_platform::QueueNumber;

/// A fault of a hardware queue, as the driver reports it.
#[derive(Clone, Copy)]
pub(super) struct HwQueueFault {
    pub(super) engine: EngineId,
    /// The kernel's handle of the object that the flags say.
    pub(super) faulted: OsHandle,
    pub(super) fence_id: u64,
    pub(super) slot: u64,
    pub(super) fault: PageFault,
}

/// What a report names.
pub(super) enum Faulted {
    Queue(Arc<HwQueue>),
    Context(Arc<Context>),
    /// By the number of its address space.
    Process(u32),
    /// The engine alone.
    Engine,
}

// spec: HS-020
/// The report of a device that was removed because of a page fault.
pub(crate) fn fault_report(
    queue: QueueNumber,
    engine: EngineId,
    position: u64,
    fault: &PageFault,
) -> FaultReport {
    FaultReport {
        queue,
        node_ordinal: engine.node_ordinal,
        engine_ordinal: engine.engine_ordinal,
        position,
        fence_id: position,
        gpu_va: fault.gpu_va,
        write: fault.flags.contains(PageFaultFlags::WRITE),
        flags: fault.flags,
        primitive_api_sequence_number: fault.primitive_api_sequence_number,
        pipeline_stage: fault.pipeline_stage,
        bind_table_entry: fault.bind_table_entry,
        page_table_level: fault.page_table_level,
        error_code: fault.error_code,
        what: fault.what.to_owned(),
    }
}

/// What a report names; `None` when that is being destroyed.
// spec: HS-017
pub(super) fn resolve(
    adapter: &Adapter,
    reported: &HwQueueFault,
) -> Result<Option<Faulted>, BugCheck> {
    let (flags, handle) = (reported.fault.flags, reported.faulted);
    let arms = [
        !flags.contains(PageFaultFlags::FENCE_INVALID),
        flags.contains(PageFaultFlags::HW_CONTEXT_VALID),
        flags.contains(PageFaultFlags::PROCESS_HANDLE_VALID),
    ];
    let one_at_most = arms.iter().filter(|arm| **arm).count() <= 1;
    if !one_at_most || flags.bits() & !PageFaultFlags::all().bits() != 0 {
        return Err(BugCheck::PageFaultFlags(flags.bits()));
    }
    adapter.check_engine(reported.engine)?;
    let (named, engine) = match arms {
        [true, ..] => {
            let found = adapter.objects.hw_queues.lock().named(handle);
            let Some(queue) = found.ok_or(BugCheck::UnknownQueue(handle.0))?.upgrade() else {
                return Ok(None);
            };
            let engine = queue.engine();
            (Faulted::Queue(queue), engine)
        }
        [_, true, _] => {
            let found = adapter.objects.hw_contexts.lock().named(handle);
            let Some(context) = found.ok_or(BugCheck::UnknownContext(handle.0))?.upgrade() else {
                return Ok(None);
            };
            let engine = context.engine;
            (Faulted::Context(context), engine)
        }
        [.., true] => {
            let number = u32::try_from(handle.0).map_err(|_| BugCheck::UnknownProcess(handle.0))?;
            (Faulted::Process(number), reported.engine)
        }
        _ => (Faulted::Engine, reported.engine),
    };
    if engine != reported.engine {
        return Err(BugCheck::FaultOnAnotherEngine {
            engine: reported.engine,
            faulted: handle.0,
            runs_on: engine,
        });
    }
    Ok(Some(named))
}

/// The named devices are in error, and no others unless more must be reset.
// spec: HS-018, RES-007
pub(super) fn hw_queue_faulted(adapter: &Arc<Adapter>, faulted: Faulted, reported: &HwQueueFault) {
    let HwQueueFault { engine, fence_id, slot, fault, .. } = *reported;
    let state = |queue| {
        DeviceState::Faulted(FaultReport { fence_id, ..fault_report(queue, engine, slot, &fault) })
    };
    match faulted {
        Faulted::Queue(queue) => {
            // A process may write any value into its ring. Values of kernel-mode queues are known.
            let submitted = queue.last_submitted();
            if !queue.user_mode_submission && fence_id > submitted {
                return adapter.bug_check(BugCheck::UnknownFaultedFence {
                    hw_queue: queue.os_handle.0,
                    fence_id,
                    submitted,
                });
            }
            adapter
                .clone()
                .devices_faulted(vec![queue.device.clone()], state(queue.os_handle.into()));
        }
        Faulted::Context(context) => {
            adapter
                .clone()
                .devices_faulted(vec![context.device.clone()], state(context.os_handle.into()));
        }
        Faulted::Process(number) => {
            let devices = devices_of(adapter, number);
            if devices.is_empty() {
                return adapter.bug_check(BugCheck::UnknownProcess(number.into()));
            }
            adapter.clone().devices_faulted(devices, state(QueueNumber::default()));
        }
        // The devices that have work on the engine are suspected.
        Faulted::Engine => return adapter.clone().engine_faulted(engine),
    }
    // spec: HS-019
    if fault.flags.contains(PageFaultFlags::FATAL_HARDWARE_ERROR) {
        adapter.clone().lose_devices();
    } else if fault.flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED) {
        adapter.clone().adapter_faulted(engine);
    } else if fault.flags.contains(PageFaultFlags::ENGINE_RESET_REQUIRED) {
        adapter.clone().engine_faulted(engine);
    }
}

/// A DMA packet faulted: its device is in error, and the packet counts as done.
pub(super) fn packet_faulted(
    adapter: &Arc<Adapter>,
    engine: EngineId,
    fence_id: u32,
    fault: PageFault,
) {
    let Some(context) = adapter.sched.lock().context_of_packet(engine, fence_id) else {
        return adapter.bug_check(BugCheck::unknown_packet(engine, fence_id));
    };
    let context = adapter.objects.contexts.lock().get(context);
    if let Some(context) = context {
        let report = fault_report(context.os_handle.into(), engine, fence_id.into(), &fault);
        let device = context.device.clone();
        adapter.clone().devices_faulted(vec![device], DeviceState::Faulted(report));
    }
    adapter.sched.dma_completed(engine, fence_id);
}

fn devices_of(adapter: &Adapter, address_space: u32) -> Vec<Arc<Device>> {
    let all = adapter.objects.devices.lock().live();
    all.into_iter().filter(|device| device.space.number == address_space).collect()
}
