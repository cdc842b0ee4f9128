//! Measures the release of one of many tasks, and of one of many blocked threads.

use super::setup::{Setup, Shape};
use crate::bench::floors;
use crate::bench::floors::tasks::Tasks;
use crate::bench::measure::{Count, CpuMeter, Measured, Samples};
use crate::bench::row::{Counterpart, Goal, Row, Unit, floor, own};
use crate::bench::sizes::{BATCH, BETWEEN_RELEASES_NS, Calls, Scale, THREAD_RELEASES, shuffled};
use std::sync::Arc;
use tidegate::platform::Word;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FEW: u64 = 10;
const MANY_TASKS: u64 = 100_000;
const MANY_THREADS: u64 = 10_000;
/// CPU time of the process from one signal to the next.
pub(crate) const CPU_OF_A_SIGNAL: &str = "CPU time of a signal";

const fn tasks(
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    let does = "less: no GPU, no log; more: a runtime's scheduler";
    Counterpart::Calls { peer, key, calls, does, size }
}

const fn threads(
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    size: Calls,
) -> Counterpart {
    Counterpart::Calls { peer, key, calls, does: "less: no GPU, no log", size }
}

const WATCH: &str = "watch::Receiver::wait_for in tasks";
const NOTIFY: &str = "Notify::notify_waiters in tasks";
const LISTENER: &str = "Event::listen in tasks";
const ORDERED: &str = "an ordered map of wakers in tasks";
const FEW_TASKS: Calls = Calls::new(FEW, 8);
const MANY_OF_TASKS: Calls = Calls::new(MANY_TASKS, 5);
const FEW_THREADS: Calls = Calls::new(FEW, 8);
const MANY_OF_THREADS: Calls = Calls::new(MANY_THREADS, 5);

/// Rows of waiting tasks and threads.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "tasks_release_1_of_10",
        about: "a CPU signal that releases one of 10 tasks which await a fence, until the task is over",
        unit: Unit::Time,
        floor: floor("ordered_tasks_of_10", || floors::tasks::ordered_tasks(FEW)),
        goal: Goal::TimesFloor(1.5),
        measure: |scale| own(move || release_tasks(FEW, scale)),
        peers: &[
            tasks("tokio", "watch_tasks", WATCH, FEW_TASKS),
            tasks("tokio", "notify_tasks", NOTIFY, FEW_TASKS),
            tasks("tokio", "ordered_tasks", ORDERED, FEW_TASKS),
            tasks("event-listener", "listener_tasks", LISTENER, FEW_TASKS),
        ],
    },
    Row {
        name: "tasks_release_1_of_100000",
        about: "the same of 100,000 tasks",
        unit: Unit::Time,
        floor: floor("ordered_tasks_of_100000", || floors::tasks::ordered_tasks(MANY_TASKS)),
        goal: Goal::TimesFloor(1.5),
        measure: |scale| own(move || release_tasks(MANY_TASKS / scale.0, scale)),
        peers: &[
            tasks("tokio", "watch_tasks", WATCH, MANY_OF_TASKS),
            tasks("tokio", "notify_tasks", NOTIFY, MANY_OF_TASKS),
            tasks("tokio", "ordered_tasks", ORDERED, MANY_OF_TASKS),
            tasks("event-listener", "listener_tasks", LISTENER, MANY_OF_TASKS),
        ],
    },
    Row {
        name: "threads_release_1_of_10",
        about: "from a CPU signal to the one of 10 blocked threads that it releases",
        unit: Unit::Time,
        floor: floor("ordered_threads_of_10", || floors::wakes::ordered_threads(FEW)),
        goal: Goal::TimesFloor(1.3),
        measure: |scale| own(move || release_threads(FEW, scale)),
        peers: &[
            threads("parking_lot", "condvar_threads", "Condvar::notify_all", FEW_THREADS),
            threads("event-listener", "listener_threads", "Listener::wait", FEW_THREADS),
            threads("lavapipe", "blocked_threads", "vkWaitSemaphores", FEW_THREADS),
        ],
    },
    Row {
        name: "threads_release_1_of_10000",
        about: "the same of 10,000 blocked threads",
        unit: Unit::Time,
        floor: floor("ordered_threads_of_10000", || floors::wakes::ordered_threads(MANY_THREADS)),
        goal: Goal::TimesFloor(1.3),
        measure: |scale| own(move || release_threads(MANY_THREADS / scale.0, scale)),
        peers: &[
            threads("parking_lot", "condvar_threads", "Condvar::notify_all", MANY_OF_THREADS),
            threads("event-listener", "listener_threads", "Listener::wait", MANY_OF_THREADS),
            threads("lavapipe", "blocked_threads", "vkWaitSemaphores", Calls::new(MANY_THREADS, 3)),
        ],
    },
];

/// Tasks that await values of one fence in another order than they are released.
pub(super) fn release_tasks(count: u64, scale: Scale) -> Result<Measured> {
    let (count, batches) = (count.max(1), (1_000 / scale.0).max(2));
    let together = BATCH.min(count);
    let setup = Setup::new(Shape::default())?;
    let fence = setup.device.create_fence("awaited", 0)?;
    let (mut samples, mut tasks) = (Samples::default(), Tasks::new());
    for n in 0..count {
        tasks.add(fence.reached(1 + shuffled(n, count)));
    }
    let (cpu, before) = (CpuMeter::start(), setup.counted());
    let released = || -> Result<()> {
        for batch in 0..batches {
            let values = batch * together + 1..=(batch + 1) * together;
            let start = setup.now_ns();
            for value in values.clone() {
                fence.signal(value)?;
                tasks.run_one()?;
            }
            samples.push_batch(setup.now_ns() - start, together);
            for value in values {
                tasks.add(fence.reached(count + value));
            }
        }
        Ok(())
    };
    let released = setup.machine.run(|| {
        let mut released = released;
        released().map_err(|e| e.to_string())
    })?;
    released?;
    let cpu_ns = cpu.per(batches * together);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::of("tasks", count),
        Count::exactly("interrupts", happened.interrupts, 0),
        Count::of("system calls to wake", happened.wake_calls),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// Threads that block on values of one fence, and are released one after the other. No thread is
/// bound to a processor.
pub(super) fn release_threads(count: u64, scale: Scale) -> Result<Measured> {
    let count = count.max(2);
    let releases = (THREAD_RELEASES / scale.0).clamp(2, count);
    let setup = Setup::unbound(Shape::default())?;
    let (samples, cpu_ns) = setup.machine.run(|| threads_of(&setup, count, releases))??;
    let figures = vec![(CPU_OF_A_SIGNAL, cpu_ns)];
    let counts = vec![Count::of("threads", count)];
    Ok(Measured { samples, cpu_ns, counts, figures, note: None })
}

fn threads_of(
    setup: &Setup,
    count: u64,
    releases: u64,
) -> std::result::Result<(Samples, f64), tidegate::d3d12::Error> {
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
    // A reading of the CPU time adds up that of every thread, and takes the longer the more threads
    // there are. It is no part of the signals' time.
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
