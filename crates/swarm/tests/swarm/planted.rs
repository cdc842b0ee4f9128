//! Faults that the product has for scenarios, found by random programs: a bounded form of
//! `cargo xtask planted`, without a build.

use std::sync::Arc;
use tidegate::platform::PlantedFault;
use tidegate_swarm::{Program, Shape, generate, run};

/// Seeds whose programs hold without a fault (`seeds`).
const SEEDS: std::ops::Range<u64> = 170..920;

/// Fails when no program of the seeds finds the fault.
fn is_found(fault: PlantedFault) {
    let finds = |seed: &u64| {
        let program = Arc::new(generate::program(*seed, Shape::WHOLE));
        run::with_fault(&program, fault).failure.is_some()
    };
    assert!(SEEDS.into_iter().any(|seed| finds(&seed)), "no program finds {fault:?}");
}

#[test]
fn an_engine_that_a_ring_does_not_wake_is_found() {
    is_found(PlantedFault::SleepingEngineIsNotWoken);
}

#[test]
fn a_wait_that_is_cancelled_by_its_slot_is_found() {
    is_found(PlantedFault::WaitIsCancelledByItsSlot);
}

#[test]
fn held_back_signals_that_are_forgotten_are_found() {
    is_found(PlantedFault::HeldSignalsForgotten);
}

#[test]
fn a_name_that_outlives_its_fence_is_found() {
    is_found(PlantedFault::NameIsKept);
}

#[test]
fn a_notice_that_is_rung_too_early_or_armed_too_late_is_found() {
    is_found(PlantedFault::RungBeforeTheEnd);
    is_found(PlantedFault::ArmedAfterTheRegistration);
}

/// The wait for 7 is lost while the queue executes. Its device must be lost, and the other one not.
#[test]
fn a_queue_that_parks_at_a_lost_wait_is_found() {
    for surface in ["raw", "api"] {
        let text = format!(
            "adapter standard history-peaks=0; process a0 doomed; process a0 steady; thread p0; \
             thread p1; t0 queue q0 {surface} user copy normal; \
             t0 fence f0 {surface} native private 0; t0 execute q0 100000; \
             t0 pulse-queue q0 f0 9 0; t0 pulse-queue q0 f0 7 0; t0 pulse-queue q0 f0 5 0; \
             t0 drain q0; t1 queue q1 {surface} user copy normal; t1 execute q1 5000"
        );
        tidegate_swarm::assert_holds(&format!("swarm/virtual | {text}"));
        let program: Arc<Program> = Arc::new(text.parse().unwrap());
        let failure = run::with_fault(&program, PlantedFault::LostWaitsAreParked).failure;
        assert!(failure.is_some(), "{surface}: no wait is lost");
    }
    is_found(PlantedFault::LostWaitsAreParked);
}
