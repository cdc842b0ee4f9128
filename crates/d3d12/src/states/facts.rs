//! The properties of a resource that the rules depend on. Plain data.

use crate::states::flags::ResourceStates;
use crate::states::policy::ResourceKind;
use std::sync::Arc;

/// The properties of a resource that the rules depend on.
#[derive(Debug)]
pub(crate) struct ResourceFacts {
    pub(crate) name: String,
    pub(crate) kind: ResourceKind,
    pub(crate) subresources: u32,
    pub(crate) initial: ResourceStates,
    /// In an upload or readback heap: the state never changes.
    pub(crate) fixed: bool,
    /// Its range in a heap of the application.
    pub(crate) place: Option<HeapRange>,
}

/// A range of a heap.
#[derive(Clone, Debug)]
pub(crate) struct HeapRange {
    /// The heap's name. The address of the `Arc` identifies the heap.
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

/// Returns a key of the resource, unique while any strong or weak reference to its facts exists.
pub(crate) fn key(facts: &Arc<ResourceFacts>) -> usize {
    Arc::as_ptr(facts).addr()
}
