//! The owner of each heap range: the placed resource that was used first, until an aliasing barrier
//! transfers the range to another.

use crate::states::facts::ResourceFacts;
use crate::states::violation::CommandSite;
use std::sync::{Arc, Weak};

/// An event of a list that affects the ownership of heap ranges.
#[derive(Clone, Debug)]
pub(crate) enum AliasEvent {
    Use(Arc<ResourceFacts>),
    /// An aliasing barrier; `None` is any resource.
    Barrier(Option<Arc<ResourceFacts>>, Option<Arc<ResourceFacts>>),
}

#[derive(Debug)]
struct Owner {
    facts: Weak<ResourceFacts>,
    site: CommandSite,
}

/// The owner of each range of every heap.
#[derive(Debug, Default)]
pub(crate) struct HeapOwners {
    owners: Vec<Owner>,
}

impl HeapOwners {
    /// Applies an event. If `Use` touches bytes of another owner, returns that resource and the
    /// command that made it the owner.
    pub(crate) fn apply(
        &mut self,
        event: &AliasEvent,
        site: &CommandSite,
    ) -> Option<(Arc<ResourceFacts>, CommandSite)> {
        self.owners.retain(|owner| owner.facts.strong_count() > 0);
        match event {
            AliasEvent::Use(facts) => self.give(facts, site),
            AliasEvent::Barrier(_, Some(after)) => {
                self.give(after, site);
                None
            }
            AliasEvent::Barrier(Some(before), None) => {
                self.owners.retain(|owner| !owner.is(before));
                None
            }
            AliasEvent::Barrier(None, None) => {
                self.owners.clear();
                None
            }
        }
    }

    /// Makes `facts` the owner of its bytes. Returns a previous owner of some of them.
    fn give(
        &mut self,
        facts: &Arc<ResourceFacts>,
        site: &CommandSite,
    ) -> Option<(Arc<ResourceFacts>, CommandSite)> {
        let place = facts.place.as_ref()?;
        if self.owners.iter().any(|owner| owner.is(facts)) {
            return None;
        }
        let mut lost = None;
        self.owners.retain(|owner| {
            let other = owner.facts.upgrade();
            let overlaps =
                |other: &ResourceFacts| other.place.as_ref().is_some_and(|p| p.overlaps(place));
            match other.filter(|other| overlaps(other)) {
                Some(other) => {
                    lost.get_or_insert_with(|| (other, owner.site.clone()));
                    false
                }
                None => true,
            }
        });
        self.owners.push(Owner { facts: Arc::downgrade(facts), site: site.clone() });
        lost
    }
}

impl Owner {
    fn is(&self, facts: &Arc<ResourceFacts>) -> bool {
        std::ptr::eq(self.facts.as_ptr(), Arc::as_ptr(facts))
    }
}
