//! Arguments of allocation calls. An allocation is memory of a device. Engines reach it by GPU
//! address, and processes by lock if it is CPU visible.

use crate::Handle;
use tidegate_platform::{Bulk, BulkWindow, Page};

/// Kinds of memory; see the platform's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationKind {
    /// Bytes: buffers, rings, command buffers.
    Bulk,
    /// 64-bit words: control areas.
    Protocol,
}

/// Placement of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// System memory.
    System,
    /// Local memory of the first physical adapter, CPU visible. Bytes only, because words that a
    /// CPU polls cannot move.
    Local,
    /// The same, but not resident yet: it is in system memory until MakeResident pages it in.
    LocalOnDemand,
    /// The local memory of this physical adapter. Only the segment of the first one is paged.
    LocalOf(u32),
}

/// D3DKMTCreateAllocation2, MakeResident and MapGpuVirtualAddress in one call: the allocation is
/// resident, with one reference, and mapped. An allocation on demand has no reference, and its
/// address is not mapped until it is resident.
#[derive(Clone, Copy, Debug)]
pub struct CreateAllocation {
    /// The device.
    pub device: Handle,
    /// Size in bytes; rounded up to pages for mapping.
    pub bytes: u64,
    /// Words or bytes.
    pub kind: AllocationKind,
    /// Placement.
    pub placement: Placement,
}

/// The memory of an allocation as a process sees it (D3DKMTLock2).
#[derive(Clone, Debug)]
pub enum AllocationMemory {
    /// Bytes.
    Bulk(Bulk),
    /// Words.
    Protocol(Page),
    /// Bytes that move between local and system memory. The window follows them.
    Window(BulkWindow),
}

/// A created allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Its handle.
    pub handle: Handle,
    /// GPU address for engines.
    pub gpu_va: u64,
    /// Requested size in bytes.
    pub bytes: u64,
    /// Its memory as the process sees it.
    pub memory: AllocationMemory,
}
