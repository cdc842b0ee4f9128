//! Contexts whose submission is held, and objects kept alive for packets in flight.

use tidegate_ddi::OsHandle;

/// Reasons for which no packet of a context is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Number of the context's save areas that have no content yet.
    pub(crate) areas_without_content: u32,
    /// Whether a save area of the context is being moved.
    pub(crate) area_is_moving: bool,
}

impl Hold {
    pub(crate) fn is_on(self) -> bool {
        self != Hold::default()
    }
}

pub(crate) struct Holds<K> {
    /// Set when a context whose area is to be moved has no packet in flight any more.
    pub(crate) area_became_movable: bool,
    /// Save areas and buffers of destroyed contexts. Packets in flight may store state in them.
    pub(crate) kept: Vec<(OsHandle, K)>,
}

impl<K> Default for Holds<K> {
    fn default() -> Holds<K> {
        Holds { area_became_movable: false, kept: Vec::new() }
    }
}
