//! Worlds to explore: the races that the documents of native fences and user-mode submission
//! describe, run by the code that users run. Each has its own file, whose header says which race it
//! is and in which document; each states what some run must reach, and the bugs that can be put in
//! on purpose: a search that does not find those proves nothing.
//!
//! | scenario | race |
//! |---|---|
//! | `litmus`, `litmus-1x2` | CurrentValue and MonitoredValue alone (the explorer's own) |
//! | `two-rewinders`, `raise-against-rewind`, `raise-against-deep-rewind` | the cell of a fence alone: rewinds, raises and a wait |
//! | `renew-against-park` | a new fence in a cell against a wait for the one before |
//! | `seven-stations`, `-hardware`, `-packet` | a signal against a CPU wait, through each submission model |
//! | `shadow-against-signal` | the first, on hardware that keeps a shadow of MonitoredValue and posts its stores |
//! | `arm-against-rewind`, `arm-against-cpu-rewind` | a CPU wait against a value that comes and falls |
//! | `gpu-wait` | a GPU wait against a GPU signal |
//! | `gpu-pulse`, `gpu-pulse-by-cpu` | a ring's wait behind a blocked head against a value that comes and falls |
//! | `cpu-signal-against-park` | a GPU wait against a CPU signal |
//! | `cancel-against-signal` | taking a wait back against its signal |
//! | `two-signallers` | an engine and a CPU thread signal one fence |
//! | `two-waiters` | two CPU threads wait for one value that is signalled |
//! | `two-interrupts` | two engines' signals for two processes against the interrupt routine of either |
//! | `one-event` | the waiter of one event against the release of two waits for it |
//! | `destroy-against-signal` | the end of a fence against its signal |
//! | `destroy-against-wait` | the end of an instance against a CPU wait that is asked by it |
//! | `broadcast-against-destroy` | signals over two hardware queues against each other and a queue's end |
//! | `demote-against-signal` | fence storage that moves against a signal and a CPU wait |
//! | `evict-against-submit` | memory that leaves against the submission that uses it |
//! | `unmap-against-store` | memory that is unmapped against an engine that stores to it |
//! | `cross-adapter-relay` | a signal on one adapter against a queue that waits on another |
//! | `gpu-to-gpu` | the same without the CPU: the GPUs tell each other |
//! | `backlog-against-submit` | the worker of a full ring's backlog against callers that submit |
//! | `ring-against-park`, `wake-word` | a ring against an engine that goes to sleep |
//! | `ring-against-f1`, `ring-against-d3` | a ring against the loss of the engine's, or the adapter's, power |
//! | `page-against-d3` | memory that is paged against the loss of the adapter's power |
//! | `suspend-against-signal` | a suspended context against a signal of its queue |
//! | `priority-against-dispatch` | a context that loses its priority against the engine that serves its queue |
//! | `packet-against-higher-band` | a queue of a higher band against an engine that may not leave a packet |
//! | `completion-against-preemption` | packets that complete against the request for them |
//! | `preemption-against-wait` | the request for a packet against the end of the wait behind it |
//! | `completion-against-reset` | packets that complete against the reset of their engine |
//! | `hang-against-signal` | the reset of an engine that hangs against the signal that a queue waits for there |
//! | `reset-against-doorbell`, `adapter-reset-against-doorbell` | a ring and a connect against a reset |
//! | `remove-against-submit` | the removal of an adapter against a submission, a wait and a recovery |
//! | `ring-against-victimise`, `doorbell-order` | a ring against the loss of its doorbell |
//! | `ring-against-disconnect`, `ring-against-callback` | the same without a hint, by the kernel and by the driver |
//! | `destroy-against-victimise` | the end of doorbells against the loss of one |
//! | `destroy-against-lookup` | the end of doorbells and queues against callers that look through all of them |
//! | `terminate-against-ring` | the end of a process against its own rings, and a neighbour's |
//! | `connect-against-connect` | two connects that take the doorbell from each other |
//! | `log-write-against-log-read` | an entry of a fence log against its reading |
//! | `hostile-client-against-neighbour` | a process that writes anything at any moment against everybody else |
//!
//! Shared rooms: `world` (the machine, built outside the run) · `seam` (a driver around the driver:
//! looks, and leaves things out) · `race` (the shape of a scenario) · `plan` (how far each is
//! searched). The command line and the tests call in.

mod arm_against_rewind;
mod backlog_against_submit;
mod broadcast_against_destroy;
mod cancel_against_signal;
mod completion_against_preemption;
mod completion_against_reset;
mod connect_against_connect;
mod cpu_signal_against_park;
mod cross_adapter_relay;
mod demote_against_signal;
mod destroy_against_lookup;
mod destroy_against_signal;
mod destroy_against_victimise;
mod destroy_against_wait;
mod doorbell_order;
mod evict_against_submit;
mod fence_cell;
mod gpu_pulse;
mod gpu_to_gpu;
mod gpu_wait;
mod hang_against_signal;
mod hostile_client;
mod log_write_against_log_read;
mod one_event;
mod packet_against_higher_band;
mod page_against_d3;
mod plan;
mod preemption_against_wait;
mod priority_against_dispatch;
mod race;
mod remove_against_submit;
mod reset_against_doorbell;
mod ring_against_d3;
mod ring_against_disconnect;
mod ring_against_f1;
mod ring_against_park;
mod ring_against_victimise;
mod seam;
mod seven_stations;
mod seven_stations_hardware;
mod seven_stations_packet;
mod shadow_against_signal;
mod suspend_against_signal;
mod terminate_against_ring;
mod two_interrupts;
mod two_signallers;
mod two_waiters;
mod unmap_against_store;
mod wake_word;
mod world;

pub use plan::Plan;

use race::Race;
use tidegate::explorer::{Litmus, Scenario};

/// In the order of the table above.
const RACES: &[&Race] = &[
    &fence_cell::TWO_REWINDERS,
    &fence_cell::RAISE_AGAINST_REWIND,
    &fence_cell::RAISE_AGAINST_DEEP_REWIND,
    &fence_cell::RENEW_AGAINST_PARK,
    &seven_stations::RACE,
    &seven_stations_hardware::RACE,
    &seven_stations_packet::RACE,
    &shadow_against_signal::RACE,
    &arm_against_rewind::BY_ENGINE,
    &arm_against_rewind::BY_CPU,
    &gpu_wait::RACE,
    &gpu_pulse::BY_ENGINE,
    &gpu_pulse::BY_CPU,
    &cpu_signal_against_park::RACE,
    &cancel_against_signal::RACE,
    &two_signallers::RACE,
    &two_waiters::RACE,
    &two_interrupts::RACE,
    &one_event::RACE,
    &destroy_against_signal::RACE,
    &destroy_against_wait::RACE,
    &broadcast_against_destroy::RACE,
    &demote_against_signal::RACE,
    &evict_against_submit::RACE,
    &unmap_against_store::RACE,
    &cross_adapter_relay::RACE,
    &gpu_to_gpu::RACE,
    &backlog_against_submit::RACE,
    &ring_against_park::RACE,
    &wake_word::RACE,
    &ring_against_f1::RACE,
    &ring_against_d3::RACE,
    &page_against_d3::RACE,
    &suspend_against_signal::RACE,
    &priority_against_dispatch::RACE,
    &packet_against_higher_band::RACE,
    &completion_against_preemption::RACE,
    &preemption_against_wait::RACE,
    &completion_against_reset::RACE,
    &hang_against_signal::RACE,
    &reset_against_doorbell::OF_ENGINE,
    &reset_against_doorbell::OF_ADAPTER,
    &ring_against_victimise::RACE,
    &doorbell_order::RACE,
    &ring_against_disconnect::BY_KERNEL,
    &ring_against_disconnect::BY_DRIVER,
    &destroy_against_victimise::RACE,
    &destroy_against_lookup::RACE,
    &remove_against_submit::RACE,
    &terminate_against_ring::RACE,
    &connect_against_connect::RACE,
    &log_write_against_log_read::RACE,
    &hostile_client::RACE,
];

/// How scenarios that are not this crate's are searched: they are small.
const LITMUS_PLAN: Plan = Plan::exhaustive(5_000_000);

/// All scenarios, smallest machine first.
pub fn all() -> Vec<Box<dyn Scenario>> {
    let litmus: [Box<dyn Scenario>; 2] = [Litmus::boxed(), Box::new(Litmus::new(1, 2))];
    let races = RACES.iter().map(|race| Box::new(**race) as Box<dyn Scenario>);
    litmus.into_iter().chain(races).collect()
}

/// The scenario of this name; beside those of [`all`], `litmus-FxV` for any F fences and V values.
pub fn find(name: &str) -> Option<Box<dyn Scenario>> {
    let race = RACES.iter().find(|race| race.name == name);
    race.map(|race| Box::new(**race) as Box<dyn Scenario>).or_else(|| Litmus::named(name))
}

/// How to search the scenario `name`: in the short form, or in the `full` one.
pub fn plan(name: &str, full: bool) -> Plan {
    let plans = RACES.iter().find(|race| race.name == name).map(|race| race.plans);
    plans.map_or(LITMUS_PLAN, |plans| if full { plans.full } else { plans.short })
}

/// How to search for the planted bugs of the scenario `name`: they must be found within this.
pub fn plan_of_bugs(name: &str) -> Plan {
    RACES.iter().find(|race| race.name == name).map_or(LITMUS_PLAN, |race| race.plans.bugs)
}

/// What the agents of the scenario `name` are called, by number; empty where nobody says.
pub fn agents(name: &str) -> &'static [&'static str] {
    match RACES.iter().find(|race| race.name == name) {
        Some(race) => race.agents,
        None if name == "litmus" || name.starts_with("litmus-1x") => &["waiter", "engine"],
        None => &[],
    }
}
