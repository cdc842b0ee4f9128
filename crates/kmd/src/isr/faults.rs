//! Owns fault records: from a stopped hardware queue to the report that names it the kernel's way.
//!
//! A record of a queue that is destroyed is taken and dropped: nobody is left to be told.

use super::{InterruptView, Owner};
use crate::ReferenceDriver;
use tidegate_ddi::{EngineId, InterruptData, PageFault};
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{QueueId, Register};

impl ReferenceDriver {
    /// Empties the list of faults: the reports, oldest first.
    pub(super) fn take_faults(&self, view: &InterruptView) -> Vec<InterruptData> {
        let mut reports = Vec::new();
        loop {
            let number = self.device.read_register(Register::FAULT_QUEUE);
            if number == 0 || number == super::NOBODY {
                return reports;
            }
            let gpu_va = self.device.read_register(Register::FAULT_VA);
            let position = self.device.read_register(Register::FAULT_POSITION);
            // The last one: reading it takes the record.
            let kind = FaultKind::from_number(self.device.read_register(Register::FAULT_INFO));
            let fault = PageFault { gpu_va, write: kind == Some(FaultKind::WriteUnmapped), what: text(kind) };
            reports.extend(report(view, QueueId((number - 1) as u32), position, fault));
        }
    }
}

fn report(view: &InterruptView, id: QueueId, position: u64, fault: PageFault) -> Option<InterruptData> {
    let queue = view.queues.get(&id)?;
    let EngineId { node_ordinal, engine_ordinal } = queue.engine;
    Some(match queue.owner {
        Owner::Node => {
            let faulted_fence_id = position as u32;
            InterruptData::DmaPageFaulted { node_ordinal, engine_ordinal, faulted_fence_id, fault }
        }
        Owner::Queue { os, .. } => InterruptData::HwQueuePageFaulted {
            node_ordinal,
            engine_ordinal,
            hw_queue: os,
            slot: position,
            fault,
        },
    })
}

fn text(kind: Option<FaultKind>) -> &'static str {
    match kind {
        Some(FaultKind::ReadUnmapped) => "a load from an address that is not mapped",
        Some(FaultKind::WriteUnmapped) => "a store to an address that is not mapped or not writable",
        Some(FaultKind::BadPacket) => "a packet that makes no sense",
        Some(FaultKind::BadArguments) => "arguments that a program refused",
        Some(FaultKind::WrongEngine) => "a command that this engine cannot run",
        Some(FaultKind::Incoherent) => "an access past the CPUs' caches",
        None => "a fault of a kind that the driver does not know",
    }
}
