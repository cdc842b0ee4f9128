//! Owns the report of a run, and its text for a panic.

use crate::time::CpuTime;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Agents that were blocked when no agent could move, with the reason of each wait. Always
    /// empty on [`crate::Platform::host`].
    pub blocked: Vec<(String, String)>,
    /// Panics of agents, with their names.
    pub panics: Vec<String>,
    /// The clock at the end.
    pub end: CpuTime,
    /// Visible steps taken (explored), or turns of the run loop (virtual time).
    pub steps: u64,
    /// Hash of the final state of an explored machine. Runs that differ only in the order of
    /// commuting steps have the same hash.
    pub state: u64,
}

impl RunReport {
    /// Returns whether every agent returned by itself.
    pub fn completed(&self) -> bool {
        self.blocked.is_empty() && self.panics.is_empty()
    }
}

/// Returns the entry of [`RunReport::panics`] for an agent that panicked with `payload`.
pub(crate) fn panic_text(agent: &str, payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)");
    format!("agent '{agent}' panicked: {text}")
}
