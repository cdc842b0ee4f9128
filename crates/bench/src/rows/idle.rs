//! Measures what idle queues cost: a doorbell beside thousands of them, a machine at rest, and the
//! first submission after a rest.

use crate::aim::{Aimed, of, row};
use crate::floors;
use std::hint::spin_loop;
use tidegate::d3d12::{CommandListType, EventDesc};
use tidegate::kmd::DoorbellModel;
use tidegate_measure::floors::wake_to_run;
use tidegate_measure::rows::RECONNECT;
use tidegate_measure::{
    ASLEEP_NS, Count, CpuMeter, Found, Measured, Meter, Samples, Scale, Setup, Shape, floor,
    signal_and_see,
};

const IDLE_QUEUES: u64 = 4_096;
/// Doorbells for all of them.
const DOORBELLS: DoorbellModel = DoorbellModel::Dedicated { physical: 8_192 };

/// Rows of idle queues and machines.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "doorbell_beside_4096_queues",
        "doorbell to fence seen of one queue beside 4,096 connected idle queues of its engine",
        floor("doorbell_of_one_queue", || doorbell_beside(0, Scale(1)).map(|m| m.samples)),
        |scale| doorbell_beside(scale.of(IDLE_QUEUES, 0), scale),
    )
    .within(1.3),
    of(RECONNECT).within(2.0),
    row(
        "idle_machine",
        "CPU time of the process in a second in which every queue is idle",
        floor("a_thousandth_of_a_second", floors::a_thousandth),
        at_rest,
    )
    .within(1.0),
    row(
        "first_submit_after_idle",
        "doorbell to fence seen of the first packet after the engines have parked",
        floor("wake_to_run", wake_to_run),
        after_idle,
    )
    .within(1.2),
];

/// Row `doorbell_beside_…`, with `idle` queues.
pub(crate) fn doorbell_beside(idle: u64, scale: Scale) -> Found<Measured> {
    let shape = Shape { ring_slots: 64, doorbells: Some(DOORBELLS), ..Shape::default() };
    let setup = Setup::new(shape)?;
    let fence = setup.device.create_fence("connected", 0)?;
    let mut queues = Vec::new();
    for number in 1..=idle {
        let queue = setup.queue(CommandListType::Compute)?;
        // The first ring connects its doorbell.
        signal_and_see(&queue, &fence, number)?;
        queues.push(queue);
    }
    let (queue, fence) = setup.queue_and_fence()?;
    let mut meter = Meter::start(&setup);
    meter.times(500, scale.of(20_000, 10), 1, |value| signal_and_see(&queue, &fence, value))?;
    Ok(meter.end(|happened| {
        vec![
            Count::of("idle queues", queues.len() as u64),
            Count::exactly("interrupts", happened.interrupts, 0),
            Count::exactly("doorbells connected", happened.connects, 0),
        ]
    }))
}

/// A machine with queues and a registered wait, for two seconds.
fn at_rest(scale: Scale) -> Found<Measured> {
    const SECOND_NS: u64 = 1_000_000_000;
    let setup = Setup::new(Shape::default())?;
    let (queue, fence) = setup.queue_and_fence()?;
    let event = setup.device.create_event(EventDesc::manual_reset());
    fence.set_event_on_completion(2, &event)?;
    signal_and_see(&queue, &fence, 1)?;
    let rest_ns = scale.of(2 * SECOND_NS, 1_000_000);
    let (cpu, start) = (CpuMeter::start(), setup.platform.now());
    let _end = setup.platform.sleep_until(start.after(rest_ns));
    let (used_ns, took_ns) = (cpu.per(1), setup.platform.now().since(start));
    let mut samples = Samples::default();
    samples.push(used_ns * SECOND_NS as f64 / took_ns.max(1) as f64);
    let counts = vec![Count::of("ms of rest", took_ns / 1_000_000)];
    Ok(Measured { counts, ..Measured::of(samples, used_ns) })
}

/// Each packet is submitted when the engines' thread has parked.
fn after_idle(scale: Scale) -> Found<Measured> {
    let submits = scale.of(300, 5);
    let setup = Setup::new(Shape::default())?;
    let (queue, fence) = setup.queue_and_fence()?;
    let mut meter = Meter::start(&setup);
    let mut sleeps = setup.platform.parking_counts().sleeps;
    signal_and_see(&queue, &fence, 1)?;
    for value in 2..=submits + 1 {
        while setup.platform.parking_counts().sleeps <= sleeps {
            spin_loop();
        }
        sleeps = setup.platform.parking_counts().sleeps;
        // The counted thread is on its way into the system call.
        let asleep = setup.now_ns() + ASLEEP_NS;
        while setup.now_ns() < asleep {
            spin_loop();
        }
        meter.time(1, || signal_and_see(&queue, &fence, value))?;
    }
    Ok(meter.end(|happened| {
        vec![
            Count::of("submissions", submits),
            Count::of("system calls to wake", happened.wake_calls),
            Count::of("parks of an idle service", happened.parks),
        ]
    }))
}
