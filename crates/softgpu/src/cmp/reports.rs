//! What the interrupt routine fetches: the bounded lists of signalled fences and of faults.

use crate::mmu::Fault;
use crate::queue::{Completion, Execution};
use crate::running_command::Running;
use std::collections::VecDeque;
use tidegate_d3dukmdt::RenderPipelineStage;
use tidegate_gpu_abi::regs::{FaultInfo, FaultKind};
use tidegate_gpu_abi::{AddressSpaceId, Cause, GpuVa, QueueId, Register};
use tidegate_programs::{Dispatch, buffers};

/// Fences that were signalled above their MonitoredValue: what [`Register::SIGNALED_QUEUE`] says,
/// and where CurrentValue stands.
pub(crate) struct SignaledList {
    entries: VecDeque<(u64, GpuVa)>,
    capacity: usize,
    /// The address that goes with the queue number read last.
    address: u64,
}

impl SignaledList {
    pub(crate) fn new(capacity: usize) -> SignaledList {
        SignaledList { entries: VecDeque::with_capacity(capacity), capacity, address: 0 }
    }

    /// Adds a fence that a queue signalled; returns the cause to raise, which tells whether it
    /// found room.
    pub(crate) fn add(&mut self, queue: QueueId, current_value: GpuVa) -> Cause {
        self.push(u64::from(queue.0) + 1, current_value)
    }

    /// The same for one that the CMP found above a new MonitoredValue: it knows no queue.
    pub(crate) fn add_of_cmp(
        &mut self,
        address_space: AddressSpaceId,
        current_value: GpuVa,
    ) -> Cause {
        self.push(Register::SIGNALED_BY_CMP | u64::from(address_space.0), current_value)
    }

    fn push(&mut self, by: u64, current_value: GpuVa) -> Cause {
        if self.entries.len() >= self.capacity {
            return Cause::FENCE_COLLAPSED;
        }
        self.entries.push_back((by, current_value));
        Cause::FENCE_SIGNALED
    }

    /// Takes the next entry: its signaller, 0 when there is none.
    pub(crate) fn take(&mut self) -> u64 {
        let next = self.entries.pop_front();
        self.address = next.map_or(0, |(_, at)| at.0);
        next.map_or(0, |(by, _)| by)
    }

    /// The address of the entry that was taken last.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRecord {
    pub(crate) queue: QueueId,
    pub(crate) va: GpuVa,
    /// Slot number, or submission fence id.
    pub(crate) position: u64,
    /// The progress value of the command buffer; 0 when it was none.
    pub(crate) progress: u64,
    /// The command's number in its buffer; 0 when it was none.
    pub(crate) command: u32,
    pub(crate) info: FaultInfo,
}

impl FaultRecord {
    /// A fault outside of any command buffer.
    pub(crate) fn of_ring(queue: QueueId, position: u64, fault: Fault) -> FaultRecord {
        let info = FaultInfo {
            kind: Some(fault.kind),
            page_table_level: fault.level.into(),
            stage: RenderPipelineStage::Unknown,
            argument: 0,
        };
        FaultRecord { queue, va: fault.va, position, progress: 0, command: 0, info }
    }

    /// The same of a queue that is in the middle of `work`.
    pub(crate) fn of_commands(self, work: &Execution) -> FaultRecord {
        let progress = match work.completion {
            Completion::Progress(value) => value,
            Completion::Dma(_) => 0,
        };
        let unmapped =
            matches!(self.info.kind, Some(FaultKind::ReadUnmapped | FaultKind::WriteUnmapped));
        let info = match &work.running {
            Some(Running::Grid(grid)) if unmapped => {
                let argument = argument_of(&grid.dispatch(), self.va);
                let stage =
                    if grid.draw { stage_of(argument) } else { RenderPipelineStage::Unknown };
                FaultInfo { stage, argument, ..self.info }
            }
            _ => self.info,
        };
        FaultRecord { progress, command: work.number, info, ..self }
    }
}

/// Which argument of a program names the buffer that `va` lies in, counted from 1; 0 when none
/// does.
fn argument_of(dispatch: &Dispatch<'_>, va: GpuVa) -> u32 {
    let spans = buffers(dispatch).unwrap_or_default();
    let found = spans.iter().find(|span| va.0 >= span.va && va.0 - span.va < span.len);
    found.map_or(0, |span| span.argument as u32 + 1)
}

/// The stage that uses the buffer which is this argument of the draw program, counted from 1.
fn stage_of(argument: u32) -> RenderPipelineStage {
    match argument {
        // Vertices, indices.
        1 | 3 => RenderPipelineStage::InputAssembler,
        // Constants: where vertices come to stand.
        6 => RenderPipelineStage::VertexShader,
        // Target, depth.
        7 | 8 => RenderPipelineStage::OutputMerger,
        // Texture, light.
        11 | 15 => RenderPipelineStage::PixelShader,
        _ => RenderPipelineStage::Unknown,
    }
}

/// Most fault records that wait to be read; what does not fit is only counted, and the queue's
/// state still says it.
const FAULT_RECORDS: usize = 64;

#[derive(Default)]
pub(crate) struct FaultList {
    records: VecDeque<FaultRecord>,
}

impl FaultList {
    pub(crate) fn add(&mut self, record: FaultRecord) {
        if self.records.len() < FAULT_RECORDS {
            self.records.push_back(record);
        }
    }

    pub(crate) fn first(&self) -> Option<&FaultRecord> {
        self.records.front()
    }

    /// Takes the first record.
    pub(crate) fn take(&mut self) -> Option<FaultRecord> {
        self.records.pop_front()
    }
}
