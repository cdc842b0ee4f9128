//! The states that objects of the machine have entered in runs.
//!
//! A state is entered when a counter of the kernel has moved, or when a device is in it after the
//! last step. So a state between two steps is seen, too.
//!
//! Entry points: [`STATES`], [`States`].

use tidegate::calls::DeviceState;
use tidegate::dxgkrnl::KernelStats;

/// A state of an object.
pub struct ObjectState {
    /// The object and its state.
    pub name: &'static str,
    source: Source,
}

enum Source {
    Counter(fn(&KernelStats) -> u64),
    Device(fn(&DeviceState) -> bool),
}

const fn counted(name: &'static str, counter: fn(&KernelStats) -> u64) -> ObjectState {
    ObjectState { name, source: Source::Counter(counter) }
}

const fn device(name: &'static str, is_in: fn(&DeviceState) -> bool) -> ObjectState {
    ObjectState { name, source: Source::Device(is_in) }
}

/// Every state, by object.
pub static STATES: &[ObjectState] = &[
    counted("adapter: D3", |s| s.sleeps_in_d3),
    counted("adapter: D0 after D3", |s| s.wakes_from_d3),
    counted("adapter: reset", |s| s.adapter_resets),
    counted("power-down: given up", |s| s.power_downs_given_up),
    counted("engine: F1", |s| s.engines_in_f1),
    counted("engine: asked to preempt", |s| s.preemptions),
    counted("engine: timed out", |s| s.engine_timeouts),
    counted("packet: with the driver", |s| s.packets),
    counted("packet: preempted", |s| s.packets_preempted),
    counted("packet: part of a split buffer", |s| s.split_parts),
    counted("packet: its completion was lost", |s| s.lost_completions),
    counted("preemption: answered after it was withdrawn", |s| s.stale_preemptions),
    counted("hardware queue: with commands", |s| s.hw_queue_commands),
    counted("context: suspended", |s| s.suspensions),
    counted("context: suspension acknowledged late", |s| s.stale_suspend_acknowledgements),
    counted("doorbell: connected", |s| s.doorbell_connects),
    counted("doorbell: taken away", |s| s.doorbell_victims),
    counted("allocation: paged in", |s| s.allocations_paged_in),
    counted("allocation: evicted", |s| s.allocations_paged_out),
    counted("fence: a CPU waits", |s| s.cpu_waits),
    counted("fence: a queue waits in the kernel", |s| s.queued_waits),
    counted("fence: relayed to another adapter", |s| s.relays),
    counted("fence: history lost", |s| s.fence_history_lost),
    counted("fence log: entry lost", |s| s.log_entries_lost),
    counted("interrupt: named no waiter", |s| s.spurious_fence_interrupts),
    counted("interrupt: missed", |s| s.missed_interrupts),
    counted("process: closed", |s| s.processes_closed),
    counted("process: terminated", |s| s.processes_terminated),
    device("device: active at the end", |s| *s == DeviceState::Active),
    device("device: faulted", |s| matches!(s, DeviceState::Faulted(_))),
    device("device: hung", |s| matches!(s, DeviceState::Hung(_))),
    device("device: lost in a reset", |s| matches!(s, DeviceState::Reset(_))),
    device("device: lost with a stopped adapter", |s| *s == DeviceState::Stopped),
    device("device: removed", |s| *s == DeviceState::Removed),
    device("device: its process has ended", |s| *s == DeviceState::ProcessEnded),
    device("device: marked as error", |s| matches!(s, DeviceState::MarkedAsError(_))),
];

/// How many runs have entered each state, in the order of [`STATES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States(Vec<u64>);

impl Default for States {
    fn default() -> States {
        States(vec![0; STATES.len()])
    }
}

impl States {
    /// Notes the states that a run has entered on an adapter, or in a device.
    fn note(&mut self, is_entered: impl Fn(&Source) -> bool) {
        for (state, entered) in STATES.iter().zip(&mut self.0) {
            *entered = (*entered).max(u64::from(is_entered(&state.source)));
        }
    }

    pub(crate) fn note_adapter(&mut self, stats: &KernelStats) {
        self.note(|source| matches!(source, Source::Counter(counter) if counter(stats) > 0));
    }

    pub(crate) fn note_device(&mut self, found: &DeviceState) {
        self.note(|source| matches!(source, Source::Device(is_in) if is_in(found)));
    }

    /// Adds the counts of other runs.
    pub(crate) fn add(&mut self, more: &States) {
        self.0.iter_mut().zip(&more.0).for_each(|(all, more)| *all += more);
    }

    /// Returns the names of the states that no run has entered.
    pub fn never(&self) -> impl Iterator<Item = &'static str> {
        let states = STATES.iter().zip(&self.0);
        states.filter(|(_, runs)| **runs == 0).map(|(state, _)| state.name)
    }
}
