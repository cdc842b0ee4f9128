//! Explored scenarios: races described by the documents of native fences and user-mode submission,
//! on the code that users run. Each file begins with a description of the race and its `Race`: the
//! marks that some run must reach, the search limits, and the planted bugs that a search must find.
//! `doorbell-order`, `store-against-rotation`, `wake-word` and the scenarios of `fence_cell` are
//! models of one protocol.
//!
//! Shared rooms: `world` (the machine, built outside the run) · `seam` (the driver layer that
//! records and omits steps) · `setting` (differences from what ships) · `race` (the shape of a
//! scenario) · `plan` (search limits). Callers are the command line and the tests.

mod arm_against_rewind;
mod atomic_against_atomic;
mod backlog_against_submit;
mod broadcast_against_destroy;
mod cancel_against_signal;
mod completion_against_preemption;
mod completion_against_reset;
mod connect_against_connect;
mod cpu_signal_against_park;
mod cpu_signal_against_wait;
mod create_against_destroy;
mod create_against_end;
mod cross_adapter_relay;
mod demote_against_signal;
mod destroy_against_lookup;
mod destroy_against_reset;
mod destroy_against_signal;
mod destroy_against_victimise;
mod destroy_against_wait;
mod doorbell_against_destroy;
mod doorbell_order;
mod drop_against_completion;
mod engine_hand_over;
mod evict_against_submit;
mod fence_cell;
mod fence_commands;
mod gpu_pulse;
mod gpu_to_gpu;
mod gpu_wait;
mod hang_against_signal;
mod hostile_client;
mod leaf_ring_against_scan;
mod left_out;
mod log_write_against_log_read;
mod lost_history;
mod mutex_against_death;
mod one_event;
mod packet_against_higher_band;
mod page_against_d3;
mod plan;
mod poll_against_signal;
mod preemption_against_wait;
mod priority_against_create;
mod priority_against_dispatch;
mod race;
mod raise_against_arm;
mod remove_against_submit;
mod reset_against_doorbell;
mod rest_against_unblock;
mod resume_against_destroy;
mod resume_against_f1;
mod reused_wait;
mod ring_against_connect;
mod ring_against_d3;
mod ring_against_disconnect;
mod ring_against_f1;
mod ring_against_park;
mod ring_against_victimise;
mod seam;
mod served;
mod served_call_against_call;
mod served_cancel_against_register;
mod served_cancel_against_signal;
mod served_connect_against_connect;
mod served_destroy_against_wait;
mod served_handle_against_death;
mod served_kill_against_call;
mod served_ring_against_connect;
mod served_ring_against_park;
mod served_slot_against_signal;
mod served_stop_against_wait;
mod served_wait_against_signal;
mod setting;
mod seven_stations;
mod seven_stations_hardware;
mod seven_stations_packet;
mod shadow_against_signal;
mod shared_event;
mod signals_in_a_burst;
mod store_against_rotation;
mod suspend_against_signal;
mod terminate_against_ring;
mod two_interrupts;
mod two_signallers;
mod two_waiters;
mod unmap_against_dpc;
mod unmap_against_store;
mod unregister_against_signal;
mod wait_any_against_wait_all;
mod wake_word;
mod world;

pub use plan::Plan;
pub use setting::Setting;

/// Imports common to all scenarios.
mod prelude {
    pub(crate) use crate::left_out::LeftOut;
    pub(crate) use crate::plan::{Plans, bounded, exhaustive, sampled};
    pub(crate) use crate::race::{Bug, Fault, Race, Run};
    pub(crate) use crate::seam::notes;
    pub(crate) use crate::setting::{self, Shape};
    pub(crate) use crate::world::{
        World, assert_ok, list_of, queue_of, queue_on, sleep_until_idle, sound,
    };
    pub(crate) use tidegate::calls::Priority;
    pub(crate) use tidegate::d3d12::{Device, Error, EventDesc, Fence, FenceChoice, Queue};
    pub(crate) use tidegate::explorer::{Prepared, Probe, Verdict};
    pub(crate) use tidegate::platform::PlantedFault;
    pub(crate) use tidegate::{Platform, Submission};
}

use race::{Planted, Race};
use tidegate::explorer::{Litmus, Scenario};

/// In order of machine size.
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
    &fence_commands::RACE,
    &engine_hand_over::RACE,
    &drop_against_completion::RACE,
    &gpu_pulse::BY_ENGINE,
    &gpu_pulse::BY_CPU,
    &lost_history::RACE,
    &lost_history::OF_PARKED,
    &cpu_signal_against_park::RACE,
    &cpu_signal_against_wait::RACE,
    &raise_against_arm::RACE,
    &cancel_against_signal::RACE,
    &two_signallers::RACE,
    &two_waiters::RACE,
    &two_interrupts::RACE,
    &signals_in_a_burst::RACE,
    &one_event::RACE,
    &shared_event::RACE,
    &unregister_against_signal::RACE,
    &reused_wait::RACE,
    &poll_against_signal::BY_CPU,
    &poll_against_signal::BY_ENGINE,
    &poll_against_signal::MOVED,
    &destroy_against_signal::RACE,
    &destroy_against_wait::RACE,
    &broadcast_against_destroy::RACE,
    &demote_against_signal::RACE,
    &atomic_against_atomic::RACE,
    &evict_against_submit::RACE,
    &unmap_against_store::RACE,
    &unmap_against_dpc::RACE,
    &cross_adapter_relay::RACE,
    &gpu_to_gpu::RACE,
    &backlog_against_submit::RACE,
    &ring_against_park::RACE,
    &wake_word::RACE,
    &ring_against_f1::RACE,
    &resume_against_f1::RACE,
    &ring_against_d3::RACE,
    &page_against_d3::RACE,
    &suspend_against_signal::RACE,
    &resume_against_destroy::RACE,
    &priority_against_create::RACE,
    &priority_against_dispatch::RACE,
    &packet_against_higher_band::RACE,
    &completion_against_preemption::RACE,
    &preemption_against_wait::RACE,
    &completion_against_reset::RACE,
    &hang_against_signal::RACE,
    &rest_against_unblock::RACE,
    &reset_against_doorbell::OF_ENGINE,
    &reset_against_doorbell::OF_ADAPTER,
    &destroy_against_reset::RACE,
    &ring_against_victimise::RACE,
    &doorbell_order::RACE,
    &store_against_rotation::RACE,
    &ring_against_connect::RACE,
    &ring_against_disconnect::BY_KERNEL,
    &ring_against_disconnect::BY_DRIVER,
    &destroy_against_victimise::RACE,
    &destroy_against_lookup::RACE,
    &remove_against_submit::RACE,
    &terminate_against_ring::RACE,
    &mutex_against_death::RACE,
    &connect_against_connect::RACE,
    &create_against_destroy::RACE,
    &create_against_end::OF_DEVICE,
    &create_against_end::OF_CONTEXT_END,
    &create_against_end::OF_LOSS,
    &create_against_end::OF_PROCESS,
    &create_against_end::OF_ADAPTER,
    &doorbell_against_destroy::RACE,
    &leaf_ring_against_scan::RACE,
    &wait_any_against_wait_all::RACE,
    &log_write_against_log_read::RACE,
    &served_call_against_call::RACE,
    &served_ring_against_connect::RACE,
    &served_connect_against_connect::RACE,
    &served_ring_against_park::RACE,
    &served_wait_against_signal::BLOCKING,
    &served_wait_against_signal::WITH_EVENT,
    &served_cancel_against_signal::RACE,
    &served_slot_against_signal::RACE,
    &served_cancel_against_register::RACE,
    &served_destroy_against_wait::RACE,
    &served_stop_against_wait::BLOCKING,
    &served_stop_against_wait::WITH_EVENT,
    &served_kill_against_call::RACE,
    &served_handle_against_death::RACE,
    &hostile_client::RACE,
];

/// Search plan of the litmus scenarios, which come from another crate and are small.
const LITMUS_PLAN: Plan = plan::exhaustive(5_000_000);

/// Returns all scenarios in order of machine size.
pub fn all() -> Vec<Box<dyn Scenario>> {
    let litmus: [Box<dyn Scenario>; 2] = [Litmus::boxed(), Box::new(Litmus::new(1, 2))];
    let races = RACES.iter().map(|race| Box::new(Planted(race, None)) as Box<dyn Scenario>);
    litmus.into_iter().chain(races).collect()
}

fn race(name: &str) -> Option<&'static Race> {
    RACES.iter().find(|race| race.name == name).copied()
}

/// Returns the scenario of this name. Also accepts `litmus-FxV` for F fences and V values.
pub fn find(name: &str) -> Option<Box<dyn Scenario>> {
    race(name)
        .map(|race| Box::new(Planted(race, None)) as Box<dyn Scenario>)
        .or_else(|| Litmus::named(name))
}

/// Returns the search plan of scenario `name`, either the short or the `full` one.
pub fn plan(name: &str, full: bool) -> Plan {
    race(name).map_or(LITMUS_PLAN, |race| if full { race.plans.full } else { race.plans.short })
}

/// Returns the search plan within which the planted bugs of scenario `name` must be found.
pub fn plan_of_bugs(name: &str) -> Plan {
    race(name).map_or(LITMUS_PLAN, |race| race.plans.bugs)
}

/// Returns the settings in which the machine of scenario `name` differs from the one that ships;
/// `None` if it has no machine.
pub fn settings(name: &str) -> Option<&'static [Setting]> {
    match race(name)?.shape {
        setting::Shape::Model => None,
        setting::Shape::Machine(settings) => Some(settings),
    }
}
