//! Translates fault records of stopped hardware queues into reports with the kernel's handles. A
//! record of a destroyed queue is dropped, because the kernel has no object for it.

use crate::ReferenceDriver;
use crate::config::FaultNaming;
use crate::interrupt_view::{InterruptView, Owner};
use tidegate_ddi::{
    FaultErrorCode, GeneralErrorCode, InterruptData, OsHandle, PageFault, PageFaultFlags,
};
use tidegate_gpu_abi::regs::{FaultInfo, FaultKind};
use tidegate_gpu_abi::{QueueId, Register};

/// The location details of a fault that only a queue's report carries.
struct Place {
    position: u64,
    fence_id: u64,
}

impl ReferenceDriver {
    /// Empties the list of faults and returns their reports, oldest first.
    pub(super) fn take_faults(&self, view: &mut InterruptView) -> Vec<InterruptData> {
        let mut reports = Vec::new();
        loop {
            let number = self.device.read_register(Register::FAULT_QUEUE);
            if number == 0 || number == super::NO_DEVICE {
                return reports;
            }
            let gpu_va = self.device.read_register(Register::FAULT_VA);
            let place = Place {
                position: self.device.read_register(Register::FAULT_POSITION),
                fence_id: self.device.read_register(Register::FAULT_FENCE),
            };
            let command = self.device.read_register(Register::FAULT_COMMAND);
            // Read last: this read pops the record.
            let info = self.device.read_register(Register::FAULT_INFO);
            let fault = describe(gpu_va, command, info);
            let naming = self.config.faults_name;
            reports.extend(report(view, naming, QueueId((number - 1) as u32), place, fault));
        }
    }
}

// spec: HS-016
fn describe(gpu_va: u64, command: u64, info: u64) -> PageFault {
    let FaultInfo { kind, page_table_level, stage, argument } = FaultInfo::decode(info);
    let write = kind == Some(FaultKind::WriteUnmapped);
    PageFault {
        gpu_va,
        flags: if write { PageFaultFlags::WRITE } else { PageFaultFlags::empty() },
        primitive_api_sequence_number: command,
        pipeline_stage: stage,
        bind_table_entry: argument,
        page_table_level,
        error_code: match kind {
            Some(FaultKind::ReadUnmapped | FaultKind::WriteUnmapped) => {
                FaultErrorCode::general(GeneralErrorCode::PageFault)
            }
            Some(FaultKind::BadPacket | FaultKind::BadArguments | FaultKind::WrongEngine) => {
                FaultErrorCode::general(GeneralErrorCode::InvalidInstruction)
            }
            Some(FaultKind::Incoherent | FaultKind::LostHistory) | None => {
                FaultErrorCode::device_specific(info as u32 & 0xFF)
            }
        },
        what: text(kind),
    }
}

fn report(
    view: &mut InterruptView,
    naming: FaultNaming,
    id: QueueId,
    place: Place,
    mut fault: PageFault,
) -> Option<InterruptData> {
    let queue = *view.queues.get(&id)?;
    let engine = queue.engine;
    Some(match queue.owner {
        Owner::Node => {
            let faulted_fence_id = place.position as u32;
            InterruptData::DmaPageFaulted { engine, faulted_fence_id, fault }
        }
        Owner::Queue { os, context, .. } => {
            let (faulted, flags) = match naming {
                FaultNaming::HwQueue => (os, PageFaultFlags::empty()),
                FaultNaming::HwContext => {
                    (context, PageFaultFlags::FENCE_INVALID | PageFaultFlags::HW_CONTEXT_VALID)
                }
                FaultNaming::Process => (
                    OsHandle(queue.address_space.0.into()),
                    PageFaultFlags::FENCE_INVALID | PageFaultFlags::PROCESS_HANDLE_VALID,
                ),
                FaultNaming::Engine => {
                    view.unnamed_faults.push((engine, id));
                    (OsHandle(0), PageFaultFlags::FENCE_INVALID)
                }
            };
            fault.flags |= flags;
            InterruptData::HwQueuePageFaulted {
                engine,
                faulted,
                faulted_fence_id: if naming == FaultNaming::HwQueue { place.fence_id } else { 0 },
                slot: place.position,
                fault,
            }
        }
    })
}

fn text(kind: Option<FaultKind>) -> &'static str {
    match kind {
        Some(FaultKind::ReadUnmapped) => "a load from an address that is not mapped",
        Some(FaultKind::WriteUnmapped) => {
            "a store to an address that is not mapped or not writable"
        }
        Some(FaultKind::BadPacket) => "an invalid packet",
        Some(FaultKind::BadArguments) => "arguments that a program rejected",
        Some(FaultKind::WrongEngine) => "a command that this engine cannot run",
        Some(FaultKind::Incoherent) => "an access that bypasses the CPUs' caches",
        Some(FaultKind::LostHistory) => "a wait for a value that the fence's history has lost",
        None => "a fault of a kind that the driver does not know",
    }
}
