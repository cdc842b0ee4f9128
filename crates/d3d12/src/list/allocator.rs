//! Command allocators: the lists recorded from each, and when it may be reset.

use super::recording::CommandList;
use crate::error::{Error, Result};
use crate::model::CommandListType;
use crate::shared_device::SharedDevice;
use crate::umd::allocator::{AllocatorState, Busy, Recording};
use crate::umd::closed_list::ClosedList;
use std::fmt;
use std::sync::Arc;

/// A command allocator: the lists of one frame or one job, which are reset together.
///
/// Its lists follow the published rules:
///
/// - One list records from it at a time. A second one fails with [`Error::AllocatorRecords`].
/// - A reset while one of its lists executes fails with [`Error::AllocatorExecutes`] and changes
///   nothing.
/// - A call that executes a list which is still executing, or whose allocator was reset, is dropped
///   and removes the device ([`crate::RemovedReason::InvalidCall`]).
///
/// Queued lists keep their memory, so an allocator may be dropped at any time.
#[doc(alias = "ID3D12CommandAllocator")]
pub struct CommandAllocator {
    state: Arc<AllocatorState>,
    device: Arc<SharedDevice>,
    list_type: CommandListType,
}

impl CommandAllocator {
    pub(crate) fn new(
        device: &Arc<SharedDevice>,
        name: &str,
        list_type: CommandListType,
    ) -> CommandAllocator {
        let state = Arc::new(AllocatorState::new(&device.umd.platform, name.to_owned()));
        CommandAllocator { state, device: Arc::clone(device), list_type }
    }

    /// Returns the name in messages.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the type of its lists.
    pub fn list_type(&self) -> CommandListType {
        self.list_type
    }

    /// Resets the allocator. Lists recorded since the last reset can no longer be executed.
    ///
    /// # Errors
    /// [`Error::AllocatorRecords`] while a list records from it, [`Error::AllocatorExecutes`] while
    /// the GPU executes one. The allocator is then unchanged.
    #[doc(alias = "ID3D12CommandAllocator::Reset")]
    #[track_caller]
    pub fn reset(&self) -> Result<()> {
        let _call = self.device.umd.platform.enter_call("CommandAllocator::reset");
        self.state.reset().map_err(|busy| self.error(busy))
    }

    pub(crate) fn is_of(&self, device: &Arc<SharedDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Begins to record a list.
    ///
    /// # Errors
    /// [`Error::AllocatorRecords`] while another list records from it.
    pub(crate) fn record(&self) -> Result<CommandList> {
        let recording = Recording::begin(&self.state).map_err(|busy| self.error(busy))?;
        Ok(CommandList::new(&self.device, self.list_type, Some(recording)))
    }

    fn error(&self, busy: Busy) -> Error {
        let allocator = self.name().to_owned();
        match busy {
            Busy::Records => Error::AllocatorRecords { allocator },
            Busy::Executes { list, queue } => Error::AllocatorExecutes { allocator, list, queue },
        }
    }
}

impl ClosedList {
    /// Begins an empty list of the same type, which records from `allocator`. The GPU may still
    /// execute the commands recorded before.
    ///
    /// # Errors
    /// [`Error::AllocatorRecords`], [`Error::WrongAllocator`] for one of another list type,
    /// [`Error::Foreign`].
    #[doc(alias = "ID3D12GraphicsCommandList::Reset")]
    pub fn reset(&self, allocator: &CommandAllocator) -> Result<CommandList> {
        let device = &allocator.device;
        device.check_owner(self.device(), || {
            format!("the list '{}'", self.label().unwrap_or("without a label"))
        })?;
        if allocator.list_type != self.list_type {
            let (has, list_type) = (allocator.list_type, self.list_type);
            return Err(Error::WrongAllocator {
                allocator: allocator.name().to_owned(),
                has,
                list_type,
            });
        }
        allocator.record()
    }
}

impl fmt::Debug for CommandAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandAllocator({:?}, {})", self.name(), self.list_type)
    }
}
