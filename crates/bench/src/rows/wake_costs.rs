//! Measures what an interrupt costs: for the engine that raises it, for the thread that it wakes,
//! and for a burst of signals.

use crate::aim::{Aimed, of, row};
use crate::floors::{self, line_one_way};
use tidegate::d3d12::{CommandListType, Event, EventDesc};
use tidegate_measure::rows::{WAKE, wake};
use tidegate_measure::{
    ASLEEP_NS, CLIENT_CPU, Count, CpuMeter, Found, Measured, SERVICE_CPU, Samples, Scale, Setup,
    Shape, floor,
};

/// Signals of a burst, and the most interrupts that one of all bursts may raise.
const BURST: u64 = 1_000;
pub(crate) const MOST_INTERRUPTS: &str = "most interrupts in a burst";

/// Rows of interrupts.
pub(super) const ROWS: &[Aimed] = &[
    of(WAKE).within(1.15),
    row(
        "signal_that_wakes",
        "an engine's signal that wakes a parked thread, until the engine's next packet",
        floor("wake_call", floors::wakes::wake_call),
        |scale| wake::engine_cost(APART_NS, scale),
    )
    .within(1.1),
    row(
        "wake_same_processor",
        "from an engine's signal to the thread that was parked on the fence, all threads on one processor",
        floor("wake_on_one_processor", floors::wakes::wake_on_one_processor),
        |scale| wake::on(CLIENT_CPU, ASLEEP_NS, scale),
    )
    .within(2.0),
    row(
        "wake_spinning_thread",
        "from an engine's signal to the return of a wait that began 3 µs before",
        floor("line_one_way", line_one_way),
        |scale| wake::on(SERVICE_CPU, NEARLY_NS, scale),
    )
    .within(2.0),
    row(
        "burst_of_1000",
        "one of 1,000 signals in a burst, each of which releases a waiter of one thread",
        floor("ordered_release_of_1000", || floors::ordered_release(BURST)),
        burst,
    )
    .within(1.5),
];

/// Work of the engine while a thread begins to wait.
const NEARLY_NS: u64 = 3_000;
/// Work of the engine between two wake-ups: longer than it holds signals after an interrupt. A held
/// signal interrupts after the next packet.
const APART_NS: u64 = 200_000;

/// Bursts of signals that are queued whole before they start.
fn burst(scale: Scale) -> Found<Measured> {
    let bursts = scale.of(50, 1);
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
            .collect::<Result<_, _>>()?;
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
    Ok(Measured { counts, figures, ..Measured::of(samples, cpu.per(bursts * BURST)) })
}
