//! The fence that orders tile mapping updates with a queue's work.

use crate::umd::fence::FenceObject;
use std::sync::Arc;

/// The tile mapping updates of a queue.
#[derive(Default)]
pub(crate) struct TileMappings {
    /// Created by the first update.
    pub(crate) fence: Option<Arc<FenceObject>>,
    /// The value used last.
    pub(crate) value: u64,
    /// Number of signals and waits that the queue has made for updates.
    pub(crate) signals: u64,
    pub(crate) waits: u64,
}
