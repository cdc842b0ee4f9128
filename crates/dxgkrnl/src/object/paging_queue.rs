//! Paging queues of devices, each with the fence that its operations signal.

use crate::fence::CreateFence;
use crate::memory::{Affinity, PagingQueue};
use crate::object::device::Device;
use crate::object::fence::FenceObject;
use std::sync::Arc;
use tidegate_calls::{NativeFenceType, PagingPriority, Status, SyncObjectFlags};
use tidegate_ddi::{Passive, VidSchCaps};

/// A paging queue of a device.
pub(crate) struct PagingQueueObject {
    pub(crate) queue: PagingQueue,
    pub(crate) device: Arc<Device>,
    pub(crate) fence: Arc<FenceObject>,
}

impl PagingQueueObject {
    /// D3DKMTCreatePagingQueue. Its fence is native if the adapter supports native fences, because
    /// user-mode queues wait on no others.
    // spec: RES-001
    pub(crate) fn new(
        level: &Passive,
        device: &Arc<Device>,
        priority: PagingPriority,
    ) -> Result<Arc<PagingQueueObject>, Status> {
        let port = &device.layers.port;
        let native = port.declared.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
        let fence = CreateFence {
            name: "paging",
            affinity: Affinity::ALL,
            initial_value: 0,
            // spec: RES-002
            flags: SyncObjectFlags::NO_SIGNAL,
            native: native.then_some(NativeFenceType::Default),
            private_data: [0; 64],
        };
        let fence = Arc::new(FenceObject::create(level, device, &fence)?);
        let (id, paging_fence) = (port.new_handle(), fence.fence.clone());
        let queue = PagingQueue::new(&port.platform, id, priority, paging_fence);
        Ok(Arc::new(PagingQueueObject { queue, device: device.clone(), fence }))
    }
}
