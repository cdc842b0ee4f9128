//! Owns the adapter's memory segments, where fence storage may stand in them, its moves, and the
//! commands of paging operations.
//!
//! Local memory that the CPU sees comes first, a segment for each physical GPU, and last, where the
//! device has it, local memory that it does not see. Fence storage stands in that of the first
//! physical GPU: the others reach it. A MonitoredValue that the kernel publishes must stand where
//! the CPU sees it; the values of INTRA_GPU fences stand where it does not. The kernel calls in;
//! the mailbox is called.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::NativeFenceType;
use tidegate_ddi::memory::{
    AllocationSegments, FenceResidency, FenceStorageSurfaceData, FenceStorageValueType,
    PagingBuffer, PagingOperation, Segment,
};
use tidegate_gpu_abi::{AdminCommand, Command, CommandWriter, Device, GpuVa};

/// Number of the first physical GPU's visible segment.
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
    // What stands there is fence storage, which has a budget of its own.
    let hidden = device.hidden_memory().map(|memory| Segment {
        memory: memory.clone(),
        physical_adapter: 0,
        cpu_visible: false,
        bytes: u64::MAX,
    });
    (0..device.physical_gpu_count()).filter_map(visible).chain(hidden).collect()
}

/// An answer that names one segment, from which storage is evicted to system memory.
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
    let fits = buffer.append(&commands.to_bytes());
    fits.map_err(|_| KmdError::Argument("the paging buffer has no room for one command"))
}

impl ReferenceDriver {
    pub(crate) fn fence_storage_segments(
        &self,
        surface: &FenceStorageSurfaceData<'_>,
    ) -> Result<AllocationSegments, KmdError> {
        if surface.physical_adapter_index != 0 {
            return Err(KmdError::Argument(
                "fence storage stands in the memory of physical adapter 0: ask for that one",
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

    pub(crate) fn page(&self, operation: PagingOperation<'_>) -> Result<(), KmdError> {
        match operation {
            PagingOperation::HoldEngines => self.mailbox.run(AdminCommand::HoldEngines),
            PagingOperation::ReleaseEngines => self.mailbox.run(AdminCommand::ReleaseEngines),
            PagingOperation::TransferFenceValues { from, to } => {
                self.mailbox.run(AdminCommand::MoveFencePage { from, to })
            }
            // Content that a reset has lost is not copied.
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
            // The engine fills whole words. Allocations begin at a page of their own, so the rest
            // of the last page is unused.
            PagingOperation::VirtualFill { destination_gpu_va, bytes, value, buffer } => {
                let (destination, bytes) = (GpuVa(destination_gpu_va), bytes.next_multiple_of(4));
                write(buffer, &Command::Fill { destination, bytes, value })
            }
            // A state of zeros is invalid: a packet that resumes from it faults.
            PagingOperation::InitContextResource { destination_gpu_va, bytes, buffer, .. } => {
                let (destination, bytes) = (GpuVa(destination_gpu_va), bytes.next_multiple_of(4));
                write(buffer, &Command::Fill { destination, bytes, value: 0 })
            }
            PagingOperation::NotifyFenceResidency(fences) => {
                fences.iter().try_for_each(|f| self.note_place(f))
            }
        }
    }

    /// Notes where a fence stands. One that no CPU reaches is made by the hardware at its first
    /// place. A shadow of MonitoredValue goes along to any further one.
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
