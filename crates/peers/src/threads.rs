//! Threads and rings: std and parking_lot condition variables, event-listener's blocking form, rtrb
//! and crossbeam. A value that rises behind a condition variable or a listener is a fence.

use crate::timing::{Measured, batches, ns, pin};
use crate::{Request, Trouble};
use event_listener::{Event, Listener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_platform::os::process_cpu_ns;

type Packet = [u64; 8];
const SLOTS: usize = 1_024;

/// Measures what this room has for a request.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    let measured = match (request.peer.as_str(), request.row.as_str()) {
        ("parking_lot", "fence_round_trip") => round_trips::<Parked>(request)?,
        ("parking_lot", "condvar_unwaited") => unwaited(request, &Parked::default())?,
        ("parking_lot", "condvar_threads") => blocked::<Parked>(request)?,
        ("std", "std_condvar_unwaited") => unwaited(request, &Standard::default())?,
        ("event-listener", "listener_unwaited") => unwaited(request, &Listened::default())?,
        ("event-listener", "listener_threads") => blocked::<Listened>(request)?,
        ("rtrb", "stream") => ring_stream(request)?,
        ("rtrb", "round_trip") => ring_round_trips(request)?,
        ("crossbeam", "crossbeam_stream") => channel_stream(request)?,
        ("crossbeam", "round_trip") => channel_round_trips(request)?,
        _ => return Ok(None),
    };
    Ok(Some(measured))
}

/// A value that rises, and threads that wait for it.
trait Fence: Default + Send + Sync + 'static {
    fn signal(&self, value: u64);
    fn wait(&self, value: u64);
}

#[derive(Default)]
struct Parked {
    value: parking_lot::Mutex<u64>,
    changed: parking_lot::Condvar,
}

impl Fence for Parked {
    fn signal(&self, value: u64) {
        *self.value.lock() = value;
        self.changed.notify_all();
    }

    fn wait(&self, value: u64) {
        let mut current = self.value.lock();
        while *current < value {
            self.changed.wait(&mut current);
        }
    }
}

#[derive(Default)]
struct Standard {
    value: std::sync::Mutex<u64>,
    changed: std::sync::Condvar,
}

impl Fence for Standard {
    fn signal(&self, value: u64) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
        self.changed.notify_all();
    }

    fn wait(&self, value: u64) {
        let mut current = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        while *current < value {
            current = self.changed.wait(current).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[derive(Default)]
struct Listened {
    value: AtomicU64,
    changed: Event,
}

impl Fence for Listened {
    fn signal(&self, value: u64) {
        self.value.store(value, Ordering::Release);
        self.changed.notify(usize::MAX);
    }

    fn wait(&self, value: u64) {
        while self.value.load(Ordering::Acquire) < value {
            let listener = self.changed.listen();
            if self.value.load(Ordering::Acquire) < value {
                listener.wait();
            }
        }
    }
}

/// A signal for which nothing waits.
fn unwaited<F: Fence>(request: &Request, fence: &F) -> Result<Measured, Trouble> {
    pin(request.client_cpu)?;
    Ok(batches(request, |value| fence.signal(value)))
}

/// Runs `service` on the other processor, and `client` on the client's.
fn two_sides<T>(
    request: &Request,
    service: impl FnOnce() + Send + 'static,
    client: impl FnOnce() -> T,
) -> Result<T, Trouble> {
    let cpu = request.service_cpu;
    let other = thread::spawn(move || pin(cpu).map(|()| service()));
    pin(request.client_cpu)?;
    let measured = client();
    other.join().map_err(|_| "the other side panicked".to_owned())??;
    Ok(measured)
}

/// One fence there and one back, each with a thread that blocks.
fn round_trips<F: Fence>(request: &Request) -> Result<Measured, Trouble> {
    let trips = request.batch * request.batches;
    let (there, back) = (Arc::new(F::default()), Arc::new(F::default()));
    let (awaited, answered) = (Arc::clone(&there), Arc::clone(&back));
    let service = move || {
        for value in 1..=trips {
            awaited.wait(value);
            answered.signal(value);
        }
    };
    let client = || {
        let trip = |value| {
            let start = Instant::now();
            there.signal(value);
            back.wait(value);
            ns(start)
        };
        Measured::of((1..=trips).map(trip).collect())
    };
    two_sides(request, service, client)
}

/// Threads of which each waits for another value; `batch` threads, `batches` releases.
fn blocked<F: Fence>(request: &Request) -> Result<Measured, Trouble> {
    const STACK_BYTES: usize = 64 << 10;
    const BETWEEN: Duration = Duration::from_millis(1);
    let count = request.batch;
    let fence = Arc::new(F::default());
    let seen: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let started = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let mut threads = Vec::new();
    for number in 0..count {
        let (fence, seen, started) = (Arc::clone(&fence), Arc::clone(&seen), Arc::clone(&started));
        let body = move || {
            started.fetch_add(1, Ordering::SeqCst);
            fence.wait(number + 1);
            seen[number as usize].store(begin.elapsed().as_nanos() as u64, Ordering::Release);
        };
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
        threads.push(thread.map_err(|e| format!("thread {number} of {count}: {e}"))?);
    }
    while started.load(Ordering::SeqCst) < count {
        thread::sleep(BETWEEN);
    }
    // The last of them block meanwhile, and a released herd comes to rest.
    let quiet = BETWEEN + Duration::from_micros(20 * count);
    thread::sleep(quiet);
    let mut samples = Vec::new();
    let cpu_before = process_cpu_ns();
    let releases = request.batches.min(count);
    for number in 0..releases {
        let start = begin.elapsed().as_nanos() as u64;
        fence.signal(number + 1);
        thread::sleep(quiet);
        let at = loop {
            match seen[number as usize].load(Ordering::Acquire) {
                0 => thread::yield_now(),
                at => break at,
            }
        };
        samples.push(at.saturating_sub(start) as f64);
    }
    let cpu_ns = process_cpu_ns().saturating_sub(cpu_before) as f64 / releases.max(1) as f64;
    fence.signal(count);
    for thread in threads {
        thread.join().map_err(|_| "a waiting thread panicked".to_owned())?;
    }
    Ok(Measured { cpu_ns: Some(cpu_ns), ..Measured::of(samples) })
}

/// `batch` packets through a ring, from the client's processor to the other one.
fn ring_stream(request: &Request) -> Result<Measured, Trouble> {
    let packets = request.batch;
    let mut samples = Vec::new();
    for _ in 0..request.batches {
        let (mut producer, mut consumer) = rtrb::RingBuffer::<Packet>::new(SLOTS);
        let (ended, end) = crossbeam_channel::bounded(1);
        let service = move || {
            let mut sum = 0u64;
            for _ in 0..packets {
                let packet = loop {
                    if let Ok(packet) = consumer.pop() {
                        break packet;
                    }
                };
                sum = sum.wrapping_add(packet[3]);
            }
            // The client waits for it.
            let _ = ended.send(sum);
        };
        let client = || {
            let start = Instant::now();
            for number in 0..packets {
                let mut packet = [number; 8];
                while let Err(rtrb::PushError::Full(returned)) = producer.push(packet) {
                    packet = returned;
                }
            }
            let sum = end.recv();
            (ns(start) / packets as f64, sum)
        };
        samples.push(two_sides(request, service, client)?.0);
    }
    Ok(Measured::of(samples))
}

/// A packet there and back through two rings that both sides poll.
fn ring_round_trips(request: &Request) -> Result<Measured, Trouble> {
    let trips = request.batch * request.batches;
    let (mut there, mut requests) = rtrb::RingBuffer::<Packet>::new(SLOTS);
    let (mut answers, mut back) = rtrb::RingBuffer::<Packet>::new(SLOTS);
    let service = move || {
        for _ in 0..trips {
            let mut packet = loop {
                if let Ok(packet) = requests.pop() {
                    break packet;
                }
            };
            while let Err(rtrb::PushError::Full(returned)) = answers.push(packet) {
                packet = returned;
            }
        }
    };
    let client = || {
        let mut trip = |number| {
            let (start, mut packet) = (Instant::now(), [number; 8]);
            while let Err(rtrb::PushError::Full(returned)) = there.push(packet) {
                packet = returned;
            }
            while back.pop().is_err() {}
            ns(start)
        };
        Measured::of((0..trips).map(&mut trip).collect())
    };
    two_sides(request, service, client)
}

fn channel_stream(request: &Request) -> Result<Measured, Trouble> {
    let packets = request.batch;
    let mut samples = Vec::new();
    for _ in 0..request.batches {
        let (sender, receiver) = crossbeam_channel::bounded::<Packet>(SLOTS);
        let (ended, end) = crossbeam_channel::bounded(1);
        let service = move || {
            let sum =
                receiver.iter().take(packets as usize).fold(0u64, |s, p| s.wrapping_add(p[3]));
            // The client waits for it.
            let _ = ended.send(sum);
        };
        let client = || {
            let start = Instant::now();
            // The receiver takes every packet before it ends.
            let sent = (0..packets).all(|number| sender.send([number; 8]).is_ok());
            let sum = end.recv();
            (ns(start) / packets as f64, sent, sum)
        };
        samples.push(two_sides(request, service, client)?.0);
    }
    Ok(Measured::of(samples))
}

fn channel_round_trips(request: &Request) -> Result<Measured, Trouble> {
    let trips = request.batch * request.batches;
    let (there, requests) = crossbeam_channel::bounded::<Packet>(SLOTS);
    let (answers, back) = crossbeam_channel::bounded::<Packet>(SLOTS);
    let service = move || {
        for _ in 0..trips {
            let packet = loop {
                if let Ok(packet) = requests.try_recv() {
                    break packet;
                }
            };
            if answers.send(packet).is_err() {
                return;
            }
        }
    };
    let client = || {
        let trip = |number| {
            let start = Instant::now();
            let sent = there.send([number; 8]).is_ok();
            while sent && back.try_recv().is_err() {}
            ns(start)
        };
        Measured::of((0..trips).map(trip).collect())
    };
    two_sides(request, service, client)
}
