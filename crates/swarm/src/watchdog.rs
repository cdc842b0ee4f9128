//! The watchdog of runs on threads of the host, where a lock that is never free cannot be seen.
//!
//! It looks at the number of steps that have ended. When that does not change for `PATIENCE_NS` and
//! the time of the program's work, it writes what is under way and the stacks of all threads, and
//! ends the process with [`STOOD_STILL`]. Time in which a thread waited for a processor does not
//! count: the machine may be busy with other programs. A run that has failed before may stop for
//! that reason: the watchdog then writes the failure as `tidegate replay` does, and the exit code
//! is 1.
//!
//! Entry points: [`watch`], [`Watched`].

use crate::failure::Failure;
use crate::processor::Waiting;
use std::io::Write;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::platform::{Word, stacks};

/// The exit code of a process whose program stood still.
pub const STOOD_STILL: i32 = 70;
/// How long no step may end, beside the program's work, for all of which one step may wait. The
/// longest legal pause is two hangs, each of TdrDelay.
const PATIENCE_NS: u64 = 15_000_000_000;
/// How often the watchdog looks.
const PERIOD_NS: u64 = 100_000_000;

/// How far a run has come.
pub(crate) struct Progress {
    ended: Word,
    is_over: Word,
}

impl Progress {
    /// The progress of a run that begins; `name` is the name of the number of ended steps.
    pub(crate) fn new(platform: &Platform, name: &'static str) -> Progress {
        let ended = platform.page(1).word(0).named(name);
        Progress { ended, is_over: platform.page(1).word(0) }
    }

    /// Counts a step that has ended.
    pub(crate) fn end_step(&self) {
        self.ended.fetch_add(1);
    }

    /// Records that the run has been judged.
    pub(crate) fn end_run(&self) {
        self.is_over.store(1);
    }
}

/// A run that is watched.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Returns how far the run has come.
    fn progress(&self) -> &Progress;
    /// Returns the steps that are under way.
    fn under_way(&self) -> Vec<String>;
    /// Returns the first failure.
    fn failure(&self) -> Option<Failure>;
    /// Returns the time of the program's work in nanoseconds.
    fn work_ns(&self) -> u64;
    /// Returns the program as a line for `tidegate replay`.
    fn line(&self) -> String;
    /// Returns the other processes of the run.
    fn other_processes(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Writes the stacks of other processes of the run, and ends them.
    fn give_up(&self) {}
}

/// The number of ended steps, and since when it has not changed.
struct Seen {
    ended: u64,
    since: u64,
}

impl Seen {
    /// Notes the number of ended steps, and how long a thread has waited for a processor since the
    /// last call. Returns whether the number has been the same for longer than `patience` beside
    /// such waits.
    fn note_progress(&mut self, ended: u64, waited_ns: u64, now: u64, patience: u64) -> bool {
        self.since = now.min(self.since + waited_ns);
        if ended != self.ended {
            *self = Seen { ended, since: now };
        }
        now - self.since > patience
    }
}

/// Watches a run on a thread of its own, until the run has ended.
pub(crate) fn watch(run: &Arc<impl Watched>) {
    let run = Arc::downgrade(run);
    let watchdog = move || {
        let clock = Platform::host();
        let mut seen = Seen { ended: u64::MAX, since: 0 };
        let mut waiting = Waiting::default();
        loop {
            clock.sleep_until(clock.now().after(PERIOD_NS));
            // A run that has ended leaves nothing, or one that is judged.
            let Some(run) = run.upgrade() else { return };
            if run.progress().is_over.load() != 0 {
                return;
            }
            let patience = patience_ns(run.as_ref());
            let ended = run.progress().ended.load();
            let mut processes = run.other_processes();
            processes.push(std::process::id());
            let waited_ns = waiting.since_last_look(&processes);
            if seen.note_progress(ended, waited_ns, clock.now().0, patience) {
                give_up(run.as_ref());
            }
        }
    };
    let started = Platform::host().spawn_outside("watchdog", watchdog);
    debug_assert!(started.is_ok(), "a thread for the watchdog");
}

fn patience_ns(run: &impl Watched) -> u64 {
    PATIENCE_NS + run.work_ns()
}

fn give_up(run: &impl Watched) -> ! {
    // A test keeps what its macros print until its end, which does not come.
    let mut out = std::io::stderr();
    let mut write = |line: String| drop(writeln!(out, "{line}"));
    write(format!("standstill: no step has ended for {} s", patience_ns(run) / 1_000_000_000));
    run.under_way().iter().for_each(|step| write(format!("under way: {step}")));
    write(format!("replay: tidegate replay '{}'", run.line()));
    run.give_up();
    if let Some(failure) = run.failure() {
        let _ = writeln!(std::io::stdout(), "fails: {failure}");
        std::process::exit(1);
    }
    stacks::write_all();
    std::process::exit(STOOD_STILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn each_step_that_ends_gives_the_next_one_the_whole_time() {
        let mut seen = Seen { ended: u64::MAX, since: 0 };
        let mut stands = |ended, now| seen.note_progress(ended, 0, now, PATIENCE_NS);
        assert!(!stands(0, 5 * PATIENCE_NS), "the first number");
        assert!(!stands(0, 6 * PATIENCE_NS));
        assert!(!stands(1, 7 * PATIENCE_NS), "a step has ended");
        assert!(!stands(1, 8 * PATIENCE_NS));
        assert!(stands(1, 8 * PATIENCE_NS + 1));
    }

    #[test]
    fn a_wait_for_a_processor_does_not_count() {
        let mut seen = Seen { ended: 0, since: 0 };
        let mut stands =
            |waited, now| seen.note_progress(0, waited * SECOND, now * SECOND, 3 * SECOND);
        assert!(!stands(0, 3));
        assert!(!stands(2, 5), "two of the five seconds do not count");
        assert!(stands(0, 6), "four seconds count");
        // A wait of two threads, or one from before the last step, ends now at the latest.
        assert!(!stands(9, 7));
        assert!(!stands(0, 10));
        assert!(stands(0, 11));
    }
}
