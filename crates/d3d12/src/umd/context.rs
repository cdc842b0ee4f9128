//! A context and the monitored fence that shows its progress.

use crate::umd::device::UmdDevice;
use crate::umd::failure::{Failure, Why};
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use tidegate_calls::{
    CreateContextVirtual, CreateMonitoredFence, FenceValue, Handle, Priority, Status,
    SyncObjectFlags,
};
use tidegate_gpu_abi::GpuVa;

pub(crate) struct Context {
    context: Owned,
    /// Declared after the context, whose work signals it.
    progress_fence: Owned,
    pub(crate) progress: FenceReader,
    /// The address where engines of its node store progress; `None` if they cannot write a fence.
    pub(crate) progress_va: Option<GpuVa>,
}

impl Context {
    /// Creates a context. `name` names the progress fence. `engine_affinity` is 0 or the bit of a
    /// physical GPU.
    pub(crate) fn new(
        device: &UmdDevice,
        name: &str,
        node_ordinal: u32,
        engine_affinity: u32,
        priority: Priority,
    ) -> Result<Context, Failure> {
        let call = "D3DKMTCreateSynchronizationObject2";
        let args = CreateMonitoredFence {
            device: device.handle(),
            initial_value: 0,
            flags: SyncObjectFlags::empty(),
            engine_affinity: 0,
            name,
        };
        let fence = device.enter().create_monitored_fence(args).map_err(Why::of(call))?;
        let progress_fence = Owned::new(&device.kernel, Object::Fence, fence.handle);
        // A monitored fence always has a CPU address.
        let progress = fence.value.read_only().cloned();
        let progress = progress.ok_or(Why::Refused(call, Status::NOT_SUPPORTED))?;
        let device_handle = device.handle();
        let args =
            CreateContextVirtual { device: device_handle, node_ordinal, engine_affinity, priority };
        let context = device.enter().create_context_virtual(args);
        let context = context.map_err(Why::of("D3DKMTCreateContextVirtual"))?;
        let writes_fences = device.info.nodes[node_ordinal as usize].writes_fences;
        Ok(Context {
            context: Owned::new(&device.kernel, Object::Context, context),
            progress_fence,
            progress: device.reader(progress, 0),
            progress_va: writes_fences.then(|| GpuVa(fence.engine_va(&device.info))),
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.context.handle()
    }

    pub(crate) fn progress_fence(&self) -> Handle {
        self.progress_fence.handle()
    }

    pub(crate) fn progress_at(&self, value: u64) -> FenceValue {
        FenceValue { fence: self.progress_fence(), value }
    }
}
