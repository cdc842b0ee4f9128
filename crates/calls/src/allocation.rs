//! Arguments of allocation calls. An allocation is memory of a device that engines reach by GPU
//! address and, where it is CPU visible, processes by lock.

use crate::Handle;
use tidegate_platform::{Bulk, BulkWindow, Page};

/// Words or bytes; see the platform's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationKind {
    /// Bytes: buffers, rings, command buffers.
    Bulk,
    /// 64-bit words: control areas.
    Protocol,
}

/// Where an allocation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// System memory.
    System,
    /// The adapter's local memory, CPU visible; that of the first physical adapter. Bytes only:
    /// words that a CPU looks at one by one cannot move under it.
    Local,
    /// The same, and not resident yet: it stands in system memory, engines do not reach it, and
    /// MakeResident brings it in.
    LocalOnDemand,
    /// The local memory of this physical adapter. Beyond the first it stays there: one segment is
    /// paged.
    LocalOf(u32),
}

/// D3DKMTCreateAllocation2, MakeResident and MapGpuVirtualAddress in one: the allocation is
/// resident, with one reference, and mapped. One that is made on demand has no reference yet, and
/// an address that leads nowhere until it is resident.
#[derive(Clone, Copy, Debug)]
pub struct CreateAllocation {
    /// The device.
    pub device: Handle,
    /// How many bytes; rounded up to pages for mapping.
    pub bytes: u64,
    /// Words or bytes.
    pub kind: AllocationKind,
    /// Where.
    pub placement: Placement,
}

/// The memory of an allocation as a process sees it (D3DKMTLock2).
#[derive(Clone, Debug)]
pub enum AllocationMemory {
    /// Bytes.
    Bulk(Bulk),
    /// Words.
    Protocol(Page),
    /// Bytes that move between local and system memory: the window stays, and shows them where they
    /// are.
    Window(BulkWindow),
}

/// A created allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Its handle.
    pub handle: Handle,
    /// Where engines find it.
    pub gpu_va: u64,
    /// How many bytes were asked for.
    pub bytes: u64,
    /// Where the process finds it.
    pub memory: AllocationMemory,
}
