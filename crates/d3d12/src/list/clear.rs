//! Clears of unordered access views and render targets, and discards.

use super::recording::{CommandList, bad};
use crate::error::Result;
use crate::model::CommandListType;
use crate::resource::{Buffer, Format, Resource};
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use tidegate_gpu_abi::{Command, GpuVa};

impl CommandList {
    /// Fills `bytes` bytes of `buffer`, starting at `offset`, with a 32-bit value. Compute and
    /// direct lists only.
    ///
    /// # Errors
    /// [`crate::Error::NotAccepted`], [`crate::Error::OutOfRange`], [`crate::Error::BadValue`] for
    /// a length that is 0 or not a multiple of 4, [`crate::Error::Foreign`].
    #[doc(alias = "ClearUnorderedAccessViewUint")]
    pub fn clear_uint(
        &mut self,
        buffer: &Buffer,
        offset: u64,
        bytes: u64,
        value: u32,
    ) -> Result<()> {
        self.clear(buffer, offset, bytes, value, "ClearUnorderedAccessViewUint")
    }

    /// Same as [`CommandList::clear_uint`], with a 32-bit float.
    ///
    /// # Errors
    /// As [`CommandList::clear_uint`].
    #[doc(alias = "ClearUnorderedAccessViewFloat")]
    pub fn clear_float(
        &mut self,
        buffer: &Buffer,
        offset: u64,
        bytes: u64,
        value: f32,
    ) -> Result<()> {
        let kind = "ClearUnorderedAccessViewFloat";
        self.clear(buffer, offset, bytes, value.to_bits(), kind)
    }

    /// Declares the contents of `buffer` undefined until they are written again. Adds no command.
    /// Compute and direct lists only.
    ///
    /// # Errors
    /// [`crate::Error::NotAccepted`], [`crate::Error::Foreign`].
    #[doc(alias = "DiscardResource")]
    pub fn discard(&mut self, buffer: &Buffer) -> Result<()> {
        self.accepts_compute("discard")?;
        self.name_buffer(buffer)?;
        let needed = ResourceStates::UNORDERED_ACCESS;
        self.access(buffer.into(), &Subresources::All, needed, "DiscardResource");
        Ok(())
    }

    /// Fills a render target with a colour: a whole texture, or a whole buffer of R8G8B8A8_UNORM
    /// pixels. Direct lists only.
    ///
    /// # Errors
    /// [`crate::Error::NotAccepted`]; [`crate::Error::BadValue`] for a format whose texels have
    /// more than 4 bytes, and for a buffer whose length is not a multiple of 4;
    /// [`crate::Error::Foreign`].
    #[doc(alias = "ClearRenderTargetView")]
    pub fn clear_render_target_view<'a>(
        &mut self,
        target: impl Into<Resource<'a>>,
        colour: [f32; 4],
    ) -> Result<()> {
        let is_direct = self.list_type() == CommandListType::Direct;
        self.accepts("clear of a render target", "direct", is_direct)?;
        let target = target.into();
        let format = match target {
            Resource::Buffer(_) => Format::R8G8B8A8Unorm,
            Resource::Texture(texture) => texture.desc().format,
        };
        let Some(value) = format.word_of(colour) else {
            let what = "a clear of a render target";
            return Err(bad(what, "its texels have more than 4 bytes; draw over it"));
        };
        let bytes = match target {
            Resource::Buffer(buffer) => buffer.bytes(),
            // Rows are padded to multiples of 256 bytes.
            Resource::Texture(texture) => texture.bytes().next_multiple_of(4),
        };
        self.name_resource(target)?;
        let needed = ResourceStates::RENDER_TARGET;
        self.access(target, &Subresources::All, needed, "ClearRenderTargetView");
        self.push_fill(target.memory().gpu_va, bytes, value)
    }

    fn clear(
        &mut self,
        buffer: &Buffer,
        offset: u64,
        bytes: u64,
        value: u32,
        kind: &'static str,
    ) -> Result<()> {
        self.accepts_compute("clear")?;
        buffer.check("a clear", offset, bytes)?;
        self.name_buffer(buffer)?;
        let needed = ResourceStates::UNORDERED_ACCESS;
        self.access(buffer.into(), &Subresources::All, needed, kind);
        self.push_fill(buffer.gpu_va() + offset, bytes, value)
    }

    /// Refuses a command of compute and direct lists in other lists.
    pub(crate) fn accepts_compute(&self, command: &'static str) -> Result<()> {
        self.accepts(command, "compute or direct", self.list_type().takes_dispatches())
    }

    /// Refuses a copy in lists of engines that do not copy.
    pub(crate) fn accepts_copies(&self) -> Result<()> {
        self.accepts("copy", "copy, compute or direct", self.list_type().takes_copies())
    }

    /// Appends a fill of `bytes` bytes at any GPU address.
    pub(crate) fn push_fill(&mut self, destination_va: u64, bytes: u64, value: u32) -> Result<()> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(bad(
                "a fill",
                "its length is no multiple of 4 above 0; fill whole 32-bit words",
            ));
        }
        self.push(&Command::Fill { destination: GpuVa(destination_va), bytes, value })
    }
}
