//! Signals that are queued behind residency operations. A context that runs nothing waits for the
//! paging fence and makes the signals, so that no thread waits.
//!
//! Each signal packet also advances a progress fence. A signalled fence stays alive until its
//! packet is done.

use crate::umd::device::UmdDevice;
use crate::umd::failure::Failure;
use crate::umd::fence::FenceObject;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::signalled_fences::SignalledFences;
use std::sync::Arc;
use tidegate_calls::{
    CreateContextVirtual, CreateMonitoredFence, FenceValue, Handle, MakeResident, Priority,
    Residency, Status, SyncObjectFlags,
};

pub(crate) struct PagingSignals {
    context: Owned,
    progress_fence: Owned,
    progress: FenceReader,
    /// Signals queued so far.
    queued: u64,
    kept: SignalledFences,
}

impl PagingSignals {
    pub(crate) fn new(device: &UmdDevice) -> Result<PagingSignals, Failure> {
        let call = "D3DKMTCreateSynchronizationObject2";
        let args = CreateMonitoredFence {
            device: device.handle(),
            initial_value: 0,
            flags: SyncObjectFlags::empty(),
            engine_affinity: 0,
            name: "signals behind paging",
        };
        let fence = device.enter().create_monitored_fence(args).map_err(Failure::of(call))?;
        let progress_fence = Owned::new(&device.kernel, Object::Fence, fence.handle);
        let progress = fence.value.read_only().cloned();
        let progress = progress.ok_or(Failure::Refused(call, Status::NOT_SUPPORTED))?;
        let args = CreateContextVirtual {
            device: device.handle(),
            node_ordinal: 0,
            engine_affinity: 0,
            priority: Priority::Normal,
        };
        let context = device.enter().create_context_virtual(args);
        let context = context.map_err(Failure::of("D3DKMTCreateContextVirtual"))?;
        Ok(PagingSignals {
            context: Owned::new(&device.kernel, Object::Context, context),
            progress_fence,
            progress: device.reader(progress, 0),
            queued: 0,
            kept: SignalledFences::new(),
        })
    }

    /// Gives each allocation a reference, and has `fence` signalled with `value` when all of them
    /// are in local memory. The caller holds the lock of the signals, so that they are queued in
    /// the order of the paging fence.
    pub(crate) fn enqueue(
        &mut self,
        device: &UmdDevice,
        allocations: &[Handle],
        fence: &Arc<FenceObject>,
        value: u64,
    ) -> Result<(), Failure> {
        let (paging_queue, paging_fence) =
            device.paging_queue().map_err(Failure::of("D3DKMTCreatePagingQueue"))?;
        let residency = device.enter().make_resident(MakeResident { paging_queue, allocations });
        let context = self.context.handle();
        match residency.map_err(Failure::of("D3DKMTMakeResident"))? {
            Residency::Resident => {}
            Residency::Pending { paging_fence_value } => {
                let fences = [FenceValue { fence: paging_fence, value: paging_fence_value }];
                let waited = device.enter().wait_from_gpu(context, &fences);
                waited.map_err(Failure::of("D3DKMTWaitForSynchronizationObjectFromGpu"))?;
            }
            Residency::OverBudget { bytes_to_trim } => {
                return Err(Failure::OverBudget(bytes_to_trim));
            }
        }
        let queued = self.queued + 1;
        let progress = FenceValue { fence: self.progress_fence.handle(), value: queued };
        let signalled = device.enter().signal_from_gpu(context, &[fence.at(value), progress]);
        signalled.map_err(Failure::of("D3DKMTSignalSynchronizationObjectFromGpu"))?;
        self.queued = queued;
        self.kept.collect(self.progress.load());
        self.kept.hold(fence, queued);
        Ok(())
    }
}
