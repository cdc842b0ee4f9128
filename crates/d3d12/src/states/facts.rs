//! Owns what the rules need to know of a resource. Plain data.

use crate::states::flags::ResourceStates;
use crate::states::policy::ResourceKind;
use std::sync::Arc;

/// A resource as the rules see it.
#[derive(Debug)]
pub(crate) struct ResourceFacts {
    pub(crate) name: String,
    pub(crate) kind: ResourceKind,
    pub(crate) subresources: u32,
    pub(crate) initial: ResourceStates,
    /// Of an upload or readback heap: it stays in its initial state.
    pub(crate) fixed: bool,
    /// Where it lies in a heap of the application.
    pub(crate) place: Option<HeapRange>,
}

/// Bytes of a heap.
#[derive(Clone, Debug)]
pub(crate) struct HeapRange {
    /// The heap: its name, which is this heap's own by its address.
    pub(crate) heap: Arc<str>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl HeapRange {
    pub(crate) fn overlaps(&self, other: &HeapRange) -> bool {
        Arc::ptr_eq(&self.heap, &other.heap)
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

/// What tells one resource from all others while anything refers to its facts, weakly too.
pub(crate) fn key(facts: &Arc<ResourceFacts>) -> usize {
    Arc::as_ptr(facts).addr()
}
