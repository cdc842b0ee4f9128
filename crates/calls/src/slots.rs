//! Slots that are used again, each use with another generation.
//!
//! Invariants: a key names one use of a slot. No two uses have the same key: a generation is
//! counted in 64 bits and never returns. A key that is used late therefore names nothing, and never
//! the next use of its slot. Every table whose places are used again is one of these, or has a row
//! in decisions/0144 with the reason why a late use is harmless.

use serde::{Deserialize, Serialize};

/// The name of one use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotKey {
    /// The place, from 0 on.
    pub slot: u32,
    /// Uses of the place before this one.
    pub generation: u64,
}

/// Values by slot.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    most: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u64,
    value: Option<T>,
}

impl<T> Slots<T> {
    /// Returns a table of at most `most` slots.
    pub fn new(most: u32) -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new(), most }
    }

    /// Puts a value into a free slot. Returns `None` if there is none.
    pub fn insert(&mut self, value: T) -> Option<SlotKey> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.entries.len() < self.most as usize => {
                self.entries.push(Entry { generation: 0, value: None });
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let entry = &mut self.entries[slot as usize];
        entry.value = Some(value);
        Some(SlotKey { slot, generation: entry.generation })
    }

    /// Returns the value of a key that is in use.
    pub fn get(&self, key: SlotKey) -> Option<&T> {
        let entry = self.entries.get(key.slot as usize)?;
        entry.value.as_ref().filter(|_| entry.generation == key.generation)
    }

    /// Takes the value of a key that is in use, and frees its slot.
    pub fn remove(&mut self, key: SlotKey) -> Option<T> {
        let entry = self.entries.get_mut(key.slot as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation += 1;
        self.free.push(key.slot);
        Some(value)
    }

    /// Returns the keys in use and their values, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (SlotKey, &T)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let key = SlotKey { slot: slot as u32, generation: entry.generation };
            entry.value.as_ref().map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_key_names_nothing() {
        let mut slots = Slots::new(1);
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.insert('b'), None, "the only slot is in use");
        assert_eq!(slots.remove(first), Some('a'));
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        let second = slots.insert('b').unwrap();
        assert_eq!((second.slot, second == first), (first.slot, false));
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(second, &'b')]);
        assert_eq!(slots.remove(second), Some('b'));
    }
}
