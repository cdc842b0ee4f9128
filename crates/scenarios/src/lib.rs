//! Explored scenarios: races described by the documents of native fences and user-mode submission,
//! on the code that users run. Each file begins with a description of the race and its `Race`: the
//! marks that some run must reach, the search limits, and the planted bugs that a search must find.
//! `doorbell-order`, `store-against-rotation`, `wake-word` and the scenarios of `fence_cell` are
//! models of one protocol.
//!
//! Shared rooms: `world` (the machine, built outside the run) · `seam` (the driver layer that
//! records and omits steps) · `setting` (differences from what ships) · `race` (the shape of a
//! scenario) · `plan` (search limits). Callers are the command line and the tests.

mod doorbell;
mod fence;
mod interrupt;
mod left_out;
mod memory;
mod object;
mod plan;
mod power;
mod race;
mod recovery;
mod scheduling;
mod seam;
mod service;
mod setting;
mod world;

pub use plan::Plan;
pub use setting::Setting;

/// Imports common to all scenarios.
mod prelude {
    pub(crate) use crate::left_out::LeftOut;
    pub(crate) use crate::plan::{Plans, bounded, exhaustive, sampled};
    pub(crate) use crate::race::{Bug, Fault, Race, Run, bugs};
    pub(crate) use crate::seam::notes;
    pub(crate) use crate::setting::{self, Shape};
    pub(crate) use crate::world::{
        World, assert_ok, list_of, queue_of, queue_on, sleep_until_idle, sound,
    };
    pub(crate) use tidegate::explorer::{Prepared, Probe, Verdict};
    pub(crate) use tidegate_testbed::prelude::*;
}

use race::{Planted, Race};
use tidegate::explorer::{Litmus, Scenario};

/// In order of machine size.
const RACES: &[&Race] = &[
    &fence::fence_cell::TWO_REWINDERS,
    &fence::fence_cell::RAISE_AGAINST_REWIND,
    &fence::fence_cell::RAISE_AGAINST_DEEP_REWIND,
    &fence::fence_cell::RENEW_AGAINST_PARK,
    &scheduling::seven_stations::RACE,
    &scheduling::seven_stations_hardware::RACE,
    &scheduling::seven_stations_packet::RACE,
    &fence::shadow_against_signal::RACE,
    &fence::arm_against_rewind::BY_ENGINE,
    &fence::arm_against_rewind::BY_CPU,
    &fence::gpu_wait::RACE,
    &fence::fence_commands::RACE,
    &scheduling::engine_hand_over::RACE,
    &interrupt::drop_against_completion::RACE,
    &fence::gpu_pulse::BY_ENGINE,
    &fence::gpu_pulse::BY_CPU,
    &fence::lost_history::RACE,
    &fence::lost_history::OF_PARKED,
    &fence::cpu_signal_against_park::RACE,
    &fence::cpu_signal_against_wait::RACE,
    &fence::raise_against_arm::RACE,
    &fence::cancel_against_signal::RACE,
    &fence::two_signallers::RACE,
    &fence::two_waiters::RACE,
    &interrupt::two_interrupts::RACE,
    &interrupt::signals_in_a_burst::RACE,
    &fence::one_event::RACE,
    &fence::shared_event::RACE,
    &fence::unregister_against_signal::RACE,
    &fence::reused_wait::RACE,
    &fence::poll_against_signal::BY_CPU,
    &fence::poll_against_signal::BY_ENGINE,
    &fence::poll_against_signal::MOVED,
    &fence::destroy_against_signal::RACE,
    &fence::destroy_against_wait::RACE,
    &fence::broadcast_against_destroy::RACE,
    &memory::demote_against_signal::RACE,
    &memory::demote_against_destroy::RACE,
    &fence::atomic_against_atomic::RACE,
    &memory::evict_against_submit::RACE,
    &memory::unmap_against_store::RACE,
    &memory::unmap_against_dpc::RACE,
    &fence::cross_adapter_relay::RACE,
    &fence::gpu_to_gpu::RACE,
    &scheduling::backlog_against_submit::RACE,
    &doorbell::ring_against_park::RACE,
    &doorbell::stored_ring_against_trap::RACE,
    &interrupt::wake_word::RACE,
    &power::ring_against_f1::RACE,
    &power::resume_against_f1::RACE,
    &power::ring_against_d3::RACE,
    &power::page_against_d3::RACE,
    &scheduling::suspend_against_signal::RACE,
    &power::resume_against_destroy::RACE,
    &doorbell::suspend_against_destroy::RACE,
    &scheduling::priority_against_create::RACE,
    &scheduling::priority_against_dispatch::RACE,
    &scheduling::packet_against_higher_band::RACE,
    &scheduling::completion_against_preemption::RACE,
    &scheduling::preemption_against_wait::RACE,
    &recovery::completion_against_reset::RACE,
    &recovery::hang_against_signal::RACE,
    &recovery::rest_against_unblock::RACE,
    &recovery::reset_against_doorbell::OF_ENGINE,
    &recovery::reset_against_doorbell::OF_ADAPTER,
    &recovery::destroy_against_reset::RACE,
    &doorbell::ring_against_victimise::RACE,
    &doorbell::doorbell_order::RACE,
    &memory::store_against_rotation::RACE,
    &doorbell::ring_against_connect::RACE,
    &doorbell::ring_against_disconnect::BY_KERNEL,
    &doorbell::ring_against_disconnect::BY_DRIVER,
    &doorbell::destroy_against_victimise::RACE,
    &object::destroy_against_lookup::RACE,
    &recovery::remove_against_submit::RACE,
    &object::terminate_against_ring::RACE,
    &object::device_end::AGAINST_RING,
    &object::device_end::AGAINST_TERMINATION,
    &fence::mutex_against_death::RACE,
    &object::keyed_mutex_against_death::RACE,
    &doorbell::connect_against_connect::RACE,
    &object::create_against_destroy::RACE,
    &object::create_against_end::OF_DEVICE,
    &object::create_against_end::OF_CONTEXT_END,
    &object::create_against_end::OF_LOSS,
    &object::create_against_end::OF_PROCESS,
    &object::create_against_end::OF_ADAPTER,
    &doorbell::doorbell_against_destroy::RACE,
    &doorbell::leaf_ring_against_scan::RACE,
    &fence::wait_any_against_wait_all::RACE,
    &fence::log_write_against_log_read::RACE,
    &service::call_against_call::RACE,
    &service::ring_against_connect::RACE,
    &service::connect_against_connect::RACE,
    &service::ring_against_park::RACE,
    &service::wait_against_signal::BLOCKING,
    &service::wait_against_signal::WITH_EVENT,
    &service::cancel_against_signal::RACE,
    &service::slot_against_signal::RACE,
    &service::cancel_against_register::RACE,
    &service::destroy_against_wait::RACE,
    &service::device_end_against_signal::RACE,
    &service::stop_against_wait::BLOCKING,
    &service::stop_against_wait::WITH_EVENT,
    &service::kill_against_call::RACE,
    &service::handle_against_death::RACE,
    &service::hostile_client::RACE,
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
