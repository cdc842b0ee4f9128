//! The driver's handles: one table per kind of object, with a generation per slot.
//!
//! A handle is kind (8 bits), generation (32) and slot (24), so a handle of a destroyed object or
//! of another kind never equals a live one. 0 is never a handle.

use crate::{Kind, KmdError};
use tidegate_ddi::DriverHandle;

const SLOT_BITS: u32 = 24;
const MAX_SLOTS: usize = 1 << SLOT_BITS;

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// All objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) fn new(kind: Kind) -> Table<T> {
        Table { kind, slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Result<DriverHandle, KmdError> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.value = Some(value);
            return Ok(handle(self.kind, slot.generation, index));
        }
        if self.slots.len() == MAX_SLOTS {
            return Err(KmdError::TooManyObjects(self.kind));
        }
        let index = self.slots.len() as u32;
        self.slots.push(Slot { generation: 1, value: Some(value) });
        Ok(handle(self.kind, 1, index))
    }

    pub(crate) fn get(&self, handle: DriverHandle) -> Result<&T, KmdError> {
        let index = self.index(handle)?;
        self.slots[index].value.as_ref().ok_or_else(|| self.none(handle))
    }

    pub(crate) fn get_mut(&mut self, handle: DriverHandle) -> Result<&mut T, KmdError> {
        let (index, none) = (self.index(handle)?, self.none(handle));
        self.slots[index].value.as_mut().ok_or(none)
    }

    pub(crate) fn remove(&mut self, handle: DriverHandle) -> Result<T, KmdError> {
        let (index, none) = (self.index(handle)?, self.none(handle));
        let slot = &mut self.slots[index];
        let value = slot.value.take().ok_or(none)?;
        // A slot that has used all its generations is not reused: an old handle must not become
        // valid again.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(index as u32);
        }
        Ok(value)
    }

    /// Returns the number of live objects.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().filter(|s| s.value.is_some()).count()
    }

    /// Returns the live objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|s| s.value.as_ref())
    }

    /// Returns the handles of the live objects.
    pub(crate) fn handles(&self) -> impl Iterator<Item = DriverHandle> {
        let alive = self.slots.iter().enumerate().filter(|(_, s)| s.value.is_some());
        alive.map(|(index, s)| handle(self.kind, s.generation, index as u32))
    }

    fn index(&self, handle: DriverHandle) -> Result<usize, KmdError> {
        let index = (handle.0 & (MAX_SLOTS as u64 - 1)) as usize;
        match self.slots.get(index) {
            Some(slot) if handle == self::handle(self.kind, slot.generation, index as u32) => {
                Ok(index)
            }
            _ => Err(self.none(handle)),
        }
    }

    fn none(&self, handle: DriverHandle) -> KmdError {
        KmdError::NoSuchObject { kind: self.kind, handle: handle.0 }
    }
}

fn handle(kind: Kind, generation: u32, index: u32) -> DriverHandle {
    DriverHandle((kind as u64) << 56 | u64::from(generation) << SLOT_BITS | u64::from(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_dies_with_its_object_and_never_names_the_next_one() {
        let mut table = Table::new(Kind::Fence);
        let first = table.insert("first").unwrap();
        assert_eq!(table.get(first), Ok(&"first"));
        assert_eq!(table.remove(first), Ok("first"));
        let second = table.insert("second").unwrap();
        assert_ne!(first, second);
        assert!(
            table.get(first).is_err()
                && table.get_mut(first).is_err()
                && table.remove(first).is_err()
        );
        assert_eq!(table.get(second), Ok(&"second"));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_handle_of_another_kind_or_that_was_never_given_out_is_refused() {
        let mut fences = Table::new(Kind::Fence);
        let mut queues = Table::new(Kind::HwQueue);
        let (fence, queue) = (fences.insert(1).unwrap(), queues.insert(2).unwrap());
        assert_ne!(fence, queue);
        assert!(fences.get(queue).is_err() && queues.get(fence).is_err());
        for unknown in [0, 1, u64::MAX, fence.0 + 1] {
            assert!(fences.get(DriverHandle(unknown)).is_err());
        }
    }

    #[test]
    fn a_full_table_refuses_an_object_whose_slot_would_be_the_generation_of_another() {
        let mut table = Table::new(Kind::Context);
        table.slots.resize_with(MAX_SLOTS - 1, || Slot { generation: 1, value: Some(()) });
        let last = table.insert(()).unwrap();
        assert_eq!(last, handle(Kind::Context, 1, MAX_SLOTS as u32 - 1));
        assert_eq!(table.insert(()), Err(KmdError::TooManyObjects(Kind::Context)));
        table.remove(last).unwrap();
        assert_eq!(table.insert(()), Ok(handle(Kind::Context, 2, MAX_SLOTS as u32 - 1)));
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_not_used_again() {
        let mut table = Table::new(Kind::Doorbell);
        let old = table.insert(0).unwrap();
        table.slots[0].generation = u32::MAX;
        let last = handle(Kind::Doorbell, u32::MAX, 0);
        assert!(table.get(old).is_err());
        table.remove(last).unwrap();
        let next = table.insert(1).unwrap();
        assert_eq!(next, handle(Kind::Doorbell, 1, 1));
    }
}
