//! Owners of kernel objects. Dropping the owner destroys the object, so a queue whose creation
//! fails halfway leaks nothing. Each object keeps its device alive until it is destroyed.

use crate::umd::thunk::Thunk;
use std::sync::Arc;
use tidegate_calls::{Handle, Kernel, Status};
use tidegate_platform::hazard::SpaceKey;

/// The kernel's device: the parent of every other object.
pub(crate) struct KernelDevice {
    thunk: Arc<Thunk>,
    handle: Handle,
    /// Its key in the hazard check.
    pub(crate) space: SpaceKey,
}

impl KernelDevice {
    pub(crate) fn create(thunk: &Arc<Thunk>) -> Result<KernelDevice, Status> {
        let handle = thunk.enter().create_device()?;
        let space = SpaceKey(thunk.platform().serial());
        Ok(KernelDevice { thunk: Arc::clone(thunk), handle, space })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn thunk(&self) -> &Arc<Thunk> {
        &self.thunk
    }

    /// Enters the kernel for one call.
    pub(crate) fn enter(&self) -> &dyn Kernel {
        self.thunk.enter()
    }
}

impl Drop for KernelDevice {
    fn drop(&mut self) {
        let done = self.enter().destroy_device(self.handle);
        self.thunk.teardown().note("D3DKMTDestroyDevice", self.handle, done);
        self.thunk.platform().hazard_checker(|checker| checker.end_space(self.space));
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Object {
    Allocation,
    Context,
    HwContext,
    HwQueue,
    Doorbell,
    Fence,
    PagingQueue,
    Reserved,
}

/// An object of a device.
pub(crate) struct Owned {
    device: Arc<KernelDevice>,
    object: Object,
    handle: Handle,
}

impl Owned {
    pub(crate) fn new(device: &Arc<KernelDevice>, object: Object, handle: Handle) -> Owned {
        Owned { device: Arc::clone(device), object, handle }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        &self.device
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let (kernel, handle) = (self.device.enter(), self.handle);
        let (call, done) = match self.object {
            Object::Allocation => ("D3DKMTDestroyAllocation2", kernel.destroy_allocation(handle)),
            Object::Context => ("D3DKMTDestroyContext", kernel.destroy_context(handle)),
            Object::HwContext => ("D3DKMTDestroyHwContext", kernel.destroy_hw_context(handle)),
            Object::HwQueue => ("D3DKMTDestroyHwQueue", kernel.destroy_hw_queue(handle)),
            Object::Doorbell => ("D3DKMTDestroyDoorbell", kernel.destroy_doorbell(handle)),
            Object::PagingQueue => {
                ("D3DKMTDestroyPagingQueue", kernel.destroy_paging_queue(handle))
            }
            Object::Reserved => {
                ("D3DKMTFreeGpuVirtualAddress", kernel.free_gpu_virtual_address(handle))
            }
            Object::Fence => (
                "D3DKMTDestroySynchronizationObject",
                kernel.destroy_synchronization_object(handle),
            ),
        };
        // spec: UMS-182
        self.device.thunk.teardown().note(call, handle, done);
    }
}
