//! Tables by which an adapter finds its objects. They hold weak references, since processes own
//! the objects.
//!
//! Invariants (decision 51): an object is inserted on creation, retired by the call that destroys
//! it, and removed when the driver has released it. A retired object is in no list, so no further
//! caller can hold it, and it ends with the calls that already do. Its handle stays valid until
//! removal, because the driver may still name it. No object is dropped under the lock of its table.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};
use tidegate_ddi::OsHandle;
use tidegate_platform::Event;

struct Entry<T> {
    object: Weak<T>,
    retired: bool,
}

/// Objects of one kind by the kernel's handle, which rises with the order of creation.
pub(crate) struct Registry<T> {
    entries: BTreeMap<OsHandle, Entry<T>>,
    /// The event of a waiting removal; see [`Emptied`].
    emptied: Emptied,
}

/// The event that is set when a table has become empty; `None` while no removal waits for that.
#[derive(Default)]
pub(crate) struct Emptied(Option<Event>);

impl Emptied {
    /// Has `event` set later. Returns `false` when none of `left` objects is in the table now.
    pub(crate) fn await_empty(&mut self, left: usize, event: &Event) -> bool {
        self.0 = (left > 0).then(|| event.clone());
        left > 0
    }

    /// An object was removed and `left` are in the table. Returns the event to set without the lock
    /// of the table.
    pub(crate) fn removed(&mut self, left: usize) -> Option<Event> {
        self.0.take_if(|_| left == 0)
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry { entries: BTreeMap::new(), emptied: Emptied::default() }
    }
}

impl<T> Registry<T> {
    /// Enters an object that was just made.
    pub(crate) fn insert(&mut self, handle: OsHandle, object: &Arc<T>) {
        self.entries.insert(handle, Entry { object: Arc::downgrade(object), retired: false });
    }

    /// Retires an object at the start of its destruction. It is then in no list. Returns whether
    /// it was in the lists before.
    pub(crate) fn retire(&mut self, handle: OsHandle) -> bool {
        let entry = self.entries.get_mut(&handle);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.retired, true))
    }

    /// Removes an object that the driver has released. Returns an event to set without the lock of
    /// the table; see [`Registry::await_empty`].
    pub(crate) fn remove(&mut self, handle: OsHandle) -> Option<Event> {
        self.entries.remove(&handle);
        self.emptied.removed(self.entries.len())
    }

    /// Has `event` set when the table becomes empty. Returns `false` when it is empty now.
    pub(crate) fn await_empty(&mut self, event: &Event) -> bool {
        self.emptied.await_empty(self.entries.len(), event)
    }

    /// The object that the driver names by `handle`, retired or not; `None` for an unknown handle.
    /// A reference that cannot be upgraded is of an object whose end is under way.
    pub(crate) fn named(&self, handle: OsHandle) -> Option<Weak<T>> {
        self.entries.get(&handle).map(|entry| entry.object.clone())
    }

    /// The same object, if it still exists.
    pub(crate) fn get(&self, handle: OsHandle) -> Option<Arc<T>> {
        self.named(handle)?.upgrade()
    }

    /// Whether the object exists and no call destroys it.
    pub(crate) fn is_live(&self, handle: OsHandle) -> bool {
        self.entries.get(&handle).is_some_and(|entry| !entry.retired)
    }

    /// The object, if it exists and no call destroys it.
    pub(crate) fn live_one(&self, handle: OsHandle) -> Option<Arc<T>> {
        self.entries.get(&handle).filter(|entry| !entry.retired)?.object.upgrade()
    }

    /// The objects that no call destroys, in order of creation.
    pub(crate) fn live(&self) -> Vec<Arc<T>> {
        let live = self.entries.values().filter(|entry| !entry.retired);
        live.filter_map(|entry| entry.object.upgrade()).collect()
    }

    /// Returns at most `most` objects that no call destroys and that were created after `handle`,
    /// in order of creation, by handle.
    pub(crate) fn live_after(&self, handle: u64, most: usize) -> Vec<(u64, Arc<T>)> {
        let later = self.entries.range((Bound::Excluded(OsHandle(handle)), Bound::Unbounded));
        let live = later.filter(|(_, entry)| !entry.retired);
        live.filter_map(|(handle, entry)| Some((handle.0, entry.object.upgrade()?)))
            .take(most)
            .collect()
    }

    /// The existing objects for which `is_wanted`, retired or not, in order of creation.
    pub(crate) fn matching(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let existing = self.entries.values().filter_map(|entry| entry.object.upgrade());
        existing.filter(|object| is_wanted(object)).collect()
    }

    /// Returns the number of objects known to the driver.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_object_is_in_no_list_however_long_it_is_held() {
        let (handle, other) = (OsHandle(1), OsHandle(2));
        let (held, kept) = (Arc::new("held"), Arc::new("kept"));
        let mut registry = Registry::default();
        registry.insert(handle, &held);
        registry.insert(other, &kept);
        assert!(registry.is_live(handle));
        assert_eq!([registry.retire(handle), registry.retire(handle)], [true, false]);
        assert_eq!((registry.live(), registry.is_live(handle)), (vec![kept.clone()], false));
        assert_eq!(registry.live_after(0, 9), [(2, kept.clone())]);
        assert_eq!((registry.live_after(0, 0), registry.live_after(2, 9)), (vec![], vec![]));
        // The driver may still name it, until the driver has released it.
        assert_eq!((registry.get(handle), registry.len()), (Some(held.clone()), 2));
        drop(held);
        assert_eq!((registry.get(handle), registry.named(handle).is_some()), (None, true));
        registry.remove(handle);
        assert_eq!((registry.named(handle).is_some(), registry.len()), (false, 1));
    }

    #[test]
    fn a_name_that_nothing_has_is_not_known() {
        let mut registry: Registry<u32> = Registry::default();
        assert!(!registry.retire(OsHandle(7)));
        registry.remove(OsHandle(7));
        assert!(registry.named(OsHandle(7)).is_none() && !registry.is_live(OsHandle(7)));
        assert_eq!((registry.live(), registry.len()), (Vec::new(), 0));
    }
}
