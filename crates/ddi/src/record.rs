//! Recorded forms of arguments that borrow memory or would keep it alive.

use crate::callbacks::{InterruptService, StartInfo};
use crate::doorbell::{CreateDoorbell, CreateDoorbellFlags};
use crate::fence::{LogType, SetNativeFenceLogBuffer, UpdateCurrentValue, UpdateMonitoredValue};
use crate::memory::{
    FenceStorageValueType, PageTableEntry, PagingOperation, StandardAllocation, UpdatePageTable,
};
use crate::patch::{Patch, Render, RenderAllocation};
use crate::peer::PeerDoorbell;
use crate::{DriverHandle, NativeFenceType, OsHandle};
use std::sync::Arc;
use tidegate_platform::PhysicalAddress;

/// An argument with a recorded form.
pub(crate) trait Record<R> {
    /// Returns the recorded form.
    fn record(&self) -> R;
}

impl<T: Clone> Record<T> for T {
    fn record(&self) -> T {
        self.clone()
    }
}

macro_rules! unrecorded {
    ($($ty:ty),*) => {$(
        impl Record<()> for $ty {
            fn record(&self) {}
        }
    )*};
}

unrecorded!(StartInfo, Arc<dyn InterruptService>, PeerDoorbell);

impl Record<Vec<DriverHandle>> for &[DriverHandle] {
    fn record(&self) -> Vec<DriverHandle> {
        self.to_vec()
    }
}

/// Of [`UpdatePageTable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTableUpdate {
    /// The address space.
    pub address_space: u32,
    /// The physical adapter whose page tables they are.
    pub physical_adapter: u32,
    /// The level of the table.
    pub level: u32,
    /// First entry written.
    pub start_index: u64,
    /// The entries.
    pub entries: Vec<PageTableEntry>,
}

impl Record<PageTableUpdate> for UpdatePageTable<'_> {
    fn record(&self) -> PageTableUpdate {
        PageTableUpdate {
            address_space: self.address_space,
            physical_adapter: self.physical_adapter,
            level: self.level,
            start_index: self.start_index,
            entries: self.entries.to_vec(),
        }
    }
}

/// Of [`StandardAllocation`]: fence storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceStorage {
    /// The physical adapter.
    pub physical_adapter_index: u32,
    /// The fence value in the storage.
    pub value: FenceStorageValueType,
    /// Type of the fences.
    pub fence_type: NativeFenceType,
}

impl Record<FenceStorage> for StandardAllocation<'_> {
    fn record(&self) -> FenceStorage {
        FenceStorage {
            physical_adapter_index: self.surface.physical_adapter_index,
            value: self.surface.value,
            fence_type: self.surface.fence_type,
        }
    }
}

/// Of [`PagingOperation`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of PagingOperation")]
pub enum Paging {
    /// [`PagingOperation::HoldEngines`]
    HoldEngines,
    /// [`PagingOperation::ReleaseEngines`]
    ReleaseEngines,
    /// [`PagingOperation::TransferFenceValues`]
    TransferFenceValues { from: PhysicalAddress, to: PhysicalAddress },
    /// [`PagingOperation::VirtualTransfer`]
    VirtualTransfer { source_gpu_va: u64, destination_gpu_va: u64, bytes: u64 },
    /// [`PagingOperation::VirtualFill`]
    VirtualFill { destination_gpu_va: u64, bytes: u64, value: u32 },
    /// [`PagingOperation::Transfer`]
    Transfer { source: PhysicalAddress, destination: PhysicalAddress, bytes: u64 },
    /// [`PagingOperation::Fill`]
    Fill { destination: PhysicalAddress, bytes: u64, value: u32 },
    /// [`PagingOperation::InitContextResource`]
    InitContextResource { allocation: OsHandle, destination_gpu_va: u64, bytes: u64 },
    /// [`PagingOperation::NotifyFenceResidency`]: fence, CurrentValue, MonitoredValue.
    NotifyFenceResidency(Vec<(DriverHandle, PhysicalAddress, PhysicalAddress)>),
}

impl Record<Paging> for PagingOperation<'_> {
    fn record(&self) -> Paging {
        use PagingOperation as Of;
        match *self {
            Of::HoldEngines => Paging::HoldEngines,
            Of::ReleaseEngines => Paging::ReleaseEngines,
            Of::TransferFenceValues { from, to } => Paging::TransferFenceValues { from, to },
            Of::VirtualTransfer { source_gpu_va, destination_gpu_va, bytes, .. } => {
                Paging::VirtualTransfer { source_gpu_va, destination_gpu_va, bytes }
            }
            Of::VirtualFill { destination_gpu_va, bytes, value, .. } => {
                Paging::VirtualFill { destination_gpu_va, bytes, value }
            }
            Of::Transfer { source, destination, bytes, .. } => {
                Paging::Transfer { source, destination, bytes }
            }
            Of::Fill { destination, bytes, value, .. } => {
                Paging::Fill { destination, bytes, value }
            }
            Of::InitContextResource { allocation, destination_gpu_va, bytes, .. } => {
                Paging::InitContextResource { allocation, destination_gpu_va, bytes }
            }
            Of::NotifyFenceResidency(fences) => {
                let of = fences.iter().map(|f| (f.fence, f.current_value, f.monitored_value));
                Paging::NotifyFenceResidency(of.collect())
            }
        }
    }
}

/// Of [`Render`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The driver's context.
    pub context: DriverHandle,
    /// The commands.
    pub commands: Vec<u8>,
    /// The allocations that they may use.
    pub allocations: Vec<RenderAllocation>,
}

impl Record<Rendered> for Render<'_> {
    fn record(&self) -> Rendered {
        Rendered {
            context: self.context,
            commands: self.commands.to_vec(),
            allocations: self.allocations.to_vec(),
        }
    }
}

/// Of [`Patch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patched {
    /// The driver's context.
    pub context: DriverHandle,
    /// First byte of the part.
    pub start_offset: u32,
    /// First byte after the part.
    pub end_offset: u32,
}

impl Record<Patched> for Patch<'_> {
    fn record(&self) -> Patched {
        let (start_offset, end_offset) = (self.start_offset, self.end_offset);
        Patched { context: self.context, start_offset, end_offset }
    }
}

/// Of [`UpdateMonitoredValue`] and [`UpdateCurrentValue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceUpdate {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// The new value.
    pub value: u64,
}

impl Record<Vec<FenceUpdate>> for &[UpdateMonitoredValue<'_>] {
    fn record(&self) -> Vec<FenceUpdate> {
        self.iter().map(|of| FenceUpdate { fence: of.fence, value: of.value }).collect()
    }
}

impl Record<Vec<FenceUpdate>> for &[UpdateCurrentValue<'_>] {
    fn record(&self) -> Vec<FenceUpdate> {
        self.iter().map(|of| FenceUpdate { fence: of.fence, value: of.value }).collect()
    }
}

/// Of [`SetNativeFenceLogBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBuffer {
    /// The driver's handle of the hardware queue.
    pub hw_queue: DriverHandle,
    /// Waits or signals.
    pub log_type: LogType,
    /// Entries of the log; 0 removes the log.
    pub number_of_entries: u32,
}

impl Record<LogBuffer> for SetNativeFenceLogBuffer {
    fn record(&self) -> LogBuffer {
        LogBuffer {
            hw_queue: self.hw_queue,
            log_type: self.log_type,
            number_of_entries: self.number_of_entries,
        }
    }
}

/// Of [`CreateDoorbell`], before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorbellCreation {
    /// The driver's hardware queue.
    pub hw_queue: DriverHandle,
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// The flags.
    pub flags: CreateDoorbellFlags,
    /// Private data of the user-mode driver.
    pub private_data: Vec<u8>,
}

impl Record<DoorbellCreation> for &mut CreateDoorbell {
    fn record(&self) -> DoorbellCreation {
        DoorbellCreation {
            hw_queue: self.hw_queue,
            os_handle: self.os_handle,
            flags: self.flags,
            private_data: self.private_data.clone(),
        }
    }
}
