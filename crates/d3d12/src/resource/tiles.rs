//! Reserved buffers: addresses whose memory a queue maps tile by tile.
//!
//! A tile without memory has no bytes: an engine that uses it has a page fault, which removes the
//! device. That is what the lowest tier of tiled resources leaves undefined.

use crate::error::{Error, Result};
use crate::resource::heap::ResourceHeap;
use std::ops::Range;

/// Size of a tile (D3D12_TILED_RESOURCE_TILE_SIZE_IN_BYTES), in bytes.
pub use tidegate_calls::TILE_BYTES;

/// One change of [`crate::Queue::update_tile_mappings`].
#[derive(Clone, Copy, Debug)]
pub struct TileMapping<'a> {
    /// The first tile of the buffer.
    pub tile: u64,
    /// Number of tiles.
    pub tiles: u64,
    /// The heap, and its tile that becomes the first; `None` takes the memory away
    /// (D3D12_TILE_RANGE_FLAG_NULL).
    pub memory: Option<(&'a ResourceHeap, u64)>,
}

impl<'a> TileMapping<'a> {
    /// Maps `tiles` consecutive tiles of a heap from `heap_tile` on.
    pub fn map(tile: u64, tiles: u64, heap: &'a ResourceHeap, heap_tile: u64) -> TileMapping<'a> {
        TileMapping { tile, tiles, memory: Some((heap, heap_tile)) }
    }

    /// Takes the memory of `tiles` tiles away.
    pub fn unmap(tile: u64, tiles: u64) -> TileMapping<'a> {
        TileMapping { tile, tiles, memory: None }
    }

    /// Returns its addresses in a buffer that begins at `buffer`, and the address of its memory.
    pub(crate) fn addresses(&self, buffer: u64) -> (Range<u64>, Option<u64>) {
        let start = buffer + self.tile * TILE_BYTES;
        let memory = self.memory.map(|(heap, tile)| heap.gpu_va() + tile * TILE_BYTES);
        (start..start + self.tiles * TILE_BYTES, memory)
    }

    /// Refuses tiles that are not there.
    pub(crate) fn check(&self, buffer: &str, of_buffer: u64) -> Result<()> {
        let refuse = |what, why| Err(Error::BadValue { what, why });
        let what = || format!("a mapping of {} tiles from {} of '{buffer}'", self.tiles, self.tile);
        let inside = |first: u64, of: u64| {
            self.tiles > 0 && first.checked_add(self.tiles).is_some_and(|end| end <= of)
        };
        if !inside(self.tile, of_buffer) {
            return refuse(what(), "the buffer has other tiles; name tiles of 64 KiB from 0 on");
        }
        match self.memory {
            Some((heap, first)) if !inside(first, heap.bytes() / TILE_BYTES) => {
                let what = format!("{} to tile {first} of heap '{}'", what(), heap.name());
                refuse(what, "the heap has fewer tiles; map lower ones or make the heap longer")
            }
            _ => Ok(()),
        }
    }
}
