//! Measures the release of one waiter of many: events that are set when a fence reaches a value,
//! each at its value.
//!
//! The number of waiters stays the same: what a batch releases is added again after it, outside of
//! the measured time.

use crate::aim::{Aimed, row};
use crate::floors;
use crate::sizes::{BATCH, shuffled};
use std::collections::VecDeque;
use std::hint::spin_loop;
use tidegate::d3d12::{CommandListType, Event, EventDesc, Fence};
use tidegate_measure::{Count, Found, Measured, Meter, Setup, Shape, floor};

/// Rows of waiting events.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "release_1_of_10",
        "a CPU signal that releases one of 10 waiting events",
        floor("ordered_release_of_10", || floors::ordered_release(10)),
        |_| by_cpu(10),
    )
    .within(1.5),
    row(
        "release_1_of_100000",
        "a CPU signal that releases one of 100,000 waiting events",
        floor("ordered_release_of_100000", || floors::ordered_release(100_000)),
        |_| by_cpu(100_000),
    )
    .within(1.5),
    row(
        "interrupt_release_1_of_10",
        "doorbell, GPU signal, interrupt, one of 10 waiting events set and seen",
        floor("doorbell_and_release_of_10", || floors::round_trip_with_release(10)),
        |_| by_interrupt(10),
    )
    .within(1.5),
    row(
        "interrupt_release_1_of_100000",
        "doorbell, GPU signal, interrupt, one of 100,000 waiting events set and seen",
        floor("doorbell_and_release_of_100000", || floors::round_trip_with_release(100_000)),
        |_| by_interrupt(100_000),
    )
    .within(1.5),
];

struct Herd<'s> {
    setup: &'s Setup,
    fence: Fence,
    /// In order of their values, which follow one another.
    waiting: VecDeque<Event>,
    /// The value of the first of them.
    first: u64,
}

impl<'s> Herd<'s> {
    fn new(setup: &'s Setup, count: u64) -> Found<Herd<'s>> {
        let fence = setup.device.create_fence("herd", 0)?;
        let mut waiting: Vec<Option<Event>> = vec![None; count as usize];
        for n in 0..count {
            let (at, event) =
                (shuffled(n, count), setup.device.create_event(EventDesc::manual_reset()));
            fence.set_event_on_completion(1 + at, &event)?;
            waiting[at as usize] = Some(event);
        }
        let waiting: VecDeque<Event> = waiting.into_iter().flatten().collect();
        assert_eq!(waiting.len() as u64, count, "the order of the waiters is no permutation");
        Ok(Herd { setup, fence, waiting, first: 1 })
    }

    /// Takes the waiter with the lowest value, and the value.
    fn next(&mut self) -> Found<(Event, u64)> {
        let event = self.waiting.pop_front().ok_or("the herd is empty")?;
        self.first += 1;
        Ok((event, self.first - 1))
    }

    fn add(&mut self) -> Found<()> {
        let event = self.setup.device.create_event(EventDesc::manual_reset());
        self.fence.set_event_on_completion(self.first + self.waiting.len() as u64, &event)?;
        self.waiting.push_back(event);
        Ok(())
    }
}

fn by_cpu(count: u64) -> Found<Measured> {
    const BATCHES: u64 = 2_000;
    let setup = Setup::new(Shape::default())?;
    let mut herd = Herd::new(&setup, count)?;
    let mut meter = Meter::start(&setup);
    for _ in 0..BATCHES {
        meter.time(BATCH, || -> Found<()> {
            for _ in 0..BATCH {
                let (event, value) = herd.next()?;
                herd.fence.signal(value)?;
                if !event.is_set() {
                    return Err(format!("the waiter of value {value} was not released").into());
                }
            }
            Ok(())
        })?;
        (0..BATCH).try_for_each(|_| herd.add())?;
    }
    Ok(meter.end(|happened| {
        vec![
            Count::exactly("released", happened.events_set, BATCHES * BATCH),
            Count::exactly("interrupts", happened.interrupts, 0),
        ]
    }))
}

fn by_interrupt(count: u64) -> Found<Measured> {
    const RELEASES: u64 = 5_000;
    const WARM_UP: u64 = 500;
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let mut herd = Herd::new(&setup, count)?;
    let mut meter = Meter::start(&setup);
    for number in 0..RELEASES + WARM_UP {
        if number == WARM_UP {
            meter = Meter::start(&setup);
        }
        let (event, value) = herd.next()?;
        meter.time(1, || -> Found<()> {
            queue.signal(&herd.fence, value)?;
            while !event.is_set() {
                spin_loop();
            }
            Ok(())
        })?;
        herd.add()?;
    }
    Ok(meter.end(|happened| {
        vec![
            Count::exactly("released", happened.events_set, RELEASES),
            Count::of("interrupts", happened.interrupts),
        ]
    }))
}
