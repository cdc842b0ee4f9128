//! Arguments of allocation calls. An allocation is memory of a device. Engines reach it by GPU
//! address, and processes by lock if it is CPU visible.

use crate::Handle;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use tidegate_platform::{Bulk, BulkWindow, OutOfBounds, Page};

/// Kinds of memory; see the platform's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllocationKind {
    /// Bytes: buffers, rings, command buffers.
    Bulk,
    /// 64-bit words: control areas.
    Protocol,
}

/// Placement of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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

/// Size of a tile: what one mapping into reserved addresses covers (64 KiB), in bytes.
pub const TILE_BYTES: u64 = 64 << 10;

/// D3DKMTReserveGpuVirtualAddress: addresses without memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ReserveGpuVirtualAddress {
    /// The device.
    pub device: Handle,
    /// Size in bytes, a multiple of [`TILE_BYTES`] above 0.
    pub bytes: u64,
}

/// Reserved addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedAddresses {
    /// Their handle.
    pub handle: Handle,
    /// The first address.
    pub gpu_va: u64,
}

/// Memory behind tiles of reserved addresses (D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileOperation {
    /// The first tile of the reserved addresses.
    pub first: u64,
    /// Number of tiles, at least 1.
    pub count: u64,
    /// An allocation of bytes, and the offset of the first tile there, a multiple of
    /// [`TILE_BYTES`]. `None` unmaps the tiles: engines that use them fault.
    pub memory: Option<(Handle, u64)>,
}

/// D3DKMTUpdateGpuVirtualAddress: operations in the order of a queue. They are carried out in order
/// when the fence has reached `value`. The kernel then signals the fence with `value` + 1.
#[derive(Clone, Copy, Debug)]
pub struct UpdateGpuVirtualAddress<'a> {
    /// The reserved addresses.
    pub reserved: Handle,
    /// 1 to 4096 operations.
    pub operations: &'a [TileOperation],
    /// A fence that the queue signals before the operations and waits for behind them.
    pub fence: Handle,
    /// The value that is waited for, below `u64::MAX` - 1.
    pub value: u64,
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
    /// Bytes that move, of a kernel in another process. Each access is a call.
    ByCalls(Arc<dyn MovingBytes>),
}

/// Bytes of an allocation that this process has not mapped.
pub trait MovingBytes: fmt::Debug + Send + Sync {
    /// Copies bytes out.
    ///
    /// # Errors
    /// [`OutOfBounds`]. What a lost kernel leaves unread is zero.
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds>;

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds>;
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
