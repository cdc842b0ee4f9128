//! Owns kernel objects on behalf of whoever made them: dropping the owner ends the object, so that a half-made queue leaves
//! nothing behind. The order of the fields of a queue is the order in which its objects end.

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
        let kernel = self.thunk.enter();
        // A refusal leaves nothing to do: the object is gone already with a lost device, or the machine has stopped.
        let _ = match self.object {
            Object::Device => kernel.destroy_device(self.handle),
            Object::Allocation => kernel.destroy_allocation(self.handle),
            Object::Context => kernel.destroy_context(self.handle),
            Object::HwContext => kernel.destroy_hw_context(self.handle),
            Object::HwQueue => kernel.destroy_hw_queue(self.handle),
            Object::Doorbell => kernel.destroy_doorbell(self.handle),
            Object::PagingQueue => kernel.destroy_paging_queue(self.handle),
            Object::Fence => kernel.destroy_synchronization_object(self.handle),
        };
    }
}
