//! Ports: what a lower room needs of a higher one, as a trait that the lower room defines.

use std::sync::{Arc, OnceLock, Weak};

/// The way to an upper room. Attached once, when the adapter is composed.
pub(crate) struct Port<T: ?Sized>(OnceLock<Option<Weak<T>>>);

impl<T: ?Sized> Default for Port<T> {
    fn default() -> Port<T> {
        Port(OnceLock::new())
    }
}

impl<T: ?Sized> Port<T> {
    pub(crate) fn attach(&self, room: Weak<T>) {
        self.lead(Some(room));
    }

    /// The adapter has no such room.
    pub(crate) fn leave_out(&self) {
        self.lead(None);
    }

    fn lead(&self, to: Option<Weak<T>>) {
        let first = self.0.set(to).is_ok();
        debug_assert!(first, "the port to {} leads to one room", std::any::type_name::<T>());
    }

    /// `None` for a room that was left out, and once the room has ended.
    ///
    /// # Panics
    /// The port was never attached.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        match self.0.get() {
            Some(room) => room.as_ref().and_then(Weak::upgrade),
            None => panic!("the port to {} was never attached", std::any::type_name::<T>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    trait Room: Send + Sync {}
    struct Upper;
    impl Room for Upper {}

    #[test]
    fn a_port_leads_to_its_room_while_the_room_lasts() {
        let port: Port<dyn Room> = Port::default();
        let room: Arc<dyn Room> = Arc::new(Upper);
        port.attach(Arc::downgrade(&room));
        assert!(port.get().is_some());
        drop(room);
        assert!(port.get().is_none());
        let none: Port<dyn Room> = Port::default();
        none.leave_out();
        assert!(none.get().is_none());
    }

    #[test]
    #[should_panic(expected = "Room was never attached")]
    fn a_port_that_was_never_attached_is_named() {
        let port: Port<dyn Room> = Port::default();
        let _ = port.get();
    }
}
