//! Physical floors: the fewest cache-line transfers, barriers, system calls and steps with which
//! the machine could do what a row does.
//!
//! Uses raw atomics and threads, because it measures what the seam costs. Nothing here is explored.
//! Floors of two threads run on the same processors as the rows, and each floor on a thread that
//! the caller gives to it ([`crate::own`]), because it binds that thread.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::measure::{CLIENT_CPU, Found, SERVICE_CPU, Samples, pin};
use crate::row::ASLEEP_NS;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::{black_box, spin_loop};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// A word with two cache lines to itself: neighbouring lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub struct Line(pub AtomicU64);

/// A packet of 64 bytes.
#[repr(align(64))]
#[derive(Default)]
pub struct Packet([AtomicU64; 8]);

impl Packet {
    /// Fills the packet with numbers from `number` on.
    pub fn write(&self, number: u64) {
        self.0.iter().zip(number..).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Reads the whole packet.
    pub fn read(&self) -> u64 {
        self.0.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
    }
}

/// A ring of packets with its write pointer, and the fence that comes back.
pub struct Ring {
    slots: Vec<Packet>,
    /// The write pointer.
    pub written: Line,
    /// The fence that comes back.
    pub fence: Line,
}

impl Ring {
    /// An empty ring.
    pub fn new(slots: usize) -> Ring {
        let slots = (0..slots).map(|_| Packet::default()).collect();
        Ring { slots, written: Line::default(), fence: Line::default() }
    }

    /// The slot of packet `number`.
    pub fn slot(&self, number: u64) -> &Packet {
        &self.slots[number as usize % self.slots.len()]
    }
}

/// Nanoseconds since then.
pub fn ns(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Runs `service` on the engines' processor and `client` on the client's, which is the caller's
/// from then on.
pub fn two_sides<T>(service: impl FnOnce() + Send, client: impl FnOnce() -> T) -> Found<T> {
    pin(CLIENT_CPU)?;
    thread::scope(|scope| {
        // Threads start where the thread that makes them is bound.
        pin(SERVICE_CPU)?;
        scope.spawn(service);
        pin(CLIENT_CPU)?;
        Ok(client())
    })
}

/// Round trips of a floor.
pub const ROUND_TRIPS: u64 = 30_000;
const WARM_UP: u64 = 2_000;

/// Packet, write pointer, and a fence back, each in its own lines: each round trip timed. The other
/// side does `serve` between the packet and the fence.
pub fn round_trips(mut serve: impl FnMut() + Send) -> Found<Samples> {
    let ring = Ring::new(64);
    let service = || {
        let mut sum = 0u64;
        for number in 1..=ROUND_TRIPS {
            while ring.written.0.load(Ordering::Acquire) < number {}
            sum = sum.wrapping_add(ring.slot(number).read());
            serve();
            ring.fence.0.store(number, Ordering::Release);
        }
        black_box(sum);
    };
    two_sides(service, || {
        let mut samples = Samples::default();
        for number in 1..=ROUND_TRIPS {
            let start = Instant::now();
            ring.slot(number).write(number);
            ring.written.0.store(number, Ordering::Release);
            while ring.fence.0.load(Ordering::Acquire) < number {}
            let took = ns(start);
            if number > WARM_UP {
                samples.push(took as f64);
            }
        }
        samples
    })
}

/// Floor of one submission seen complete.
pub fn doorbell_round_trip() -> Found<Samples> {
    round_trips(|| ())
}

/// Floor of one submission among many: 64 bytes, doorbell and fence for each packet, in a ring of
/// 1024.
pub fn streamed_packet() -> Found<Samples> {
    const PACKETS: u64 = 100_000;
    let mut samples = Samples::default();
    for _ in 0..5 {
        let ring = Ring::new(1024);
        let service = || {
            let (mut sum, mut done) = (0u64, 0);
            while done < PACKETS {
                let written = ring.written.0.load(Ordering::Acquire);
                while done < written {
                    done += 1;
                    sum = sum.wrapping_add(ring.slot(done).read());
                    ring.fence.0.store(done, Ordering::Release);
                }
            }
            black_box(sum);
        };
        let took = two_sides(service, || {
            let (start, mut seen) = (Instant::now(), 0);
            for number in 1..=PACKETS {
                while number - seen >= 1024 {
                    seen = ring.fence.0.load(Ordering::Acquire);
                }
                ring.slot(number).write(number);
                ring.written.0.store(number, Ordering::Release);
            }
            while ring.fence.0.load(Ordering::Acquire) < PACKETS {}
            ns(start)
        })?;
        samples.push_batch(took, PACKETS);
    }
    Ok(samples)
}

/// Times `step` in batches of a thousand on the processor where the row does the same.
pub fn batches(cpu: usize, mut step: impl FnMut(u64)) -> Found<Samples> {
    const BATCH: u64 = 1_000;
    pin(cpu)?;
    let mut samples = Samples::default();
    for batch in 0..500 {
        let start = Instant::now();
        (batch * BATCH..(batch + 1) * BATCH).for_each(&mut step);
        samples.push_batch(ns(start), BATCH);
    }
    Ok(samples)
}

/// Floor of a wake-up: a thread of the other processor, which has not slept, wakes a thread that
/// has.
pub fn wake_to_run() -> Found<Samples> {
    const WAKES: u64 = 300;
    let (begin, wanted, woken_at) = (Instant::now(), Line::default(), Line::default());
    let sleeper: OnceLock<thread::Thread> = OnceLock::new();
    let service = || {
        for turn in 1..=WAKES {
            while wanted.0.load(Ordering::Acquire) < turn {}
            let asleep = Instant::now();
            while ns(asleep) < ASLEEP_NS {
                spin_loop();
            }
            woken_at.0.store(ns(begin), Ordering::Release);
            if let Some(thread) = sleeper.get() {
                thread.unpark();
            }
        }
    };
    two_sides(service, || {
        // Filled once, before the first turn.
        let _ = sleeper.set(thread::current());
        let mut samples = Samples::default();
        for turn in 1..=WAKES {
            woken_at.0.store(0, Ordering::Release);
            wanted.0.store(turn, Ordering::Release);
            let at = loop {
                thread::park();
                match woken_at.0.load(Ordering::Acquire) {
                    0 => {}
                    at => break at,
                }
            };
            samples.push(ns(begin).saturating_sub(at) as f64);
        }
        samples
    })
}

/// Floor of virtual time: take the earliest of so many times from a binary heap, put a later one
/// back.
pub fn heap_of(count: u64) -> Found<Samples> {
    let mut random = 77u64;
    let mut later = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 1_000 + 1
    };
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> =
        (0..count).map(|n| Reverse((later(), n))).collect();
    batches(CLIENT_CPU, move |_| {
        if let Some(Reverse((now, engine))) = heap.pop() {
            heap.push(Reverse((now + later(), black_box(engine))));
        }
    })
}

/// A pair of connected sockets that keep the bounds of messages.
pub fn pair() -> Found<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

/// Floor of a call that reaches the kernel: 64 bytes to a thread and back through a socket, on one
/// processor.
pub fn message_there_and_back() -> Found<Samples> {
    message_by(CLIENT_CPU)
}

/// The same with the thread on the other processor.
pub fn message_across_processors() -> Found<Samples> {
    message_by(SERVICE_CPU)
}

fn message_by(server_cpu: usize) -> Found<Samples> {
    const MESSAGES: u64 = 3_000;
    let (client, server) = pair()?;
    thread::scope(|scope| {
        // Threads start where the thread that makes them is bound.
        pin(server_cpu)?;
        scope.spawn(move || {
            let mut bytes = [0u8; 64];
            for _ in 0..MESSAGES {
                let answered = rustix::net::recv(&server, &mut bytes, RecvFlags::empty())
                    .and_then(|_| rustix::net::send(&server, &bytes, SendFlags::empty()));
                if answered.is_err() {
                    return;
                }
            }
        });
        pin(CLIENT_CPU)?;
        let (mut samples, mut bytes) = (Samples::default(), [0u8; 64]);
        for _ in 0..MESSAGES {
            let start = Instant::now();
            rustix::net::send(&client, &bytes, SendFlags::empty())?;
            rustix::net::recv(&client, &mut bytes, RecvFlags::empty())?;
            samples.push(ns(start) as f64);
        }
        Ok(samples)
    })
}
