//! The report of a run, and its text for a panic.

use crate::thread::PANIC_PLACE;
use crate::time::CpuTime;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Agents that were blocked when no agent could move, with the reason of each wait. Always
    /// empty on a host that is not closed.
    pub blocked: Vec<(String, String)>,
    /// Workers, and services inside of a turn, that were blocked then. An idle service is no part
    /// of it. Empty on every host.
    pub blocked_services: Vec<(String, String)>,
    /// Panics of agents, with their names.
    pub panics: Vec<String>,
    /// Circles of locks and waits, of which each may wait for the next (decisions/0139),
    /// even if no agent was blocked.
    pub wait_circles: Box<[String]>,
    /// Whether an agent of a cooperative machine panicked before the run stood still or was
    /// stopped.
    pub panicked_first: bool,
    /// The clock at the end.
    pub end: CpuTime,
    /// Visible steps taken (explored), or turns of the run loop (virtual time).
    pub steps: u64,
    /// Hash of the final state of an explored machine. Runs that differ only in the order of
    /// commuting steps have the same hash.
    pub state: u64,
}

impl RunReport {
    /// Returns whether every agent returned by itself, and no circle of waits was found.
    pub fn completed(&self) -> bool {
        self.blocked.is_empty() && self.panics.is_empty() && self.wait_circles.is_empty()
    }
}

/// Returns the entry of [`RunReport::panics`] for an agent that panicked with `payload`.
pub(crate) fn panic_text(agent: &str, payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)");
    match PANIC_PLACE.take() {
        Some(place) => format!("agent '{agent}' panicked at {place}: {text}"),
        None => format!("agent '{agent}' panicked: {text}"),
    }
}
