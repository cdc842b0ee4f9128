//! Shrunk programs of the swarm, each named for what it must show.

use tidegate_swarm::assert_holds;

#[test]
fn work_of_a_marked_device_that_hangs_an_engine_does_not_hold_up_other_processes() {
    assert_holds(
        "swarm/virtual | service; adapter standard; process a0 steady; process a0 doomed; \
         thread p0; thread p1; t1 queue q1 raw hardware compute normal; t1 hang q1; \
         t0 queue q2 api user compute normal; t1 mark-device p1; t0 execute q2 0",
    );
}

#[test]
fn a_queue_that_is_made_while_its_process_ends_is_refused_as_removed() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 steady; process a0 steady; \
         process a0 doomed; thread p0; thread p1; thread p2; t0 queue q0 api packet direct high; \
         t2 queue q1 api user direct high; t1 queue q2 raw user direct normal; \
         t0 fence f1 api native private 4; t0 queue-signal q0 f1 5; t0 kill p2",
    );
}

#[test]
fn a_queue_of_a_device_that_hung_is_refused_as_removed() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 doomed; thread p0; \
         t0 queue q1 raw user compute normal; t0 hang q1; t0 drain q1; \
         t0 queue q2 raw user copy normal",
    );
}

#[test]
fn a_sleep_of_the_system_recovers_an_engine_that_hangs() {
    assert_holds(
        "swarm/virtual | adapter standard managed-power=1; process a0 doomed; thread p0; \
         t0 queue q5 raw user copy normal; t0 hang q5; t0 sleep-resume 631",
    );
}

#[test]
fn a_tile_update_behind_an_engine_that_hangs_keeps_no_recovery_from_it() {
    for line in [
        "swarm/virtual | adapter standard; process a0 steady; process a0 doomed; \
         process a0 steady; thread p0; thread p1; thread p2; t1 queue q1 api user copy normal; \
         t2 queue q4 api packet copy high; t1 hang q1; t0 tiles 1",
        "swarm/virtual | adapter standard; process a0 steady; process a0 steady; \
         process a0 doomed; thread p0; thread p1; thread p2; t2 queue q3 api packet copy normal; \
         t1 fence f1 raw monitored shared 0; t2 hang q3; t1 queue q9 api packet copy normal; \
         t2 queue q12 raw packet compute normal; t0 tiles 2",
    ] {
        assert_holds(line);
    }
}

/// The pager submits an operation after the removal has ended those that it found.
#[test]
fn a_removal_ends_a_paging_operation_that_begins_beside_it() {
    assert_holds(
        "swarm/virtual | adapter standard lazy-context-switch=1; process a0 doomed; thread p0; \
         t0 remove-adapter",
    );
    assert_holds(
        "swarm/virtual | adapter standard copy=2 lazy-context-switch=1; process a0 doomed; \
         process a0 doomed; thread p0; thread p1; t1 fence f0 raw native cross-adapter 0; \
         t0 queue q2 api user compute normal; t0 fence f1 api native cross-adapter 0; \
         t1 remove-adapter",
    );
}

#[test]
fn an_engine_that_hangs_in_a_destroyed_hardware_queue_is_reset() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 doomed; thread p0; \
         t0 queue q1 raw hardware compute normal; t0 hang q1; t0 hang q1; t0 close-queue q1; \
         t0 queue q6 raw user compute normal",
    );
}

/// A switch of contexts takes 100 us at high costs.
#[test]
fn packets_go_on_under_a_quantum_shorter_than_a_switch() {
    assert_holds(
        "swarm/virtual | costs high; adapter standard quantum-ns=50000; process a0 steady; \
         thread p0; t0 queue q0 raw packet copy normal; t0 queue q5 raw packet copy normal; \
         t0 execute q0 300000; t0 execute q5 300000",
    );
    assert_holds(
        "swarm/virtual | costs high; adapter standard local-memory-kib=4096 idle-engine-ns=20000 \
         lazy-context-switch=1 refresh-ns=1000000 quantum-ns=50000; adapter monitored-advanced \
         moderation-ns=0; process a0 steady; thread p0; thread p0; thread p0; thread p0; \
         thread p0; thread p0; t0 queue q0 raw packet copy normal; t1 queue q1 api user direct high; \
         t0 execute q0 12958; t1 fence f2 raw native private 0; t1 queue q5 raw packet copy normal; \
         t0 queue-wait q0 f2 0; t0 execute q0 11238; t2 execute q5 3400",
    );
}

/// The driver is told of no progress value by a ring of signals, and a suspended queue is not read.
#[test]
fn an_engine_with_a_ring_of_a_suspended_context_keeps_its_power() {
    assert_holds(
        "swarm/virtual | adapter standard managed-power=1 idle-engine-ns=20000; \
         process a0 steady; thread p0; t0 fence f0 api native cross-adapter 4; \
         t0 queue q0 api user direct normal; t0 buffer b0 api 3; t0 store q0 b0 1 2232323622; \
         t0 scratch api 15; t0 queue-signal q0 f0 7; t0 suspend 72070; t0 wait f0 api 7",
    );
}

/// Two threads drain and fill one queue at the call surface: each in its turn as the submitter.
#[test]
fn two_threads_of_one_queue_at_the_call_surface_take_turns() {
    assert_holds(
        "swarm/tso/pct-3:-uhccuf | adapter standard; process a0 steady; thread p0; thread p0; \
         t1 queue q1 raw user copy normal; t0 execute q1 0; t1 drain q1",
    );
    assert_holds(
        "swarm/tso/random:1eAA7AAiAA8AbAA-uj091p | adapter standard; process a0 steady; \
         thread p0; thread p0; t0 queue q0 raw hardware copy normal; t1 execute q0 0; \
         t0 execute q0 0",
    );
}

/// A turn of 200 us begins with a switch of 100 us.
#[test]
fn bounds_of_time_have_the_switches_of_context() {
    assert_holds(
        "swarm/virtual | costs high; adapter oldest quantum-ns=50000; process a0 steady; \
         process a0 steady; process a0 steady; thread p0; thread p1; thread p2; \
         t1 queue q0 api packet copy normal; t0 fence f3 api monitored cross-adapter 4; \
         t0 queue q3 raw packet copy normal; t0 prompt q3 871; t2 queue q5 raw packet copy high; \
         t0 execute q3 0; t1 execute q0 0; t2 flood q5 9 20000000 0",
    );
}

/// A flip that was issued between the loss of the display's state and its restoring was forgotten.
#[test]
fn a_flip_beside_a_reset_of_the_adapter_is_shown() {
    for flip in [1, 2] {
        assert_holds(&format!(
            "swarm/virtual | adapter standard refresh-ns=1000000; process a0 doomed; \
             process a0 doomed; thread p0; thread p1; t0 scratch api 10; \
             t1 fence f4 raw monitored shared 5; t0 reset-adapter; t1 flip {flip}",
        ));
        assert_holds(&format!(
            "swarm/virtual | adapter standard refresh-ns=1000000; process a0 doomed; \
             process a0 doomed; thread p0; thread p1; t0 queue q2 raw packet copy normal; \
             t1 flip {flip}; t0 reset-adapter",
        ));
    }
}

/// The report of a signal on another adapter had the time of an older report.
#[test]
fn a_report_from_another_adapter_is_not_late_at_once() {
    assert_holds(
        "swarm/virtual | costs low; adapter standard; adapter standard; process a0 steady; \
         process a1 doomed; process a1 steady; process a0 steady; thread p0; thread p1; \
         thread p2; thread p3; t0 queue q0 api user copy high; \
         t1 queue q1 api user compute normal; t2 queue q2 raw user direct normal; \
         t0 fence f0 api native cross-adapter 2147483645; \
         t3 queue q3 api packet direct normal; t3 fence f2 api native private 0; \
         t3 suspend 1000; t3 scratch raw 13; t3 queue q4 api packet direct high; t1 hang q1; \
         t1 open-fence f0 api; t3 register w2 f2 api 6",
    );
}

#[test]
fn work_that_hangs_directly_after_a_reset_is_no_fault_of_the_driver() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 doomed; process a0 doomed; thread p0; \
         thread p1; t0 queue q1 api packet compute high; t1 queue q3 raw user compute normal; \
         t1 hang q3; t0 hang q1; t0 execute q1 0",
    );
}

/// Two floods at a quantum that is half of a switch of contexts.
#[test]
fn floods_take_turns_in_bounded_time() {
    assert_holds(
        "swarm/virtual | costs high; adapter standard kernel-ring-slots=4 signalled-list=4 \
         fence-budget-kib=8 idle-engine-ns=20000 cancels-commands=1 refresh-ns=1000000 \
         quantum-ns=50000; process a0 steady; process a0 steady; process a0 steady; \
         process a0 doomed; thread p0; thread p1; thread p2; thread p3; thread p2; \
         t2 queue q0 raw packet direct normal; t4 queue q4 raw packet direct normal; \
         t4 flood q4 169 20000000 1; t2 flood q0 115 20000000 0",
    );
}

/// The pager waits for a packet when the last process ends.
#[test]
fn a_removal_without_a_process_ends_what_the_pager_waits_for() {
    assert_holds(
        "swarm/virtual | costs low; adapter standard lazy-context-switch=1; process a0 doomed; \
         process a0 doomed; thread p0; thread p1; thread p1; t2 queue q2 raw user direct normal; \
         t0 fence f0 raw native private 0; t1 remove-adapter; t0 kill p1; t0 reset-adapter; \
         t2 kill p0",
    );
    assert_holds(
        "swarm/virtual | adapter standard lazy-context-switch=1; process a0 doomed; \
         process a0 doomed; thread p0; thread p1; t1 kill p0; t0 kill p1; t1 remove-adapter",
    );
    assert_holds(
        "swarm/virtual | adapter standard lazy-context-switch=1; adapter standard; \
         process a0 doomed; process a0 doomed; process a1 doomed; thread p1; thread p2; \
         thread p2; thread p2; t3 fence f0 api native cross-adapter 0; \
         t1 queue q0 api hardware copy high; t2 queue q2 api user copy normal; \
         t0 queue q4 api hardware compute normal; t1 queue-wait q0 f0 0; \
         t1 queue-signal q0 f0 4294967297; t0 fence f3 raw native private 0; \
         t1 fence f4 raw native private 4294967296; t3 kill p0; t0 execute q4 1000; \
         t1 queue-signal q0 f0 4294967300; t1 queue-signal q0 f0 4294967301; \
         t1 queue-wait q0 f0 3061614746; t1 kill p1; t0 drain q4; t0 drain q4; t0 drain q4; \
         t0 remove-adapter",
    );
}

/// Two threads wait for the suspension of one context, and both waits time out at once.
#[test]
fn a_hang_that_two_suspensions_find_is_recovered_from_once() {
    assert_holds(
        "swarm/virtual | costs high; adapter standard; process a0 steady; process a0 doomed; \
         process a0 steady; process a0 doomed; thread p0; thread p1; thread p2; thread p3; \
         t0 queue q0 api user copy normal; t1 queue q1 api hardware compute normal; \
         t2 queue q2 raw hardware compute normal; t3 queue q3 raw user compute normal; \
         t1 queue q5 raw user copy normal; t2 queue q6 raw packet copy normal; t3 suspend 0; \
         t0 execute q0 0; t1 hang q5; t3 suspend 0; t1 suspend 0",
    );
}

/// Packets of this adapter have no save area. An engine left a packet in its middle for the
/// hardware queue that hung, and the reset lost what the packet had done.
#[test]
fn an_engine_reset_for_a_hardware_queue_loses_no_packet_without_a_save_area() {
    assert_holds(
        "swarm/virtual | adapter standard local-memory-kib=4096; process a0 steady; process \
         a0 steady; process a0 doomed; thread p0; thread p1; thread p2; t1 queue q0 api \
         packet copy normal; t2 queue q1 raw hardware copy normal; t0 queue q2 raw packet \
         copy high; t0 execute q2 199790; t1 execute q0 176399; t0 execute q2 97871; t2 hang \
         q1; t0 execute q2 152419; t1 execute q0 190900; t1 execute q0 59819; t0 execute q2 \
         75077; t0 execute q2 54762",
    );
}

/// Equal hardware and user-mode queues delay each other by turns of a time slice, however long
/// their buffers are.
#[test]
fn a_short_buffer_waits_for_turns_and_not_for_the_long_buffers_of_equal_queues() {
    let machine = "swarm/virtual | adapter standard; process a0 steady; process a0 steady; thread p0; \
                   thread p1; thread p0";
    for flood in ["hardware", "user"] {
        for prompt in ["hardware", "user"] {
            for thread in ["t1", "t2"] {
                assert_holds(&format!(
                    "{machine}; {thread} queue q1 raw {flood} compute normal; \
                     {thread} flood q1 4 500000000 1; t0 queue q0 raw {prompt} compute normal; \
                     t0 rest 20000000; t0 prompt q0 1000"
                ));
            }
        }
    }
}

/// The hardware gives slices of a millisecond to the user-mode queue. Turns of packets that were
/// shorter ended before their packets had begun, until the whole flood was over.
#[test]
fn equal_packets_with_short_turns_end_beside_the_flood_of_a_user_mode_queue() {
    assert_holds(
        "swarm/virtual | adapter global-doorbell direct=2 compute=3 worker-interrupts=1 \
         ring-slots=16 kernel-ring-slots=2 signalled-list=1 fence-budget-kib=8 \
         managed-power=1 lazy-context-switch=1 cancels-commands=1 refresh-ns=1000000 \
         quantum-ns=50000; process a0 steady; process a0 doomed; process a0 steady; \
         thread p0; thread p1; thread p2; thread p2; thread p1; thread p0; \
         t1 queue q2 raw user compute normal; t5 queue q3 api packet compute normal; \
         t2 tiles 2; t4 queue q5 raw user compute normal; t1 vsync; t5 scratch api 3; \
         t4 flood q5 17 50000000 0; t5 share-resource 1; \
         t0 queue q6 raw packet compute normal; t0 prompt q6 97659; t5 execute q3 100224",
    );
}

/// The destruction of a doorbell completes the suspension of its queue, in a call of the driver.
#[test]
fn a_report_that_the_driver_makes_in_a_call_is_taken_without_an_interrupt() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 doomed; process a0 doomed; thread p0; \
         thread p1; t1 queue q0 api user direct high; t0 queue q1 raw user direct normal; \
         t0 queue q4 raw user direct normal; t1 scratch raw 11; t1 execute q0 0; \
         t0 execute q4 0; t0 execute q1 0; t1 kill p0; t0 destroy-device",
    );
}

/// The reset of the engine named what it ran, and the queue that faulted stayed stopped.
#[test]
fn the_reset_for_a_fault_without_a_name_ends_the_work_of_the_queue_that_faulted() {
    assert_holds(
        "swarm/virtual | service; adapter faults-name-engine history-peaks=0; \
         process a0 doomed; process a0 doomed; process a0 doomed; thread p0; thread p1; \
         thread p2; t0 queue q0 api user copy normal; t1 queue q2 api user copy normal; \
         t2 queue q3 api user copy high; t2 fence f2 raw native shared 0; \
         t2 queue q4 api packet copy high; t1 fence f3 api native private 1; \
         t1 pulse-queue q2 f3 7 2; t1 pulse-queue q2 f3 6 2; t1 scratch api 4; \
         t1 pulse-queue q2 f3 6 1; t1 pulse-queue q2 f3 5 2; \
         t1 queue q7 raw user copy normal; t2 queue q8 raw hardware copy normal; \
         t2 scratch api 14; t2 signal f2 raw 3; t2 suspend 127651",
    );
}

/// Drivers that are judged by the clauses of `tidegate conform`: contexts lose work in a reset of
/// the adapter, too, and the display shows no address after it.
#[test]
fn a_verified_driver_keeps_the_clauses_through_resets() {
    assert_holds(
        "swarm/virtual | adapter standard verify-driver=1; process a0 doomed; thread p0; \
         t0 queue q0 raw user copy normal; t0 execute q0 174565; \
         t0 queue q4 raw user copy normal; t0 reset-adapter",
    );
    assert_holds(
        "swarm/virtual | adapter standard verify-driver=1; process a0 steady; \
         process a0 steady; process a0 doomed; thread p0; thread p1; thread p2; \
         t0 queue q1 api hardware copy normal; t1 queue q2 api packet direct high; \
         t2 queue q3 api hardware copy normal; t2 hang q3",
    );
    assert_holds(
        "swarm/virtual | adapter standard refresh-ns=1000000 verify-driver=1; \
         process a0 doomed; thread p0; thread p0; t0 flip 2; t0 scratch raw 8; t1 vsync; \
         t1 reset-adapter; t0 vsync",
    );
}

#[test]
fn a_fault_of_an_unnamed_queue_names_the_only_queue_of_its_device() {
    assert_holds(
        "swarm/virtual | adapter faults-name-engine history-peaks=1; process a0 doomed; \
         thread p0; t0 queue q0 raw user direct normal; t0 fence f2 raw native private 7; \
         t0 pulse-queue q0 f2 16 8; t0 pulse-queue q0 f2 15 8; t0 pulse-queue q0 f2 14 8; \
         t0 pulse-queue q0 f2 13 8",
    );
}

#[test]
fn the_first_operation_of_the_pager_ends_on_an_adapter_that_stops() {
    assert_holds(
        "swarm/virtual | service; \
         adapter standard lazy-context-switch=1 faulty=packets-known; process a0 doomed; \
         process a0 doomed; thread p0",
    );
}

#[test]
fn a_fault_beside_a_packet_that_completes_meanwhile_still_resets_the_engine() {
    assert_holds(
        "swarm/virtual | costs low; \
         adapter faults-name-engine managed-power=1 lazy-context-switch=1 history-peaks=0; \
         process a0 doomed; thread p0; t0 queue q0 api user copy normal; \
         t0 fence f1 api native private 1099511627775; \
         t0 pulse-queue q0 f1 1099511627783 1099511627775; \
         t0 pulse-queue q0 f1 1099511627782 1099511627775; \
         t0 pulse-queue q0 f1 1099511627781 1099511627776",
    );
}

#[test]
fn a_stop_of_the_process_with_a_packet_in_flight_is_no_lost_interrupt() {
    assert_holds(
        "swarm/virtual | adapter standard refresh-ns=1000000; process a0 steady; \
         process a0 doomed; thread p0; thread p1; t1 queue q2 api user direct normal; \
         t0 flip 1; t1 stop-process 3720126527",
    );
    // The reset takes the report of a DPC that has not ended.
    assert_holds(
        "swarm/virtual | adapter standard lazy-context-switch=1 scheduler-fences=1; \
         process a0 doomed; thread p0; thread p0; thread p0; \
         t0 queue q3 raw packet compute normal; t1 stop-process 133; t2 reset-adapter; \
         t0 queue q6 api hardware direct high; t0 stop-process 1357958197",
    );
}

#[test]
fn a_stop_of_the_process_before_an_interrupt_is_no_missed_one() {
    assert_holds(
        "swarm/virtual | costs low; adapter standard; process a0 doomed; process a0 doomed; \
         process a0 doomed; process a0 doomed; thread p0; thread p1; thread p2; thread p3; \
         t0 queue q0 raw packet copy high; t3 fence f0 raw monitored shared 0; \
         t3 queue q1 raw hardware copy normal; t1 queue q2 raw hardware copy normal; \
         t2 queue q3 raw hardware copy normal; t2 fence f2 api native cross-adapter 0; \
         t1 fence f3 api native cross-adapter 6; t2 execute q3 0; \
         t1 queue q4 raw hardware copy normal; t3 execute q1 0; t2 stop-process 1479194; \
         t1 hang q2; t1 prompt q4 103; t1 scratch api 12; t1 stop-process 105449021; \
         t3 execute q1 0; t3 queue-signal q1 f0 1",
    );
}

#[test]
fn bounds_of_time_have_the_stops_of_the_process() {
    assert_holds(
        "swarm/virtual | costs free; adapter standard lazy-context-switch=1; \
         process a0 doomed; thread p0; t0 stop-process 289497713; \
         t0 queue q8 api hardware compute high; t0 stop-process 2995165337; t0 hang q8",
    );
}

#[test]
fn a_sample_timer_that_is_armed_after_a_stop_waits_for_one_delay() {
    assert_holds(
        "swarm/virtual | service; adapter standard; process a0 steady; process a0 doomed; \
         process a0 doomed; thread p0; thread p1; thread p2; \
         t1 queue q1 api packet copy normal; t1 fence f1 raw monitored shared 0; \
         t0 queue q3 raw user compute normal; t2 queue q5 raw hardware compute normal; \
         t1 execute q1 0; t2 set-priority q5 0; t2 hang q5; t1 stop-process 5924414646",
    );
}

/// The queue ends between the reset of its engine and the next look at it.
#[test]
fn work_of_a_queue_that_has_ended_hangs_after_a_reset_and_is_no_fault_of_the_driver() {
    assert_holds(
        "swarm/virtual | adapter one-doorbell; process a0 doomed; process a0 steady; \
         thread p0; thread p1; t0 queue q1 api hardware direct normal; \
         t1 queue q2 api user direct normal; t1 fence f0 api native private 4; \
         t0 queue q3 raw user direct normal; t0 hang q1; t0 hang q3; t0 drain q1; \
         t1 pulse-queue q2 f0 8 4; t0 destroy-device",
    );
}

/// Packets of HIGH, which end at each turn, are not preempted; a turn of NORMAL is shorter than a
/// switch.
#[test]
fn packets_that_end_beside_a_context_whose_turns_are_too_short_do_not_starve_it() {
    assert_holds(
        "swarm/virtual | costs high; \
         adapter standard local-memory-kib=4096 quantum-ns=50000; process a0 steady; \
         process a0 steady; thread p0; thread p1; t0 queue q2 raw packet direct high; \
         t0 flood q2 60 5000000 0; t1 queue q7 raw packet direct normal; t1 prompt q7 31",
    );
}

/// The next packet waits on an engine that hangs in a hardware queue.
#[test]
fn a_reset_after_the_fault_of_a_packet_names_no_earlier_one() {
    assert_holds(
        "swarm/virtual | adapter standard kernel-ring-slots=2 local-memory-kib=128 \
         lazy-context-switch=1 scheduler-fences=1; \
         process a0 doomed; process a0 doomed; thread p0; thread p1; thread p0; \
         t2 queue q0 raw packet direct high; t0 queue q1 api hardware direct normal; \
         t2 fence f0 raw native private 2; t1 queue q3 api hardware direct high; \
         t0 destroy-device; t0 execute q1 0; t2 execute q0 1000; t2 execute q0 0; \
         t1 execute q3 82612; t0 hang q1",
    );
}

/// Two processes connect, and an engine that is soon idle tries to lose its power each time before
/// they ring.
#[test]
fn a_doorbell_that_idle_engines_disconnect_does_not_keep_its_process_for_ever() {
    assert_holds(
        "swarm/virtual | service; \
         adapter global-doorbell-of-all direct=2 compute=2 copy=2 worker-interrupts=1 \
         ring-slots=8 doorbells=2 slots-per-turn=2 local-memory-kib=128 fence-budget-kib=8 managed-power=1 \
         idle-engine-ns=20000 refresh-ns=1000000; \
         process a0 steady; process a0 steady; process a0 steady; thread p0; thread p1; \
         thread p2; thread p2; t0 queue q0 raw user compute normal; \
         t1 queue q1 raw user compute normal; t3 queue q2 raw hardware compute normal; \
         t2 queue q3 raw packet compute normal; t0 queue q4 raw user copy normal; \
         t2 execute q3 17724; t2 fence f2 api native shared 0; t1 scratch raw 4; \
         t0 fence f3 api native cross-adapter 0; t1 execute q1 11050; t2 execute q3 13490; \
         t0 execute q0 12151; t3 execute q2 17136; t1 drain q1; \
         t0 queue q7 api hardware copy high; t1 execute q1 6573; t3 drop-fence f2 api; \
         t1 scratch raw 2; t3 execute q2 2399; t1 execute q1 7851; t1 execute q1 4173; \
         t0 execute q0 3834",
    );
}

/// The process is stopped while the timer samples engines, and an interrupt has just come.
#[test]
fn a_stop_inside_of_a_sampling_is_no_missed_interrupt() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 steady; process a0 doomed; thread p0; \
         thread p1; t1 queue q2 raw hardware compute normal; \
         t1 fence f1 api native shared 4294967296; t0 queue q3 api user compute high; \
         t0 fence f2 api native private 0; t1 hang q2; t1 drain q2; t1 drop-queue q2; \
         t1 queue q6 api user compute normal; t1 register w1 f1 api 4294967296; \
         t1 queue q7 api user copy normal; t1 stop-process 1466411768; \
         t0 queue-wait q3 f2 0; t0 queue-signal q3 f2 1",
    );
}

/// A forced reset of the copy engine cuts off a paging packet and a queue of a process. The
/// adapter is reset next, and the process is told of its loss.
#[test]
fn a_queue_that_is_cut_off_before_the_reset_of_the_adapter_is_lost() {
    assert_holds(
        "swarm/virtual | costs low; adapter standard; process a0 doomed; process a0 doomed; \
         thread p0; thread p1; thread p0; t1 queue q0 raw user copy normal; \
         t0 fence f0 api native cross-adapter 4; t1 fence f1 api native private 0; \
         t1 execute q0 1000; t2 queue q3 api packet compute high; t1 register w0 f1 api 2; \
         t1 reset-engine copy; t2 register w2 f0 api 5; t2 stop-process 3964",
    );
}

/// After the stop the timer asks an engine to preempt a packet that is complete. The engine is
/// idle, and keeps its power until it has answered.
#[test]
fn an_idle_engine_that_owes_an_answer_keeps_its_power() {
    assert_holds(
        "swarm/virtual | costs free; adapter standard managed-power=1 lazy-context-switch=1; \
         process a0 steady; process a0 doomed; thread p0; thread p0; thread p1; \
         t1 fence f2 api native cross-adapter 0; t0 stop-process 2354016472; \
         t0 register w0 f2 api 0; t0 idle-engines; t2 semaphore 3; t0 tiles 2",
    );
}

/// A packet of a driver with the Windows 7 model runs while the process is stopped. The engine
/// gives the next packet its share beside a flood of the other process all the same.
#[test]
fn a_packet_that_ran_through_a_stop_does_not_pay_for_it() {
    assert_holds(
        "swarm/virtual | service; adapter windows-7-preemption; process a0 steady; \
         process a0 steady; thread p0; thread p1; t0 queue q1 raw packet compute normal; \
         t0 flood q1 3 20000000 1; t1 queue q4 raw user compute normal; \
         t0 stop-process 3841728769; t1 flood q4 8 250000000 0",
    );
}

/// The engine ends the slice of a queue late, because the process is stopped.
#[test]
fn a_queue_whose_slice_ends_late_does_not_pay_for_the_stop() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 steady; process a0 doomed; thread p0; \
         thread p1; thread p1; t2 queue q2 raw packet copy normal; t2 prompt q2 162018; \
         t0 queue q3 raw user copy normal; t1 queue q5 raw hardware copy normal; \
         t0 flood q3 6 250000000 0; t1 queue q8 raw packet copy normal; \
         t2 stop-process 1776630800; t1 prompt q8 54753",
    );
}

/// HIGH packets of 20 ms that the engine cannot leave, and a hardware queue that is repaid their
/// time in the turns of the NORMAL packet.
#[test]
fn a_lifted_packet_has_the_engine_beside_a_queue_that_is_repaid() {
    assert_holds(
        "swarm/virtual | costs high; adapter standard local-memory-kib=128; process a0 steady; \
         process a0 steady; process a0 steady; thread p0; thread p1; thread p2; \
         t1 queue q0 raw packet direct high; t0 queue q5 raw packet direct normal; \
         t2 queue q6 raw user direct normal; t0 queue q7 raw user direct normal; \
         t0 prompt q5 72081; t2 flood q6 2 250000000 1; t1 flood q0 22 20000000 1",
    );
}

/// The forced reset of the copy engine cuts off a paging packet, so the adapter is reset next. A
/// later answer of the driver names the last packet from before.
#[test]
fn an_adapter_that_is_reset_after_its_engine_knows_the_last_packet() {
    assert_holds(
        "swarm/virtual | adapter standard; process a0 doomed; process a0 doomed; thread p0; \
         thread p1; thread p0; t0 queue q0 api user direct normal; \
         t0 queue q1 raw packet direct normal; t1 queue q2 raw packet copy normal; \
         t2 queue q5 api packet copy normal; t1 prompt q2 9262; t2 execute q5 0; \
         t1 reset-engine copy; t1 execute q2 0",
    );
}

/// The band of a NORMAL packet has short turns without effect, and then a longer one as soon as it
/// is its turn again.
#[test]
fn a_longer_turn_of_a_lifted_band_comes_no_later() {
    assert_holds(
        "swarm/virtual | costs free; adapter standard local-memory-kib=128; process a0 steady; \
         thread p0; thread p0; t1 queue q3 raw packet copy normal; \
         t0 queue q4 raw user copy normal; t1 queue q6 raw packet copy high; \
         t1 flood q6 36 20000000 0; t1 prompt q3 356; t0 flood q4 3 50000000 1",
    );
}

/// The ended queue rings once more in the location of its process, and another queue has its place.
#[test]
fn a_late_ring_in_a_shared_doorbell_is_not_the_next_queues() {
    assert_holds(
        "swarm/virtual | service; adapter global-doorbell; process a0 doomed; thread p0; \
         thread p0; t1 queue q1 api user direct normal; t0 queue q2 raw user direct normal; \
         t0 drain q2; t0 destroy-device; t0 execute q1 0; \
         t1 queue q3 api hardware direct normal; t0 execute q3 1713",
    );
}
