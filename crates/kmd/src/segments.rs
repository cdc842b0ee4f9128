//! The adapter's memory segments, the placement and moves of fence storage, and the commands of
//! paging operations.
//!
//! CPU-visible local memory comes first, one segment per physical GPU. Local memory that the CPU
//! cannot see comes last, if the device has it. Fence storage is in memory of the first physical
//! GPU, which the others can reach. A MonitoredValue that the kernel publishes must be CPU-visible.
//! The values of INTRA_GPU fences are in memory that is not.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::memory::{
    AllocationSegments, FenceResidency, FenceStorageSurfaceData, FenceStorageValueType,
    PagingBuffer, PagingOperation, Segment,
};
use tidegate_ddi::{NativeFenceType, Passive};
use tidegate_gpu_abi::{AdminCommand, Command, CommandWriter, Device, GpuVa};

/// The first physical GPU's CPU-visible segment.
const VISIBLE: u32 = 1;

pub(crate) fn report(device: &dyn Device) -> Vec<Segment> {
    let visible = |physical_adapter| {
        let memory = device.local_memory(physical_adapter)?.clone();
        Some(Segment {
            memory,
            physical_adapter,
            cpu_visible: true,
            bytes: device.local_memory_bytes(),
        })
    };
    // This segment holds only fence storage, which has its own budget.
    let hidden = device.hidden_memory().map(|memory| Segment {
        memory: memory.clone(),
        physical_adapter: 0,
        cpu_visible: false,
        bytes: u64::MAX,
    });
    (0..device.physical_gpu_count()).filter_map(visible).chain(hidden).collect()
}

/// Returns a placement in one segment, with eviction to system memory.
fn only(segment: u32) -> AllocationSegments {
    AllocationSegments {
        supported_write_segment_set: 1 << (segment - 1),
        eviction_segment_set: 0,
        preferred_segment: segment,
    }
}

fn write(buffer: &PagingBuffer, command: &Command) -> Result<(), KmdError> {
    let mut commands = CommandWriter::new();
    commands.push(command);
    buffer.append(commands.as_bytes()).map_err(|_| KmdError::BufferFull)
}

impl ReferenceDriver {
    pub(crate) fn fence_storage_segments(
        &self,
        surface: &FenceStorageSurfaceData<'_>,
    ) -> Result<AllocationSegments, KmdError> {
        if surface.physical_adapter_index != 0 {
            return Err(KmdError::Argument(
                "fence storage is in the memory of physical adapter 0: request that one",
            ));
        }
        match (surface.fence_type, surface.value) {
            (NativeFenceType::Default, FenceStorageValueType::MonitoredValue)
                if self.config.local_monitored_values =>
            {
                Ok(only(VISIBLE))
            }
            (NativeFenceType::IntraGpu, _) if self.device.hidden_memory().is_some() => {
                Ok(only(VISIBLE + self.device.physical_gpu_count()))
            }
            _ => Err(KmdError::NotSupported("local memory for this value of this type of fence")),
        }
    }

    pub(crate) fn page(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), KmdError> {
        match operation {
            PagingOperation::HoldEngines => self.mailbox.complete(level, AdminCommand::HoldEngines),
            PagingOperation::ReleaseEngines => self.mailbox.run(AdminCommand::ReleaseEngines),
            PagingOperation::TransferFenceValues { from, to } => {
                self.mailbox.run(AdminCommand::MoveFencePage { from, to })
            }
            // The content was lost in a reset, so there is nothing to copy.
            PagingOperation::VirtualTransfer { bytes: 0, .. } => Ok(()),
            PagingOperation::VirtualTransfer {
                source_gpu_va,
                destination_gpu_va,
                bytes,
                buffer,
            } => {
                let (source, destination) = (GpuVa(source_gpu_va), GpuVa(destination_gpu_va));
                write(buffer, &Command::Copy { source, destination, bytes })
            }
            // The engine fills whole words. Allocations are page-aligned, so the rest of the last
            // page is unused.
            PagingOperation::VirtualFill { destination_gpu_va, bytes, value, buffer } => {
                let (destination, bytes) = (GpuVa(destination_gpu_va), bytes.next_multiple_of(4));
                write(buffer, &Command::Fill { destination, bytes, value })
            }
            // The driver has GPU virtual addresses, so the kernel asks for no physical ones.
            PagingOperation::Transfer { .. } | PagingOperation::Fill { .. } => {
                Err(KmdError::NotSupported("paging operations with physical addresses"))
            }
            // A zeroed state is invalid: a packet that resumes from it faults.
            PagingOperation::InitContextResource { destination_gpu_va, bytes, buffer, .. } => {
                let (destination, bytes) = (GpuVa(destination_gpu_va), bytes.next_multiple_of(4));
                write(buffer, &Command::Fill { destination, bytes, value: 0 })
            }
            PagingOperation::NotifyFenceResidency(fences) => {
                fences.iter().try_for_each(|f| self.note_place(f))
            }
        }
    }

    /// Records the location of a fence. The hardware initialises an INTRA_GPU fence at its first
    /// location, because no CPU reaches it. At a later location, the shadow of MonitoredValue
    /// moves along.
    fn note_place(&self, place: &FenceResidency<'_>) -> Result<(), KmdError> {
        let now = [place.current_value, place.monitored_value];
        let (before, intra_gpu) = {
            let mut objects = self.objects.lock();
            let fence = objects.fences.get_mut(place.fence)?;
            (fence.stands_at.replace(now), fence.intra_gpu)
        };
        match before {
            None if intra_gpu => self.mailbox.run(AdminCommand::RenewFence {
                current_value: place.current_value,
                monitored_value: place.monitored_value,
                stride_bytes: u64::from(self.config.fence_stride_bytes),
            }),
            Some(before) if before != now => self.move_shadow(place.fence),
            _ => Ok(()),
        }
    }
}
