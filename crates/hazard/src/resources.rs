//! The named ranges of address spaces.

use crate::access::SpaceKey;
use crate::tiles::View;
use std::ops::Range;

/// Maximum number of removed resources whose names are kept.
const KEPT_ENDED: usize = 256;

/// A named resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceKey(u64);

#[derive(Debug)]
struct Resource {
    key: ResourceKey,
    space: SpaceKey,
    bytes: Range<u64>,
    name: String,
}

impl Resource {
    fn overlaps(&self, space: SpaceKey, bytes: &Range<u64>) -> bool {
        self.space == space && self.bytes.start < bytes.end && bytes.start < self.bytes.end
    }
}

#[derive(Debug, Default)]
pub(crate) struct Resources {
    live: Vec<Resource>,
    /// Removed resources whose memory is not freed yet, in order of removal.
    ended: Vec<Resource>,
    last: u64,
}

impl Resources {
    pub(crate) fn add(&mut self, space: SpaceKey, bytes: Range<u64>, name: String) -> ResourceKey {
        self.last += 1;
        let key = ResourceKey(self.last);
        self.live.push(Resource { key, space, bytes, name });
        key
    }

    pub(crate) fn end(&mut self, key: ResourceKey) {
        if let Some(at) = self.live.iter().position(|resource| resource.key == key) {
            self.ended.push(self.live.swap_remove(at));
        }
        if self.ended.len() > KEPT_ENDED {
            self.ended.remove(0);
        }
    }

    /// Drops the removed resources of a range.
    pub(crate) fn forget_ended(&mut self, space: SpaceKey, bytes: &Range<u64>) {
        self.ended.retain(|resource| !resource.overlaps(space, bytes));
    }

    /// Returns the names of the resources in a range and at its `views`, and the start of the
    /// first. The last removed resource is included if the range has at most one live resource,
    /// because its memory may have been reused.
    pub(crate) fn name_of(
        &self,
        space: SpaceKey,
        bytes: &Range<u64>,
        views: &[View],
    ) -> (Option<String>, u64) {
        let of = |all: &'_ [Resource]| -> Vec<(u64, String)> {
            let of = all.iter().filter(|resource| resource.overlaps(space, bytes));
            of.map(|resource| (resource.bytes.start, resource.name.clone())).collect()
        };
        let mut found = of(&self.live);
        for View { address, offset } in views {
            let seen = *address..address + 1;
            for resource in self.live.iter().filter(|resource| resource.overlaps(space, &seen)) {
                if found.iter().all(|(_, name)| *name != resource.name) {
                    // The resource's start, if all of its memory lay as this part does.
                    let before = address - resource.bytes.start;
                    let start = (bytes.start + offset).saturating_sub(before);
                    found.push((start, resource.name.clone()));
                }
            }
        }
        if found.len() < 2
            && let Some((start, name)) = of(&self.ended).pop()
            && found.iter().all(|(_, live)| *live != name)
        {
            found.push((start, name));
        }
        let start = found.iter().map(|(start, _)| *start).min();
        let names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
        let name = (!names.is_empty()).then(|| names.join("' and '"));
        (name, start.filter(|start| *start <= bytes.start).unwrap_or(0))
    }
}
