//! Runs of a machine: the value, borrows, several runs on one machine, and how a run fails; on all
//! platforms.

use std::cell::Cell;
use std::rc::Rc;
use tidegate::explorer::machine;
use tidegate::explorer::strategy::replay::Replay;
use tidegate_testbed::prelude::*;

/// Calls `test` with a machine on each platform. A thread has one cooperative machine at a time.
fn on_each_platform(test: impl Fn(&Machine)) {
    let platforms: [fn() -> Platform; 4] = [
        Platform::host,
        Platform::closed_host,
        || Platform::virtual_time(StepCosts::free()),
        || machine(Replay::default(), MemoryModel::TotalStoreOrder),
    ];
    for platform in platforms {
        let platform = platform();
        test(&Machine::new(&platform, MachineConfig::standard(&platform)).unwrap());
    }
}

#[test]
fn a_run_returns_its_value_borrows_and_can_be_repeated() {
    on_each_platform(|machine| {
        let device = machine.device(DeviceOptions::default()).unwrap();
        let (mut runs, names) = (0, Rc::new(Cell::new("")));
        for round in 1..=3 {
            let done = device.create_fence("done", 0).unwrap();
            let value = machine.run(|| {
                runs += 1;
                names.set("borrowed");
                let queue = device.create_queue(QueueDesc::compute("physics"))?;
                queue.signal(&done, round)?;
                done.wait(round)?;
                Ok::<_, Error>(done.completed_value())
            });
            assert_eq!(value.unwrap(), Ok(round));
        }
        assert_eq!((runs, names.get()), (3, "borrowed"));
        assert_eq!(machine.driver().violations(), []);
    });
}

#[test]
fn queued_work_goes_on_in_the_next_run() {
    for submission in Submission::ALL {
        on_each_platform(|machine| {
            // The ring is short: what it has no room for goes on as well.
            let device = machine.device(DeviceOptions::default().ring_slots(8)).unwrap();
            let queue = device.queue(CommandListType::Copy, submission);
            let (gate, done) = (device.fence(0), device.fence(0));
            let list = device.list(CommandListType::Copy, |list| list.timed(1_000));
            let queued = || {
                queue.wait(&gate, 1)?;
                for value in 1..=20 {
                    queue.execute(&[&list])?;
                    queue.signal(&done, value)?;
                }
                Ok::<_, Error>(done.completed_value())
            };
            assert_eq!(machine.run(queued).unwrap(), Ok(0), "{submission}");
            let finished = || {
                gate.signal(1)?;
                queue.wait_idle()?;
                Ok::<_, Error>(done.completed_value())
            };
            assert_eq!(machine.run(finished).unwrap(), Ok(20), "{submission}");
        });
    }
}

#[test]
fn a_run_that_fails_says_why_and_another_can_follow() {
    on_each_platform(|machine| {
        let device = machine.device(DeviceOptions::default()).unwrap();
        let never = device.create_fence("never", 0).unwrap();
        let failed = machine.run(|| panic!("{} is wrong", 7)).map(|(): ()| ()).unwrap_err();
        let text = failed.to_string();
        assert_eq!(text, "the run did not complete: agent 'main' panicked: 7 is wrong");
        // An open host goes on between runs: another thread could signal at any time.
        if machine.platform().is_stopped() {
            let failed = machine.run(|| never.wait(3)).unwrap_err();
            let text = failed.to_string();
            assert!(text.starts_with("the run did not complete: 'main' waits for "), "{text}");
            assert_eq!(failed.report.blocked.len(), 1);
        }
        assert_eq!(machine.run(|| never.signal(3)).unwrap(), Ok(()));
        assert_eq!(machine.run(|| never.wait(3)).unwrap(), Ok(()));
    });
}

#[test]
fn a_cooperative_machine_that_never_ran_can_be_dropped_and_another_made() {
    for _ in 0..3 {
        let platform = Platform::virtual_time(StepCosts::free());
        let machine = Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
        let device = machine.device(DeviceOptions::default()).unwrap();
        drop((device, machine));
    }
}
