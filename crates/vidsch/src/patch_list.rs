//! Patch lists of DMA buffers: validation, split points, allocations to page in per part, and the
//! detection of leaked bindings.
//!
//! A part of a buffer ends at the split offset of the first allocation that cannot be paged in
//! together with the ones the part uses. The rest of the buffer is another packet. A slot stays
//! bound across the split, so the next part needs its allocation unless the slot is unbound. A part
//! that neither unbinds nor rebinds an inherited slot leaks the binding: its memory may belong to
//! another process by then.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tidegate_ddi::patch::PatchLocation;

/// Allocation index by bound slot.
pub type Bindings = BTreeMap<u32, u32>;

/// An invalid patch list or part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// Split offsets do not increase.
    #[error("entry {0} of the patch list has a split offset not above that of the entry before it")]
    Order(usize),
    /// An offset is outside of the buffer, unaligned, or patched before its split offset.
    #[error("entry {0} of the patch list has an offset that is unaligned or outside of its buffer")]
    Offset(usize),
    /// The slot or the allocation does not exist.
    #[error("entry {0} of the patch list names a slot or an allocation that does not exist")]
    Name(usize),
    /// A part leaks a binding of the previous part.
    #[error(
        "a part of a split buffer neither unbinds nor reprograms slot {slot}, so its binding leaks"
    )]
    BindingLeak {
        /// The slot.
        slot: u32,
    },
    /// The allocations needed at one offset cannot be paged in together.
    #[error(
        "the allocations needed at offset {0} of the buffer do not fit in local memory together"
    )]
    NoRoom(u32),
}

/// A part of a buffer, which is one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Byte range in the buffer.
    pub bytes: Range<u32>,
    /// Indices of the allocations that the part uses.
    pub needs: BTreeSet<u32>,
    /// Bindings at the end of the part.
    pub leaves: Bindings,
}

/// Checks a driver's list for a buffer of `bytes` bytes and a process that listed `allocations`
/// allocations.
// spec: PRE-040
pub fn check(
    list: &[PatchLocation],
    bytes: u32,
    allocations: usize,
    last_slot: u32,
) -> Result<(), BadList> {
    let mut behind = None;
    for (n, entry) in list.iter().enumerate() {
        if behind.is_some_and(|last| entry.split_offset <= last) {
            return Err(BadList::Order(n));
        }
        behind = Some(entry.split_offset);
        let inside = |offset: u32| offset.is_multiple_of(8) && offset < bytes;
        let patched = entry.allocation.is_none()
            || inside(entry.patch_offset) && entry.patch_offset >= entry.split_offset;
        if !inside(entry.split_offset) || !patched {
            return Err(BadList::Offset(n));
        }
        if entry.slot_id > last_slot || entry.allocation.is_some_and(|a| a as usize >= allocations)
        {
            return Err(BadList::Name(n));
        }
    }
    Ok(())
}

/// Returns the part that begins at `start` with the bindings `bound`. `fits` decides whether
/// allocations can be paged in together.
pub fn next_part(
    list: &[PatchLocation],
    buffer_bytes: u32,
    start: u32,
    bound: &Bindings,
    fits: impl Fn(&BTreeSet<u32>) -> bool,
) -> Result<Part, BadList> {
    let mut inherited = bound.clone();
    // A slot that is rebound at the split no longer needs its previous allocation.
    if let Some(first) = list.iter().find(|entry| entry.split_offset == start) {
        inherited.remove(&first.slot_id);
    }
    let needs = inherited.values().copied().collect();
    let mut part = Part { bytes: start..buffer_bytes, needs, leaves: inherited };
    if !fits(&part.needs) {
        return Err(BadList::NoRoom(start));
    }
    for entry in list.iter().filter(|entry| entry.split_offset >= start) {
        let Some(allocation) = entry.allocation else {
            part.leaves.remove(&entry.slot_id);
            continue;
        };
        let missing = part.needs.insert(allocation);
        if missing && !fits(&part.needs) {
            part.needs.remove(&allocation);
            part.bytes.end = entry.split_offset;
            break;
        }
        part.leaves.insert(entry.slot_id, allocation);
    }
    if part.bytes.is_empty() { Err(BadList::NoRoom(start)) } else { Ok(part) }
}

/// Checks all parts as they would be split now. Checks their bindings too if `verifies`.
pub fn check_parts(
    list: &[PatchLocation],
    buffer_bytes: u32,
    verifies: bool,
    fits: impl Fn(&BTreeSet<u32>) -> bool,
) -> Result<(), BadList> {
    let (mut start, mut bound) = (0, Bindings::new());
    while start < buffer_bytes {
        let part = next_part(list, buffer_bytes, start, &bound, &fits)?;
        if verifies {
            check_bindings(list, &part, &bound)?;
        }
        (start, bound) = (part.bytes.end, part.leaves);
    }
    Ok(())
}

/// Checks that the part unbinds or rebinds every slot that it inherits from `bound`.
// spec: PRE-035
pub fn check_bindings(
    list: &[PatchLocation],
    part: &Part,
    bound: &Bindings,
) -> Result<(), BadList> {
    let in_part = || list.iter().filter(|entry| part.bytes.contains(&entry.split_offset));
    let left = bound.keys().find(|slot| !in_part().any(|entry| entry.slot_id == **slot));
    left.map_or(Ok(()), |slot| Err(BadList::BindingLeak { slot: *slot }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(split_offset: u32, slot_id: u32, allocation: Option<u32>) -> PatchLocation {
        PatchLocation {
            allocation,
            slot_id,
            driver_id: 0,
            patch_offset: split_offset,
            allocation_offset: 0,
            split_offset,
        }
    }

    /// Two copies: 0 to 1, then 2 to 3. Each unbinds its slots afterwards.
    fn copies() -> Vec<PatchLocation> {
        let of = |at, from, to| {
            [
                entry(at, 0, Some(from)),
                entry(at + 8, 1, Some(to)),
                entry(at + 16, 0, None),
                entry(at + 24, 1, None),
            ]
        };
        [of(0, 0, 1), of(32, 2, 3)].concat()
    }

    fn parts(list: &[PatchLocation], most: usize) -> Result<Vec<Part>, BadList> {
        let (mut start, mut bound, mut parts) = (0, Bindings::new(), Vec::new());
        while start < 64 {
            let part = next_part(list, 64, start, &bound, |needs| needs.len() <= most)?;
            (start, bound) = (part.bytes.end, part.leaves.clone());
            parts.push(part);
        }
        Ok(parts)
    }

    #[test]
    fn a_buffer_is_split_where_the_next_allocation_does_not_fit() {
        let ends = |most| {
            parts(&copies(), most).map(|p| p.iter().map(|p| p.bytes.end).collect::<Vec<_>>())
        };
        assert_eq!(ends(4), Ok(vec![64]));
        assert_eq!(ends(3), Ok(vec![40, 64]), "in the middle of the second copy's places");
        assert_eq!(ends(2), Ok(vec![32, 64]));
        assert_eq!(ends(1), Err(BadList::NoRoom(8)), "a copy needs two allocations");
        let cut = &parts(&copies(), 3).unwrap()[1];
        assert_eq!(
            cut.needs,
            BTreeSet::from([2, 3]),
            "what was bound at the border is needed behind it"
        );
        assert_eq!(check_parts(&copies(), 64, true, |needs| needs.len() <= 3), Ok(()));
        assert_eq!(
            check_parts(&copies(), 64, true, |needs| needs.len() <= 1),
            Err(BadList::NoRoom(8))
        );
        let rebound = [entry(0, 0, Some(0)), entry(8, 1, Some(1)), entry(16, 1, Some(2))];
        let part =
            next_part(&rebound, 64, 16, &Bindings::from([(0, 0), (1, 1)]), |_| true).unwrap();
        assert_eq!(part.needs, BTreeSet::from([0, 2]), "slot 1 is rebound where the part begins");
        let bound = Bindings::from([(0, 0), (1, 1)]);
        let none = next_part(&rebound, 64, 16, &bound, |needs| needs.is_empty());
        assert_eq!(none.err(), Some(BadList::NoRoom(16)), "what is bound already needs room");
    }

    // spec: PRE-035
    #[test]
    fn a_part_that_leaks_a_binding_is_refused() {
        let bound = Bindings::from([(0, 0), (1, 1)]);
        let rest = |list: &[PatchLocation]| next_part(list, 64, 32, &bound, |_| true).unwrap();
        let list = copies();
        assert_eq!(
            check_bindings(&list, &rest(&list), &bound),
            Ok(()),
            "both slots are reprogrammed"
        );
        let unbinds: Vec<_> = vec![entry(32, 0, None), entry(40, 1, None)];
        assert_eq!(check_bindings(&unbinds, &rest(&unbinds), &bound), Ok(()));
        let leaks: Vec<_> = vec![entry(32, 0, None)];
        assert_eq!(
            check_bindings(&leaks, &rest(&leaks), &bound),
            Err(BadList::BindingLeak { slot: 1 })
        );
    }

    // spec: PRE-040
    #[test]
    fn a_list_increases_and_names_existing_objects() {
        let check = |list: &[PatchLocation]| check(list, 64, 4, 1);
        assert_eq!(check(&copies()), Ok(()));
        assert_eq!(check(&[entry(8, 0, Some(0)), entry(8, 1, Some(1))]), Err(BadList::Order(1)));
        assert_eq!(check(&[entry(8, 0, None), entry(0, 0, Some(1))]), Err(BadList::Order(1)));
        assert_eq!(check(&[entry(64, 0, None)]), Err(BadList::Offset(0)));
        assert_eq!(check(&[entry(4, 0, None)]), Err(BadList::Offset(0)));
        let early = PatchLocation { patch_offset: 0, ..entry(8, 0, Some(0)) };
        assert_eq!(check(&[early]), Err(BadList::Offset(0)), "patched before it is bound");
        assert_eq!(check(&[entry(0, 2, None)]), Err(BadList::Name(0)));
        assert_eq!(check(&[entry(0, 0, Some(4))]), Err(BadList::Name(0)));
    }
}
