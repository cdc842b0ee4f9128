//! Closed lists: executable commands of one list type.

use crate::model::CommandListType;
use crate::states::recording::ListStates;
use crate::umd::allocator::Link;
use crate::umd::command_memory::CommandMemory;
use crate::umd::kernel_object::KernelDevice;
use std::fmt;
use std::sync::Arc;

/// A list that can be executed.
#[derive(Clone)]
pub struct ClosedList {
    pub(crate) memory: Arc<CommandMemory>,
    pub(crate) list_type: CommandListType,
    pub(crate) commands: u32,
    /// Set if the list was recorded from a command allocator.
    pub(crate) allocator: Option<Arc<Link>>,
    /// The resource uses of its commands, if states are checked.
    pub(crate) states: Option<Arc<ListStates>>,
}

impl ClosedList {
    /// Returns the list type.
    pub fn list_type(&self) -> CommandListType {
        self.list_type
    }

    /// Returns the number of commands, without labels.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Returns the size of its commands in bytes.
    pub fn bytes(&self) -> u32 {
        self.memory.bytes
    }

    /// Returns the GPU address of its commands.
    pub fn gpu_va(&self) -> u64 {
        self.memory.gpu_va().0
    }

    /// Returns the name, or the first label if there is no name.
    pub fn label(&self) -> Option<&str> {
        self.memory.label.as_deref()
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.memory.device()
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
