//! Measures the release of one of many tasks, and of one of many blocked threads.

use crate::aim::{Aimed, Counterpart, peer, row};
use crate::floors::tasks::{Tasks, ordered_tasks};
use crate::floors::wakes::ordered_threads;
use crate::sizes::{BATCH, BETWEEN_RELEASES_NS, Calls, THREAD_RELEASES, shuffled};
use std::sync::Arc;
use tidegate::platform::Word;
use tidegate_measure::{
    Count, CpuMeter, Found, Measured, Meter, Samples, Scale, Setup, Shape, floor,
};

const FEW: u64 = 10;
const MANY_TASKS: u64 = 100_000;
const MANY_THREADS: u64 = 10_000;
/// CPU time of the process from one signal to the next.
pub(crate) const CPU_OF_A_SIGNAL: &str = "CPU time of a signal";

const fn tasks(
    name: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    peer(name, key, calls, "less: no GPU, no log; more: a runtime's scheduler", size)
}

const fn threads(
    name: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    peer(name, key, calls, "less: no GPU, no log", size)
}

const WATCH: &str = "watch::Receiver::wait_for in tasks";
const NOTIFY: &str = "Notify::notify_waiters in tasks";
const LISTENER: &str = "Event::listen in tasks";
const ORDERED: &str = "an ordered map of wakers in tasks";
const FEW_WAIT: Calls = Calls::new(FEW, 8);
const MANY_TASKS_WAIT: Calls = Calls::new(MANY_TASKS, 5);
const MANY_THREADS_WAIT: Calls = Calls::new(MANY_THREADS, 5);

const fn task_peers(size: Calls) -> [Counterpart; 4] {
    [
        tasks("tokio", "watch_tasks", WATCH, size),
        tasks("tokio", "notify_tasks", NOTIFY, size),
        tasks("tokio", "ordered_tasks", ORDERED, size),
        tasks("event-listener", "listener_tasks", LISTENER, size),
    ]
}

const fn thread_peers(size: Calls, of_lavapipe: Calls) -> [Counterpart; 3] {
    [
        threads("parking_lot", "condvar_threads", "Condvar::notify_all", size),
        threads("event-listener", "listener_threads", "Listener::wait", size),
        threads("lavapipe", "blocked_threads", "vkWaitSemaphores", of_lavapipe),
    ]
}

/// Rows of waiting tasks and threads.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "tasks_release_1_of_10",
        "a CPU signal that releases one of 10 tasks which await a fence, until the task is over",
        floor("ordered_tasks_of_10", || ordered_tasks(FEW)),
        |scale| release_tasks(FEW, scale),
    )
    .within(1.5)
    .beside(const { &task_peers(FEW_WAIT) }),
    row(
        "tasks_release_1_of_100000",
        "the same of 100,000 tasks",
        floor("ordered_tasks_of_100000", || ordered_tasks(MANY_TASKS)),
        |scale| release_tasks(scale.of(MANY_TASKS, 1), scale),
    )
    .within(1.5)
    .beside(const { &task_peers(MANY_TASKS_WAIT) }),
    row(
        "threads_release_1_of_10",
        "from a CPU signal to the one of 10 blocked threads that it releases",
        floor("ordered_threads_of_10", || ordered_threads(FEW)),
        |scale| release_threads(FEW, scale),
    )
    .within(1.3)
    .beside(const { &thread_peers(FEW_WAIT, FEW_WAIT) }),
    row(
        "threads_release_1_of_10000",
        "the same of 10,000 blocked threads",
        floor("ordered_threads_of_10000", || ordered_threads(MANY_THREADS)),
        |scale| release_threads(scale.of(MANY_THREADS, 2), scale),
    )
    .within(1.3)
    .beside(const { &thread_peers(MANY_THREADS_WAIT, Calls::new(MANY_THREADS, 3)) }),
];

/// Tasks that await values of one fence in another order than they are released.
pub(crate) fn release_tasks(count: u64, scale: Scale) -> Found<Measured> {
    let batches = scale.of(1_000, 2);
    let together = BATCH.min(count);
    let setup = Setup::new(Shape::default())?;
    let fence = setup.device.create_fence("awaited", 0)?;
    let mut tasks = Tasks::new();
    for n in 0..count {
        tasks.add(fence.reached(1 + shuffled(n, count)));
    }
    let mut meter = Meter::start(&setup);
    setup.machine.run(|| -> Found<()> {
        for batch in 0..batches {
            let values = batch * together + 1..=(batch + 1) * together;
            meter.time(together, || {
                values.clone().try_for_each(|value| {
                    fence.signal(value)?;
                    tasks.run_one()
                })
            })?;
            for value in values {
                tasks.add(fence.reached(count + value));
            }
        }
        Ok(())
    })??;
    Ok(meter.end(|happened| {
        vec![
            Count::of("tasks", count),
            Count::exactly("interrupts", happened.interrupts, 0),
            Count::of("system calls to wake", happened.wake_calls),
        ]
    }))
}

/// Threads that block on values of one fence, and are released one after the other. No thread is
/// bound to a processor.
fn release_threads(count: u64, scale: Scale) -> Found<Measured> {
    let releases = (THREAD_RELEASES / scale.0).clamp(2, count);
    let setup = Setup::unbound(Shape::default())?;
    let (samples, cpu_ns) = setup.machine.run(|| threads_of(&setup, count, releases))??;
    let figures = vec![(CPU_OF_A_SIGNAL, cpu_ns)];
    let counts = vec![Count::of("threads", count)];
    Ok(Measured { counts, figures, ..Measured::of(samples, cpu_ns) })
}

fn threads_of(
    setup: &Setup,
    count: u64,
    releases: u64,
) -> tidegate::d3d12::error::Result<(Samples, f64)> {
    let fence = setup.device.create_fence("awaited", 0)?;
    let seen: Vec<Word> = (0..count).map(|_| setup.platform.page(8).word(0)).collect();
    let seen = Arc::new(seen);
    let before = setup.counted();
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let (fence, seen, platform) =
                (fence.clone(), Arc::clone(&seen), setup.platform.clone());
            setup.platform.spawn(format!("waiter {number}"), move || {
                let waited = fence.wait(number + 1);
                seen[number as usize].store(platform.now().0);
                waited.unwrap_or_else(|e| panic!("waiter {number}: {e}"));
            })
        })
        .collect();
    // Each of them parks once.
    while setup.counted().since(&before).parks < count {
        let _end = setup.platform.sleep_until(setup.platform.now().after(BETWEEN_RELEASES_NS));
    }
    // Reading the CPU time adds up the times of all threads, and takes longer with more threads. It
    // is not part of the signals' time.
    let reading_ns = CpuMeter::start().per(1);
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for number in 0..releases {
        let start = setup.now_ns();
        fence.signal(number + 1)?;
        let _end = setup.platform.sleep_until(setup.platform.now().after(BETWEEN_RELEASES_NS));
        let at = loop {
            match seen[number as usize].load() {
                0 => std::hint::spin_loop(),
                at => break at,
            }
        };
        samples.push(at.saturating_sub(start) as f64);
    }
    let cpu_ns = (cpu.per(releases) - reading_ns / releases as f64).max(0.0);
    fence.signal(count)?;
    threads.iter().for_each(|thread| {
        thread.join();
    });
    Ok((samples, cpu_ns))
}
