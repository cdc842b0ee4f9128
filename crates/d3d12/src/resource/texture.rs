//! Textures: texels in one, two or three dimensions, with mips and array slices as subresources.
//! [`crate::resource::footprint`] defines their layout in memory.

use crate::error::{Error, Result};
use crate::model::Heap;
use crate::resource::buffer::{Buffer, initial_states};
use crate::resource::footprint::{CopyableFootprints, SubresourceFootprint, lay_out};
use crate::resource::format::Format;
use crate::resource::heap::{ResourceHeap, placement};
use crate::shared_device::SharedDevice;
use crate::states::facts::{HeapRange, ResourceFacts};
use crate::states::flags::ResourceStates;
use crate::states::policy::ResourceKind;
use crate::umd::buffer::BufferMemory;
use std::fmt;
use std::sync::Arc;

/// The maximum size of a texture of one or two dimensions, in texels per direction.
pub const MAX_TEXTURE_SIZE: u32 = 16_384;
/// The maximum size of a texture of three dimensions, in texels per direction. Also the maximum
/// number of array slices.
pub const MAX_DEPTH_OR_ARRAY_SIZE: u32 = 2_048;

/// The dimension of a texture (D3D12_RESOURCE_DIMENSION).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextureDimension {
    /// A row of texels.
    One,
    /// Rows.
    Two,
    /// Slices of rows.
    Three,
}

/// Describes a texture to create (D3D12_RESOURCE_DESC).
///
/// ```
/// use tidegate_d3d12::{Format, TextureDesc};
///
/// let albedo = TextureDesc::new_2d("albedo", Format::R8G8B8A8Unorm, 256, 256).mips(9);
/// assert_eq!(albedo.subresources(), 9);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextureDesc {
    /// Its name in messages.
    pub name: String,
    /// Its dimension.
    pub dimension: TextureDimension,
    /// Its format.
    pub format: Format,
    /// Texels in a row.
    pub width: u32,
    /// Rows; 1 for one dimension.
    pub height: u32,
    /// Slices for three dimensions; array slices for others.
    pub depth_or_array: u32,
    /// The number of mips. Each has half the size of the previous one.
    pub mips: u32,
    /// Its heap.
    pub heap: Heap,
    /// Its initial states. Ignored in an upload or readback heap, which has states of its own.
    pub initial: ResourceStates,
    /// Whether several queues may use it at once while one of them writes other texels
    /// (ALLOW_SIMULTANEOUS_ACCESS).
    pub simultaneous_access: bool,
}

impl Default for TextureDesc {
    /// One texel of [`Format::R8G8B8A8Unorm`].
    fn default() -> TextureDesc {
        TextureDesc::new_2d("", Format::R8G8B8A8Unorm, 1, 1)
    }
}

impl TextureDesc {
    /// Describes a texture of two dimensions in the default heap, in COMMON, with one subresource.
    pub fn new_2d(name: impl Into<String>, format: Format, width: u32, height: u32) -> TextureDesc {
        TextureDesc {
            name: name.into(),
            dimension: TextureDimension::Two,
            format,
            width,
            height,
            depth_or_array: 1,
            mips: 1,
            heap: Heap::Default,
            initial: ResourceStates::COMMON,
            simultaneous_access: false,
        }
    }

    /// Describes a texture of one dimension.
    pub fn new_1d(name: impl Into<String>, format: Format, width: u32) -> TextureDesc {
        let dimension = TextureDimension::One;
        TextureDesc { dimension, ..TextureDesc::new_2d(name, format, width, 1) }
    }

    /// Describes a texture of three dimensions.
    pub fn new_3d(
        name: impl Into<String>,
        format: Format,
        [width, height, depth]: [u32; 3],
    ) -> TextureDesc {
        let (dimension, depth_or_array) = (TextureDimension::Three, depth);
        let desc = TextureDesc::new_2d(name, format, width, height);
        TextureDesc { dimension, depth_or_array, ..desc }
    }

    /// Sets the number of mips.
    pub fn mips(self, mips: u32) -> TextureDesc {
        TextureDesc { mips, ..self }
    }

    /// Sets the number of array slices.
    pub fn array(self, slices: u32) -> TextureDesc {
        TextureDesc { depth_or_array: slices, ..self }
    }

    /// Sets the heap.
    pub fn heap(self, heap: Heap) -> TextureDesc {
        TextureDesc { heap, ..self }
    }

    /// Sets the initial states.
    pub fn initial(self, initial: ResourceStates) -> TextureDesc {
        TextureDesc { initial, ..self }
    }

    /// Lets several queues use it at once while one of them writes other texels.
    pub fn simultaneous_access(self) -> TextureDesc {
        TextureDesc { simultaneous_access: true, ..self }
    }

    fn slices(&self) -> u32 {
        if self.dimension == TextureDimension::Three { 1 } else { self.depth_or_array }
    }

    /// Returns the number of subresources: mips times array slices.
    pub fn subresources(&self) -> u32 {
        self.mips * self.slices()
    }

    /// Returns the number of a subresource by its mip and its array slice.
    #[doc(alias = "D3D12CalcSubresource")]
    pub fn subresource(&self, mip: u32, slice: u32) -> u32 {
        mip + slice * self.mips
    }

    /// Returns the size of a subresource in texels.
    pub fn size_of(&self, subresource: u32) -> [u32; 3] {
        let mip = subresource % self.mips;
        let depth = if self.dimension == TextureDimension::Three { self.depth_or_array } else { 1 };
        [self.width, self.height, depth].map(|texels| (texels >> mip).max(1))
    }

    /// Returns the layout of `count` subresources from `first` on in a buffer from `base` on. With
    /// all subresources and a base of 0, this is the layout of the texture in memory.
    #[doc(alias = "GetCopyableFootprints")]
    pub fn copyable_footprints(&self, first: u32, count: u32, base: u64) -> CopyableFootprints {
        let sizes = (first..first + count).map(|number| self.size_of(number));
        lay_out(self.format, sizes, base)
    }

    /// Returns the bytes that it takes in a heap, a multiple of
    /// [`crate::resource::heap::PLACEMENT_ALIGNMENT`].
    #[doc(alias = "GetResourceAllocationInfo")]
    pub fn heap_bytes(&self) -> u64 {
        let bytes = self.copyable_footprints(0, self.subresources(), 0).total_bytes;
        bytes.next_multiple_of(crate::resource::heap::PLACEMENT_ALIGNMENT)
    }

    fn check(&self) -> Result<()> {
        let three = self.dimension == TextureDimension::Three;
        let most = if three { MAX_DEPTH_OR_ARRAY_SIZE } else { MAX_TEXTURE_SIZE };
        let sizes = [self.width, self.height];
        let depth = if three { self.depth_or_array } else { 1 };
        let largest = self.width.max(self.height).max(depth);
        let why = if sizes.iter().any(|size| !(1..=most).contains(size)) {
            "give it from 1 to 16384 texels in each direction, a 3D texture at most 2048"
        } else if !(1..=MAX_DEPTH_OR_ARRAY_SIZE).contains(&self.depth_or_array) {
            "give it from 1 to 2048 slices"
        } else if self.dimension == TextureDimension::One && self.height != 1 {
            "a texture of one dimension has one row; set its height to 1"
        } else if self.mips == 0 || self.mips > largest.ilog2() + 1 {
            "its mips end with the one of a single texel; give it fewer, and at least one"
        } else if !self.initial.combine() {
            "its initial states do not combine; name one write, or reads only"
        } else {
            return Ok(());
        };
        Err(Error::BadValue { what: self.what(), why })
    }

    fn what(&self) -> String {
        let (name, format) = (&self.name, self.format);
        let sizes = [self.width, self.height, self.depth_or_array];
        format!("texture '{name}' of {sizes:?} texels {format} with {} mips", self.mips)
    }
}

/// A texture. Lists that name it keep it alive, also while the GPU runs them.
#[derive(Clone)]
pub struct Texture {
    pub(crate) memory: Arc<BufferMemory>,
    pub(crate) facts: Arc<ResourceFacts>,
    desc: Arc<TextureDesc>,
    footprints: Arc<[SubresourceFootprint]>,
}

impl Texture {
    pub(crate) fn new(device: &SharedDevice, desc: TextureDesc) -> Result<Texture> {
        desc.check()?;
        let (bytes, place) = (desc.heap_bytes(), placement(device, desc.heap));
        let memory = BufferMemory::new(&device.umd.kernel, desc.name.clone(), bytes, place);
        let refused = |status| device.error("D3DKMTCreateAllocation2", &desc.what(), status);
        Ok(Texture::around(Arc::new(memory.map_err(refused)?), desc, None))
    }

    pub(crate) fn placed(heap: &ResourceHeap, offset: u64, desc: TextureDesc) -> Result<Texture> {
        desc.check()?;
        let (what, bytes) = (desc.what(), desc.heap_bytes());
        let (memory, place) = heap.place(&what, &desc.name, desc.heap, offset, bytes)?;
        Ok(Texture::around(Arc::new(memory), desc, Some(place)))
    }

    fn around(memory: Arc<BufferMemory>, desc: TextureDesc, place: Option<HeapRange>) -> Texture {
        let fixed = desc.heap.has_fixed_states();
        let kind = match desc.simultaneous_access {
            true => ResourceKind::SimultaneousTexture,
            false => ResourceKind::Texture,
        };
        let initial = if fixed { initial_states(desc.heap) } else { desc.initial };
        let (name, subresources) = (desc.name.clone(), desc.subresources());
        let facts = ResourceFacts { name, kind, subresources, initial, fixed, place };
        let footprints = desc.copyable_footprints(0, subresources, 0).footprints.into();
        Texture { memory, facts: Arc::new(facts), desc: Arc::new(desc), footprints }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Returns its description.
    pub fn desc(&self) -> &TextureDesc {
        &self.desc
    }

    /// Returns the layout of a subresource in the texture's memory; `None` if it does not exist.
    pub fn footprint(&self, subresource: u32) -> Option<SubresourceFootprint> {
        self.footprints.get(subresource as usize).copied()
    }

    /// Returns the GPU virtual address of its first byte.
    pub fn gpu_va(&self) -> u64 {
        self.memory.gpu_va
    }

    /// Returns the length of all subresources in memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.footprints.last().map_or(0, |last| last.offset + last.bytes())
    }

    /// Returns the texture's memory as programs take it for an argument. Subresources lie there as
    /// [`Texture::footprint`] says. The texture's states apply.
    #[doc(alias = "CreateShaderResourceView")]
    #[doc(alias = "CreateRenderTargetView")]
    pub fn view(&self) -> Buffer {
        Buffer::view_of(&self.memory, &self.facts, self.desc.heap)
    }

    /// Writes texels of a subresource in an upload or readback heap through the CPU mapping: `data`
    /// has its rows without gaps.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a texture of the default heap, a subresource that is not there, and
    /// data of another length.
    #[doc(alias = "WriteToSubresource")]
    pub fn write(&self, subresource: u32, data: &[u8]) -> Result<()> {
        self.each_row(subresource, data.len(), |offset, row| {
            self.memory.write(offset, &data[row]).expect("the row lies in the texture");
        })
    }

    /// Reads texels of a subresource in an upload or readback heap through the CPU mapping, as
    /// [`Texture::write`].
    ///
    /// # Errors
    /// As [`Texture::write`].
    #[doc(alias = "ReadFromSubresource")]
    pub fn read(&self, subresource: u32, out: &mut [u8]) -> Result<()> {
        self.each_row(subresource, out.len(), |offset, row| {
            self.memory.read(offset, &mut out[row]).expect("the row lies in the texture");
        })
    }

    fn each_row(
        &self,
        subresource: u32,
        bytes: usize,
        mut act: impl FnMut(u64, std::ops::Range<usize>),
    ) -> Result<()> {
        let bad = |why| Err(Error::BadValue { what: format!("a map of {}", self.what()), why });
        if !self.desc.heap.is_mapped() {
            return bad("no CPU maps the default heap; copy over an upload or readback heap");
        }
        let Some(footprint) = self.footprint(subresource) else {
            return bad("it has no such subresource; count mips and slices from 0");
        };
        let row_bytes = footprint.row_bytes() as usize;
        let rows = footprint.height as usize * footprint.depth as usize;
        if bytes != rows * row_bytes {
            return bad("the data has another length than the subresource; give all its rows");
        }
        for row in 0..rows {
            let offset = footprint.offset + row as u64 * footprint.row_pitch;
            act(offset, row * row_bytes..(row + 1) * row_bytes);
        }
        Ok(())
    }

    fn what(&self) -> String {
        format!("texture '{}'", self.name())
    }
}

impl fmt::Debug for Texture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Texture({:?}, {} at {:#x})", self.name(), self.desc.format, self.gpu_va())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subresources_are_numbered_by_mip_then_slice_and_halve() {
        let desc = TextureDesc::new_2d("t", Format::R32Uint, 9, 4).mips(3).array(2);
        assert_eq!((desc.subresources(), desc.subresource(2, 1)), (6, 5));
        let sizes: Vec<_> = (0..6).map(|number| desc.size_of(number)).collect();
        assert_eq!(sizes[..3], [[9, 4, 1], [4, 2, 1], [2, 1, 1]]);
        assert_eq!(sizes[..3], sizes[3..]);
        let cube = TextureDesc::new_3d("c", Format::R8Unorm, [4, 8, 16]).mips(5);
        assert_eq!((cube.subresources(), cube.size_of(2)), (5, [1, 2, 4]));
    }

    #[test]
    fn descriptions_are_refused_outside_their_limits() {
        let good = || TextureDesc::new_2d("t", Format::R32Float, 16, 16);
        assert!(good().mips(5).check().is_ok());
        for bad in [
            good().mips(6),
            good().mips(0),
            good().array(0),
            good().array(2049),
            TextureDesc { width: 0, ..good() },
            TextureDesc { width: 16_385, ..good() },
            TextureDesc { height: 2, ..TextureDesc::new_1d("t", Format::R32Float, 4) },
            TextureDesc::new_3d("t", Format::R32Float, [2049, 1, 1]),
            good().initial(ResourceStates::COPY_DEST | ResourceStates::COPY_SOURCE),
        ] {
            assert!(matches!(bad.check(), Err(Error::BadValue { .. })), "{bad:?}");
        }
    }
}
