//! Copies of buffer ranges, in lists of engines that copy.

use super::recording::{CommandList, bad};
use crate::error::Result;
use crate::resource::Buffer;
use crate::states::flags::ResourceStates;
use crate::states::recording::Subresources;
use tidegate_gpu_abi::{Command, GpuVa};

impl CommandList {
    /// Copies `bytes` bytes from `source` to `destination`. Copy, compute and direct lists.
    ///
    /// # Errors
    /// [`Error::NotAccepted`](crate::Error::NotAccepted);
    /// [`Error::OutOfRange`](crate::Error::OutOfRange);
    /// [`Error::BadValue`](crate::Error::BadValue) for 0 bytes;
    /// [`Error::Foreign`](crate::Error::Foreign).
    #[doc(alias = "CopyBufferRegion")]
    pub fn copy(
        &mut self,
        destination: &Buffer,
        destination_offset: u64,
        source: &Buffer,
        source_offset: u64,
        bytes: u64,
    ) -> Result<()> {
        self.accepts_copies()?;
        destination.check("a copy's destination", destination_offset, bytes)?;
        source.check("a copy's source", source_offset, bytes)?;
        self.name_buffer(destination)?;
        self.name_buffer(source)?;
        let kind = "CopyBufferRegion";
        self.access(source.into(), &Subresources::All, ResourceStates::COPY_SOURCE, kind);
        self.access(destination.into(), &Subresources::All, ResourceStates::COPY_DEST, kind);
        self.push_copy(
            destination.gpu_va() + destination_offset,
            source.gpu_va() + source_offset,
            bytes,
        )
    }

    /// Appends a copy of `bytes` bytes between any two GPU addresses.
    pub(crate) fn push_copy(
        &mut self,
        destination_va: u64,
        source_va: u64,
        bytes: u64,
    ) -> Result<()> {
        if bytes == 0 {
            return Err(bad("a copy", "it copies 0 bytes; give a length or leave the copy out"));
        }
        self.push(&Command::Copy {
            source: GpuVa(source_va),
            destination: GpuVa(destination_va),
            bytes,
        })
    }
}
