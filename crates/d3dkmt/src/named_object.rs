//! The objects of all kinds that a handle of C names.

use crate::object::{
    Adapter, Allocation, Context, Device, Doorbell, Fence, HwQueue, KeyedMutex, Legacy,
    PagingQueue, Resource,
};
use std::sync::Arc;

/// An object by handle.
#[derive(Clone)]
pub(crate) enum Object {
    /// A handle of an adapter.
    Adapter(Arc<Adapter>),
    /// A device.
    Device(Arc<Device>),
    /// A context for packets.
    Context(Arc<Context>),
    /// A hardware context.
    HwContext(Arc<Context>),
    /// A hardware queue.
    HwQueue(Arc<HwQueue>),
    /// A doorbell.
    Doorbell(Arc<Doorbell>),
    /// A monitored or native fence.
    Fence(Arc<Fence>),
    /// A mutex, a semaphore, a fence of WDDM 1.x, or a CPU notification.
    Legacy(Arc<Legacy>),
    /// An allocation.
    Allocation(Arc<Allocation>),
    /// A resource.
    Resource(Arc<Resource>),
    /// A paging queue.
    PagingQueue(Arc<PagingQueue>),
    /// A keyed mutex.
    KeyedMutex(Arc<KeyedMutex>),
}

impl Object {
    /// The device of an object that has one.
    pub(crate) fn device(&self) -> Option<&Arc<Device>> {
        match self {
            Object::Adapter(_) | Object::KeyedMutex(_) => None,
            Object::Device(device) => Some(device),
            Object::Context(context) | Object::HwContext(context) => Some(&context.device),
            Object::HwQueue(queue) => Some(&queue.device),
            Object::Doorbell(doorbell) => Some(&doorbell.device),
            Object::Fence(fence) => Some(&fence.device),
            Object::Legacy(legacy) => legacy.device.as_ref(),
            Object::Allocation(allocation) => Some(&allocation.device),
            Object::Resource(resource) => Some(&resource.device),
            Object::PagingQueue(queue) => Some(&queue.device),
        }
    }
}
