//! Owns commands in GPU memory, and what they name.
//!
//! Nothing in the memory depends on a submission.

use crate::umd::arena::{Arena, Block};
use crate::umd::buffer::BufferMemory;
use crate::umd::kernel_object::KernelDevice;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_gpu_abi::{EngineClass, GpuVa};

/// Commands in GPU memory, and what they name.
pub(crate) struct CommandMemory {
    pub(crate) block: Block,
    pub(crate) bytes: u32,
    /// The name's number on the timeline plus one; 0 for none.
    pub(crate) trace_name: u32,
    /// The name, else the first label.
    pub(crate) label: Option<String>,
    /// The engine class that the commands are made for; `None` if each of them is for any queue.
    pub(crate) made_for: Option<EngineClass>,
    /// Kept alive while the commands may run.
    pub(crate) buffers: Vec<Arc<BufferMemory>>,
    /// Lists that were joined into these commands, if their allocators must know of their use.
    pub(crate) parts: Vec<Arc<CommandMemory>>,
    arena: Arc<Arena>,
}

impl CommandMemory {
    /// Puts commands into GPU memory; `commands` is not longer than the largest command buffer.
    pub(crate) fn upload(arena: &Arc<Arena>, commands: &[u8]) -> Result<CommandMemory, Status> {
        let block = arena.take(commands.len() as u64)?;
        block.write(0, commands);
        Ok(CommandMemory {
            block,
            bytes: commands.len() as u32,
            trace_name: 0,
            label: None,
            made_for: None,
            buffers: Vec::new(),
            parts: Vec::new(),
            arena: Arc::clone(arena),
        })
    }

    pub(crate) fn gpu_va(&self) -> GpuVa {
        self.block.gpu_va
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.arena.device()
    }
}

impl Drop for CommandMemory {
    fn drop(&mut self) {
        self.arena.give_back(&self.block);
    }
}
