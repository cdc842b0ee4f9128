//! The parts of the critical path of a run: their words and their definitions.
//!
//! The caller that ran a workload finds the path (`decisions/0038`) and puts its stretches on the
//! finished trace; the page draws them.
//!
//! Entry points: [`PathPart`], [`crate::Stretch`], [`crate::Trace::critical_path`].

use serde::Serialize;

/// Parts of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathPart {
    /// An engine draws, dispatches, or runs timed work.
    Gpu,
    /// An engine copies or fills.
    Copy,
    /// Submitting calls, and the time from the last dependency of a command buffer to its start on
    /// the engine.
    Launch,
    /// Waits and signals: from the end of the awaited work to the release of the waiter, through
    /// engine, interrupt, scheduler and thread.
    Sync,
    /// The own time of CPU threads: sleeps, writes through mappings, and recorded time between
    /// calls.
    Host,
    /// Time without a cause on the timeline: replayed gaps of a recording, and waits for a display.
    Idle,
    /// What held the run up before the first work of its queues was on an engine. The own time of
    /// CPU threads before it is of the host.
    StartUp,
}

impl PathPart {
    /// Every part, in the order in which reports show them.
    pub const ALL: [PathPart; 7] = [
        PathPart::Gpu,
        PathPart::Copy,
        PathPart::Launch,
        PathPart::Sync,
        PathPart::Host,
        PathPart::Idle,
        PathPart::StartUp,
    ];

    /// The words of reports and pages.
    pub fn label(self) -> &'static str {
        match self {
            PathPart::Gpu => "GPU work",
            PathPart::Copy => "copies",
            PathPart::Launch => "launch",
            PathPart::Sync => "sync",
            PathPart::Host => "host",
            PathPart::Idle => "idle",
            PathPart::StartUp => "start-up",
        }
    }

    /// The definition in the legend of every page.
    pub fn meaning(self) -> &'static str {
        match self {
            PathPart::Gpu => "an engine draws, dispatches, or runs timed work",
            PathPart::Copy => "an engine copies or fills",
            PathPart::Launch => {
                "calls that submit, and the time from the last thing that work waited for to its \
                 start on the engine"
            }
            PathPart::Sync => {
                "waits and signals: from the end of the awaited work to the release of the waiter"
            }
            PathPart::Host => "a CPU thread's own time: between its calls, sleeps, writes",
            PathPart::Idle => {
                "no cause on the timeline: gaps of a recording, waits for a display, blocked calls \
                 without an object"
            }
            PathPart::StartUp => {
                "what held the run up before its first work was on an engine, without the host's \
                 own time"
            }
        }
    }

    /// Whether a submission model can change the time of this part. The others are the program's
    /// own, or a recording's.
    pub fn is_of_model(self) -> bool {
        matches!(self, PathPart::Launch | PathPart::Sync)
    }

    /// Description of a run that this part binds.
    pub fn bound(self) -> &'static str {
        match self {
            PathPart::Gpu => "GPU-bound",
            PathPart::Copy => "copy-bound",
            PathPart::Launch => "launch-bound",
            PathPart::Sync => "sync-bound",
            PathPart::Host => "host-bound",
            PathPart::Idle => "mostly idle",
            PathPart::StartUp => "over before any work",
        }
    }
}
