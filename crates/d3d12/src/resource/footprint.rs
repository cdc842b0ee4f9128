//! The layout of textures in memory: the place of each subresource and the pitch of its rows.
//!
//! The memory of a texture has the layout of its copyable footprints. Subresources follow each
//! other at multiples of 512 bytes. The pitch of rows is a multiple of 256 bytes, and slices follow
//! each other. The layout is therefore row-major and the same on every adapter.

use crate::resource::format::Format;

/// Rows begin at multiples of this many bytes (D3D12_TEXTURE_DATA_PITCH_ALIGNMENT).
pub const PITCH_ALIGNMENT: u64 = 256;
/// Subresources begin at multiples of this many bytes (D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT).
pub const PLACEMENT_ALIGNMENT: u64 = 512;

/// The layout of a subresource in a buffer (D3D12_PLACED_SUBRESOURCE_FOOTPRINT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubresourceFootprint {
    /// Its first byte.
    pub offset: u64,
    /// Its format.
    pub format: Format,
    /// Texels in a row.
    pub width: u32,
    /// Rows in a slice.
    pub height: u32,
    /// Slices.
    pub depth: u32,
    /// Bytes from the start of a row to the next.
    pub row_pitch: u64,
}

impl SubresourceFootprint {
    /// Returns the footprint with the smallest aligned pitch.
    pub fn new(offset: u64, format: Format, [width, height, depth]: [u32; 3]) -> Self {
        let row_pitch =
            (u64::from(width) * u64::from(format.texel_bytes())).next_multiple_of(PITCH_ALIGNMENT);
        SubresourceFootprint { offset, format, width, height, depth, row_pitch }
    }

    /// Returns the bytes of a row without padding.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.format.texel_bytes())
    }

    /// Returns the bytes from the start of a slice to the next.
    pub fn slice_pitch(&self) -> u64 {
        self.row_pitch * u64::from(self.height)
    }

    /// Returns the bytes from its first to its last, without the padding of the last row.
    pub fn bytes(&self) -> u64 {
        self.slice_pitch() * u64::from(self.depth) - self.row_pitch + self.row_bytes()
    }

    /// Returns the footprint's size in texels.
    pub fn size(&self) -> [u32; 3] {
        [self.width, self.height, self.depth]
    }
}

/// Footprints of subresources that follow each other (GetCopyableFootprints).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyableFootprints {
    /// One for each subresource.
    pub footprints: Vec<SubresourceFootprint>,
    /// Bytes from the base offset to the end of the last one.
    pub total_bytes: u64,
}

/// The footprints of subresources of these formats and sizes, from `base` on.
pub(crate) fn lay_out(
    format: Format,
    sizes: impl Iterator<Item = [u32; 3]>,
    base: u64,
) -> CopyableFootprints {
    let (mut end, mut footprints) = (base, Vec::new());
    for size in sizes {
        let offset = end.next_multiple_of(PLACEMENT_ALIGNMENT);
        let footprint = SubresourceFootprint::new(offset, format, size);
        end = offset + footprint.bytes();
        footprints.push(footprint);
    }
    CopyableFootprints { footprints, total_bytes: end - base }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_subresources_are_aligned_as_published() {
        let sizes = [[100, 3, 1], [50, 1, 1]].into_iter();
        let laid = lay_out(Format::R8G8B8A8Unorm, sizes, 0);
        let [first, second] = laid.footprints[..] else { panic!("two footprints") };
        assert_eq!((first.offset, first.row_pitch, first.row_bytes()), (0, 512, 400));
        assert_eq!(first.bytes(), 2 * 512 + 400);
        assert_eq!((second.offset, second.row_pitch), (1536, 256));
        assert_eq!(laid.total_bytes, 1536 + 200);
        let apart = lay_out(Format::R8Unorm, [[1, 1, 1]].into_iter(), 700);
        assert_eq!((apart.footprints[0].offset, apart.total_bytes), (1024, 325));
    }
}
