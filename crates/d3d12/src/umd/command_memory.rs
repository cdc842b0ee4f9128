//! Owns commands in GPU memory, and closed lists, which are commands of a list type.
//!
//! Nothing in the memory depends on a submission, so a closed list may run any number of times, on
//! several queues at once.

use crate::model::CommandListType;
use crate::umd::arena::{Arena, Block};
use crate::umd::buffer::BufferMemory;
use crate::umd::kernel_object::KernelDevice;
use std::fmt;
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
            arena: Arc::clone(arena),
        })
    }

    pub(crate) fn gpu_va(&self) -> GpuVa {
        self.block.gpu_va
    }
}

impl Drop for CommandMemory {
    fn drop(&mut self) {
        self.arena.give_back(&self.block);
    }
}

/// A list that can be executed.
#[derive(Clone)]
pub struct ClosedList {
    pub(crate) memory: Arc<CommandMemory>,
    pub(crate) list_type: CommandListType,
    pub(crate) commands: u32,
}

impl ClosedList {
    /// Its type.
    pub fn list_type(&self) -> CommandListType {
        self.list_type
    }

    /// How many commands it holds, labels not counted.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// How many bytes of GPU memory its commands take.
    pub fn bytes(&self) -> u32 {
        self.memory.bytes
    }

    /// Where engines find its commands.
    pub fn gpu_va(&self) -> u64 {
        self.memory.gpu_va().0
    }

    /// Its name, else its first label, if it has one.
    pub fn label(&self) -> Option<&str> {
        self.memory.label.as_deref()
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.memory.arena.device()
    }
}

impl fmt::Debug for ClosedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ClosedList({}, {} commands at {:#x})",
            self.list_type,
            self.commands,
            self.gpu_va()
        )
    }
}
