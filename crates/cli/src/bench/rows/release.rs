//! Measures the release of one waiter of many: events that are to be set when a fence reaches a
//! value, each another one.
//!
//! The number of waiters stays the same: what a batch releases is added again behind it, outside of
//! the measured time.

use super::setup::{Setup, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, Samples};
use crate::bench::sizes::{BATCH, shuffled};
use std::collections::VecDeque;
use std::hint::spin_loop;
use tidegate::d3d12::{CommandListType, Event, EventDesc, Fence};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Herd {
    fence: Fence,
    /// In order of their values, which follow one another.
    waiting: VecDeque<Event>,
    /// The value of the first of them.
    first: u64,
}

impl Herd {
    fn new(setup: &Setup, count: u64) -> Result<Herd> {
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
        Ok(Herd { fence, waiting, first: 1 })
    }

    /// Takes the waiter whose turn it is, with its value.
    fn next(&mut self) -> Result<(Event, u64)> {
        let event = self.waiting.pop_front().ok_or("the herd is empty")?;
        self.first += 1;
        Ok((event, self.first - 1))
    }

    fn add(&mut self, setup: &Setup) -> Result<()> {
        let event = setup.device.create_event(EventDesc::manual_reset());
        self.fence.set_event_on_completion(self.first + self.waiting.len() as u64, &event)?;
        self.waiting.push_back(event);
        Ok(())
    }
}

pub(super) fn by_cpu(count: u64) -> Result<Measured> {
    const BATCHES: u64 = 2_000;
    let setup = Setup::new(Shape::default())?;
    let mut herd = Herd::new(&setup, count)?;
    let (mut samples, cpu, before) = (Samples::default(), CpuMeter::start(), setup.counted());
    for _ in 0..BATCHES {
        let start = setup.now_ns();
        for _ in 0..BATCH {
            let (event, value) = herd.next()?;
            herd.fence.signal(value)?;
            if !event.is_set() {
                return Err(format!(
                    "value {value} was signalled, and its waiter was not released"
                )
                .into());
            }
        }
        samples.push_batch(setup.now_ns() - start, BATCH);
        for _ in 0..BATCH {
            herd.add(&setup)?;
        }
    }
    let cpu_ns = cpu.per(BATCHES * BATCH);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::exactly("released", happened.events_set, BATCHES * BATCH),
        Count::exactly("interrupts", happened.interrupts, 0),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

pub(super) fn by_interrupt(count: u64) -> Result<Measured> {
    const RELEASES: u64 = 5_000;
    const WARM_UP: u64 = 500;
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let mut herd = Herd::new(&setup, count)?;
    let mut samples = Samples::default();
    let (cpu, before) = (CpuMeter::start(), setup.counted());
    for number in 0..RELEASES + WARM_UP {
        let (event, value) = herd.next()?;
        let start = setup.now_ns();
        queue.signal(&herd.fence, value)?;
        while !event.is_set() {
            spin_loop();
        }
        let took = setup.now_ns() - start;
        if number >= WARM_UP {
            samples.push(took as f64);
        }
        herd.add(&setup)?;
    }
    let cpu_ns = cpu.per(RELEASES + WARM_UP);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::exactly("released", happened.events_set, RELEASES + WARM_UP),
        Count::of("interrupts", happened.interrupts),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}
