//! Modelled work: commands that take time or hang.

use super::recording::CommandList;
use crate::error::Result;
use tidegate_gpu_abi::Command;

impl CommandList {
    /// Keeps the engine busy for `ns` nanoseconds: modelled work. Every list takes it.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn timed(&mut self, ns: u64) -> Result<()> {
        self.push(&Command::Timed { ns })
    }

    /// Keeps the engine without work for `ns` nanoseconds: a gap of a recording that is replayed.
    /// It is not counted as busy time. Every list takes it.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn gap(&mut self, ns: u64) -> Result<()> {
        self.push(&Command::Gap { ns })
    }

    /// Has the engine stop answering, as a program that hangs does: only a reset ends it, and the
    /// device is lost. For tests of recovery. Every list takes it.
    ///
    /// # Errors
    /// [`Error::BadValue`] when the list is full.
    pub fn hang(&mut self) -> Result<()> {
        self.push(&Command::Hang)
    }
}
