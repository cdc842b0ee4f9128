//! The bounded lists of signalled fences and of faults that the interrupt routine reads.

use crate::mmu::Fault;
use crate::queue::{Completion, Execution};
use crate::running_command::Running;
use std::collections::VecDeque;
use tidegate_d3dukmdt::RenderPipelineStage;
use tidegate_gpu_abi::regs::{FaultInfo, FaultKind};
use tidegate_gpu_abi::{AddressSpaceId, Cause, GpuVa, QueueId, Register};
use tidegate_programs::{Dispatch, buffers};

/// Fences signalled above their MonitoredValue: the value for [`Register::SIGNALED_QUEUE`], and the
/// address of CurrentValue.
pub(crate) struct SignaledList {
    entries: VecDeque<(u64, GpuVa)>,
    capacity: usize,
    /// The address of the entry that was taken last.
    address: u64,
}

impl SignaledList {
    pub(crate) fn new(capacity: usize) -> SignaledList {
        SignaledList { entries: VecDeque::with_capacity(capacity), capacity, address: 0 }
    }

    /// Adds a fence that a queue signalled. Returns the cause to raise, which depends on whether
    /// the list had room.
    pub(crate) fn add(&mut self, queue: QueueId, current_value: GpuVa) -> Cause {
        self.push(u64::from(queue.0) + 1, current_value)
    }

    /// Adds a fence that the CMP found above a new MonitoredValue. Its queue is unknown.
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

    /// Takes the next entry and returns its signaller, 0 if there is none.
    pub(crate) fn take(&mut self) -> u64 {
        let next = self.entries.pop_front();
        self.address = next.map_or(0, |(_, at)| at.0);
        next.map_or(0, |(by, _)| by)
    }

    /// Returns the address of the entry that was taken last.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

/// A fault record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRecord {
    pub(crate) queue: QueueId,
    pub(crate) va: GpuVa,
    /// The slot number or submission fence id.
    pub(crate) position: u64,
    /// The progress value of the command buffer; 0 if none faulted.
    pub(crate) progress: u64,
    /// The command's number in its buffer; 0 if no command faulted.
    pub(crate) command: u32,
    pub(crate) info: FaultInfo,
}

impl FaultRecord {
    /// Returns the record of a fault outside of any command buffer.
    pub(crate) fn of_ring(queue: QueueId, position: u64, fault: Fault) -> FaultRecord {
        let info = FaultInfo {
            kind: Some(fault.kind),
            page_table_level: fault.level.into(),
            stage: RenderPipelineStage::Unknown,
            argument: 0,
        };
        FaultRecord { queue, va: fault.va, position, progress: 0, command: 0, info }
    }

    /// Adds the details of the command buffer `work` to the record.
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

/// Returns the program argument that names the buffer containing `va`, counted from 1; 0 if there
/// is none.
fn argument_of(dispatch: &Dispatch<'_>, va: GpuVa) -> u32 {
    let spans = buffers(dispatch).unwrap_or_default();
    let found = spans.iter().find(|span| va.0 >= span.va && va.0 - span.va < span.len);
    found.map_or(0, |span| span.argument as u32 + 1)
}

/// Returns the pipeline stage that uses this argument of the draw program, counted from 1.
fn stage_of(argument: u32) -> RenderPipelineStage {
    match argument {
        // Vertices, indices.
        1 | 3 => RenderPipelineStage::InputAssembler,
        // Constants, which place the vertices.
        6 => RenderPipelineStage::VertexShader,
        // Target, depth.
        7 | 8 => RenderPipelineStage::OutputMerger,
        // Texture, light.
        11 | 15 => RenderPipelineStage::PixelShader,
        _ => RenderPipelineStage::Unknown,
    }
}

/// The maximum number of unread fault records. Further faults are only counted. Their queues are
/// still marked as faulted.
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

    /// Drops the records of a queue.
    pub(crate) fn forget(&mut self, queue: QueueId) {
        self.records.retain(|record| record.queue != queue);
    }

    /// Takes the oldest record.
    pub(crate) fn take(&mut self) -> Option<FaultRecord> {
        self.records.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_programs::ProgramId;

    #[test]
    fn a_full_list_of_signalled_fences_says_so_and_keeps_its_first_entries() {
        let mut list = SignaledList::new(2);
        assert_eq!(list.add(QueueId(0), GpuVa(0x10)), Cause::FENCE_SIGNALED);
        assert_eq!(list.add_of_cmp(AddressSpaceId(5), GpuVa(0x20)), Cause::FENCE_SIGNALED);
        assert_eq!(list.add(QueueId(1), GpuVa(0x30)), Cause::FENCE_COLLAPSED);
        assert_eq!((list.take(), list.address()), (1, 0x10), "queue 0 is not no queue");
        assert_eq!(list.take(), Register::SIGNALED_BY_CMP | 5);
        assert_eq!(list.address(), 0x20);
        assert_eq!((list.take(), list.address()), (0, 0));
    }

    #[test]
    fn sixty_four_faults_are_kept_and_those_of_a_queue_go_with_it() {
        let mut list = FaultList::default();
        for position in 0..65 {
            let fault = Fault::new(FaultKind::ReadUnmapped, GpuVa(0x1000));
            list.add(FaultRecord::of_ring(QueueId(position as u32 % 3), position, fault));
        }
        list.forget(QueueId(0));
        let kept: Vec<u64> = std::iter::from_fn(|| list.take()).map(|f| f.position).collect();
        // Of 0 to 63: 21 of queue 1, 21 of queue 2.
        assert_eq!(kept, (0..64).filter(|position| position % 3 != 0).collect::<Vec<_>>());
        assert_eq!(kept.len(), 42);
        assert!(list.first().is_none());
    }

    #[test]
    fn a_fault_names_the_buffer_that_has_its_address() {
        let args = [0x1000, 0x1400, 256, 0];
        let dispatch = Dispatch { program: ProgramId::SAXPY, groups: [1, 1, 1], args: &args };
        let ends = [0xFFF, 0x1000, 0x13FF, 0x1400, 0x17FF, 0x1800];
        assert_eq!(ends.map(|va| argument_of(&dispatch, GpuVa(va))), [0, 1, 1, 2, 2, 0]);
        // Two buffers with a gap between.
        let args = [0x1000, 0x2000, 256, 0];
        let dispatch = Dispatch { program: ProgramId::SAXPY, groups: [1, 1, 1], args: &args };
        assert_eq!(argument_of(&dispatch, GpuVa(0x1400)), 0);
    }

    /// The stage tells an application which of its bindings faulted.
    #[test]
    fn each_argument_of_a_draw_names_the_stage_that_uses_it() {
        use RenderPipelineStage::{InputAssembler, OutputMerger, PixelShader, VertexShader};
        let named = [
            (1, InputAssembler),
            (3, InputAssembler),
            (6, VertexShader),
            (7, OutputMerger),
            (8, OutputMerger),
            (11, PixelShader),
            (15, PixelShader),
        ];
        let found = (0..20).map(|argument| (argument, stage_of(argument)));
        let found = found.filter(|(_, stage)| *stage != RenderPipelineStage::Unknown);
        assert_eq!(found.collect::<Vec<_>>(), named);
    }
}
