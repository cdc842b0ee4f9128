//! Owners of the kernel objects of queues and resources: dropping the owner ends the object, so a
//! queue that is half made leaves nothing behind. The fields of a queue end in their order.

use crate::umd::thunk::Thunk;
use std::sync::Arc;
use tidegate_calls::Handle;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Object {
    Device,
    Allocation,
    Context,
    HwContext,
    HwQueue,
    Doorbell,
    Fence,
    PagingQueue,
}

pub(crate) struct Owned {
    thunk: Arc<Thunk>,
    object: Object,
    handle: Handle,
}

impl Owned {
    pub(crate) fn new(thunk: &Arc<Thunk>, object: Object, handle: Handle) -> Owned {
        Owned { thunk: Arc::clone(thunk), object, handle }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let (kernel, handle) = (self.thunk.enter(), self.handle);
        let (call, done) = match self.object {
            Object::Device => ("D3DKMTDestroyDevice", kernel.destroy_device(handle)),
            Object::Allocation => ("D3DKMTDestroyAllocation2", kernel.destroy_allocation(handle)),
            Object::Context => ("D3DKMTDestroyContext", kernel.destroy_context(handle)),
            Object::HwContext => ("D3DKMTDestroyHwContext", kernel.destroy_hw_context(handle)),
            Object::HwQueue => ("D3DKMTDestroyHwQueue", kernel.destroy_hw_queue(handle)),
            Object::Doorbell => ("D3DKMTDestroyDoorbell", kernel.destroy_doorbell(handle)),
            Object::PagingQueue => {
                ("D3DKMTDestroyPagingQueue", kernel.destroy_paging_queue(handle))
            }
            Object::Fence => (
                "D3DKMTDestroySynchronizationObject",
                kernel.destroy_synchronization_object(handle),
            ),
        };
        // spec: UMS-182
        self.thunk.teardown().note(call, handle, done);
    }
}
