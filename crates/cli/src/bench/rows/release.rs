//! Measures the release of one waiter of many: events that are to be set when a fence reaches a
//! value, each another one.
//!
//! The number of waiters stays the same: what a batch releases is added again behind it, outside of
//! the measured time.

use super::bed::{Bed, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, Trouble, on_own_thread};
use std::collections::VecDeque;
use std::hint::spin_loop;
use tidegate::d3d12::{CommandListType, Fence};
use tidegate::platform::Event;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Releases between two additions; half of the smallest herd.
pub(in crate::bench) const BATCH: u64 = 5;

/// A permutation of `0..count`, so that waiters come in another order than they leave.
pub(in crate::bench) fn shuffled(n: u64, count: u64) -> u64 {
    // Coprime to every count that is made of twos, threes and fives.
    const STRIDE: u64 = 7_919;
    n * STRIDE % count
}

/// Row `release_1_of_10`.
pub(super) fn of_10() -> std::result::Result<Measured, Trouble> {
    on_own_thread(|| by_cpu(10).map_err(|e| e.to_string()))
}

/// Row `release_1_of_100000`.
pub(super) fn of_100_000() -> std::result::Result<Measured, Trouble> {
    on_own_thread(|| by_cpu(100_000).map_err(|e| e.to_string()))
}

/// Row `interrupt_release_1_of_10`.
pub(super) fn by_interrupt_of_10() -> std::result::Result<Measured, Trouble> {
    on_own_thread(|| by_interrupt(10).map_err(|e| e.to_string()))
}

/// Row `interrupt_release_1_of_100000`.
pub(super) fn by_interrupt_of_100_000() -> std::result::Result<Measured, Trouble> {
    on_own_thread(|| by_interrupt(100_000).map_err(|e| e.to_string()))
}

struct Herd {
    fence: Fence,
    /// In order of their values, which follow one another.
    waiting: VecDeque<Event>,
    /// The value of the first of them.
    first: u64,
}

impl Herd {
    fn new(bed: &Bed, count: u64) -> Result<Herd> {
        let fence = bed.device.create_fence("herd", 0)?;
        let mut waiting: Vec<Option<Event>> = vec![None; count as usize];
        for n in 0..count {
            let (at, event) = (shuffled(n, count), bed.device.create_event(true));
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

    fn add(&mut self, bed: &Bed) -> Result<()> {
        let event = bed.device.create_event(true);
        self.fence.set_event_on_completion(self.first + self.waiting.len() as u64, &event)?;
        self.waiting.push_back(event);
        Ok(())
    }
}

fn by_cpu(count: u64) -> Result<Measured> {
    const BATCHES: u64 = 2_000;
    let bed = Bed::new(Shape::default())?;
    let mut herd = Herd::new(&bed, count)?;
    let (mut samples, cpu, before) = (Samples::default(), CpuMeter::start(), bed.counted());
    for _ in 0..BATCHES {
        let start = bed.now_ns();
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
        samples.push_batch(bed.now_ns() - start, BATCH);
        for _ in 0..BATCH {
            herd.add(&bed)?;
        }
    }
    let cpu_ns = cpu.per(BATCHES * BATCH);
    let happened = bed.counted().since(&before);
    let counts = vec![
        Count::exactly("released", happened.events_set, BATCHES * BATCH),
        Count::exactly("interrupts", happened.interrupts, 0),
    ];
    Ok(Measured { samples, cpu_ns, counts, note: None })
}

fn by_interrupt(count: u64) -> Result<Measured> {
    const RELEASES: u64 = 5_000;
    const WARM_UP: u64 = 500;
    let bed = Bed::new(Shape::default())?;
    let queue = bed.queue(CommandListType::Compute)?;
    let mut herd = Herd::new(&bed, count)?;
    let mut samples = Samples::default();
    let (cpu, before) = (CpuMeter::start(), bed.counted());
    for number in 0..RELEASES + WARM_UP {
        let (event, value) = herd.next()?;
        let start = bed.now_ns();
        queue.signal(&herd.fence, value)?;
        while !event.is_set() {
            spin_loop();
        }
        let took = bed.now_ns() - start;
        if number >= WARM_UP {
            samples.push(took as f64);
        }
        herd.add(&bed)?;
    }
    let cpu_ns = cpu.per(RELEASES + WARM_UP);
    let happened = bed.counted().since(&before);
    let counts = vec![
        Count::exactly("released", happened.events_set, RELEASES + WARM_UP),
        Count::of("interrupts", happened.interrupts),
    ];
    Ok(Measured { samples, cpu_ns, counts, note: None })
}

#[cfg(test)]
mod tests {
    use super::shuffled;

    #[test]
    fn every_waiter_comes_once() {
        for count in [10, 100_000] {
            let mut seen = vec![false; count as usize];
            (0..count).for_each(|n| seen[shuffled(n, count) as usize] = true);
            assert!(seen.iter().all(|s| *s), "{count}");
        }
    }
}
