//! Programs on threads, where a lock that is never free cannot be seen by the platform.
//!
//! A watchdog looks at the number of steps that have ended. When it stands still for
//! `PATIENCE_NS`, the watchdog writes the waits and the stacks of all threads, and ends the
//! process with [`STOOD_STILL`]. A hunt therefore runs each program in a process of its own.
//!
//! Entry point: [`run_watched`].

use crate::program::Program;
use crate::run::{self, Outcome};
use crate::stage::Stage;
use std::io::Write;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::platform::stacks;

/// The exit code of a process whose program stood still.
pub const STOOD_STILL: i32 = 70;
/// How long no step may end. The longest legal pause is two hangs, each of TdrDelay.
const PATIENCE_NS: u64 = 15_000_000_000;
/// How often the watchdog looks.
const PERIOD_NS: u64 = 100_000_000;

/// Returns the platform of a run on threads.
pub fn platform(program: &Program) -> Platform {
    if program.served { Platform::sharing_host() } else { Platform::host() }
}

/// Runs a program on threads under the watchdog.
pub fn run_watched(platform: &Platform, program: &Arc<Program>) -> Outcome {
    run::run_beside(platform, program, watch)
}

/// Watches a run on a thread of its own, until the run has ended.
fn watch(stage: &Arc<Stage>) {
    let stage = Arc::downgrade(stage);
    let watchdog = move || {
        let clock = Platform::host();
        let (mut seen, mut since) = (u64::MAX, 0);
        loop {
            clock.sleep_until(clock.now().after(PERIOD_NS));
            // A run that has ended leaves no stage, or one that is judged.
            let Some(stage) = stage.upgrade() else { return };
            if stage.is_over() {
                return;
            }
            let now = clock.now().0;
            if stage.progress() != seen {
                (seen, since) = (stage.progress(), now);
            }
            if now - since > PATIENCE_NS {
                give_up(&stage);
            }
        }
    };
    let started = Platform::host().spawn_outside("watchdog", watchdog);
    debug_assert!(started.is_ok(), "a thread for the watchdog");
}

fn give_up(stage: &Stage) -> ! {
    // A test keeps what its macros print until its end, which does not come.
    let mut out = std::io::stderr();
    let mut write = |line: String| drop(writeln!(out, "{line}"));
    write(format!("standstill: no step has ended for {} s", PATIENCE_NS / 1_000_000_000));
    stage.steps_under_way().iter().for_each(|step| write(format!("under way: {step}")));
    write(format!("replay: tidegate replay 'swarm/threads | {}'", stage.program().line()));
    stacks::write_all();
    std::process::exit(STOOD_STILL);
}
