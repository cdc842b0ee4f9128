//! What engines do among themselves reaches no CPU: no interrupt, no wake-up, no kernel call,
//! counted.

use tidegate::d3d12::Counters;
use tidegate_testbed::prelude::*;

/// What the CPU did since the counts in `before`: interrupts, deferred routines, waiters
/// released, kernel calls, and blocking waits that came back.
fn cpu_work(app: &App, before: &(KernelStats, Counters)) -> [u64; 5] {
    let (kernel, calls) = (app.machine.adapter().stats(), app.counters().since(&before.1));
    [
        kernel.interrupts - before.0.interrupts,
        kernel.dpcs - before.0.dpcs,
        kernel.cpu_wakes - before.0.cpu_wakes,
        calls.kernel_calls,
        calls.cpu_wakes,
    ]
}

/// A user-mode queue on each of two engines.
fn user_queues(app: &App) -> [Queue; 2] {
    [CommandListType::Direct, CommandListType::Copy].map(|of| app.queue(of, Submission::User))
}

/// Links of the chain; each waits for the other engine.
const LINKS: u64 = 10_000;

// spec: NF-006
#[test]
fn a_chain_of_ten_thousand_waits_between_two_engines_wakes_no_cpu_thread() {
    let options = DeviceOptions { ring_slots: 16_384, ..DeviceOptions::default() };
    App::new(options, |_| ()).run(|app| {
        let queues = user_queues(app);
        let (gate, chain) = (app.fence(0), app.fence(0));
        // All of it is in the rings, behind a gate, before anything runs.
        queues[0].wait(&gate, 1).unwrap();
        for link in 0..LINKS {
            let queue = &queues[link as usize % 2];
            queue.wait(&chain, link).unwrap();
            queue.signal(&chain, link + 1).unwrap();
        }
        app.pass(1_000_000);
        assert_eq!(chain.completed_value(), 0);
        gate.signal(1).unwrap();
        let before = (app.machine.adapter().stats(), app.counters());
        let stalled = || app.machine.gpu().stats().gpu_waits_stalled;
        let already = stalled();
        app.pass(1_000_000_000);
        assert_eq!(chain.completed_value(), LINKS);
        assert!(stalled() - already >= LINKS / 2, "they did wait for each other");
        assert_eq!(cpu_work(app, &before), [0; 5]);
    });
}

/// Signals of two fences by two engines, without a CPU waiter. The submitting thread reads the
/// value now and then, as a polling application does, so that rings do not run full.
fn signals_without_a_waiter(platform: &Platform, signals: u64) {
    let options = DeviceOptions { ring_slots: 4_096, ..DeviceOptions::default() };
    App::on(platform, options, |_| ()).run(move |app| {
        let pairs = user_queues(app).map(|queue| (queue, app.fence(0)));
        let reach = |value: u64| {
            while pairs.iter().any(|(_, fence)| fence.completed_value() < value) {
                app.pass(1_000);
            }
        };
        // The first ring connects the doorbell, which is a kernel call.
        for (queue, fence) in &pairs {
            queue.signal(fence, 1).unwrap();
        }
        reach(1);
        let before = (app.machine.adapter().stats(), app.counters());
        let each = signals / 2;
        for value in 2..=each + 1 {
            for (queue, fence) in &pairs {
                queue.signal(fence, value).unwrap();
            }
            if value % 2_048 == 0 {
                reach(value);
            }
        }
        reach(each + 1);
        assert_eq!(cpu_work(app, &before), [0; 5]);
        let suppressed = app.machine.gpu().stats().interrupts_suppressed;
        assert!(suppressed >= signals, "each was compared with MonitoredValue: {suppressed}");
    });
}

// spec: NF-006
#[test]
fn signals_without_a_waiter_raise_no_interrupt_and_make_no_kernel_call() {
    signals_without_a_waiter(&Platform::virtual_time(StepCosts::free()), 100_000);
    signals_without_a_waiter(&Platform::closed_host(), 100_000);
}

/// The full form. Run it optimised: `cargo test --profile quick -p tidegate-dxgkrnl --test fence
/// engines_without_the_cpu -- --ignored`.
#[test]
#[ignore = "a minute: part of cargo xtask full"]
fn a_hundred_million_signals_without_a_waiter_raise_no_interrupt() {
    signals_without_a_waiter(&Platform::closed_host(), 100_000_000);
}
