//! Copies of textures and of whole resources.
//!
//! A region becomes one GPU copy per row, or one per slice where rows are contiguous. The list
//! counts it as one command.

use super::recording::{CommandList, bad};
use crate::error::{Error, Result};
use crate::resource::footprint::SubresourceFootprint;
use crate::resource::{Buffer, Resource, Texture};
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use std::sync::Arc;
use tidegate_gpu_abi::{Command, GpuVa};

/// One end of a copy of texels (D3D12_TEXTURE_COPY_LOCATION).
#[derive(Clone, Copy, Debug)]
pub enum TextureCopyLocation<'a> {
    /// A subresource of a texture.
    Subresource(&'a Texture, u32),
    /// Texels in a buffer.
    Footprint(&'a Buffer, SubresourceFootprint),
}

/// A region of texels, from the first corner up to the second, exclusive (D3D12_BOX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TexelBox {
    /// Left, top and front.
    pub from: [u32; 3],
    /// Right, bottom and back.
    pub to: [u32; 3],
}

/// A region of texels at an address.
struct Texels {
    va: u64,
    footprint: SubresourceFootprint,
}

const COPY_TEXELS: &str = "CopyTextureRegion";
const COPY_RESOURCE: &str = "CopyResource";

impl<'a> TextureCopyLocation<'a> {
    fn resource(self) -> Resource<'a> {
        match self {
            TextureCopyLocation::Subresource(texture, _) => Resource::Texture(texture),
            TextureCopyLocation::Footprint(buffer, _) => Resource::Buffer(buffer),
        }
    }

    fn subresources(self) -> Subresources {
        match self {
            TextureCopyLocation::Subresource(_, number) => Subresources::One(number),
            TextureCopyLocation::Footprint(..) => Subresources::All,
        }
    }

    fn what(self) -> String {
        match self {
            TextureCopyLocation::Subresource(texture, number) => {
                format!("subresource {number} of texture '{}'", texture.name())
            }
            TextureCopyLocation::Footprint(buffer, footprint) => {
                format!("a footprint at {} of buffer '{}'", footprint.offset, buffer.name())
            }
        }
    }

    fn texels(self) -> Result<Texels> {
        let refuse = |why| Err(Error::BadValue { what: format!("a copy of {}", self.what()), why });
        match self {
            TextureCopyLocation::Subresource(texture, number) => match texture.footprint(number) {
                Some(footprint) => {
                    Ok(Texels { va: texture.gpu_va() + footprint.offset, footprint })
                }
                None => refuse("the texture has no such subresource; count mips and slices from 0"),
            },
            TextureCopyLocation::Footprint(buffer, footprint) => {
                use crate::resource::footprint::{PITCH_ALIGNMENT, PLACEMENT_ALIGNMENT};
                if footprint.size().contains(&0) {
                    return refuse("it has no texels in one direction; give it at least one");
                }
                if !footprint.offset.is_multiple_of(PLACEMENT_ALIGNMENT) {
                    return refuse("place it at a multiple of 512 bytes");
                }
                if !footprint.row_pitch.is_multiple_of(PITCH_ALIGNMENT)
                    || footprint.row_pitch < footprint.row_bytes()
                {
                    return refuse("its row pitch is a multiple of 256 that holds a row");
                }
                buffer.check("a footprint", footprint.offset, footprint.bytes())?;
                Ok(Texels { va: buffer.gpu_va() + footprint.offset, footprint })
            }
        }
    }
}

impl CommandList {
    /// Copies texels to `destination`, starting at `at`. Without a box, copies all of `source`. An
    /// empty box copies nothing. Copy, compute and direct lists.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] for incompatible formats, texels outside either
    /// end, a misaligned footprint, and a copy within one subresource; [`Error::OutOfRange`] for a
    /// footprint that exceeds its buffer; [`Error::Foreign`].
    #[doc(alias = "CopyTextureRegion")]
    pub fn copy_texture_region(
        &mut self,
        destination: TextureCopyLocation<'_>,
        at: [u32; 3],
        source: TextureCopyLocation<'_>,
        region: Option<TexelBox>,
    ) -> Result<()> {
        self.accepts_copies()?;
        let (to, from) = (destination.texels()?, source.texels()?);
        let refuse = |why| {
            let what = format!("a copy of {} to {}", source.what(), destination.what());
            Err(Error::BadValue { what, why })
        };
        if !from.footprint.format.copies_to(to.footprint.format) {
            return refuse("its formats differ; copy texels to texels of the same format");
        }
        let region = region.unwrap_or(TexelBox { from: [0; 3], to: from.footprint.size() });
        if region.from.iter().zip(&region.to).any(|(from, to)| from >= to) {
            return Ok(());
        }
        let size: [u32; 3] = std::array::from_fn(|axis| region.to[axis] - region.from[axis]);
        let inside = |first: [u32; 3], whole: [u32; 3]| {
            (0..3).all(|axis| u64::from(first[axis]) + u64::from(size[axis]) <= whole[axis].into())
        };
        if !inside(region.from, from.footprint.size()) || !inside(at, to.footprint.size()) {
            return refuse("its texels leave an end; correct the box or the place");
        }
        let (one, other) = (destination.resource(), source.resource());
        if Arc::ptr_eq(one.facts(), other.facts()) && from.va == to.va {
            return refuse("both ends are one subresource; copy over another one");
        }
        let rows = u64::from(size[1]) * u64::from(size[2]);
        self.check_room(rows)?;
        self.name_resource(one)?;
        self.name_resource(other)?;
        let needs = (ResourceStates::COPY_SOURCE, ResourceStates::COPY_DEST);
        self.access(other, &source.subresources(), needs.0, COPY_TEXELS);
        self.access(one, &destination.subresources(), needs.1, COPY_TEXELS);
        self.copy_rows(&to, at, &from, region.from, size)
    }

    /// Appends the copies of a region that is inside both ends.
    fn copy_rows(
        &mut self,
        to: &Texels,
        at: [u32; 3],
        from: &Texels,
        first: [u32; 3],
        [width, height, depth]: [u32; 3],
    ) -> Result<()> {
        let row_bytes = u64::from(width) * u64::from(from.footprint.format.texel_bytes());
        let gapless = |texels: &Texels| texels.footprint.row_pitch == row_bytes;
        let (rows, lines) = match gapless(to) && gapless(from) {
            true => (1, u64::from(height)),
            false => (height, 1),
        };
        for z in 0..depth {
            for y in 0..rows {
                self.write(&Command::Copy {
                    source: GpuVa(from.at([first[0], first[1] + y, first[2] + z])),
                    destination: GpuVa(to.at([at[0], at[1] + y, at[2] + z])),
                    bytes: row_bytes * lines,
                })?;
            }
        }
        self.count_command();
        Ok(())
    }

    /// Copies all of `source` to `destination`, a resource of the same kind and size. Copy,
    /// compute and direct lists.
    ///
    /// # Errors
    /// [`Error::NotAccepted`]; [`Error::BadValue`] for resources that differ, and for a copy of a
    /// resource to itself; [`Error::Foreign`].
    #[doc(alias = "CopyResource")]
    pub fn copy_resource<'a>(
        &mut self,
        destination: impl Into<Resource<'a>>,
        source: impl Into<Resource<'a>>,
    ) -> Result<()> {
        self.accepts_copies()?;
        let (destination, source) = (destination.into(), source.into());
        let refuse = |why| {
            let what = format!("a copy of {} to {}", source.what(), destination.what());
            Err(Error::BadValue { what, why })
        };
        let bytes = match (destination, source) {
            (Resource::Buffer(to), Resource::Buffer(from)) if to.bytes() == from.bytes() => {
                to.bytes()
            }
            (Resource::Texture(to), Resource::Texture(from)) if alike(to, from) => {
                let last = from.footprint(from.desc().subresources() - 1);
                last.map_or(0, |last| last.offset + last.bytes())
            }
            _ => return refuse("they differ in kind or size; copy a region"),
        };
        if Arc::ptr_eq(destination.facts(), source.facts()) {
            return refuse("both ends are one resource; copy to another one");
        }
        self.name_resource(destination)?;
        self.name_resource(source)?;
        let (all, kind) = (Subresources::All, COPY_RESOURCE);
        self.access(source, &all, ResourceStates::COPY_SOURCE, kind);
        self.access(destination, &all, ResourceStates::COPY_DEST, kind);
        self.push(&Command::Copy {
            source: GpuVa(source.memory().gpu_va),
            destination: GpuVa(destination.memory().gpu_va),
            bytes,
        })
    }

    /// Refuses a command if the list has no room for all of its copies.
    fn check_room(&self, copies: u64) -> Result<()> {
        const COPY_BYTES: u64 = 32;
        if copies * COPY_BYTES <= self.room_bytes() {
            return Ok(());
        }
        Err(bad("a copy of texels", "its rows do not fit into the list; copy it in parts"))
    }
}

impl Texels {
    fn at(&self, [x, y, z]: [u32; 3]) -> u64 {
        let of = &self.footprint;
        self.va
            + u64::from(x) * u64::from(of.format.texel_bytes())
            + u64::from(y) * of.row_pitch
            + u64::from(z) * of.slice_pitch()
    }
}

/// Returns whether the textures have compatible formats and the same layout.
fn alike(one: &Texture, other: &Texture) -> bool {
    let (a, b) = (one.desc(), other.desc());
    let shape = |desc: &crate::resource::TextureDesc| {
        (desc.dimension, desc.width, desc.height, desc.depth_or_array, desc.mips)
    };
    a.format.copies_to(b.format) && shape(a) == shape(b)
}
