//! Why packets of a context are held, and what is kept for packets that an engine has.

use tidegate_ddi::OsHandle;

/// Why no packet of a context may be submitted, whatever is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    /// How many of its save areas have no content yet.
    pub(crate) areas_without_content: u32,
    /// One of its save areas moves.
    pub(crate) area_moves: bool,
}

impl Hold {
    pub(crate) fn is_on(self) -> bool {
        self != Hold::default()
    }
}

pub(crate) struct Holds<K> {
    /// A context whose area is to move has come off its engine.
    pub(crate) has_quiet_context: bool,
    /// Save areas and buffers of contexts that are gone and still have packets on an engine, which
    /// may store their state there.
    pub(crate) kept: Vec<(OsHandle, K)>,
}

impl<K> Default for Holds<K> {
    fn default() -> Holds<K> {
        Holds { has_quiet_context: false, kept: Vec::new() }
    }
}
