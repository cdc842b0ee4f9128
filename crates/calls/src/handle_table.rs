//! A process's handle table: typed, generation-checked, and slow to reuse a value.
//!
//! A handle's low six bits are 0, and its upper two are not both 0. Between them are 3 bits of
//! generation and 21 of index; the upper two are the generation's upper part. A freed entry is
//! reused after [`REUSE_DISTANCE`] others, with another generation, so a value returns after
//! `GENERATIONS * REUSE_DISTANCE` others (decisions/0088). A closed table admits nothing.

use crate::Handle;
use std::collections::VecDeque;

const LOW_BITS: u32 = 6;
const INDEX_BITS: u32 = 21;
const MAX_ENTRIES: usize = 1 << INDEX_BITS;
/// The upper part of a handle, above its index, counts from here: its upper two bits are 01.
const FIRST_GENERATION: u32 = 1 << (30 - LOW_BITS - INDEX_BITS);
const GENERATIONS: u32 = (1 << (32 - LOW_BITS - INDEX_BITS)) - FIRST_GENERATION;
/// Freed entries that must be waiting before the oldest is used again.
const REUSE_DISTANCE: usize = 1_024;

struct Entry<T> {
    generation: u32,
    object: Option<T>,
}

/// Objects by handle.
pub struct HandleTable<T> {
    entries: Vec<Entry<T>>,
    free: VecDeque<u32>,
    closed: bool,
}

#[inline]
fn handle_of(generation: u32, index: u32) -> Handle {
    Handle((FIRST_GENERATION + generation) << (LOW_BITS + INDEX_BITS) | index << LOW_BITS)
}

impl<T> Default for HandleTable<T> {
    fn default() -> HandleTable<T> {
        HandleTable { entries: Vec::new(), free: VecDeque::new(), closed: false }
    }
}

impl<T: Clone> HandleTable<T> {
    /// Returns an empty table.
    pub fn new() -> HandleTable<T> {
        HandleTable::default()
    }

    /// Closes the table to new objects. Returns `false` if it was already closed.
    pub fn close(&mut self) -> bool {
        !std::mem::replace(&mut self.closed, true)
    }

    /// Returns whether the table is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds an object.
    ///
    /// # Errors
    /// A full or closed table returns the object, to be ended outside the table's lock.
    pub fn insert(&mut self, object: T) -> Result<Handle, T> {
        if self.closed {
            return Err(object);
        }
        let index = if self.free.len() > REUSE_DISTANCE || self.entries.len() == MAX_ENTRIES {
            match self.free.pop_front() {
                Some(index) => index,
                None => return Err(object),
            }
        } else {
            self.entries.push(Entry { generation: 0, object: None });
            self.entries.len() as u32 - 1
        };
        let entry = &mut self.entries[index as usize];
        entry.object = Some(object);
        Ok(handle_of(entry.generation, index))
    }

    /// Returns the entry of a live handle and its index.
    #[inline]
    fn entry(&self, handle: Handle) -> Option<(usize, &Entry<T>)> {
        let generation = (handle.0 >> (LOW_BITS + INDEX_BITS)).checked_sub(FIRST_GENERATION)?;
        let low = handle.0 & ((1 << LOW_BITS) - 1);
        let index = (handle.0 >> LOW_BITS) as usize & (MAX_ENTRIES - 1);
        let entry = self.entries.get(index)?;
        (low == 0 && entry.generation == generation).then_some((index, entry))
    }

    /// Returns the object of a live handle.
    pub fn get(&self, handle: Handle) -> Option<T> {
        self.find(handle).cloned()
    }

    /// Returns the object of a live handle, for use under the table's lock.
    #[inline]
    pub fn find(&self, handle: Handle) -> Option<&T> {
        self.entry(handle)?.1.object.as_ref()
    }

    /// Removes an object and invalidates its handle.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let (index, _) = self.entry(handle)?;
        let entry = &mut self.entries[index];
        let object = entry.object.take()?;
        entry.generation = (entry.generation + 1) % GENERATIONS;
        self.free.push_back(index as u32);
        Some(object)
    }

    /// Iterates over all live handles with their objects.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let object = entry.object.as_ref()?;
            Some((handle_of(entry.generation, index as u32), object))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_table_admits_nothing_and_keeps_its_objects() {
        let mut table = HandleTable::new();
        let first = table.insert("a").unwrap();
        assert_eq!((table.close(), table.close(), table.is_closed()), (true, false, true));
        assert_eq!((table.insert("b"), table.get(first)), (Err("b"), Some("a")));
        assert_eq!(table.remove(first), Some("a"));
    }

    #[test]
    fn an_invalid_handle_stays_invalid_and_its_value_is_not_reused_soon() {
        let mut table = HandleTable::new();
        let first = table.insert("a").unwrap();
        assert_eq!((first.0 & 0x3F, first.0 >> 30), (0, 1));
        assert_eq!(table.remove(first), Some("a"));
        assert_eq!((table.get(first), table.remove(first)), (None, None));
        for _ in 0..10_000 {
            let handle = table.insert("b").unwrap();
            assert_ne!(handle, first, "handle reused too soon or with the same generation");
            table.remove(handle);
            if handle.0 >> LOW_BITS & (MAX_ENTRIES as u32 - 1) == 0 {
                break;
            }
        }
        for hostile in [0, 1, u32::MAX, 1 << 30 | 0x3F, 1 << 30 | 0x3FFF << 6] {
            assert_eq!(table.get(Handle(hostile)), None);
        }
    }

    #[test]
    fn a_value_returns_behind_all_generations_of_its_entry() {
        let mut table = HandleTable::new();
        let first = table.insert("a").unwrap();
        table.remove(first);
        let others = GENERATIONS as usize * REUSE_DISTANCE;
        for other in 0..others {
            let handle = table.insert("b").unwrap();
            assert_ne!(handle, first, "after {other} others");
            assert!(handle.0 >> 30 != 0, "{handle:?}");
            table.remove(handle);
        }
        assert_eq!(table.get(first), None);
    }

    #[test]
    fn a_table_holds_a_million_objects_and_65536_queues_with_theirs() {
        let mut table = HandleTable::new();
        let handles: Vec<Handle> = (0..MAX_ENTRIES).map_while(|n| table.insert(n).ok()).collect();
        assert!(handles.len() >= 1_000_000 + 65_536 * 11 && handles.len() == MAX_ENTRIES);
        assert_eq!(table.insert(0), Err(0), "the table is full");
        let last = handles[MAX_ENTRIES - 1];
        assert_eq!(
            (table.get(last), table.remove(last)),
            (Some(MAX_ENTRIES - 1), Some(MAX_ENTRIES - 1))
        );
        assert!(table.insert(7).is_ok_and(|again| again != last), "a full table reuses an entry");
    }
}
