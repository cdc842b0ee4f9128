//! Signals queued behind residency operations. A context without command buffers waits for the
//! paging fence and then signals, so no thread blocks.
//!
//! Each signal packet also advances a progress fence. A signalled fence is kept alive until its
//! packet is complete.

use crate::umd::context::Context;
use crate::umd::device::UmdDevice;
use crate::umd::failure::{Failure, Why};
use crate::umd::fence::FenceObject;
use crate::umd::held_fences::HeldFences;
use std::sync::Arc;
use tidegate_calls::{FenceValue, Handle, Priority};

pub(crate) struct PagingSignals {
    context: Context,
    /// Number of signals queued.
    queued: u64,
    held: HeldFences,
}

impl PagingSignals {
    pub(crate) fn new(device: &UmdDevice) -> Result<PagingSignals, Failure> {
        let name = "signals behind paging";
        let context = Context::new(device, name, 0, 0, Priority::Normal)?;
        Ok(PagingSignals { context, queued: 0, held: HeldFences::new() })
    }

    /// Adds a residency reference to each allocation and queues a signal of `fence` to `value` for
    /// when all are in local memory. The caller holds the lock of the signals, so they are queued
    /// in the order of the paging fence.
    pub(crate) fn enqueue(
        &mut self,
        device: &UmdDevice,
        allocations: &[Handle],
        fence: &Arc<FenceObject>,
        value: u64,
    ) -> Result<(), Failure> {
        let (paging_queue, fence_of_paging) =
            device.paging_queue().map_err(Why::of("D3DKMTCreatePagingQueue"))?;
        let context = self.context.handle();
        if let Some(value) = device.add_references(paging_queue, allocations)? {
            let fences = [FenceValue { fence: fence_of_paging, value }];
            let waited = device.enter().wait_from_gpu(context, &fences);
            waited.map_err(Why::of("D3DKMTWaitForSynchronizationObjectFromGpu"))?;
        }
        let queued = self.queued + 1;
        let values = [fence.at(value), self.context.progress_at(queued)];
        let signalled = device.enter().signal_from_gpu(context, &values);
        signalled.map_err(Why::of("D3DKMTSignalSynchronizationObjectFromGpu"))?;
        self.queued = queued;
        self.held.collect(self.context.progress.load());
        self.held.hold(fence, queued);
        Ok(())
    }
}
