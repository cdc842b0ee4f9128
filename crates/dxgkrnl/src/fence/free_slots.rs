//! The free slots of packed fence pages, by the kind of the page.
//!
//! Invariant: taking and freeing a slot costs the same however many pages there are.

/// A slot: the number of its page, and its index in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotAt {
    pub(super) page: u32,
    pub(super) index: u32,
}

/// Free slots. The kinds are few.
pub(super) struct FreeSlots<K>(Vec<(K, Vec<SlotAt>)>);

impl<K: PartialEq + Copy> FreeSlots<K> {
    pub(super) fn new() -> FreeSlots<K> {
        FreeSlots(Vec::new())
    }

    fn of(&mut self, kind: K) -> &mut Vec<SlotAt> {
        let at = self.0.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.0.push((kind, Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Adds the slots of a new page. The lowest is taken first.
    pub(super) fn add_page(&mut self, kind: K, page: u32, slots: u32) {
        self.of(kind).extend((0..slots).rev().map(|index| SlotAt { page, index }));
    }

    /// Takes the slot that was freed last.
    pub(super) fn take(&mut self, kind: K) -> Option<SlotAt> {
        self.of(kind).pop()
    }

    pub(super) fn free(&mut self, kind: K, slot: SlotAt) {
        self.of(kind).push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A kind that counts how often it is compared.
    #[derive(Clone, Copy)]
    struct Counted<'a>(u8, &'a Cell<u64>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    /// Comparisons for `pages` full pages of each of two kinds, and for freeing them.
    fn compared(pages: u32) -> u64 {
        const SLOTS: u32 = 64;
        let (count, mut free) = (Cell::new(0), FreeSlots::new());
        let mut taken = Vec::new();
        for page in 0..2 * pages {
            let kind = Counted((page % 2) as u8, &count);
            assert!(free.take(kind).is_none());
            free.add_page(kind, page, SLOTS);
            for index in 0..SLOTS {
                let slot = free.take(kind);
                assert_eq!(slot, Some(SlotAt { page, index }));
                taken.extend(slot.map(|slot| (kind, slot)));
            }
        }
        taken.into_iter().for_each(|(kind, slot)| free.free(kind, slot));
        count.get()
    }

    #[test]
    fn a_slot_costs_the_same_however_many_pages_there_are() {
        let (few, many) = (compared(100), compared(1_000));
        assert!(many <= 11 * few, "{few} comparisons, then {many}");
    }

    #[test]
    fn a_freed_slot_is_taken_for_its_own_kind() {
        let mut free = FreeSlots::new();
        free.add_page('a', 0, 2);
        let slot = free.take('a').unwrap();
        assert_eq!((free.take('b'), free.take('a').map(|s| s.index)), (None, Some(1)));
        free.free('a', slot);
        assert_eq!((free.take('b'), free.take('a'), free.take('a')), (None, Some(slot), None));
    }
}
