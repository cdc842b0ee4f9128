//! Owns closed lists: commands of a list type that can be executed.

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
    /// Set for a list that was recorded from a command allocator.
    pub(crate) allocator: Option<Arc<Link>>,
    /// What its commands use, where states are checked.
    pub(crate) states: Option<Arc<ListStates>>,
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
