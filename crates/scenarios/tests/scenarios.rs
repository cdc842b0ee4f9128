//! Every scenario holds, reaches its marks and finds its planted bugs. The number of states of each
//! exhaustive search is pinned, and `states` lists which ones came and went when it moves. It
//! changes only if the machine's steps or the definition of a state change, and the commit must
//! explain why.
//!
//! Sampled searches make fewer runs here than on the command line.

mod states;

use std::collections::BTreeMap;
use tidegate::explorer::{
    Coverage, Failure, Options, Report, Scenario, StrategyKind, explore, explore_planted, replay,
};
use tidegate_scenarios::{Plan, all, find, plan, plan_of_bugs};

/// Number of runs of a sampled search in these tests.
const SAMPLES: u64 = 3_000;

fn options(plan: Plan) -> Options<'static> {
    let samples = matches!(plan.strategy, StrategyKind::Pct(_));
    let max_runs = if samples { plan.max_runs.min(SAMPLES) } else { plan.max_runs };
    let max_states = plan.max_states;
    Options {
        strategy: plan.strategy,
        max_runs,
        max_states,
        shrink_runs: 300,
        ..Options::default()
    }
}

fn scenario(name: &str) -> Box<dyn Scenario> {
    find(name).unwrap_or_else(|| panic!("no scenario {name}"))
}

/// Searches by the short plan. No run fails and every mark is reached.
fn holds(name: &str) -> Report {
    holds_by(name, &options(plan(name, false)))
}

fn holds_by(name: &str, options: &Options<'_>) -> Report {
    let report = explore(scenario(name).as_ref(), options).unwrap();
    assert_eq!(
        report.failure.as_ref().map(|f| f.failure.to_string()),
        None,
        "{name}: {:?}",
        report.failure
    );
    assert_eq!(report.never_reached, [""; 0], "{name} does not reach all its marks");
    report
}

fn is_exhausted_in(name: &str, states: u64) -> Searched<'_> {
    let report = holds(name);
    assert_eq!(report.coverage, Coverage::Everything, "{name}");
    has_states(name, (report.states, states));
    Searched(name)
}

fn is_exhausted_up_to(switches: u32, name: &str, states: u64) -> Searched<'_> {
    let report = holds(name);
    assert_eq!(report.coverage, Coverage::UpToSwitches(switches), "{name}");
    has_states(name, (report.states, states));
    Searched(name)
}

fn has_states(name: &str, (found, pinned): (u64, u64)) {
    states::are(scenario(name).as_ref(), &options(plan(name, false)), (found, pinned));
}

fn is_sampled(name: &str) -> Searched<'_> {
    assert_eq!(holds(name).coverage, Coverage::Sampled, "{name}");
    Searched(name)
}

/// As [`is_sampled`], for a scenario with a mark that fewer runs miss.
fn is_sampled_longer(name: &str) -> Searched<'_> {
    let options = Options { max_runs: 2 * SAMPLES, ..options(plan(name, false)) };
    assert_eq!(holds_by(name, &options).coverage, Coverage::Sampled, "{name}");
    Searched(name)
}

/// The name of a scenario that holds.
struct Searched<'a>(&'a str);

impl Searched<'_> {
    /// Finds every planted bug. Each schedule line reproduces the same failure when replayed.
    fn finds_its_bugs(self) {
        let name = self.0;
        let scenario = scenario(name);
        assert!(!scenario.planted().is_empty());
        // Uses all the runs that the plan allows, because the search stops at the first failure.
        let plan = plan_of_bugs(name);
        let options = Options { max_runs: plan.max_runs, ..options(plan) };
        for planted in explore_planted(scenario.as_ref(), &options).unwrap() {
            let bug = planted.bug.name;
            let found = planted.report.failure.unwrap_or_else(|| panic!("{name} misses {bug}"));
            let again = replay(&found.shrunk_line, &|name| find(name)).unwrap();
            assert_eq!(again.failure.as_ref(), Some(&found.failure), "{}", found.shrunk_line);
        }
    }
}

// spec: NF-050, NF-051, NF-054, NF-055
#[test]
fn a_signal_through_seven_stations_loses_no_waiter() {
    is_exhausted_in("seven-stations", 336).finds_its_bugs();
}

#[test]
fn the_litmus_scenarios_are_exhausted() {
    is_exhausted_in("litmus", 21).finds_its_bugs();
    is_exhausted_in("litmus-1x2", 210).finds_its_bugs();
}

#[test]
fn a_signal_behind_work_of_a_hardware_queue_loses_no_waiter() {
    is_exhausted_up_to(1, "seven-stations-hardware", 42_560).finds_its_bugs();
}

#[test]
fn a_signal_behind_a_packet_loses_no_waiter() {
    is_exhausted_up_to(1, "seven-stations-packet", 5_455);
}

#[test]
fn a_signal_against_a_shadow_of_monitored_value_loses_no_waiter() {
    is_exhausted_in("shadow-against-signal", 5_264).finds_its_bugs();
}

// spec: PRE-024
#[test]
fn packets_that_complete_while_they_are_preempted_run_once() {
    is_sampled("completion-against-preemption").finds_its_bugs();
}

// spec: PRE-048, PRE-166
#[test]
fn packets_that_complete_during_a_reset_lose_at_most_one_device() {
    is_sampled("completion-against-reset").finds_its_bugs();
}

// spec: PRE-053
#[test]
fn a_hang_loses_only_the_guilty_device_whenever_another_queue_is_unblocked() {
    is_sampled("hang-against-signal").finds_its_bugs();
}

// spec: PRE-102
#[test]
fn a_hang_that_begins_while_detection_rests_is_found() {
    is_sampled("rest-against-unblock").finds_its_bugs();
}

// spec: UMS-040
#[test]
fn no_ring_is_lost_in_a_reset() {
    for name in ["reset-against-doorbell", "adapter-reset-against-doorbell"] {
        is_sampled(name).finds_its_bugs();
    }
}

// spec: PRE-142
#[test]
fn a_reset_ends_while_a_context_is_destroyed() {
    is_sampled("destroy-against-reset").finds_its_bugs();
}

// spec: PRE-042
#[test]
fn a_preempted_packet_stays_ahead_of_the_wait_behind_it() {
    is_sampled("preemption-against-wait").finds_its_bugs();
}

// spec: NF-005, NF-006
#[test]
fn a_queue_that_waits_for_another_engine_is_unblocked() {
    is_exhausted_in("gpu-wait", 698).finds_its_bugs();
}

// spec: HS-023, HS-024
#[test]
fn a_wait_in_a_command_buffer_loses_no_signal() {
    is_exhausted_in("fence-commands", 247).finds_its_bugs();
}

// spec: NF-003, NF-135
#[test]
fn a_queue_that_waits_for_the_cpu_is_unblocked() {
    is_exhausted_in("cpu-signal-against-park", 66).finds_its_bugs();
}

// spec: MF-036
#[test]
fn a_cpu_signal_that_is_a_store_loses_no_waiter() {
    is_exhausted_in("cpu-signal-against-wait", 389).finds_its_bugs();
}

// spec: NF-015, NF-048, NF-053
#[test]
fn a_cancelled_wait_leaves_no_fence_armed() {
    is_exhausted_up_to(2, "cancel-against-signal", 3_466).finds_its_bugs();
}

// spec: NF-009, NF-021
#[test]
fn two_signallers_release_the_waiter_in_every_order() {
    is_sampled("two-signallers");
}

// spec: NF-089
#[test]
fn a_fence_can_be_destroyed_while_it_is_signalled() {
    is_exhausted_in("destroy-against-signal", 3_126);
}

#[test]
fn broadcasts_do_not_deadlock_with_each_other_or_a_destroyed_queue() {
    is_sampled("broadcast-against-destroy");
}

#[test]
fn fence_storage_moves_and_loses_no_waiter() {
    is_sampled("demote-against-signal").finds_its_bugs();
}

#[test]
fn fence_storage_moves_while_a_fence_in_it_ends() {
    is_sampled("demote-against-destroy").finds_its_bugs();
}

// spec: RES-006
#[test]
fn memory_in_use_is_evicted_after_its_last_use() {
    is_sampled("evict-against-submit").finds_its_bugs();
}

// spec: RES-018
#[test]
fn no_store_reaches_unmapped_memory() {
    is_exhausted_up_to(1, "unmap-against-store", 5_902).finds_its_bugs();
}

// spec: UMS-195
#[test]
fn a_resumption_meets_a_queue_that_is_destroyed() {
    is_sampled("resume-against-destroy").finds_its_bugs();
}

// spec: PRE-168
#[test]
fn a_suspension_that_a_call_of_the_driver_completes_ends_at_once() {
    is_sampled("suspend-against-destroy").finds_its_bugs();
}

// spec: PRE-150
#[test]
fn an_unmapping_beside_a_dpc_on_the_thread_of_its_engine_completes() {
    is_sampled("unmap-against-dpc").finds_its_bugs();
}

// spec: NF-149, NF-150, NF-155
#[test]
fn a_signal_on_one_adapter_reaches_the_waiter_on_another() {
    is_exhausted_in("cross-adapter-relay", 71).finds_its_bugs();
}

#[test]
fn a_signal_on_one_gpu_reaches_a_queue_on_another_without_the_cpu() {
    is_exhausted_in("gpu-to-gpu", 163).finds_its_bugs();
}

// spec: UMS-004
#[test]
fn a_ring_reaches_an_engine_that_goes_to_sleep() {
    is_exhausted_in("ring-against-park", 214).finds_its_bugs();
    is_exhausted_in("wake-word", 8).finds_its_bugs();
}

// spec: UMS-055
#[test]
fn no_ring_is_lost_when_its_engine_powers_down() {
    is_sampled("ring-against-f1").finds_its_bugs();
}

// spec: UMS-047
#[test]
fn no_ring_of_a_suspended_context_is_lost_when_its_engine_powers_down() {
    is_sampled("resume-against-f1").finds_its_bugs();
}

// spec: UMS-059
#[test]
fn no_ring_is_lost_when_its_adapter_powers_down() {
    is_sampled("ring-against-d3").finds_its_bugs();
}

// spec: RES-015
#[test]
fn no_paged_memory_is_lost_when_its_adapter_powers_down() {
    is_sampled("page-against-d3").finds_its_bugs();
}

// spec: UMS-044, UMS-047
#[test]
fn a_suspended_context_runs_its_work_after_the_resume() {
    is_sampled("suspend-against-signal").finds_its_bugs();
}

// spec: HS-013
#[test]
fn a_demoted_context_yields_at_the_end_of_its_turn() {
    is_exhausted_up_to(1, "priority-against-dispatch", 86).finds_its_bugs();
}

#[test]
fn higher_band_work_runs_between_nonpreemptible_packets() {
    is_sampled("packet-against-higher-band").finds_its_bugs();
}

// spec: UMS-009, UMS-084, UMS-095, UMS-097, UMS-098
#[test]
fn two_queues_with_one_doorbell_run_everything_once() {
    is_sampled("ring-against-victimise").finds_its_bugs();
}

#[test]
fn doorbells_can_be_destroyed_while_one_is_victimised() {
    is_sampled("destroy-against-victimise");
}

// spec: UMS-181
#[test]
fn destroyed_objects_are_gone_while_all_objects_are_iterated() {
    is_sampled("destroy-against-lookup").finds_its_bugs();
}

// spec: UMS-036, UMS-091, UMS-092, UMS-093
#[test]
fn a_terminated_process_runs_no_work_and_leaves_no_object() {
    is_sampled("terminate-against-ring").finds_its_bugs();
}

// spec: UMS-087, UMS-088
#[test]
fn a_destroyed_device_has_its_announced_work_done() {
    is_sampled("destroy-device-against-ring").finds_its_bugs();
}

#[test]
fn a_terminated_process_waits_for_no_work_of_a_device_that_is_being_destroyed() {
    is_sampled("terminate-against-destroy-device").finds_its_bugs();
}

#[test]
fn a_keyed_mutex_whose_owner_is_terminated_is_passed_on_or_abandoned() {
    is_sampled("keyed-mutex-against-death").finds_its_bugs();
}

#[test]
fn a_mutex_of_a_context_that_ends_is_signalled_for_it() {
    is_sampled("mutex-against-death").finds_its_bugs();
}

// spec: PRE-093, PRE-094
#[test]
fn a_removal_releases_waits_and_stops_the_driver_last() {
    is_sampled("remove-against-submit").finds_its_bugs();
}

// spec: UMS-070
#[test]
fn two_connects_that_victimise_each_other_both_finish() {
    is_sampled("connect-against-connect").finds_its_bugs();
}

// spec: UMS-099
#[test]
fn a_ring_after_connected_reaches_the_hardware() {
    is_sampled("ring-against-connect").finds_its_bugs();
}

// spec: UMS-022
#[test]
fn a_program_that_only_stores_wakes_the_engine() {
    is_sampled("stored-ring-against-trap").finds_its_bugs();
}

// spec: UMS-083, UMS-101
#[test]
fn a_process_that_reads_connected_has_rung_the_hardware() {
    is_sampled("ring-against-disconnect");
    is_sampled("ring-against-callback");
}

#[test]
fn the_status_is_written_before_the_remap() {
    is_exhausted_in("doorbell-order", 15).finds_its_bugs();
    let published = scenario("doorbell-order").with_bug("rotate-before-status").unwrap();
    let report = explore(published.as_ref(), &Options::default()).unwrap();
    let lost = "the hardware finds the ring".to_owned();
    assert_eq!(report.failure.map(|f| f.failure), Some(Failure::Eventually(lost)));
}

// spec: ME-008
#[test]
fn no_atomic_addition_of_two_engines_is_lost() {
    is_sampled("atomic-against-atomic").finds_its_bugs();
}

// spec: NF-212, NF-216, NF-217
#[test]
fn no_waiter_is_lost_when_a_log_is_read_while_written() {
    is_sampled("log-write-against-log-read").finds_its_bugs();
}

#[test]
fn a_wait_latches_over_the_rewinds_of_a_cell() {
    is_exhausted_in("raise-against-rewind", 62_663).finds_its_bugs();
    is_exhausted_up_to(2, "raise-against-deep-rewind", 14_570).finds_its_bugs();
    is_exhausted_up_to(2, "two-rewinders", 156_168).finds_its_bugs();
}

// spec: ME-002
#[test]
fn a_queue_keeps_its_order_over_its_engines() {
    is_sampled("engine-hand-over").finds_its_bugs();
}

#[test]
fn a_queue_without_handles_completes_its_work() {
    is_sampled("drop-against-completion").finds_its_bugs();
}

#[test]
fn a_backlog_is_submitted_whole_and_in_order() {
    is_sampled("backlog-against-submit").finds_its_bugs();
}

// spec: NF-107
#[test]
fn a_wait_for_a_destroyed_fence_passes() {
    is_exhausted_in("renew-against-park", 151).finds_its_bugs();
}

// spec: ME-042
#[test]
fn a_cpu_wait_for_a_pulsed_value_is_satisfied() {
    is_sampled("arm-against-rewind").finds_its_bugs();
    is_sampled("arm-against-cpu-rewind");
}

// spec: ME-043
#[test]
fn a_queue_that_reaches_its_wait_after_a_pulse_is_unblocked() {
    for name in ["gpu-pulse", "gpu-pulse-by-cpu"] {
        is_sampled(name).finds_its_bugs();
    }
}

// spec: NF-343
#[test]
fn a_wait_for_a_dropped_value_passes_or_its_device_is_lost() {
    is_sampled("lost-history").finds_its_bugs();
}

// spec: NF-343
#[test]
fn a_queue_that_parks_while_its_wait_is_lost_loses_its_device() {
    is_sampled("lost-history-parked").finds_its_bugs();
}

#[test]
fn two_waiters_for_one_value_are_both_released() {
    is_sampled("two-waiters");
}

#[test]
fn a_raised_monitored_value_loses_no_waiter() {
    is_sampled("raise-against-arm").finds_its_bugs();
}

#[test]
fn signals_that_an_engine_holds_back_release_their_waiters() {
    is_sampled("signals-in-a-burst").finds_its_bugs();
}

#[test]
fn no_signal_is_lost_to_a_concurrent_interrupt() {
    is_sampled("two-interrupts").finds_its_bugs();
}

// spec: UMS-170
#[test]
fn a_hostile_client_harms_only_itself() {
    is_sampled("hostile-client-against-neighbour").finds_its_bugs();
}

#[test]
fn each_thread_of_a_client_gets_its_own_answer() {
    is_exhausted_up_to(2, "served-call-against-call", 2_915).finds_its_bugs();
}

#[test]
fn a_ring_over_the_service_reaches_an_engine_that_goes_to_sleep() {
    is_exhausted_up_to(1, "served-ring-against-park", 14_597).finds_its_bugs();
}

// spec: UMS-203, UMS-204
#[test]
fn a_ring_over_the_service_after_connected_reaches_the_hardware() {
    for name in ["served-ring-against-connect", "served-connect-against-connect"] {
        is_sampled(name).finds_its_bugs();
    }
}

#[test]
fn a_wait_over_the_service_ends_with_the_signal_of_another_client() {
    is_exhausted_up_to(1, "served-wait-against-signal", 9_441).finds_its_bugs();
    is_exhausted_up_to(1, "served-event-against-signal", 21_586).finds_its_bugs();
}

#[test]
fn no_notice_of_the_service_follows_a_cancellation() {
    is_exhausted_up_to(1, "served-cancel-against-signal", 7_673).finds_its_bugs();
}

#[test]
fn a_wait_over_the_service_ends_with_its_own_value_in_a_slot_that_is_used_again() {
    is_sampled("served-slot-against-signal").finds_its_bugs();
}

#[test]
fn a_create_call_against_the_end_of_its_parent_is_refused_or_leaves_nothing() {
    for name in ["create-against-destroy", "doorbell-against-destroy"] {
        is_sampled(name).finds_its_bugs();
    }
}

#[test]
fn a_create_call_of_each_kind_against_the_end_of_its_parent_leaves_nothing() {
    is_sampled("create-against-context-end");
    for name in [
        "create-against-device-end",
        "create-against-loss",
        "create-against-process-end",
        "create-against-removal",
    ] {
        is_sampled_longer(name).finds_its_bugs();
    }
}

// spec: HS-022
#[test]
fn a_queue_that_is_created_during_a_change_of_priority_has_the_new_one() {
    is_sampled("priority-against-create").finds_its_bugs();
}

#[test]
fn a_ring_of_a_leaf_is_found_by_this_scan_or_the_next_one() {
    is_exhausted_in("leaf-ring-against-scan", 10).finds_its_bugs();
}

#[test]
fn waits_for_any_and_for_all_of_common_events_end() {
    is_sampled("wait-any-against-wait-all").finds_its_bugs();
}

#[test]
fn a_registration_of_a_client_ends_its_own_wait_and_no_later_one() {
    for name in ["served-cancel-against-register", "served-destroy-against-wait"] {
        is_sampled(name).finds_its_bugs();
    }
}

// spec: UMS-206
#[test]
fn a_client_signals_what_its_ending_device_waits_for() {
    is_sampled("served-device-end-against-signal").finds_its_bugs();
}

#[test]
fn the_waits_of_a_client_end_with_its_service() {
    for name in ["served-stop-against-wait", "served-stop-against-event"] {
        is_sampled(name).finds_its_bugs();
    }
}

#[test]
fn a_killed_client_leaves_its_neighbour_and_a_shared_fence_alone() {
    is_sampled("served-kill-against-call").finds_its_bugs();
}

#[test]
fn an_nt_handle_outlives_the_client_that_made_it() {
    is_sampled("served-handle-against-death").finds_its_bugs();
}

// spec: MF-067
#[test]
fn one_signal_sets_an_event_once() {
    is_exhausted_in("one-event", 43).finds_its_bugs();
}

#[test]
fn an_auto_reset_event_that_two_threads_share_releases_each() {
    is_exhausted_in("shared-event", 9_898).finds_its_bugs();
}

#[test]
fn an_event_is_not_set_after_its_registration_ended() {
    is_exhausted_in("unregister-against-signal", 29).finds_its_bugs();
}

#[test]
fn a_wait_that_is_used_again_ends_with_its_own_signal() {
    is_exhausted_up_to(1, "reused-wait-against-signal", 2_487).finds_its_bugs();
}

#[test]
fn no_page_of_a_window_is_dropped_during_its_use() {
    is_exhausted_in("store-against-rotation", 5_078).finds_its_bugs();
}

#[test]
fn a_task_that_polls_a_fence_is_woken_by_its_signal() {
    is_exhausted_in("poll-against-signal", 7_049).finds_its_bugs();
}

#[test]
fn a_task_that_polls_again_is_woken_by_its_last_waker() {
    is_exhausted_in("second-poll-against-signal", 5_098).finds_its_bugs();
}

#[test]
fn a_task_that_polls_a_fence_is_woken_by_an_engine() {
    is_sampled("poll-against-interrupt").finds_its_bugs();
}

// spec: MF-047
#[test]
fn an_instance_can_be_destroyed_while_a_wait_begins_on_it() {
    is_exhausted_in("destroy-against-wait", 3);
}

#[test]
fn every_scenario_is_found_by_its_name_and_has_a_test() {
    let source = include_str!("scenarios.rs");
    for scenario in all() {
        let name = scenario.name();
        assert_eq!(find(name).map(|s| s.name().to_owned()).as_deref(), Some(name));
        assert!(source.contains(&format!("\"{name}\"")), "{name} has no test");
        assert!(!scenario.marks().is_empty(), "{name}");
        let full = plan(name, true);
        assert!(full.max_runs >= plan(name, false).max_runs, "{name}: the full form covers less");
    }
    assert!(find("litmus-2x1").is_some() && find("nothing").is_none());
}

#[test]
fn the_docs_state_how_far_each_scenario_is_searched() {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for scenario in all() {
        let plan = plan(scenario.name(), false).to_string();
        let extent = plan.split(',').next().unwrap_or_default().to_owned();
        rows.entry(extent).or_default().push(format!("`{}`", scenario.name()));
    }
    let page = include_str!("../../../docs/exploration.md");
    for (extent, names) in rows {
        let row = format!("| {extent} | {} | {} |", names.len(), names.join(", "));
        assert!(page.contains(&row), "docs/exploration.md lacks this row:\n{row}");
    }
}
