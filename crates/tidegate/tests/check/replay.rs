//! A failed check is replayed by its own test, in a process of its own as `cargo test` makes it.

use std::process::{Command, Output};
use tidegate::check::sync::atomic::AtomicU32;
use tidegate::check::sync::atomic::Ordering::{Relaxed, SeqCst};
use tidegate::check::{REPLAY, REPORT, check, thread};

/// Set in the process that makes the check.
const MAKES_THE_CHECK: &str = "TIDEGATE_TEST_MAKES_THE_CHECK";
const TEST: &str = "replay::a_line_replays_through_the_program_of_the_test";

fn lost_update() {
    let count = AtomicU32::new(0);
    let add = || {
        let seen = count.load(SeqCst);
        count.store(seen + 1, SeqCst);
    };
    thread::scope(|scope| {
        scope.spawn(add);
        add();
    });
    assert_eq!(count.load(Relaxed), 2, "an update is lost");
}

/// Runs this test in a process that makes the check, with more of the environment.
fn run(environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", TEST]).env(MAKES_THE_CHECK, "1");
    command.env_remove(REPLAY).envs(environment.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_line_replays_through_the_program_of_the_test() {
    if std::env::var_os(MAKES_THE_CHECK).is_some() {
        check(lost_update);
        return;
    }
    let found = run(&[]);
    let message = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(!found.status.success() && message.contains("an update is lost"), "{message}");
    let line = crate::line_of(&message);
    assert!(message.contains(&format!("cargo test -p tidegate {TEST}")), "{message}");

    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("steps-of-a-replay");
    let again = run(&[(REPLAY, &line), (REPORT, file.to_str().unwrap())]);
    let message = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && message.contains("fails in schedule 1"), "{message}");
    let steps = std::fs::read_to_string(&file).unwrap();
    assert!(steps.contains("replay.rs:") && steps.contains("an update is lost"), "{steps}");

    // With another checksum the program has changed. The line still shows the failure.
    let (moves, checksum) = line.rsplit_once('-').unwrap();
    let changed = format!("{moves}-{}", if checksum == "1" { "2" } else { "1" });
    let message = String::from_utf8_lossy(&run(&[(REPLAY, &changed)]).stderr).into_owned();
    let found = message.contains("fails in schedule 1") && message.contains("an update is lost");
    assert!(found, "{message}");

    // The line of another check replays nothing: the check is made as without it.
    let other = line.replacen("replay.", "other.", 1);
    let message = String::from_utf8_lossy(&run(&[(REPLAY, &other)]).stderr).into_owned();
    assert!(message.contains("an update is lost"), "{message}");
}

#[test]
fn checks_of_one_test_without_a_name_are_numbered_from_the_second() {
    let found = || {
        let failed = std::panic::catch_unwind(|| check(lost_update));
        let payload = failed.expect_err("the check finds the mistake");
        crate::line_of(payload.downcast_ref::<String>().expect("a message"))
    };
    let name = "replay.checks_of_one_test_without_a_name_are_numbered_from_the_second";
    for name in [name.to_owned(), format!("{name}.2"), format!("{name}.3")] {
        let line = found();
        assert!(line.starts_with(&format!("{name}/")), "{name}: {line}");
    }
}
