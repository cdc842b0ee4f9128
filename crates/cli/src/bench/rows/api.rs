//! Measures single calls of the queue API as an application's thread pays for them, and the
//! creation and destruction of many objects.
//!
//! A call returns before its work is done, so the engine's time is not in these rows. The calls of
//! a batch fit into the ring, and the batch is waited for outside of the measured time.

use super::setup::{Happened, Setup, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, Trouble, spin_rarely};
use crate::bench::sizes::{COPIES_IN_A_LIST, Calls};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use tidegate::Submission;
use tidegate::d3d12::{
    BufferDesc, CommandList, CommandListType, Event, EventDesc, Fence, MIN_RING_SLOTS, Queue,
    QueueDesc, error::Result as ApiResult,
};

type Result<T = Measured> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Slots of the ring: more than the calls of a batch take.
const SLOTS: u64 = 4_096;
/// Batches that are not counted.
const WARM_UP: u64 = 20;

/// What happened during calls of which each makes `kernel_calls` calls of the kernel.
fn counts(happened: &Happened, calls: Calls, kernel_calls: u64) -> Vec<Count> {
    vec![
        Count::exactly("interrupts", happened.interrupts, 0),
        Count::exactly("kernel calls", happened.kernel_calls, kernel_calls * calls.all()),
        Count::of("system calls to wake", happened.wake_calls),
        Count::of("parks of an idle service", happened.parks),
    ]
}

/// Times batches of `call`, with the number of the call; `end` ends a batch, with that of its last
/// call, and is not measured.
fn measure(
    setup: &Setup,
    calls: Calls,
    kernel_calls: u64,
    mut call: impl FnMut(u64) -> ApiResult<()>,
    mut end: impl FnMut(u64) -> ApiResult<()>,
) -> Result {
    let Calls { batch, batches } = calls;
    let (mut samples, mut cpu, mut before) =
        (Samples::default(), CpuMeter::start(), setup.counted());
    for number in 0..WARM_UP + batches {
        if number == WARM_UP {
            (cpu, before) = (CpuMeter::start(), setup.counted());
        }
        let (first, last) = (number * batch + 1, (number + 1) * batch);
        let start = setup.now_ns();
        for value in first..=last {
            call(value)?;
        }
        let took = setup.now_ns() - start;
        if number >= WARM_UP {
            samples.push_batch(took, batch);
        }
        end(last)?;
    }
    let cpu_ns = cpu.per(calls.all());
    let happened = setup.counted().since(&before);
    let counts = counts(&happened, calls, kernel_calls);
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// Signals the fence behind a batch, and polls until it is reached.
fn drain(queue: &Queue, fence: &Fence, value: u64) -> ApiResult<()> {
    queue.signal(fence, value)?;
    spin_rarely(|| fence.completed_value() >= value);
    Ok(())
}

fn small_rings() -> Shape {
    Shape { ring_slots: SLOTS, ..Shape::default() }
}

/// Rows `api_list_…`: record, close and execute a list.
fn list(record: impl Fn(&mut CommandList) -> ApiResult<()>, setup: &Setup, calls: Calls) -> Result {
    let queue = setup.queue(CommandListType::Compute)?;
    let drained = setup.device.create_fence("drained", 0)?;
    let call = |_| {
        let mut list = setup.device.create_command_list(CommandListType::Compute);
        record(&mut list)?;
        queue.execute(&[&list.close()?])
    };
    measure(setup, calls, 0, call, |last| drain(&queue, &drained, last))
}

pub(super) fn empty_list(calls: Calls) -> Result {
    list(|_| Ok(()), &Setup::new(small_rings())?, calls)
}

pub(super) fn list_of_copies(calls: Calls) -> Result {
    let setup = Setup::new(small_rings())?;
    let buffer = |name: &str| setup.device.create_buffer(BufferDesc::new(name, 4_096));
    let (source, target) = (buffer("source")?, buffer("target")?);
    let record = |list: &mut CommandList| {
        (0..COPIES_IN_A_LIST).try_for_each(|n| list.copy(&target, 4 * n, &source, 4 * n, 4))
    };
    list(record, &setup, calls)
}

/// A machine, a queue, the fence of the calls at `initial`, and the fence that ends a batch.
fn queue_and_fences(initial: u64) -> Result<(Setup, Queue, Fence, Fence)> {
    let setup = Setup::new(small_rings())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("of the calls", initial)?;
    let drained = setup.device.create_fence("drained", 0)?;
    Ok((setup, queue, fence, drained))
}

/// A value that is reached already: the row is about the call.
const REACHED: u64 = u64::MAX / 2;

pub(super) fn queue_signal(calls: Calls) -> Result {
    let (setup, queue, fence, drained) = queue_and_fences(0)?;
    let call = |value| queue.signal(&fence, value);
    measure(&setup, calls, 0, call, |last| drain(&queue, &drained, last))
}

pub(super) fn queue_wait(calls: Calls) -> Result {
    let (setup, queue, fence, drained) = queue_and_fences(REACHED)?;
    let call = |value| queue.wait(&fence, value);
    measure(&setup, calls, 0, call, |last| drain(&queue, &drained, last))
}

pub(super) fn cpu_signal(calls: Calls) -> Result {
    let (setup, _queue, fence, _) = queue_and_fences(0)?;
    measure(&setup, calls, 1, |value| fence.signal(value), |_| Ok(()))
}

pub(super) fn cpu_wait(calls: Calls) -> Result {
    let (setup, _queue, fence, _) = queue_and_fences(REACHED)?;
    measure(&setup, calls, 0, |value| fence.wait(value), |_| Ok(()))
}

pub(super) fn completed_value(calls: Calls) -> Result {
    let (setup, _queue, fence, _) = queue_and_fences(7)?;
    let call = |_| {
        std::hint::black_box(fence.completed_value());
        Ok(())
    };
    measure(&setup, calls, 0, call, |_| Ok(()))
}

/// Sets an event, for which the task's thread waits.
struct SetsEvent(Event);

impl Wake for SetsEvent {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

/// One future, registered by its first poll, is polled again.
pub(super) fn future_poll(calls: Calls) -> Result {
    let (setup, _queue, fence, _) = queue_and_fences(0)?;
    let polled = || {
        let mut context = Context::from_waker(Waker::noop());
        let mut future = pin!(fence.reached(1));
        let mut poll = || match future.as_mut().poll(&mut context) {
            std::task::Poll::Pending => Ok(()),
            std::task::Poll::Ready(result) => result,
        };
        poll()?;
        measure(&setup, calls, 0, |_| poll(), |_| Ok(()))
    };
    let measured = setup.machine.run(|| polled().map_err(|e| e.to_string()))?;
    Ok(measured?)
}

pub(super) fn future_wake(calls: Calls) -> Result {
    let (setup, _queue, fence, _) = queue_and_fences(0)?;
    let event = setup.device.create_event(EventDesc::auto_reset());
    let waker = Waker::from(Arc::new(SetsEvent(event.clone())));
    let woken = |samples: &mut Samples| -> ApiResult<()> {
        let mut context = Context::from_waker(&waker);
        for value in 1..=WARM_UP + calls.all() {
            let mut future = pin!(fence.reached(value));
            if future.as_mut().poll(&mut context).is_pending() {
                let start = setup.now_ns();
                fence.signal(value)?;
                event.wait()?;
                if value > WARM_UP {
                    samples.push((setup.now_ns() - start) as f64);
                }
            }
        }
        Ok(())
    };
    let (mut samples, cpu, before) = (Samples::default(), CpuMeter::start(), setup.counted());
    setup.machine.run(|| woken(&mut samples))??;
    let cpu_ns = cpu.per(WARM_UP + calls.all());
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::exactly("wakers called", samples.len(), calls.all()),
        Count::exactly("interrupts", happened.interrupts, 0),
        Count::of("kernel calls", happened.kernel_calls),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// An event for each of many values of one fence. The fence and its registrations end behind each
/// batch, outside of the measured time.
pub(super) fn event_registration(calls: Calls) -> Result {
    let Calls { batch, batches } = calls;
    let setup = Setup::new(Shape::default())?;
    let fence = setup.device.create_fence("registered with", 0)?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    let before = setup.counted();
    for number in 0..batches {
        let events: Vec<_> =
            (0..batch).map(|_| setup.device.create_event(EventDesc::manual_reset())).collect();
        let (first, start) = (number * batch + 1, setup.now_ns());
        for (event, value) in events.iter().zip(first..) {
            fence.set_event_on_completion(value, event)?;
        }
        samples.push_batch(setup.now_ns() - start, batch);
        fence.signal((number + 1) * batch)?;
    }
    let cpu_ns = cpu.per(calls.all());
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::exactly("released", happened.events_set, calls.all()),
        Count::of("kernel calls", happened.kernel_calls),
        Count::of("system calls to wake", happened.wake_calls),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// Resident memory of the process, in bytes.
fn resident_bytes() -> std::result::Result<u64, Trouble> {
    const PAGE_BYTES: u64 = 4_096;
    let path = "/proc/self/statm";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: cannot read: {e}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or_else(|| format!("{path}: no resident size in '{text}'"))? * PAGE_BYTES)
}

/// Creates objects, and destroys them in the order of their creation. A sample is one object's part
/// of a batch of both.
fn many<T>(calls: Calls, mut create: impl FnMut(&Setup, u64) -> ApiResult<T>) -> Result {
    let Calls { batch, batches } = calls;
    let setup = Setup::new(Shape { ring_slots: MIN_RING_SLOTS, ..Shape::default() })?;
    let mut objects = Vec::with_capacity(calls.all() as usize);
    let (resident, cpu, before) = (resident_bytes()?, CpuMeter::start(), setup.counted());
    let mut created_ns = Vec::new();
    for _ in 0..batches {
        let start = setup.now_ns();
        for _ in 0..batch {
            let number = objects.len() as u64;
            objects.push(create(&setup, number)?);
        }
        created_ns.push(setup.now_ns() - start);
    }
    let bytes = resident_bytes()?.saturating_sub(resident) / calls.all();
    let (mut samples, mut objects) = (Samples::default(), objects.into_iter());
    let mut destroyed_ns = Vec::new();
    for created in &created_ns {
        let start = setup.now_ns();
        objects.by_ref().take(batch as usize).for_each(drop);
        destroyed_ns.push(setup.now_ns() - start);
        samples.push_batch(created + setup.now_ns() - start, batch);
    }
    let cpu_ns = cpu.per(calls.all());
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::of("bytes of resident memory each", bytes),
        Count::of("kernel calls", happened.kernel_calls),
        Count::exactly("interrupts", happened.interrupts, 0),
    ];
    let each = |batches_ns: &[u64]| {
        let of = |ns: Option<&u64>| ns.copied().unwrap_or_default() / batch;
        format!(
            "{} ns each in the first batch, {} in the last",
            of(batches_ns.first()),
            of(batches_ns.last())
        )
    };
    let note = format!("created {}; destroyed {}", each(&created_ns), each(&destroyed_ns));
    Ok(Measured { samples, cpu_ns, counts, note: Some(note), ..Measured::default() })
}

pub(super) fn fences(calls: Calls) -> Result {
    many(calls, |setup, _| setup.device.create_fence("one of many", 0))
}

/// User-mode queues with the smallest ring.
pub(super) fn queues(calls: Calls) -> Result {
    many(calls, |setup, number| {
        let desc = QueueDesc::compute(format!("queue {number}")).submission(Submission::User);
        setup.device.create_queue(desc)
    })
}
