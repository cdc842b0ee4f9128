//! Commands for tests, benchmarks and replays of recordings. Direct3D 12 has no such commands, and
//! some of them skip the checks that make a list safe.
//!
//! Entry point: [`TestCommands`], which extends [`CommandList`]. An address that is not mapped is a
//! page fault of the GPU, which removes the device.

use crate::error::Result;
use crate::list::{Arg, CommandList};
use crate::resource::Buffer;
use tidegate_gpu_abi::Command;

/// Commands of lists of every type whose engine runs them.
pub trait TestCommands {
    /// Copies `bytes` between any two GPU addresses.
    ///
    /// # Errors
    /// [`crate::Error::BadValue`] for 0 bytes.
    fn copy_unchecked(&mut self, destination_va: u64, source_va: u64, bytes: u64) -> Result<()>;

    /// Fills `bytes` of `destination` with a repeated 32-bit value. Lists of every type take it.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`], [`crate::Error::BadValue`] for a length that is 0 or not a
    /// multiple of 4, [`crate::Error::Foreign`].
    fn fill(&mut self, destination: &Buffer, offset: u64, bytes: u64, value: u32) -> Result<()>;

    /// Fills `bytes` at any GPU address.
    ///
    /// # Errors
    /// [`crate::Error::BadValue`] for a length that is 0 or not a multiple of 4.
    fn fill_unchecked(&mut self, destination_va: u64, bytes: u64, value: u32) -> Result<()>;

    /// Runs a built-in program, named by its number, over `groups` thread groups. Compute and
    /// direct lists take it.
    ///
    /// # Errors
    /// As [`CommandList::dispatch`]; [`crate::Error::OutOfRange`] for an argument that begins
    /// outside its buffer.
    fn dispatch_by_number(
        &mut self,
        program: u32,
        groups: [u32; 3],
        args: &[Arg<'_>],
    ) -> Result<()>;

    /// Runs a rasteriser program, named by its number, over `groups` tiles. Direct lists take it.
    ///
    /// # Errors
    /// As [`TestCommands::dispatch_by_number`].
    fn draw_by_number(&mut self, program: u32, groups: [u32; 3], args: &[Arg<'_>]) -> Result<()>;

    /// Declares that the list uses `buffer` by its address. The list keeps it alive, and resident
    /// if submissions manage residency.
    ///
    /// # Errors
    /// [`crate::Error::Foreign`].
    fn uses(&mut self, buffer: &Buffer) -> Result<()>;

    /// Keeps the engine busy for `ns` nanoseconds: modelled work.
    ///
    /// # Errors
    /// [`crate::Error::BadValue`] when the list is full.
    fn timed(&mut self, ns: u64) -> Result<()>;

    /// Keeps the engine idle for `ns` nanoseconds: a gap of a replayed recording. It does not count
    /// as busy time.
    ///
    /// # Errors
    /// [`crate::Error::BadValue`] when the list is full.
    fn gap(&mut self, ns: u64) -> Result<()>;

    /// Makes the engine stop responding, as a hung program does. Only a reset ends it, and the
    /// device is lost.
    ///
    /// # Errors
    /// [`crate::Error::BadValue`] when the list is full.
    fn hang(&mut self) -> Result<()>;
}

impl TestCommands for CommandList {
    fn copy_unchecked(&mut self, destination_va: u64, source_va: u64, bytes: u64) -> Result<()> {
        self.push_copy(destination_va, source_va, bytes)
    }

    fn fill(&mut self, destination: &Buffer, offset: u64, bytes: u64, value: u32) -> Result<()> {
        destination.check("a fill", offset, bytes)?;
        self.name_buffer(destination)?;
        self.push_fill(destination.gpu_va() + offset, bytes, value)
    }

    fn fill_unchecked(&mut self, destination_va: u64, bytes: u64, value: u32) -> Result<()> {
        self.push_fill(destination_va, bytes, value)
    }

    fn dispatch_by_number(
        &mut self,
        program: u32,
        groups: [u32; 3],
        args: &[Arg<'_>],
    ) -> Result<()> {
        self.push_dispatch(program, groups, args)
    }

    fn draw_by_number(&mut self, program: u32, groups: [u32; 3], args: &[Arg<'_>]) -> Result<()> {
        self.push_draw(program, groups, args)
    }

    fn uses(&mut self, buffer: &Buffer) -> Result<()> {
        self.name_buffer(buffer)
    }

    fn timed(&mut self, ns: u64) -> Result<()> {
        self.push(&Command::Timed { ns })
    }

    fn gap(&mut self, ns: u64) -> Result<()> {
        self.push(&Command::Gap { ns })
    }

    fn hang(&mut self) -> Result<()> {
        self.push(&Command::Hang)
    }
}
