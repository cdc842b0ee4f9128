//! The account of a run: its makespan by part, and the time of its CPU threads.
//!
//! `critical_path` makes it from a timeline. `decisions/0038` has the definition of each part;
//! `tidegate-trace` has their names, because pages show them too.

use serde::Serialize;
use tidegate_trace::LaneId;
pub use tidegate_trace::PathPart as Part;

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
    /// [`Part::StartUp`].
    pub start_up_ns: u64,
    /// The time of all threads in calls that submit, on the critical path or not.
    pub cpu_submission_ns: u64,
    /// The time of all threads in waits for fences.
    pub cpu_waiting_ns: u64,
    /// How busy the engines were, on the critical path or not.
    pub busy: Busy,
}

/// The time in which engines worked. Times in nanoseconds; moments in which several engines worked
/// count once in the sums. The sums are of one GPU, which worked for longest: GPUs
/// that take turns are not busy all the time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// GPUs of the program that worked.
    pub gpus: u32,
    /// At least one engine worked.
    pub any_ns: u64,
    /// At least one engine drew, dispatched, or ran timed work.
    pub gpu_ns: u64,
    /// At least one engine copied or filled.
    pub copy_ns: u64,
    /// Each engine.
    pub engines: Vec<EngineBusy>,
}

/// The time in which one engine worked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EngineBusy {
    /// Its name on the timeline.
    pub engine: String,
    /// It drew, dispatched, or ran timed work.
    pub gpu_ns: u64,
    /// It copied or filled.
    pub copy_ns: u64,
}

/// Engines that are busy for this share of the makespan bind the run, in percent.
const BUSY_PERCENT: u64 = 80;

/// A run whose engines are busy for this share is not idle, in percent.
const NOT_IDLE_PERCENT: u64 = 50;

/// Shares that are closer than this are a near tie, in percent of the makespan.
const NEAR_PERCENT: u64 = 5;

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
            Part::StartUp => self.start_up_ns,
        }
    }

    /// The parts with their times. They sum to the makespan.
    pub fn parts(&self) -> [(Part, u64); 7] {
        Part::ALL.map(|part| (part, self.of(part)))
    }

    /// The makespan without start-up: what models are compared by.
    pub fn steady_ns(&self) -> u64 {
        let steady = self.parts().into_iter().filter(|(part, _)| *part != Part::StartUp);
        steady.map(|(_, ns)| ns).sum()
    }

    /// The part that binds the run.
    pub fn bound(&self) -> Part {
        self.bounds()[0]
    }

    /// The part that binds the run, and those that nearly do: a small change would give the run
    /// their name.
    ///
    /// Engines that are busy nearly all the time bind a run, wherever its last chain of work went.
    /// Otherwise the critical path decides; a run whose engines are busy half of the time is not
    /// idle. Of parts that are nearly equal the first in the order of [`Part::ALL`] counts. Shares
    /// are of the steady work.
    pub(super) fn bounds(&self) -> Vec<Part> {
        let steady_ns = self.steady_ns();
        let percent = |ns: u64| ns.saturating_mul(100).checked_div(steady_ns).unwrap_or(0);
        let busy = percent(self.busy.any_ns);
        let engines = match self.busy.copy_ns > self.busy.gpu_ns {
            true => [Part::Copy, Part::Gpu],
            false => [Part::Gpu, Part::Copy],
        };
        let apart = percent(self.busy.copy_ns.abs_diff(self.busy.gpu_ns));
        let engines = &engines[..if apart < NEAR_PERCENT { 2 } else { 1 }];
        let is_possible = |part: &Part| *part != Part::Idle || busy < NOT_IDLE_PERCENT;
        let steady = Part::ALL.into_iter().filter(|part| *part != Part::StartUp);
        let possible: Vec<Part> = steady.filter(is_possible).collect();
        let largest = possible.iter().map(|part| self.of(*part)).max().unwrap_or(0);
        let near = |part: &Part| {
            let less = largest - self.of(*part);
            less == 0 || percent(less) < NEAR_PERCENT
        };
        let path: Vec<Part> = possible.into_iter().filter(near).collect();
        let mut bounds = match busy {
            BUSY_PERCENT.. => [engines, &path].concat(),
            _ if busy + NEAR_PERCENT > BUSY_PERCENT => [&path, engines].concat(),
            _ => path,
        };
        if busy >= BUSY_PERCENT + NEAR_PERCENT {
            bounds.truncate(engines.len());
        }
        bounds
    }

    pub(super) fn add(&mut self, part: Part, ns: u64) {
        *match part {
            Part::Gpu => &mut self.gpu_ns,
            Part::Copy => &mut self.copy_ns,
            Part::Launch => &mut self.launch_ns,
            Part::Sync => &mut self.sync_ns,
            Part::Host => &mut self.host_ns,
            Part::Idle => &mut self.idle_ns,
            Part::StartUp => &mut self.start_up_ns,
        } += ns;
    }
}

/// Facts of a run that its timeline lacks. Times in nanoseconds on the timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOnTimeline {
    /// Start of the run.
    pub started_ns: u64,
    /// Start of its first work on an engine, as of [`crate::report::Report::first_work_ns`].
    pub first_work_ns: u64,
    /// Start plus makespan.
    pub ended_ns: u64,
    /// The lane of each queue of the workload, and the engine that runs it (place among the
    /// timeline's engine lanes).
    pub queues: Vec<(LaneId, u32)>,
    /// The GPU of each queue in the recorded program. Queues beyond the end are of GPU 0.
    pub gpus: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account with these percentages on the path, and of busy engines.
    fn bounds(path: [u64; 6], [any_ns, gpu_ns, copy_ns]: [u64; 3]) -> Vec<Part> {
        assert_eq!(path.iter().sum::<u64>(), 100);
        // Start-up has no part in it, however long it took.
        let mut account = Account { start_up_ns: 500, ..Account::default() };
        Part::ALL.into_iter().zip(path).for_each(|(part, ns)| account.add(part, ns));
        account.busy = Busy { gpus: 1, any_ns, gpu_ns, copy_ns, engines: Vec::new() };
        account.bounds()
    }

    #[test]
    fn busy_engines_bind_a_run_wherever_its_path_went() {
        // The last work is a tiny kernel of a stream that was idle before.
        assert_eq!(bounds([2, 0, 1, 0, 0, 97], [98, 98, 0]), [Part::Gpu]);
        assert_eq!(bounds([30, 0, 0, 0, 70, 0], [90, 20, 80]), [Part::Copy]);
        assert_eq!(bounds([30, 0, 0, 0, 70, 0], [50, 50, 0]), [Part::Host]);
        // Busy half of the time is not mostly idle.
        assert_eq!(bounds([20, 0, 10, 0, 15, 55], [60, 60, 0])[0], Part::Gpu);
        assert_eq!(bounds([20, 0, 10, 0, 15, 55], [40, 40, 0]), [Part::Idle]);
    }

    #[test]
    fn near_ties_have_both_names() {
        assert_eq!(bounds([39, 0, 0, 20, 41, 0], [45, 45, 0]), [Part::Gpu, Part::Host]);
        assert_eq!(bounds([41, 0, 0, 20, 39, 0], [45, 45, 0]), [Part::Gpu, Part::Host]);
        assert_eq!(bounds([35, 0, 0, 24, 41, 0], [45, 45, 0]), [Part::Host]);
        // Around the share of busy engines that binds.
        assert_eq!(bounds([20, 0, 0, 0, 80, 0], [79, 79, 0]), [Part::Host, Part::Gpu]);
        assert_eq!(bounds([20, 0, 0, 0, 80, 0], [81, 81, 0]), [Part::Gpu, Part::Host]);
        assert_eq!(bounds([20, 0, 0, 0, 80, 0], [75, 75, 0]), [Part::Host]);
        assert_eq!(bounds([50, 50, 0, 0, 0, 0], [95, 48, 47]), [Part::Gpu, Part::Copy]);
    }

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
