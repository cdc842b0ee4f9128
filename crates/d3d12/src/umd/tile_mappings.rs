//! Owns the fence that gives tile mappings their place in the order of a queue.

use crate::umd::fence::FenceObject;
use std::sync::Arc;

/// The updates of a queue so far.
#[derive(Default)]
pub(crate) struct TileMappings {
    /// Made with the first update.
    pub(crate) fence: Option<Arc<FenceObject>>,
    /// The value that was used last.
    pub(crate) value: u64,
    /// Signals and waits that the queue has made for updates.
    pub(crate) signals: u64,
    pub(crate) waits: u64,
}
