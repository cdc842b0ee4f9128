//! The memory behind the reserved addresses of each address space.

use crate::access::SpaceKey;
use crate::tiles::Tiles;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The tiles of all address spaces. A submission keeps the tiles of its place in the order.
#[derive(Debug, Default)]
pub(crate) struct TilesOfSpaces {
    of: BTreeMap<SpaceKey, Arc<Tiles>>,
}

impl TilesOfSpaces {
    /// Returns the present mappings; `None` for a space that had none.
    pub(crate) fn of(&self, space: SpaceKey) -> Option<Arc<Tiles>> {
        self.of.get(&space).cloned()
    }

    pub(crate) fn map(&mut self, space: SpaceKey, addresses: Range<u64>, memory: Option<u64>) {
        Arc::make_mut(self.of.entry(space).or_default()).map(addresses, memory);
    }

    /// Drops the mappings of reserved addresses that are freed.
    pub(crate) fn free(&mut self, space: SpaceKey, addresses: Range<u64>) {
        if self.of.contains_key(&space) {
            self.map(space, addresses, None);
        }
    }

    pub(crate) fn end(&mut self, space: SpaceKey) {
        self.of.remove(&space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_keeps_the_mappings_of_its_place() {
        let (mut all, space) = (TilesOfSpaces::default(), SpaceKey(1));
        all.free(space, 0..100);
        assert!(all.of(space).is_none());
        all.map(space, 0..10, Some(100));
        let kept = all.of(space).unwrap();
        all.free(space, 0..10);
        let located = |tiles: &Tiles| {
            let mut found = Vec::new();
            tiles.locate(0..10, |part| found.push([part.start, part.end]));
            found
        };
        assert_eq!(located(&kept), [[100, 110]]);
        assert_eq!(located(&all.of(space).unwrap()), [[0, 10]]);
        all.end(space);
        assert!(all.of(space).is_none());
    }
}
