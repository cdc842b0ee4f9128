//! The corpora of the targets as regression tests. Those of targets that count the open files of
//! their process are in `open_files.rs`.

mod replay;

use replay::{random_bytes, run_corpus};
use tidegate_fuzz::{Series, TARGETS, find, recorded_inputs, replay as run_again};

#[test]
fn inputs_of_a_machine_are_replayed_from_their_record() {
    let target = find("calls").expect("the target exists");
    let mut series = Series::new(2);
    for seed in 0..3 {
        target.run(&mut series, &random_bytes(seed, 40));
    }
    let recorded = recorded_inputs(target);
    drop(series);
    assert!(recorded.starts_with(b"calls 2\n"));
    assert_eq!(run_again(&recorded), Some(3));
    assert_eq!(recorded_inputs(target), recorded, "the replay runs the same inputs");
    assert_eq!(run_again(&recorded[..recorded.len() - 1]), None);
}

#[test]
fn packets_are_decoded_or_refused() {
    run_corpus("packets");
}

#[test]
fn a_hostile_queue_harms_its_own_process_only() {
    run_corpus("queue");
}

#[test]
fn hostile_commands_harm_their_own_process_only() {
    run_corpus("commands");
}

#[test]
fn hostile_logs_harm_their_own_process_only() {
    run_corpus("logs");
}

#[test]
fn hostile_calls_harm_their_own_process_only() {
    run_corpus("calls");
}

#[test]
fn memory_that_changes_between_two_reads_harms_its_own_process_only() {
    run_corpus("unsteady");
}

#[test]
fn files_are_parsed_or_refused() {
    run_corpus("files");
}

#[test]
fn every_target_has_a_test() {
    let source = [include_str!("corpus.rs"), include_str!("open_files.rs")].concat();
    for target in TARGETS {
        assert!(
            source.contains(&format!("run_corpus(\"{}\")", target.name)),
            "{} has no test",
            target.name
        );
    }
}
