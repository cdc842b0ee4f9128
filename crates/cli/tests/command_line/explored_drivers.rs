//! `conform --explore`: races of drivers in C that `conform` does not notice
//! (`crates/ddi-c/tests/races.c`), and drivers without races.

use crate::{ended, holds, place, ran, refused, text};
use std::path::Path;
use tidegate_testbed::compile_driver;

/// Compiles the driver with this race into `driver.so`; `false` without a compiler.
fn compiled(place: &Path, race: u32) -> bool {
    let option = format!("-DRACE={race}");
    compile_driver(&["crates/ddi-c/tests/races.c"], &[&option], &place.join("driver.so"))
}

/// The arguments after `again:`.
fn again(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("again: "));
    line.unwrap_or_else(|| panic!("no order to repeat in {text}"))
}

/// The race breaks the clause in an order of its steps only, and again when that is repeated.
fn is_found(race: u32, clause: &str) {
    let place = place(&format!("race-{race}"));
    if !compiled(&place, race) {
        return;
    }
    ran(&place, "conform driver.so --situation packets");
    let found = text(&ended(&place, 1, "conform driver.so --explore --situation packets"));
    holds(&found, &[&format!("{clause}: "), "' stops in ", "/sc/bounded-"]);
    let repeated = text(&ended(&place, 1, &format!("conform driver.so {}", again(&found))));
    holds(&repeated, &[&format!("{clause}: "), "' stops in "]);
}

/// As [`is_found`], for a race that a driver survives after a time-out: no clause is broken.
fn times_out(race: u32) {
    let place = place(&format!("race-{race}"));
    if !compiled(&place, race) {
        return;
    }
    ran(&place, "conform driver.so --situation packets");
    let found = text(&ended(&place, 1, "conform driver.so --explore --situation packets"));
    holds(&found, &["work waited until timeout detection; again: --schedule packets"]);
    let (_, line) = found.split_once("again: ").unwrap();
    let repeated = format!("conform driver.so {}", line.lines().next().unwrap());
    holds(&text(&ended(&place, 1, &repeated)), &["work waited until timeout detection"]);
}

#[test]
fn ids_that_are_read_before_the_cause_is_cleared_are_found() {
    is_found(1, "packets-reported");
}

#[test]
fn a_dpc_that_is_not_synchronized_with_the_interrupt_routine_is_found() {
    is_found(2, "packets-notify-dpc");
}

#[test]
fn a_word_that_two_agents_change_without_a_lock_is_found() {
    times_out(3);
}

#[test]
fn a_lost_wake_up_of_a_dpc_that_runs_is_found() {
    times_out(4);
}

#[test]
fn an_id_that_is_stored_after_the_doorbell_is_found() {
    is_found(5, "packets-reported");
}

#[test]
fn drivers_without_a_race_conform_in_other_orders() {
    let place = place("race-0");
    if !compiled(&place, 0) {
        return;
    }
    let line = "conform driver.so --explore --situation packets --schedules 200";
    holds(&text(&ran(&place, line)), &["driver.so conforms", "2 situations ran"]);
    assert!(compile_driver(&["drivers/packet/packet.c"], &[], &place.join("driver.so")));
    ran(&place, "conform driver.so --explore --situation preemption --schedules 60");
    assert!(compile_driver(&["drivers/native/native.c"], &[], &place.join("driver.so")));
    ran(&place, "conform driver.so --explore --situation hw-queues --schedules 60");
}

/// Compiles the packet driver with a line more in its DPC.
fn compiled_with_dpc(place: &Path, body: &str) -> bool {
    let folder = crate::root().join("drivers/packet");
    let source = std::fs::read_to_string(folder.join("packet.c")).unwrap();
    let line = "    adapter->Kernel.DxgkCbNotifyDpc(adapter->Kernel.DeviceHandle);\n";
    assert_eq!(source.matches(line).count(), 1);
    let edited = place.join("edited.c");
    std::fs::write(&edited, source.replace(line, &format!("{body}\n{line}"))).unwrap();
    let include = format!("-I{}", folder.display());
    compile_driver(&[edited.to_str().unwrap()], &[&include], &place.join("driver.so"))
}

#[test]
fn a_crash_of_the_driver_is_a_finding() {
    let place = place("explored-crash");
    if !compiled_with_dpc(&place, "*(volatile int *)(ULONG_PTR)adapter->Coherent = 1;") {
        return;
    }
    let line = "conform driver.so --explore --situation packets --situation memory";
    let found = text(&ended(&place, 1, line));
    holds(&found, &["code-process: ", "ended by signal 11", "in 'packets'", "in 'memory'"]);
    holds(again(&found), &["--schedule packets/sc/bounded-0:"]);
    // Whatever families are chosen.
    let found = text(&ended(&place, 1, "conform driver.so --explore --family display"));
    holds(&found, &["code-process: ", "ended by signal 11"]);
}

#[test]
fn a_driver_that_cannot_be_loaded_breaks_no_clause() {
    refused(&["conform", "./no-driver.so", "--explore"], &["no-driver.so"]);
}

#[test]
fn an_order_of_another_driver_is_refused() {
    let place = place("explored-line");
    if !compiled(&place, 0) {
        return;
    }
    let driver = place.join("driver.so");
    let driver = driver.to_str().unwrap();
    let line = ["conform", driver, "--schedule", "packets/sc/bounded-1:9A-1"];
    refused(&line, &["the driver makes other steps than when it was printed"]);
    refused(&["conform", driver, "--schedule", "packets"], &["is not a schedule"]);
    refused(&["conform", driver, "--switches", "1"], &["--explore"]);
    refused(&["conform", "reference", "--explore"], &["need a driver in C"]);
}
