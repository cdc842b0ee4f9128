//! Owns the place of tile mappings in the order of a queue.
//!
//! An update, in order: 1. the queue signals a fence behind everything that is queued; 2. the
//! kernel, when it has seen that value, changes the mappings and signals the next value; 3. the
//! queue waits for that value before everything that follows. Neither counts as the application's.

use crate::umd::failure::Failure;
use crate::umd::fence::FenceObject;
use crate::umd::queue::UmdQueue;
use std::sync::Arc;
use tidegate_calls::{Handle, TileOperation, UpdateGpuVirtualAddress};
use tidegate_platform::Queued;

/// The updates of a queue so far.
#[derive(Default)]
pub(crate) struct TileMappings {
    /// Made with the first update.
    fence: Option<Arc<FenceObject>>,
    /// The value that was used last.
    value: u64,
    /// Signals and waits that the queue has made for updates.
    pub(crate) signals: u64,
    pub(crate) waits: u64,
}

impl UmdQueue {
    pub(crate) fn update_tile_mappings(
        &self,
        reserved: Handle,
        operations: &[TileOperation],
    ) -> Result<(), Failure> {
        let device = &self.id.device;
        let mut state = self.tile_mappings.lock_device();
        let fence = match &state.fence {
            Some(fence) => Arc::clone(fence),
            None => {
                let fence = FenceObject::internal(device, &format!("{} tiles", self.id.name))?;
                Arc::clone(state.fence.insert(fence))
            }
        };
        let queued = Queued { at_ns: self.id.queued().at_ns, ..Queued::default() };
        // 1.
        let value = state.value + 1;
        self.signal(&fence, value, queued)?;
        (state.value, state.signals) = (value, state.signals + 1);
        // 2.
        let handle = fence.handle();
        let update = UpdateGpuVirtualAddress { reserved, operations, fence: handle, value };
        let updated = device.enter().update_gpu_virtual_address(update);
        updated.map_err(Failure::of("D3DKMTUpdateGpuVirtualAddress"))?;
        // 3.
        (state.value, state.waits) = (value + 1, state.waits + 1);
        self.wait(&fence, value + 1, queued)
    }
}
