//! The account of a run: its makespan by part, and the time of its CPU threads.
//!
//! `critical_path` makes it from a timeline. `decisions/0038` has the definition of each part.

use serde::Serialize;
use tidegate_trace::LaneId;

/// Parts of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
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
}

impl Part {
    /// Every part, in the order in which reports show them.
    pub const ALL: [Part; 6] =
        [Part::Gpu, Part::Copy, Part::Launch, Part::Sync, Part::Host, Part::Idle];

    /// The words of reports.
    pub fn label(self) -> &'static str {
        match self {
            Part::Gpu => "GPU work",
            Part::Copy => "copies",
            Part::Launch => "launch",
            Part::Sync => "sync",
            Part::Host => "host",
            Part::Idle => "idle",
        }
    }

    /// Description of a run whose largest part this is.
    pub fn bound(self) -> &'static str {
        match self {
            Part::Gpu => "GPU-bound",
            Part::Copy => "copy-bound",
            Part::Launch => "launch-bound",
            Part::Sync => "sync-bound",
            Part::Host => "host-bound",
            Part::Idle => "mostly idle",
        }
    }
}

/// The makespan of a run by part, and the time of its CPU threads. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// [`Part::Gpu`].
    pub gpu_ns: u64,
    /// [`Part::Copy`].
    pub copy_ns: u64,
    /// [`Part::Launch`].
    pub launch_ns: u64,
    /// [`Part::Sync`].
    pub sync_ns: u64,
    /// [`Part::Host`].
    pub host_ns: u64,
    /// [`Part::Idle`].
    pub idle_ns: u64,
    /// The time of all threads in calls that submit, on the critical path or not.
    pub cpu_submission_ns: u64,
    /// The time of all threads in waits for fences.
    pub cpu_waiting_ns: u64,
}

impl Account {
    /// The time of a part.
    pub fn of(&self, part: Part) -> u64 {
        match part {
            Part::Gpu => self.gpu_ns,
            Part::Copy => self.copy_ns,
            Part::Launch => self.launch_ns,
            Part::Sync => self.sync_ns,
            Part::Host => self.host_ns,
            Part::Idle => self.idle_ns,
        }
    }

    /// The parts with their times. They sum to the makespan.
    pub fn parts(&self) -> [(Part, u64); 6] {
        Part::ALL.map(|part| (part, self.of(part)))
    }

    /// The largest part; of equal ones the first.
    pub fn bound(&self) -> Part {
        let largest = Part::ALL.into_iter().rev().max_by_key(|part| self.of(*part));
        largest.unwrap_or(Part::Gpu)
    }

    pub(super) fn add(&mut self, part: Part, ns: u64) {
        *match part {
            Part::Gpu => &mut self.gpu_ns,
            Part::Copy => &mut self.copy_ns,
            Part::Launch => &mut self.launch_ns,
            Part::Sync => &mut self.sync_ns,
            Part::Host => &mut self.host_ns,
            Part::Idle => &mut self.idle_ns,
        } += ns;
    }
}

/// Facts of a run that its timeline lacks. Times in nanoseconds on the timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOnTimeline {
    /// Start of the run.
    pub started_ns: u64,
    /// Start plus makespan.
    pub ended_ns: u64,
    /// The lane of each queue of the workload, and the engine that runs it (place among the
    /// timeline's engine lanes).
    pub queues: Vec<(LaneId, u32)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_parts_the_first_binds() {
        let of = |gpu_ns, sync_ns, idle_ns| {
            Account { gpu_ns, sync_ns, idle_ns, ..Account::default() }.bound()
        };
        assert_eq!(of(5, 5, 5), Part::Gpu);
        assert_eq!(of(4, 5, 5), Part::Sync);
        assert_eq!(of(4, 5, 6), Part::Idle);
    }
}
