//! Owns what a page fault of a hardware queue means: whom the report names, whether it makes sense,
//! and whose device is lost.
//!
//! The order that matters: 1. when it is reported, the flags, the engine and the handle are looked
//! at, so that the object that is named cannot become another one; 2. in the deferred routine what
//! can only be asked there; 3. the devices of those who are named are lost, with all that the
//! driver said; 4. then what the flags say must be reset is, as after a timeout. A report that
//! makes no sense stops the adapter.
//!
//! Faults of packets are `recovery`'s, and so is what becomes of a lost device.

use crate::adapter::Adapter;
use crate::context::Context;
use crate::device::Device;
use crate::error::BugCheck;
use crate::hwqueue::HwQueue;
use crate::recovery::detect::report_finding;
use crate::recovery::{TimeoutCause, device_loss};
use std::sync::Arc;
use tidegate_calls::{DeviceState, FaultReport};
use tidegate_ddi::{EngineId, OsHandle, PageFault, PageFaultFlags};

/// A fault of a hardware queue, as the driver reports it.
#[derive(Clone, Copy)]
pub(crate) struct HwQueueFault {
    pub(crate) engine: EngineId,
    /// The kernel's handle of whom the flags say.
    pub(crate) faulted: OsHandle,
    pub(crate) fence_id: u64,
    pub(crate) slot: u64,
    pub(crate) fault: PageFault,
}

/// Who is named.
pub(crate) enum Named {
    Queue(Arc<HwQueue>),
    Context(Arc<Context>),
    /// By the number of its address space.
    Process(u32),
    /// Nobody but the engine.
    Engine,
}

// spec: HS-020
/// The report of a device that was removed because of a page fault.
pub(crate) fn report(tag: u32, engine: EngineId, position: u64, fault: &PageFault) -> FaultReport {
    FaultReport {
        tag,
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

/// Who is named by a report. `None` when it is being destroyed: nobody is left to be told.
// spec: HS-017
pub(crate) fn resolve(
    adapter: &Adapter,
    reported: &HwQueueFault,
) -> Result<Option<Named>, BugCheck> {
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
            let found = adapter.objects.hw_queues.lock().of_kernel(handle);
            let Some(queue) = found.ok_or(BugCheck::UnknownQueue(handle.0))?.upgrade() else {
                return Ok(None);
            };
            let engine = queue.engine();
            (Named::Queue(queue), engine)
        }
        [_, true, _] => {
            let found = adapter.objects.hw_contexts.lock().named(handle);
            let Some(context) = found.ok_or(BugCheck::UnknownContext(handle.0))?.upgrade() else {
                return Ok(None);
            };
            let engine = context.engine;
            (Named::Context(context), engine)
        }
        [.., true] => {
            let number = u32::try_from(handle.0).map_err(|_| BugCheck::UnknownProcess(handle.0))?;
            (Named::Process(number), reported.engine)
        }
        _ => (Named::Engine, reported.engine),
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

/// Whoever is named loses its device, and nobody else, unless more must be reset.
// spec: HS-018, RES-007
pub(crate) fn hw_queue_faulted(adapter: &Arc<Adapter>, named: Named, reported: &HwQueueFault) {
    let HwQueueFault { engine, fence_id, slot, fault, .. } = *reported;
    let say =
        |tag| DeviceState::Faulted(FaultReport { fence_id, ..report(tag, engine, slot, &fault) });
    match named {
        Named::Queue(queue) => {
            // What a process writes into its ring nobody vouches for; what goes through the kernel
            // is known.
            let submitted = queue.last_submitted();
            if !queue.user_mode_submission && fence_id > submitted {
                return adapter.bug_check(BugCheck::UnknownFaultedFence {
                    hw_queue: queue.os_handle.0,
                    fence_id,
                    submitted,
                });
            }
            let _first = device_loss::lose_device(adapter, &queue.device, say(queue.tag));
        }
        Named::Context(context) => {
            _ = device_loss::lose_device(adapter, &context.device, say(context.tag))
        }
        Named::Process(number) => {
            let devices = devices_of(adapter, number);
            if devices.is_empty() {
                return adapter.bug_check(BugCheck::UnknownProcess(number.into()));
            }
            devices.iter().for_each(|device| _ = device_loss::lose_device(adapter, device, say(0)));
        }
        // Somebody did it who has work there.
        Named::Engine => {
            return report_finding(adapter, TimeoutCause::EngineFaulted { engine });
        }
    }
    // spec: HS-019
    if fault.flags.contains(PageFaultFlags::FATAL_HARDWARE_ERROR) {
        adapter.lose_all_devices();
    } else if fault.flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED) {
        let cause = TimeoutCause::AdapterFaulted { engine };
        adapter.lose_all_processes_devices(&DeviceState::Reset(cause.to_string()));
        report_finding(adapter, cause);
    } else if fault.flags.contains(PageFaultFlags::ENGINE_RESET_REQUIRED) {
        report_finding(adapter, TimeoutCause::EngineFaulted { engine });
    }
}

fn devices_of(adapter: &Adapter, address_space: u32) -> Vec<Arc<Device>> {
    let all = adapter.objects.devices.lock().live();
    all.into_iter().filter(|device| device.space.number == address_space).collect()
}
