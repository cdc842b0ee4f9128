//! Measures what an interrupt costs: for the engine that raises it, for the thread that it wakes,
//! and for a burst of signals.
//!
//! The first two are read off the timeline, where the engine's time stands.

use super::setup::{Setup, Shape};
use super::wake::{self, Wakes};
use crate::bench::floors;
use crate::bench::measure::{CLIENT_CPU, Count, CpuMeter, Measured, SERVICE_CPU, Samples};
use crate::bench::row::{Goal, Row, Unit, floor, own};
use crate::bench::sizes::{ASLEEP_NS, Scale};
use std::collections::BTreeMap;
use tidegate::d3d12::{CommandListType, Event, EventDesc};
use tidegate::trace::{Kind, Trace};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Signals of a burst, and the most interrupts that one of all bursts may raise.
pub(super) const BURST: u64 = 1_000;
pub(crate) const MOST_INTERRUPTS: &str = "most interrupts in a burst";

/// Rows of interrupts.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "signal_that_wakes",
        about: "an engine's signal that wakes a parked thread, until the engine's next packet",
        unit: Unit::Time,
        floor: floor("wake_call", floors::wakes::wake_call),
        goal: Goal::TimesFloor(1.1),
        measure: |scale| own(move || engine_cost(scale)),
        peers: &[],
    },
    Row {
        name: "wake_same_processor",
        about: "from an engine's signal to the thread that was parked on the fence, all threads on one processor",
        unit: Unit::Time,
        floor: floor("wake_on_one_processor", floors::wakes::wake_on_one_processor),
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || wake::measure_on(CLIENT_CPU, ASLEEP_NS, scale)),
        peers: &[],
    },
    Row {
        name: "wake_spinning_thread",
        about: "from an engine's signal to the return of a wait that began 3 µs before",
        unit: Unit::Time,
        floor: floor("line_one_way", floors::line_one_way),
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || wake::measure_on(SERVICE_CPU, NEARLY_NS, scale)),
        peers: &[],
    },
    Row {
        name: "burst_of_1000",
        about: "one of 1,000 signals in a burst, each of which releases a waiter of one thread",
        unit: Unit::Time,
        floor: floor("ordered_release_of_1000", || floors::ordered_release(BURST)),
        goal: Goal::TimesFloor(1.5),
        measure: |scale| own(move || burst(scale)),
        peers: &[],
    },
];

/// Work of the engine while a thread begins to wait.
const NEARLY_NS: u64 = 3_000;
/// Work of the engine between two wake-ups: longer than it holds signals after an interrupt. A held
/// signal interrupts behind the next packet.
const ALONE_NS: u64 = 200_000;

/// The engine's time of a signal that interrupts, its share of the kernel's work included.
fn engine_cost(scale: Scale) -> Result<Measured> {
    let shape = Shape { tracing: true, ..Shape::default() };
    let wakes = Wakes::new(Setup::new(shape)?, ALONE_NS, true)?;
    let (before, cpu) = (wakes.setup.counted(), CpuMeter::start());
    let count = wakes.run(scale)?;
    let cpu_ns = cpu.per(count);
    let happened = wakes.setup.counted().since(&before);
    let trace = wakes.setup.platform.take_trace("cost of a wake-up");
    let counts = vec![
        Count::of("wakes", count),
        Count::of("interrupts", happened.interrupts),
        Count::of("released", happened.events_set),
    ];
    Ok(Measured { samples: until_next_packet(&trace), cpu_ns, counts, ..Measured::default() })
}

/// For each value: the time between the records of the two signals of that value.
fn until_next_packet(trace: &Trace) -> Samples {
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    let mut samples = Samples::default();
    let signals = trace.records.iter().filter(|record| record.kind == Kind::Signal);
    for (start_ns, value) in signals.filter_map(|r| Some((r.start_ns, r.fence()?.1))) {
        match first.remove(&value) {
            Some(earlier) => samples.push(start_ns.abs_diff(earlier) as f64),
            None => {
                first.insert(value, start_ns);
            }
        }
    }
    samples
}

/// Bursts of signals that are queued whole before they start.
fn burst(scale: Scale) -> Result<Measured> {
    let bursts = (50 / scale.0).max(1);
    let setup = Setup::new(Shape { ring_slots: 4_096, ..Shape::default() })?;
    let queue = setup.queue(CommandListType::Compute)?;
    let (gate, fence) =
        (setup.device.create_fence("gate", 0)?, setup.device.create_fence("bursts", 0)?);
    let mut samples = Samples::default();
    let (cpu, mut most, mut interrupts, mut released) = (CpuMeter::start(), 0, 0, 0);
    for number in 0..bursts {
        let values = number * BURST + 1..=(number + 1) * BURST;
        let events: Vec<Event> = values
            .clone()
            .map(|value| {
                let event = setup.device.create_event(EventDesc::manual_reset());
                fence.set_event_on_completion(value, &event).map(|()| event)
            })
            .collect::<std::result::Result<_, _>>()?;
        queue.wait(&gate, number + 1)?;
        values.into_iter().try_for_each(|value| queue.signal(&fence, value))?;
        let (before, start) = (setup.counted(), setup.now_ns());
        gate.signal(number + 1)?;
        while !events.iter().rev().all(Event::is_set) {
            std::hint::spin_loop();
        }
        samples.push_batch(setup.now_ns() - start, BURST);
        let happened = setup.counted().since(&before);
        most = most.max(happened.interrupts);
        interrupts += happened.interrupts;
        released += happened.events_set;
    }
    let counts = vec![
        Count::exactly("released", released, bursts * BURST),
        Count::of("interrupts", interrupts),
        Count::of("signals", bursts * BURST),
    ];
    let figures = vec![(MOST_INTERRUPTS, most as f64)];
    Ok(Measured { samples, cpu_ns: cpu.per(bursts * BURST), counts, figures, note: None })
}
