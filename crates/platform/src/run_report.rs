//! The report of a run, and the text that it has for a panic.

use crate::time::CpuTime;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Agents that were blocked when no agent could move any more, and what each waited for. Always
    /// empty on [`crate::Platform::host`].
    pub blocked: Vec<(String, String)>,
    /// Panics of agents, with their names.
    pub panics: Vec<String>,
    /// The clock at the end.
    pub end: CpuTime,
    /// Visible steps taken (explored), or turns of the run loop (virtual time).
    pub steps: u64,
    /// Hash of the state in which an explored machine ended; runs that differ only in the order of
    /// steps that commute end in the same one.
    pub state: u64,
}

impl RunReport {
    /// Whether every agent returned by itself.
    pub fn completed(&self) -> bool {
        self.blocked.is_empty() && self.panics.is_empty()
    }
}

/// The entry of [`RunReport::panics`] for an agent that panicked with `payload`.
pub(crate) fn panic_text(agent: &str, payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)");
    format!("agent '{agent}' panicked: {text}")
}
