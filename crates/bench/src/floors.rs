//! Physical floors of the laboratory's rows: the fewest cache-line transfers, barriers, system
//! calls and steps with which the machine could do what a row does.
//!
//! Uses raw atomics and threads, because it measures what the seam costs. Nothing here is explored.
//! Each floor runs on a thread that its row gives to it, and binds that thread. `tidegate_measure`
//! has the floors of the users' rows.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub(crate) mod processes;
pub(crate) mod tasks;
pub(crate) mod wakes;

use crate::sizes::{self, GROUP_VALUES, VERDICT_VALUES, shuffled};
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::Instant;
pub(crate) use tidegate_measure::floors::heap_of;
use tidegate_measure::floors::{Line, ROUND_TRIPS, Ring, batches, ns, round_trips, two_sides};
use tidegate_measure::{CLIENT_CPU, Found, SERVICE_CPU, Samples, pin};

/// Half of a round trip over one line: what one side's store costs until the other side sees it.
pub(crate) fn line_one_way() -> Found<Samples> {
    const BATCH: u64 = 100;
    let line = Line::default();
    let service = || {
        for turn in 0..ROUND_TRIPS {
            while line.0.load(Ordering::Acquire) != 2 * turn + 1 {}
            line.0.store(2 * turn + 2, Ordering::Release);
        }
    };
    two_sides(service, || {
        let mut samples = Samples::default();
        for batch in 0..ROUND_TRIPS / BATCH {
            let start = Instant::now();
            for turn in batch * BATCH..(batch + 1) * BATCH {
                line.0.store(2 * turn + 1, Ordering::Release);
                while line.0.load(Ordering::Acquire) != 2 * turn + 2 {}
            }
            samples.push_batch(ns(start), 2 * BATCH);
        }
        samples
    })
}

/// Floor of a signal without a waiter: store CurrentValue, full barrier, compare with
/// MonitoredValue.
pub(crate) fn unlogged_signal() -> Found<Samples> {
    let (current, monitored) = (Line::default(), Line::default());
    monitored.0.store(u64::MAX, Ordering::Relaxed);
    batches(SERVICE_CPU, |value| {
        let (current, monitored) = black_box((&current, &monitored));
        current.0.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
        black_box(value > monitored.0.load(Ordering::Acquire));
    })
}

/// The same with a log entry of 32 bytes, a time stamp in it, and the log's index.
pub(crate) fn logged_signal() -> Found<Samples> {
    const ENTRIES: u64 = 126;
    let (current, monitored, index) = (Line::default(), Line::default(), Line::default());
    let log: Vec<[AtomicU64; 4]> = (0..ENTRIES).map(|_| Default::default()).collect();
    monitored.0.store(u64::MAX, Ordering::Relaxed);
    let start = Instant::now();
    batches(SERVICE_CPU, |value| {
        let (current, monitored, log) = black_box((&current, &monitored, &log));
        current.0.store(value, Ordering::Release);
        let entry = [value, 7, 0, ns(start)];
        let slot = &log[(value % ENTRIES) as usize];
        slot.iter().zip(entry).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        index.0.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
        black_box(value > monitored.0.load(Ordering::Acquire));
    })
}

/// Floor of a call that submits: a packet of 64 bytes, the write pointer, the doorbell, a full
/// barrier and the doorbell's status.
pub(crate) fn published_packet() -> Found<Samples> {
    published_commands(0)
}

/// The same after a command buffer of `bytes`, copied to where the GPU reads it.
pub(crate) fn published_commands(bytes: usize) -> Found<Samples> {
    let (ring, doorbell, status) = (Ring::new(1024), Line::default(), Line::default());
    let (commands, mut memory) = (vec![7u8; bytes], vec![0u8; bytes]);
    batches(CLIENT_CPU, move |number| {
        let (ring, doorbell, status) = black_box((&ring, &doorbell, &status));
        memory.copy_from_slice(black_box(&commands));
        ring.slot(number).write(number);
        ring.written.0.store(number, Ordering::Release);
        doorbell.0.store(number, Ordering::Release);
        fence(Ordering::SeqCst);
        black_box((status.0.load(Ordering::Acquire), &mut memory));
    })
}

/// Floor of a read: one word that another thread may store.
pub(crate) fn loaded_word() -> Found<Samples> {
    let word = Line::default();
    batches(CLIENT_CPU, |_| {
        black_box(black_box(&word).0.load(Ordering::Acquire));
    })
}

/// Floor of a wake-up through a helper thread: a thread of the same processor that sleeps is
/// woken, and wakes the sleeping caller.
pub(crate) fn unpark_there_and_back() -> Found<Samples> {
    const WAKES: u64 = 2_000;
    pin(CLIENT_CPU)?;
    let (wanted, done, client) = (Line::default(), Line::default(), thread::current());
    thread::scope(|scope| {
        // Starts on the processor of the thread that makes it.
        let helper = scope.spawn(|| {
            for turn in 1..=WAKES {
                park_until(&wanted, turn);
                done.0.store(turn, Ordering::Release);
                client.unpark();
            }
        });
        let mut samples = Samples::default();
        for turn in 1..=WAKES {
            let start = Instant::now();
            wanted.0.store(turn, Ordering::Release);
            helper.thread().unpark();
            park_until(&done, turn);
            samples.push(ns(start) as f64);
        }
        Ok(samples)
    })
}

/// Parks until the line has this value.
fn park_until(line: &Line, value: u64) {
    while line.0.load(Ordering::Acquire) < value {
        thread::park();
    }
}

/// Floor of a registration: an event in an ordered map, by its value.
pub(crate) fn ordered_insert() -> Found<Samples> {
    let mut waiting = BTreeMap::new();
    batches(CLIENT_CPU, move |value| {
        waiting.insert(value, Arc::new(AtomicU64::new(0)));
    })
}

/// Floor of an object's life: zeroed memory of `bytes` and a handle in an ordered map, and the end
/// of both, among as many others.
pub(crate) fn listed_memory(bytes: usize) -> Found<Samples> {
    const OTHERS: u64 = 10_000;
    let mut table = BTreeMap::new();
    batches(CLIENT_CPU, move |handle| {
        table.insert(handle, black_box(vec![0u8; bytes].into_boxed_slice()));
        if handle >= OTHERS {
            black_box(table.remove(&(handle - OTHERS)));
        }
    })
}

/// Floor of one word of the seam: store, full barrier, load of another word.
pub(crate) fn store_fence_load() -> Found<Samples> {
    let (own, other) = (Line::default(), Line::default());
    batches(CLIENT_CPU, |value| {
        let (own, other) = black_box((&own, &other));
        own.0.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
        black_box(other.0.load(Ordering::Acquire));
    })
}

/// Waiters in the order of what they wait for, each with an event.
struct Waiters {
    by_value: BTreeMap<u64, Arc<Line>>,
    next: u64,
    sleepers: Line,
}

impl Waiters {
    /// `count` waiters whose events lie in memory in no order of their values.
    fn new(count: u64) -> Waiters {
        let by_value = (0..count).map(|n| (shuffled(n, count), Arc::default())).collect();
        Waiters { by_value, next: count, sleepers: Line::default() }
    }

    fn release_first(&mut self) {
        if let Some((_, event)) = self.by_value.pop_first() {
            event.0.swap(1, Ordering::SeqCst);
            black_box(self.sleepers.0.load(Ordering::Acquire));
        }
    }

    fn add(&mut self) {
        self.by_value.insert(self.next, Arc::default());
        self.next += 1;
    }
}

/// Floor of releasing one of `count` waiters: take the first of an ordered map, set its event.
pub(crate) fn ordered_release(count: u64) -> Found<Samples> {
    const BATCH: u64 = sizes::BATCH;
    pin(CLIENT_CPU)?;
    let (mut waiters, mut samples) = (Waiters::new(count), Samples::default());
    for _ in 0..2_000 {
        let start = Instant::now();
        (0..BATCH).for_each(|_| waiters.release_first());
        samples.push_batch(ns(start), BATCH);
        (0..BATCH).for_each(|_| waiters.add());
    }
    Ok(samples)
}

/// Floor of a doorbell whose signal releases one of `count` waiters.
pub(crate) fn round_trip_with_release(count: u64) -> Found<Samples> {
    let mut waiters = Waiters::new(count);
    round_trips(move || {
        waiters.release_first();
        waiters.add();
    })
}

/// Floor of idling: a thousandth of a second of CPU time in a second.
pub(crate) fn a_thousandth() -> Found<Samples> {
    let mut samples = Samples::default();
    samples.push(1e6);
    Ok(samples)
}

/// A hash for numbers that do not come from an attacker.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}

/// One fence of the protocol of the litmus scenario, in its smallest state.
#[derive(Clone, Copy, Default)]
struct ModelFence {
    current: u8,
    /// 15 without a waiter.
    monitored: u8,
    /// Store buffers of one entry; 0 is empty, else one more than the value.
    engine_buffer: u8,
    waiter_buffer: u8,
    engine_step: u8,
    engine_value: u8,
    waiter_step: u8,
    waiter_value: u8,
    interrupt: u8,
}

const MODEL_FENCES: usize = 2;
type Model = [ModelFence; MODEL_FENCES];

fn packed(model: &Model) -> u128 {
    model.iter().fold(0, |packed, f| {
        let parts = [
            f.current,
            f.monitored,
            f.engine_buffer,
            f.waiter_buffer,
            f.engine_step,
            f.engine_value,
            f.waiter_step,
            f.waiter_value,
            f.interrupt,
        ];
        parts.iter().fold(packed, |packed, part| packed << 4 | u128::from(*part))
    })
}

/// Every fence after each step that one of its agents, or one of its store buffers, can take.
fn model_steps(f: ModelFence, last: u8, mut step: impl FnMut(ModelFence)) {
    if f.engine_buffer != 0 {
        step(ModelFence { current: f.engine_buffer - 1, engine_buffer: 0, ..f });
    }
    if f.waiter_buffer != 0 {
        step(ModelFence { monitored: f.waiter_buffer - 1, waiter_buffer: 0, ..f });
    }
    match f.engine_step {
        0 if f.engine_value <= last && f.engine_buffer == 0 => {
            step(ModelFence { engine_buffer: f.engine_value + 1, engine_step: 1, ..f });
        }
        1 if f.engine_buffer == 0 => step(ModelFence { engine_step: 2, ..f }),
        2 => {
            let interrupt = f.interrupt | u8::from(f.engine_value > f.monitored);
            step(ModelFence { interrupt, engine_value: f.engine_value + 1, engine_step: 0, ..f });
        }
        _ => {}
    }
    match f.waiter_step {
        0 if f.waiter_value <= last && f.waiter_buffer == 0 => {
            step(ModelFence { waiter_buffer: f.waiter_value, waiter_step: 1, ..f });
        }
        1 if f.waiter_buffer == 0 => step(ModelFence { waiter_step: 2, ..f }),
        2 if f.current >= f.waiter_value => {
            step(ModelFence { waiter_value: f.waiter_value + 1, waiter_step: 0, ..f });
        }
        2 => step(ModelFence { waiter_step: 3, ..f }),
        3 if f.interrupt == 1 => step(ModelFence { interrupt: 0, waiter_step: 2, ..f }),
        _ => {}
    }
}

/// States that a depth-first search of the packed protocol sees, and whether a waiter sleeps for
/// ever in one of them.
fn search_packed(last: u8) -> (u64, bool) {
    let start =
        ModelFence { monitored: 15, engine_value: 1, waiter_value: 1, ..Default::default() };
    let mut open: Vec<Model> = vec![[start; MODEL_FENCES]];
    let mut seen: HashSet<u128, BuildHasherDefault<Multiply>> = HashSet::default();
    seen.insert(packed(&open[0]));
    let mut lost = false;
    while let Some(model) = open.pop() {
        lost |= model.iter().any(|f| {
            f.engine_value > last && f.engine_buffer == 0 && f.waiter_step == 3 && f.interrupt == 0
        });
        for fence in 0..MODEL_FENCES {
            model_steps(model[fence], last, |stepped| {
                let mut next = model;
                next[fence] = stepped;
                if seen.insert(packed(&next)) {
                    open.push(next);
                }
            });
        }
    }
    (seen.len() as u64, lost)
}

/// Floor of a verdict on the litmus protocol: a depth-first search of it written by hand, states
/// packed into 128 bits.
pub(crate) fn packed_search() -> Found<Samples> {
    packed_searches(VERDICT_VALUES)
}

/// The same with the values of the groups that share no word.
pub(crate) fn packed_search_of_groups() -> Found<Samples> {
    packed_searches(GROUP_VALUES)
}

fn packed_searches(values: u8) -> Found<Samples> {
    let mut samples = Samples::default();
    for _ in 0..3 {
        let start = Instant::now();
        let (states, lost) = search_packed(values);
        samples.push(ns(start) as f64);
        if lost || states == 0 {
            return Err(
                "the packed search of the protocol lost a wake-up: the floor is broken".into()
            );
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_search_sees_the_whole_protocol() {
        let (one, lost) = search_packed(1);
        assert!(!lost && one > 100, "{one}");
        assert!(search_packed(2).0 > one);
    }

    #[test]
    fn waiters_leave_in_order_of_their_values() {
        let mut waiters = Waiters::new(10);
        assert_eq!(waiters.by_value.len(), 10);
        waiters.release_first();
        waiters.add();
        assert_eq!(
            waiters.by_value.keys().copied().collect::<Vec<_>>(),
            (1..=10).collect::<Vec<_>>()
        );
    }
}
