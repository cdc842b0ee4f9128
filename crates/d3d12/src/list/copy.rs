//! Copies and fills of buffers, which every list takes.

use super::recording::{CommandList, bad};
use crate::error::Result;
use crate::resource::Buffer;
use tidegate_gpu_abi::{Command, GpuVa};

impl CommandList {
    /// Copies `bytes` from `source` to `destination`. Every list takes it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadValue`] for 0 bytes, [`Error::Foreign`].
    #[doc(alias = "CopyBufferRegion")]
    pub fn copy(
        &mut self,
        destination: &Buffer,
        destination_offset: u64,
        source: &Buffer,
        source_offset: u64,
        bytes: u64,
    ) -> Result<()> {
        destination.check("a copy's destination", destination_offset, bytes)?;
        source.check("a copy's source", source_offset, bytes)?;
        self.name(destination)?;
        self.name(source)?;
        self.copy_unchecked(
            destination.gpu_va() + destination_offset,
            source.gpu_va() + source_offset,
            bytes,
        )
    }

    /// Copies `bytes` between any two GPU addresses.
    ///
    /// # Errors
    /// [`Error::BadValue`] for 0 bytes.
    pub fn copy_unchecked(
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

    /// Fills `bytes` of `destination` with a repeated 32-bit value. Every list takes it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BadValue`] for a length that is 0 or not a multiple of 4,
    /// [`Error::Foreign`].
    pub fn fill(
        &mut self,
        destination: &Buffer,
        offset: u64,
        bytes: u64,
        value: u32,
    ) -> Result<()> {
        destination.check("a fill", offset, bytes)?;
        self.name(destination)?;
        self.fill_unchecked(destination.gpu_va() + offset, bytes, value)
    }

    /// Fills `bytes` from any GPU address on.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length that is 0 or not a multiple of 4.
    pub fn fill_unchecked(&mut self, destination_va: u64, bytes: u64, value: u32) -> Result<()> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(bad(
                "a fill",
                "its length is no multiple of 4 above 0; fill whole 32-bit words",
            ));
        }
        self.push(&Command::Fill { destination: GpuVa(destination_va), bytes, value })
    }
}
