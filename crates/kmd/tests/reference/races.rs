//! The places where the driver's order against other agents matters, explored: schedules are tried
//! one after the other, stores wait in store buffers.

use std::ops::ControlFlow;
use tidegate_explorer::search;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_testbed::prelude::driver::*;

/// Runs `race` under every schedule; returns the number of schedules, and the number of those for
/// which it returned true.
fn exhaust(race: impl Fn(&Platform) -> bool) -> (u64, u64) {
    let mut held = 0;
    let searched = search(Exhaustive::new(), MemoryModel::TotalStoreOrder, |platform| {
        held += u64::from(race(platform));
        ControlFlow::Continue(())
    });
    (searched.runs, held)
}

/// How a MonitoredValue is published: machine, fence, value, cell.
type Arm = fn(&Machine, DriverHandle, u64, &Word);

fn by_the_driver(machine: &Machine, fence: DriverHandle, value: u64, cell: &Word) {
    let update = UpdateMonitoredValue { fence, value, monitored_value: cell };
    machine.driver.update_monitored_values(&machine.dirql(), &[update]);
}

fn by_a_plain_store(_: &Machine, _: DriverHandle, value: u64, cell: &Word) {
    cell.store(value);
}

/// A signal of 42 against a waiter for 42 that arms and reads again: either the engine interrupts
/// or the waiter reads 42.
fn is_noticed(platform: &Platform, arm: Arm) -> bool {
    let machine = Machine::cold(platform, Config::standard());
    machine.start(ALL).unwrap();
    let fence = machine.fence(1);
    let cells = platform.page(4);
    let [current, monitored, interrupted, seen] = [0, 1, 2, 3].map(|word| cells.word(word));
    monitored.store(u64::MAX);
    let (p, interrupts, sight) = (platform.clone(), interrupted.clone(), seen.clone());
    let report = platform.run(move || {
        let (cv, mv, gpu) = (current.clone(), monitored.clone(), p.clone());
        let engine = p.spawn("engine", move || {
            cv.store(42);
            gpu.fence();
            if 42 > mv.load() {
                interrupts.store(1);
            }
        });
        arm(&machine, fence, 41, &monitored);
        sight.store(current.load());
        engine.join();
    });
    assert!(report.completed(), "{report:?}");
    interrupted.load() == 1 || seen.load() == 42
}

// spec: NF-050
#[test]
fn no_signal_slips_between_an_armed_value_and_the_look_after_it() {
    let (schedules, noticed) = exhaust(|platform| is_noticed(platform, by_the_driver));
    assert_eq!(noticed, schedules);
    assert!(schedules > 10, "{schedules} schedules are no exploration");
    // The same race with the barrier left out is lost in some schedule, so the exploration can see
    // it.
    let (schedules, noticed) = exhaust(|platform| is_noticed(platform, by_a_plain_store));
    assert!(noticed < schedules);
}

/// An interrupt against the destruction of the fence that it is about. Returns whether the fence
/// was named, which must not happen when its destroy has returned.
fn is_named_in_time(platform: &Platform) -> bool {
    let cells = platform.page(2);
    let [destroyed, named] = [0, 1].map(|word| cells.word(word));
    let (gone, count) = (destroyed.clone(), named.clone());
    let look = move |data: &InterruptData| {
        if let InterruptData::NativeFenceSignaled { fences: Some(_), .. } = data {
            assert_eq!(gone.fetch_add(0), 0, "an interrupt names a fence that is destroyed");
            count.fetch_add(1);
        }
    };
    let machine = Machine::watched(platform, Config::standard(), Some(Box::new(look)));
    machine.start(ALL).unwrap();
    let owned = machine.owned(5, 1);
    let fence = machine.fence(0xF1);
    let local = machine.open(fence, owned.device, 0x100);
    machine.queue(owned.context, 0x50, false, 0x8000);
    let mut script = machine.device.script.lock_device();
    script.causes.push_back(Cause::FENCE_SIGNALED.0);
    script.signals.push_back(Some((QueueId(3), 0x100)));
    drop(script);
    let p = platform.clone();
    let report = platform.run(move || {
        let (driver, kernel) = (Arc::clone(&machine.driver), Arc::clone(&machine.kernel));
        let engine = p.spawn("engine", move || assert!(driver.interrupt_routine(&kernel.dirql())));
        machine.driver.close_native_fence(&machine.passive(), local);
        machine.driver.destroy_native_fence(&machine.passive(), fence);
        destroyed.fetch_add(1);
        engine.join();
        assert_eq!(machine.driver.violations(), []);
    });
    assert!(report.completed(), "{report:?}");
    named.load() == 1
}

#[test]
fn a_destroyed_fence_is_never_named_however_the_interrupt_falls() {
    let (schedules, named) = exhaust(is_named_in_time);
    assert!(named > 0 && named < schedules, "{named} of {schedules}: one side is never tried");
}

/// A resume of a suspended context against the creation of a queue of it. Returns whether the
/// hardware heard of a suspension of the queue. The last word that it hears must be the resume.
fn is_suspended_in_between(platform: &Platform) -> bool {
    let machine = Machine::cold(platform, Config::standard());
    machine.start(ALL).unwrap();
    let owned = machine.owned(5, 1);
    assert_eq!(machine.driver.suspend_context(&machine.passive(), owned.context, 1), Ok(true));
    machine.journal.take();
    let (p, journal) = (platform.clone(), machine.journal.clone());
    let report = platform.run(move || {
        let (driver, kernel) = (Arc::clone(&machine.driver), Arc::clone(&machine.kernel));
        let resumer = p.spawn("resumer", move || {
            driver.resume_context(&kernel.passive(), owned.context).unwrap();
        });
        machine.queue(owned.context, 0x50, false, 0x8000);
        resumer.join();
    });
    assert!(report.completed(), "{report:?}");
    let states = journal.take().into_iter().filter_map(|event| match event {
        Event::Admin(AdminCommand::SuspendQueue { .. }) => Some(true),
        Event::Admin(AdminCommand::ResumeQueue { .. }) => Some(false),
        _ => None,
    });
    let states: Vec<bool> = states.collect();
    assert_ne!(states.last(), Some(&true), "the queue of a resumed context stays suspended");
    states.contains(&true)
}

#[test]
fn a_queue_made_beside_a_resume_is_not_suspended() {
    let (schedules, suspended) = exhaust(is_suspended_in_between);
    assert!(
        suspended > 0 && suspended < schedules,
        "{suspended} of {schedules}: not both are tried"
    );
}
