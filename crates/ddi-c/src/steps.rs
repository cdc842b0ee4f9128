//! Steps of a driver's code: the begin of an entry, and each function of the kernel that it calls.
//! An exploration stops the running agent at chosen steps, so that others run first.
//!
//! Invariants:
//! - steps are numbered in the order of the machine, so the same switches give the same steps;
//! - an agent that is stopped goes on when another agent is stopped, or after [`PAUSE_NS`];
//! - the lock is innermost and is not held while an agent is stopped.
//!
//! Entry points: [`Steps`].

use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_platform::{Mutex, Platform, current};

/// Virtual time for which an agent is stopped at most. Engines complete several packets meanwhile;
/// it is short beside every delay of timeout detection.
const PAUSE_NS: u64 = 1_000_000;
/// An agent that is stopped looks this often whether it may go on.
const LOOK_NS: u64 = 500;

/// A step: its agent, and its place in the driver's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepSeen {
    /// The number of the agent.
    pub agent: u64,
    /// A number for the entry, the number of the step in it, and the function.
    pub place: u64,
}

/// The steps of one run, and the switches in it.
#[derive(Clone)]
pub struct Steps(Arc<Mutex<State>>);

struct State {
    /// Numbers of the steps at which the running agent is stopped, in ascending order.
    switches: Vec<u64>,
    seen: Vec<StepSeen>,
    /// A text for each switch that was made.
    made: Vec<String>,
    /// How many agents were stopped so far.
    stopped: u64,
    /// The entries that each agent runs, innermost last, with the number of steps in each.
    entries: BTreeMap<u64, Vec<(String, u64)>>,
}

/// Whether the function was carried out.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum When {
    Before,
    After,
}

/// FNV-1a, so that a place has the same number in each process.
fn number_of(entry: &str, count: u64, function: &str, when: When) -> u64 {
    let bytes = entry.bytes().chain(count.to_le_bytes()).chain(function.bytes());
    let bytes = bytes.chain([u8::from(when == When::After)]);
    bytes.fold(0xCBF2_9CE4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    })
}

impl Steps {
    /// Returns the steps of a run in which the running agent is stopped at each of these steps.
    pub fn new(mut switches: Vec<u64>) -> Steps {
        switches.sort_unstable();
        let state = State {
            switches,
            seen: Vec::new(),
            made: Vec::new(),
            stopped: 0,
            entries: BTreeMap::new(),
        };
        Steps(Arc::new(Platform::host().mutex("steps of a driver", state)))
    }

    /// Takes the steps of the run, in order, and a text for each switch.
    pub fn take(&self) -> (Vec<StepSeen>, Vec<String>) {
        let mut state = self.0.lock();
        (std::mem::take(&mut state.seen), std::mem::take(&mut state.made))
    }

    /// An entry begins, on the calling agent.
    pub(crate) fn begin(&self, platform: &Platform, entry: &str) {
        {
            let mut state = self.0.lock();
            let agent = current::identity().0;
            state.entries.entry(agent).or_default().push((entry.to_owned(), 0));
        }
        self.step(platform, "begin", When::After);
    }

    /// The innermost entry of the calling agent ends.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        let agent = current::identity().0;
        if let Some(entries) = state.entries.get_mut(&agent) {
            entries.pop();
            if entries.is_empty() {
                state.entries.remove(&agent);
            }
        }
    }

    /// Counts a step of the calling agent, and stops it there if a switch is.
    pub(crate) fn step(&self, platform: &Platform, function: &str, when: When) {
        // DriverEntry and the end run on no agent of the machine.
        if !platform.is_current() {
            return;
        }
        let stopped = {
            let state = &mut *self.0.lock();
            let agent = current::identity().0;
            let innermost = state.entries.get_mut(&agent).and_then(|entries| entries.last_mut());
            let Some((entry, count)) = innermost else { return };
            *count += 1;
            let number = state.seen.len() as u64;
            let place = number_of(entry, *count, function, when);
            state.seen.push(StepSeen { agent, place });
            if state.switches.binary_search(&number).is_err() {
                return;
            }
            let when = if when == When::Before { "before" } else { "after" };
            let what = match function {
                "begin" => "at its begin".to_owned(),
                _ => format!("{when} '{function}', its step {count}"),
            };
            let text = format!("'{}' stops in {entry} {what}", current::name());
            state.made.push(text);
            state.stopped += 1;
            state.stopped
        };
        let end = platform.now().after(PAUSE_NS);
        while platform.now() < end && self.0.lock().stopped == stopped {
            platform.spend_ns(LOOK_NS);
        }
    }
}

/// Functions of the host that are steps. One that only names, checks or counts is not a step.
const BEFORE: &[&str] = &[
    "acquire_lock",
    "try_lock",
    "release_lock",
    "pool_allocated",
    "pool_freed",
    "allocate_contiguous",
    "free_contiguous",
    "read_register",
    "write_register",
    "delay",
    "barrier",
    "set_event",
    "clear_event",
    "read_event",
    "wait",
    "wait_many",
    "insert_dpc",
    "remove_dpc",
    "flush_dpcs",
    "set_timer",
    "cancel_timer",
    "start_thread",
    "release_semaphore",
    "acquire_mutex",
    "release_mutex",
    "acquire_shared",
    "release_shared",
    "state_of",
    "queue_work",
    "is_work_queued",
    "is_dpc_running",
    "synchronize",
    "disconnect_doorbell",
    "atomic",
];

/// Functions that other agents or the device see. A plain access may come between one of them and
/// the next step.
const AFTER: &[&str] = &[
    "release_lock",
    "write_register",
    "barrier",
    "set_event",
    "insert_dpc",
    "set_timer",
    "start_thread",
    "release_semaphore",
    "release_mutex",
    "release_shared",
    "queue_work",
    "synchronize",
    "disconnect_doorbell",
];

/// Returns whether a function of the host is a step.
pub(crate) fn is_step(function: &str, when: When) -> bool {
    match when {
        When::Before => BEFORE.contains(&function),
        When::After => AFTER.contains(&function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::StepCosts;

    #[test]
    fn a_place_is_known_by_entry_number_function_and_side() {
        let places = [
            number_of("DxgkDdiStartDevice", 1, "barrier", When::Before),
            number_of("DxgkDdiStartDevice", 1, "barrier", When::After),
            number_of("DxgkDdiStartDevice", 2, "barrier", When::Before),
            number_of("DxgkDdiStopDevice", 1, "barrier", When::Before),
            number_of("DxgkDdiStartDevice", 1, "wait", When::Before),
        ];
        let different: std::collections::BTreeSet<u64> = places.into_iter().collect();
        assert_eq!(different.len(), 5);
        assert_eq!(places[0], number_of("DxgkDdiStartDevice", 1, "barrier", When::Before));
    }

    #[test]
    fn agents_outside_of_the_drivers_code_and_of_the_machine_make_no_steps() {
        let platform = Platform::virtual_time(StepCosts::free());
        let steps = Steps::new(vec![1, 0]);
        steps.begin(&platform, "DxgkDdiUnload");
        steps.end();
        let kept = steps.clone();
        let of_run = platform.clone();
        platform.run(move || {
            kept.step(&of_run, "barrier", When::Before);
            kept.begin(&of_run, "DxgkDdiStartDevice");
            kept.step(&of_run, "barrier", When::Before);
            kept.step(&of_run, "barrier", When::After);
            kept.end();
        });
        let (seen, made) = steps.take();
        assert_eq!(seen.len(), 3);
        let [first, second] = &made[..] else { panic!("{made:?}") };
        assert!(first.ends_with("stops in DxgkDdiStartDevice at its begin"), "{first}");
        assert!(second.ends_with("before 'barrier', its step 2"), "{second}");
    }
}
