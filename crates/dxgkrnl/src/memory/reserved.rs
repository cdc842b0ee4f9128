//! Reserved addresses: GPU addresses without memory, at which tiles of allocations are mapped.
//!
//! Invariants
//! - A mapped allocation lives until its tiles are unmapped.
//! - Mappings change under the lock of the paging context and while the device is awake, so that no
//!   allocation moves meanwhile. Later moves take the tiles along (`allocation`).
//!
//! Entry points: [`Memory::reserve`], [`Reserved::update`].

use super::address_space::AddressSpace;
use super::allocation::AllocationObject;
use super::local_memory::{MAX_BYTES, Memory};
use super::ports::OwningDevice;
use crate::timer::{AtPassive, EndAtPassive};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{Status, TILE_BYTES};
use tidegate_ddi::Passive;
use tidegate_platform::Mutex;

/// Reserved addresses of a device.
pub(crate) type Reserved = AtPassive<ReservedBody>;

/// The parts of reserved addresses.
pub(crate) struct ReservedBody {
    memory: Arc<Memory>,
    pub(crate) device: Arc<dyn OwningDevice>,
    pub(crate) gpu_va: u64,
    bytes: u64,
    /// The allocation behind each mapped tile.
    tiles: Mutex<BTreeMap<u64, Arc<AllocationObject>>>,
}

/// A change of consecutive tiles.
pub(crate) struct TileChange {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// The allocation, and the offset of the first tile there; `None` unmaps.
    pub(crate) memory: Option<(Arc<AllocationObject>, u64)>,
}

impl Memory {
    /// D3DKMTReserveGpuVirtualAddress.
    pub(crate) fn reserve(
        self: &Arc<Memory>,
        device: Arc<dyn OwningDevice>,
        space: &Arc<AddressSpace>,
        bytes: u64,
    ) -> Result<Arc<Reserved>, Status> {
        if bytes == 0 || bytes > MAX_BYTES || !bytes.is_multiple_of(TILE_BYTES) {
            return Err(Status::INVALID_PARAMETER);
        }
        let gpu_va = space.reserve_tiles(bytes)?;
        let tiles = self.driver.platform.mutex("tiles of reserved addresses", BTreeMap::new());
        let body = ReservedBody { memory: self.clone(), device, gpu_va, bytes, tiles };
        Ok(Arc::new(AtPassive::wrap(&self.driver.timer, body)))
    }
}

impl ReservedBody {
    /// Returns whether the tiles are among the reserved ones.
    pub(crate) fn has(&self, first: u64, count: u64) -> bool {
        let end = first.checked_add(count);
        count > 0 && end.is_some_and(|end| end <= self.bytes / TILE_BYTES)
    }

    /// Carries out changes in order. On return, no engine uses a former mapping.
    pub(crate) fn update(&self, level: &Passive, changes: &[TileChange]) {
        let _awake = self.memory.driver.awake(level);
        let no_moves = self.memory.paging_context.lock_device();
        let mut tiles = self.tiles.lock_device();
        let mut former = Vec::new();
        for change in changes {
            for number in 0..change.count {
                let tile = change.first + number;
                let va = self.gpu_va + tile * TILE_BYTES;
                if let Some(old) = tiles.remove(&tile) {
                    old.unmap_tile(level, va);
                    former.push(old);
                }
                if let Some((allocation, offset)) = &change.memory {
                    allocation.map_tile(level, va, offset + number * TILE_BYTES);
                    tiles.insert(tile, allocation.clone());
                }
            }
        }
        drop(tiles);
        drop(no_moves);
        // These may be the last references.
        drop(former);
    }
}

impl EndAtPassive for ReservedBody {
    /// The pager holds the lock of the paging context over a paging operation.
    const WAITS_FOR_ENGINES: bool = true;

    fn end(&mut self, level: &Passive) {
        let changes = [TileChange { first: 0, count: self.bytes / TILE_BYTES, memory: None }];
        if !self.tiles.lock().is_empty() {
            self.update(level, &changes);
        }
    }
}
