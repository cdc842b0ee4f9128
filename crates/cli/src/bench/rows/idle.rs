//! Measures what idle queues cost: a doorbell beside thousands of them, a doorbell that has to be
//! connected again, a machine at rest, and the first submission after a rest.

use super::setup::{Setup, Shape};
use crate::bench::floors;
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, Trouble, on_own_thread};
use crate::bench::row::{Goal, Row, Unit, floor, own};
use crate::bench::sizes::Scale;
use std::hint::spin_loop;
use tidegate::d3d12::{CommandListType, Fence, Queue};
use tidegate::kmd::DoorbellModel;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const IDLE_QUEUES: u64 = 4_096;
/// Doorbells for all of them.
const DOORBELLS: DoorbellModel = DoorbellModel::Dedicated { physical: 8_192 };

/// Rows of idle queues and machines.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "doorbell_beside_4096_queues",
        about: "doorbell to fence seen of one queue beside 4,096 connected idle queues of its engine",
        unit: Unit::Time,
        floor: floor("doorbell_of_one_queue", alone),
        goal: Goal::TimesFloor(1.3),
        measure: |scale| own(move || doorbell_beside(IDLE_QUEUES / scale.0, scale)),
        peers: &[],
    },
    Row {
        name: "reconnect_victim",
        about: "a signal call of a queue whose doorbell was victimised: the call connects it again",
        unit: Unit::Time,
        floor: floor("message_there_and_back", floors::wakes::message_there_and_back),
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || reconnect(scale)),
        peers: &[],
    },
    Row {
        name: "idle_machine",
        about: "CPU time of the process in a second in which every queue is idle",
        unit: Unit::Time,
        floor: floor("a_thousandth_of_a_second", floors::a_thousandth),
        goal: Goal::TimesFloor(1.0),
        measure: |scale| own(move || at_rest(scale)),
        peers: &[],
    },
    Row {
        name: "first_submit_after_idle",
        about: "doorbell to fence seen of the first packet after the engines have parked",
        unit: Unit::Time,
        floor: floor("wake_to_run", floors::wake_to_run),
        goal: Goal::TimesFloor(1.2),
        measure: |scale| own(move || after_idle(scale)),
        peers: &[],
    },
];

/// The floor: one queue and no other.
fn alone() -> std::result::Result<Samples, Trouble> {
    on_own_thread(|| {
        let measured = doorbell_beside(0, Scale(1)).map_err(|e| e.to_string())?;
        Ok(measured.samples)
    })
}

/// From a queue's signal call to its fence, seen by a spinning client.
fn signal_and_see(setup: &Setup, queue: &Queue, fence: &Fence, value: u64) -> Result<u64> {
    let start = setup.now_ns();
    queue.signal(fence, value)?;
    while fence.completed_value() < value {
        spin_loop();
    }
    Ok(setup.now_ns() - start)
}

/// Row `doorbell_beside_…`, for so many idle queues.
pub(super) fn doorbell_beside(idle: u64, scale: Scale) -> Result<Measured> {
    const WARM_UP: u64 = 500;
    let doorbells = (20_000 / scale.0).max(10);
    let shape = Shape { ring_slots: 64, doorbells: Some(DOORBELLS), ..Shape::default() };
    let setup = Setup::new(shape)?;
    let fence = setup.device.create_fence("connected", 0)?;
    let mut queues = Vec::new();
    for number in 1..=idle {
        let queue = setup.queue(CommandListType::Compute)?;
        // The first ring connects its doorbell.
        signal_and_see(&setup, &queue, &fence, number)?;
        queues.push(queue);
    }
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("seen", 0)?;
    let mut samples = Samples::default();
    let (mut cpu, mut before) = (CpuMeter::start(), setup.counted());
    for value in 1..=WARM_UP + doorbells {
        if value == WARM_UP + 1 {
            (cpu, before) = (CpuMeter::start(), setup.counted());
        }
        let took = signal_and_see(&setup, &queue, &fence, value)?;
        if value > WARM_UP {
            samples.push(took as f64);
        }
    }
    let cpu_ns = cpu.per(doorbells);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::of("idle queues", queues.len() as u64),
        Count::exactly("interrupts", happened.interrupts, 0),
        Count::exactly("doorbells connected", happened.connects, 0),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// Two queues and one doorbell, which each takes from the other.
fn reconnect(scale: Scale) -> Result<Measured> {
    const WARM_UP: u64 = 100;
    let calls = (5_000 / scale.0).max(10);
    let one = DoorbellModel::Dedicated { physical: 1 };
    let setup = Setup::new(Shape { doorbells: Some(one), ..Shape::default() })?;
    let queues = [setup.queue(CommandListType::Compute)?, setup.queue(CommandListType::Compute)?];
    let fence = setup.device.create_fence("seen", 0)?;
    let mut samples = Samples::default();
    let (mut cpu, mut before) = (CpuMeter::start(), setup.counted());
    for value in 1..=WARM_UP + calls {
        if value == WARM_UP + 1 {
            (cpu, before) = (CpuMeter::start(), setup.counted());
        }
        let start = setup.now_ns();
        queues[(value % 2) as usize].signal(&fence, value)?;
        let took = setup.now_ns() - start;
        while fence.completed_value() < value {
            spin_loop();
        }
        if value > WARM_UP {
            samples.push(took as f64);
        }
    }
    let cpu_ns = cpu.per(calls);
    let happened = setup.counted().since(&before);
    // Every ninth connect is by notification (UMS-201): a queue of signals announces no progress.
    let most_connect = happened.connects >= calls * 8 / 9;
    let counts = vec![
        Count::of("doorbells connected", happened.connects),
        Count::exactly("eight of nine connect", u64::from(most_connect), 1),
        Count::of("kernel calls", happened.kernel_calls),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// A machine with queues and a registered wait, for two seconds.
fn at_rest(scale: Scale) -> Result<Measured> {
    const SECOND_NS: u64 = 1_000_000_000;
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("seen", 0)?;
    let event = setup.device.create_event(tidegate::d3d12::EventDesc::manual_reset());
    fence.set_event_on_completion(2, &event)?;
    signal_and_see(&setup, &queue, &fence, 1)?;
    let rest_ns = (2 * SECOND_NS / scale.0).max(1_000_000);
    let (cpu, start) = (CpuMeter::start(), setup.platform.now());
    let _end = setup.platform.sleep_until(start.after(rest_ns));
    let (used_ns, took_ns) = (cpu.per(1), setup.platform.now().since(start));
    let mut samples = Samples::default();
    samples.push(used_ns * SECOND_NS as f64 / took_ns.max(1) as f64);
    let counts = vec![Count::of("ms of rest", took_ns / 1_000_000)];
    Ok(Measured { samples, cpu_ns: used_ns, counts, ..Measured::default() })
}

/// Each packet is submitted when the engines' thread has parked.
fn after_idle(scale: Scale) -> Result<Measured> {
    let submits = (300 / scale.0).max(5);
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("seen", 0)?;
    let (mut samples, cpu, before) = (Samples::default(), CpuMeter::start(), setup.counted());
    let mut sleeps = setup.platform.parking_counts().sleeps;
    signal_and_see(&setup, &queue, &fence, 1)?;
    for value in 2..=submits + 1 {
        while setup.platform.parking_counts().sleeps <= sleeps {
            spin_loop();
        }
        sleeps = setup.platform.parking_counts().sleeps;
        // The counted thread is on its way into the system call.
        let asleep = setup.now_ns() + crate::bench::sizes::ASLEEP_NS;
        while setup.now_ns() < asleep {
            spin_loop();
        }
        samples.push(signal_and_see(&setup, &queue, &fence, value)? as f64);
    }
    let cpu_ns = cpu.per(submits);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::of("submissions", submits),
        Count::of("system calls to wake", happened.wake_calls),
        Count::of("parks of an idle service", happened.parks),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}
