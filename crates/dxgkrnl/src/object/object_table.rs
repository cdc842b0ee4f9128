//! The objects of one process by handle, and the list of its monitored fences.
//!
//! Invariant: a fence that enters or leaves the table drops the list, so the list names exactly the
//! open monitored fences. The basic scan reads it after each completed packet; a walk over the
//! table would cost each packet as much as the process has objects. Called under the table's lock.

use crate::fence::Fence;
use crate::object::handle_table::HandleTable;
use crate::object::process::Object;
use std::sync::Arc;
use tidegate_calls::Handle;

/// Monitored fences in order of creation, each once.
pub(crate) type MonitoredFences = Arc<[Arc<Fence>]>;

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

    /// Whether it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.table.is_closed()
    }

    /// As [`HandleTable::insert`].
    pub(crate) fn insert(&mut self, object: Object) -> Result<Handle, Object> {
        self.drop_list(&object);
        self.table.insert(object)
    }

    /// The object of a live handle.
    pub(crate) fn get(&self, handle: Handle) -> Option<Object> {
        self.table.get(handle)
    }

    /// As [`HandleTable::remove`].
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<Object> {
        let object = self.table.remove(handle)?;
        self.drop_list(&object);
        Some(object)
    }

    /// All live handles with their objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &Object)> {
        self.table.iter()
    }

    fn drop_list(&mut self, object: &Object) {
        // The object still holds its fence, so none ends here, under the lock.
        if matches!(object, Object::Fence(_)) {
            self.monitored = None;
        }
    }

    /// The monitored fences that are open in the process, and how many objects were walked to find
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
