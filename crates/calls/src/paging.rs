//! Arguments of residency calls: paging queues, MakeResident, Evict, video memory information.

use crate::{FenceInstance, Handle};
use serde::{Deserialize, Serialize};

/// How urgent a paging queue's operations are (D3DDDI_PAGINGQUEUE_PRIORITY).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(i32)]
pub enum PagingPriority {
    /// D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL
    BelowNormal = -1,
    /// D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL
    #[default]
    Normal = 0,
    /// D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL
    AboveNormal = 1,
}

/// D3DKMTCreatePagingQueue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CreatePagingQueue {
    /// The device.
    pub device: Handle,
    /// How urgent its operations are.
    pub priority: PagingPriority,
}

/// A created paging queue.
#[derive(Clone, Debug)]
pub struct PagingQueue {
    /// Its handle.
    pub handle: Handle,
    /// Its fence, which reaches a value when all operations up to it are complete. Native if the
    /// adapter has native fences. Only the kernel signals it.
    pub fence: FenceInstance,
}

/// D3DKMTMakeResident.
#[derive(Clone, Copy, Debug)]
pub struct MakeResident<'a> {
    /// The paging queue, whose fence reports completion.
    pub paging_queue: Handle,
    /// 1 to 4096 allocations of the paging queue's device. Each occurrence adds a reference.
    pub allocations: &'a [Handle],
}

/// Result of MakeResident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Residency {
    /// All are resident.
    Resident,
    /// STATUS_PENDING: they are resident when the paging fence has reached this value. Earlier use
    /// faults.
    Pending {
        /// PagingFenceValue.
        paging_fence_value: u64,
    },
    /// There is no room, and nothing was changed. References to this many bytes must go first.
    OverBudget {
        /// NumBytesToTrim.
        bytes_to_trim: u64,
    },
}

/// Where an allocation is (D3DKMT_ALLOCATIONRESIDENCYSTATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum AllocationResidency {
    /// In local memory.
    Local = 1,
    /// In system memory, where engines reach it.
    System = 2,
    /// Engines do not reach it.
    NotResident = 3,
}

/// A kind of memory (D3DKMT_MEMORY_SEGMENT_GROUP).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum SegmentGroup {
    /// D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL
    Local = 0,
    /// D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL
    NonLocal = 1,
}

/// Memory budget of a process (D3DKMTQueryVideoMemoryInfo), in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VideoMemoryInfo {
    /// Budget.
    pub budget: u64,
    /// Resident.
    pub current_usage: u64,
}

/// How late an allocation leaves local memory, compared with others that may leave: any number, of
/// which these are published (D3DDDI_ALLOCATIONPRIORITY).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResidencyPriority(pub u32);

impl ResidencyPriority {
    /// First to leave.
    pub const MINIMUM: ResidencyPriority = ResidencyPriority(0x2800_0000);
    /// Leaves before normal ones.
    pub const LOW: ResidencyPriority = ResidencyPriority(0x5000_0000);
    /// That of a new allocation.
    pub const NORMAL: ResidencyPriority = ResidencyPriority(0x7800_0000);
    /// Leaves after normal ones.
    pub const HIGH: ResidencyPriority = ResidencyPriority(0xA000_0000);
    /// Last to leave.
    pub const MAXIMUM: ResidencyPriority = ResidencyPriority(0xC800_0000);
}

impl Default for ResidencyPriority {
    fn default() -> ResidencyPriority {
        ResidencyPriority::NORMAL
    }
}
