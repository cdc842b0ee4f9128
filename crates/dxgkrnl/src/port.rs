//! Ports: what a lower room needs of a higher one, as a trait that the lower room defines.

use std::sync::{Arc, OnceLock, Weak};

/// The way to an upper room. Attached once, when the adapter is composed.
pub(crate) struct Port<T: ?Sized>(OnceLock<Weak<T>>);

impl<T: ?Sized> Default for Port<T> {
    fn default() -> Port<T> {
        Port(OnceLock::new())
    }
}

impl<T: ?Sized> Port<T> {
    pub(crate) fn attach(&self, room: Weak<T>) {
        let first = self.0.set(room).is_ok();
        debug_assert!(first, "a port leads to one room");
    }

    /// `None` before it is attached, and once the room has ended.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.0.get().and_then(Weak::upgrade)
    }
}
