//! The objects of one process by handle, and the list of its monitored fences.
//!
//! Invariant: a fence that enters or leaves the table drops the list, so the list names exactly the
//! open monitored fences. The basic scan reads it after each completed packet; a walk over the
//! table would cost each packet as much as the process has objects. Called under the table's lock.

use crate::fence::Fence;
use crate::memory::{AllocationObject, Reserved};
use crate::object::context::Context;
use crate::object::device::{Device, MonitoredFences, OpenFences};
use crate::object::doorbell::Doorbell;
use crate::object::fence::FenceObject;
use crate::object::hw_queue::{self, HwQueue, HwQueueTable};
use crate::object::keyed_mutex::KeyedMutexInstance;
use crate::object::older::OlderInstance;
use crate::object::paging_queue::PagingQueueObject;
use crate::object::resource::ResourceInstance;
use std::sync::Arc;
use tidegate_calls::{Handle, HandleTable};
use tidegate_ddi::{OsHandle, Passive};
use tidegate_platform::Mutex;

/// An object that a process holds by handle.
#[derive(Clone)]
pub(crate) enum Object {
    Device(Arc<Device>),
    Allocation(Arc<AllocationObject>),
    Context(Arc<Context>),
    HwContext(Arc<Context>),
    HwQueue(Arc<HwQueue>),
    Fence(Arc<FenceObject>),
    Older(Arc<OlderInstance>),
    Doorbell(Arc<Doorbell>),
    PagingQueue(Arc<PagingQueueObject>),
    Reserved(Arc<Reserved>),
    Resource(Arc<ResourceInstance>),
    KeyedMutex(Arc<KeyedMutexInstance>),
}

impl Object {
    /// Ends an object that was removed from the handle table. It leaves the adapter's lists
    /// immediately, and ends with this call or with the last earlier call that still holds it.
    pub(super) fn end(self, level: &Passive, hw_queues: &Mutex<HwQueueTable>) {
        match &self {
            Object::Doorbell(doorbell) => doorbell.end(level),
            Object::HwQueue(queue) => queue.retire(level.into()),
            Object::Context(context) => context.retire(level.into()),
            Object::HwContext(context) => hw_queue::close_context(level.into(), context, hw_queues),
            Object::Device(device) => {
                device.retire();
                device.end_allocations();
            }
            // Fences and older objects count their holders; the others are in no list.
            Object::Fence(_)
            | Object::Older(_)
            | Object::Allocation(_)
            | Object::PagingQueue(_)
            | Object::Reserved(_)
            | Object::Resource(_)
            | Object::KeyedMutex(_) => {}
        }
    }

    /// Returns the object's device; `None` for an object that ends with its process.
    pub(super) fn device(&self) -> Option<OsHandle> {
        Some(match self {
            Object::Older(instance) => instance.device.as_ref()?.os_handle,
            Object::KeyedMutex(_) => return None,
            Object::Doorbell(doorbell) => doorbell.queue.device.os_handle,
            Object::HwQueue(queue) => queue.device.os_handle,
            Object::Context(context) | Object::HwContext(context) => context.device.os_handle,
            Object::Fence(instance) => instance.device.os_handle,
            Object::Allocation(allocation) => allocation.device.os_handle(),
            Object::PagingQueue(queue) => queue.device.os_handle,
            Object::Reserved(reserved) => reserved.device.os_handle(),
            Object::Resource(resource) => resource.device.os_handle,
            Object::Device(device) => device.os_handle,
        })
    }

    /// Returns the object's rank in the order of destruction.
    pub(super) fn rank(&self) -> u32 {
        match self {
            Object::Doorbell(_) => 0,
            Object::HwQueue(_) => 1,
            Object::Context(_) | Object::HwContext(_) | Object::PagingQueue(_) => 2,
            Object::Fence(_) | Object::Older(_) | Object::KeyedMutex(_) => 3,
            Object::Allocation(_) | Object::Reserved(_) | Object::Resource(_) => 4,
            Object::Device(_) => 5,
        }
    }
}

/// The objects of one process.
pub(crate) struct ObjectTable {
    table: HandleTable<Object>,
    monitored: Option<MonitoredFences>,
}

impl ObjectTable {
    pub(crate) fn new() -> ObjectTable {
        ObjectTable { table: HandleTable::new(), monitored: None }
    }

    /// As [`HandleTable::close`].
    pub(crate) fn close(&mut self) -> bool {
        self.table.close()
    }

    /// Returns whether the table is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.table.is_closed()
    }

    /// As [`HandleTable::insert`].
    pub(crate) fn insert(&mut self, object: Object) -> Result<Handle, Object> {
        self.drop_list(&object);
        self.table.insert(object)
    }

    /// Returns the object of a live handle.
    pub(crate) fn get(&self, handle: Handle) -> Option<Object> {
        self.table.get(handle)
    }

    /// Returns the fence instance of a live handle, for use under the table's lock.
    pub(crate) fn fence(&self, handle: Handle) -> Option<&FenceObject> {
        match self.table.find(handle)? {
            Object::Fence(instance) => Some(instance),
            _ => None,
        }
    }

    /// As [`HandleTable::remove`].
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<Object> {
        let object = self.table.remove(handle)?;
        self.drop_list(&object);
        Some(object)
    }

    /// Iterates over all live handles with their objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &Object)> {
        self.table.iter()
    }

    fn drop_list(&mut self, object: &Object) {
        // The object still holds its fence, so no fence ends here, under the lock.
        if matches!(object, Object::Fence(_)) {
            self.monitored = None;
        }
    }

    /// Returns the monitored fences open in the process, and the number of objects visited to find
    /// them: 0 while the list is current.
    pub(crate) fn monitored_fences(&mut self) -> (MonitoredFences, u64) {
        if let Some(list) = &self.monitored {
            return (list.clone(), 0);
        }
        let (mut walked, mut fences) = (0, Vec::new());
        for (_, object) in self.table.iter() {
            walked += 1;
            if let Object::Fence(instance) = object
                && instance.fence.native.is_none()
            {
                fences.push(instance.fence.clone());
            }
        }
        fences.sort_unstable_by_key(|fence| fence.os_handle);
        fences.dedup_by_key(|fence| fence.os_handle);
        let list: MonitoredFences = fences.into();
        self.monitored = Some(list.clone());
        (list, walked)
    }
}

impl OpenFences for Mutex<ObjectTable> {
    fn fence(&self, handle: u32) -> Option<Arc<Fence>> {
        match self.lock().get(Handle(handle))? {
            Object::Fence(instance) => Some(instance.fence.clone()),
            _ => None,
        }
    }

    fn monitored_fences(&self) -> (MonitoredFences, u64) {
        self.lock().monitored_fences()
    }

    fn fences_of(&self, device: OsHandle) -> Vec<Arc<Fence>> {
        let objects = self.lock();
        let instances = objects.iter().filter_map(|(_, object)| match object {
            Object::Fence(instance) if instance.device.os_handle == device => {
                Some(instance.fence.clone())
            }
            _ => None,
        });
        instances.collect()
    }
}
