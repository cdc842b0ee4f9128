//! Copies between tiles of reserved buffers and linear buffers.

use super::recording::{CommandList, bad};
use crate::error::{Error, Result};
use crate::resource::Buffer;
use crate::resource::tiles::TILE_BYTES;
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use std::ops::Range;

/// The direction of [`CommandList::copy_tiles`] (D3D12_TILE_COPY_FLAGS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileCopy {
    /// From the buffer to the tiles (LINEAR_BUFFER_TO_SWIZZLED_TILED_RESOURCE).
    FromBuffer,
    /// From the tiles to the buffer (SWIZZLED_TILED_RESOURCE_TO_LINEAR_BUFFER).
    ToBuffer,
}

impl CommandList {
    /// Copies tiles of a reserved buffer from or to `buffer`, where they are contiguous from
    /// `offset` on. Copy, compute and direct lists.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] for a buffer that is not reserved, and for an
    /// empty range; [`Error::OutOfRange`], [`Error::Foreign`].
    // spec: ME-053
    #[doc(alias = "CopyTiles")]
    pub fn copy_tiles(
        &mut self,
        tiled: &Buffer,
        tiles: Range<u64>,
        buffer: &Buffer,
        offset: u64,
        direction: TileCopy,
    ) -> Result<()> {
        self.accepts_copies()?;
        let kind = "CopyTiles";
        if tiled.tiles().is_none() {
            let what = format!("{kind} of buffer '{}'", tiled.name());
            let why = "it is not reserved; copy regions, or create it as a reserved buffer";
            return Err(Error::BadValue { what, why });
        }
        if tiles.is_empty() {
            return Err(bad("a copy of tiles", "it has no tiles; give at least one"));
        }
        let count = tiles.end - tiles.start;
        let (at, bytes) =
            (tiles.start.saturating_mul(TILE_BYTES), count.saturating_mul(TILE_BYTES));
        tiled.check("a copy of tiles", at, bytes)?;
        buffer.check("a copy of tiles", offset, bytes)?;
        self.name_buffer(tiled)?;
        self.name_buffer(buffer)?;
        let (tile_va, buffer_va) = (tiled.gpu_va() + at, buffer.gpu_va() + offset);
        let ((to, to_va), (from, from_va)) = match direction {
            TileCopy::FromBuffer => ((tiled, tile_va), (buffer, buffer_va)),
            TileCopy::ToBuffer => ((buffer, buffer_va), (tiled, tile_va)),
        };
        self.access(from.into(), &Subresources::All, ResourceStates::COPY_SOURCE, kind);
        self.access(to.into(), &Subresources::All, ResourceStates::COPY_DEST, kind);
        self.push_copy(to_va, from_va, bytes)
    }
}
