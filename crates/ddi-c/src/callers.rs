//! What the host keeps of each agent that runs the driver's code.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Default, PartialEq)]
pub(crate) struct Caller {
    pub(crate) is_at_apc: bool,
    pub(crate) regions: u32,
    /// Entries that it runs, innermost last, with the stack addresses at which they began.
    pub(crate) entries: Vec<(u64, String)>,
    pub(crate) thread: u64,
}

/// By the number of the agent.
#[derive(Default)]
pub(crate) struct Callers {
    pub(crate) agents: BTreeMap<u64, Caller>,
    /// Entries that used too much of the stack.
    pub(crate) deep: BTreeSet<String>,
}
