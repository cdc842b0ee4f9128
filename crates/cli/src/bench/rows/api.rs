//! Measures single calls of the queue API as an application's thread pays for them, and the creation
//! and destruction of many objects.
//!
//! A call returns before its work is done, so the engine's time is not in these rows. The calls of a
//! batch fit into the ring, and the batch is waited for outside of the measured time.

use super::setup::{Happened, Setup, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, Trouble, spin_rarely};
use crate::bench::sizes::{COPIES_IN_A_LIST, QUEUES};
use tidegate::Submission;
use tidegate::d3d12::{
    BufferDesc, CommandList, CommandListType, EventDesc, Fence, Queue, QueueDesc,
    error::Result as ApiResult,
};

type Result<T = Measured> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Slots of the ring: more than the calls of a batch take.
const SLOTS: u64 = 4_096;
const BATCH: u64 = 500;
const BATCHES: u64 = 200;
const WARM_UP: u64 = 20;

/// What happened during calls that are to need no system call and no call of the kernel.
fn counts(happened: &Happened, kernel_calls: u64) -> Vec<Count> {
    vec![
        Count::exactly("interrupts", happened.interrupts, 0),
        Count::exactly("kernel calls", happened.kernel_calls, kernel_calls),
        Count::of("system calls to wake", happened.wake_calls),
        Count::of("parks of an idle service", happened.parks),
    ]
}

/// Times batches of `call`, with the number of the call; `settle` ends a batch, with that of its
/// last call, and is not measured.
fn calls(
    setup: &Setup,
    batch: u64,
    mut call: impl FnMut(u64) -> ApiResult<()>,
    mut settle: impl FnMut(u64) -> ApiResult<()>,
) -> Result {
    let (mut samples, mut cpu, mut before) =
        (Samples::default(), CpuMeter::start(), setup.counted());
    for number in 0..WARM_UP + BATCHES {
        if number == WARM_UP {
            (cpu, before) = (CpuMeter::start(), setup.counted());
        }
        let (first, end) = (number * batch + 1, (number + 1) * batch);
        let start = setup.now_ns();
        for value in first..=end {
            call(value)?;
        }
        let took = setup.now_ns() - start;
        if number >= WARM_UP {
            samples.push_batch(took, batch);
        }
        settle(end)?;
    }
    let cpu_ns = cpu.per(batch * BATCHES);
    let happened = setup.counted().since(&before);
    Ok(Measured { samples, cpu_ns, counts: counts(&happened, 0), note: None })
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
fn list(record: impl Fn(&mut CommandList) -> ApiResult<()>, setup: &Setup, batch: u64) -> Result {
    let queue = setup.queue(CommandListType::Compute)?;
    let drained = setup.device.create_fence("drained", 0)?;
    calls(
        setup,
        batch,
        |_| {
            let mut list = setup.device.create_command_list(CommandListType::Compute);
            record(&mut list)?;
            queue.execute(&[&list.close()?])
        },
        |end| drain(&queue, &drained, end),
    )
}

pub(super) fn empty_list() -> Result {
    list(|_| Ok(()), &Setup::new(small_rings())?, BATCH)
}

pub(super) fn list_of_copies() -> Result {
    let setup = Setup::new(small_rings())?;
    let buffer = |name: &str| setup.device.create_buffer(BufferDesc::new(name, 4_096));
    let (source, target) = (buffer("source")?, buffer("target")?);
    let record = |list: &mut CommandList| {
        (0..COPIES_IN_A_LIST).try_for_each(|n| list.copy(&target, 4 * n, &source, 4 * n, 4))
    };
    list(record, &setup, BATCH / 10)
}

pub(super) fn queue_signal() -> Result {
    let setup = Setup::new(small_rings())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let [fence, drained] =
        [setup.device.create_fence("signalled", 0)?, setup.device.create_fence("drained", 0)?];
    calls(&setup, BATCH, |value| queue.signal(&fence, value), |end| drain(&queue, &drained, end))
}

/// The values are reached already: the row is about the call.
pub(super) fn queue_wait() -> Result {
    let setup = Setup::new(small_rings())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let reached = setup.device.create_fence("reached", u64::MAX / 2)?;
    let drained = setup.device.create_fence("drained", 0)?;
    calls(&setup, BATCH, |value| queue.wait(&reached, value), |end| drain(&queue, &drained, end))
}

/// An event for each of many values of one fence. The fence and its registrations end behind each
/// batch, outside of the measured time.
pub(super) fn event_registration() -> Result {
    let setup = Setup::new(Shape::default())?;
    let fence = setup.device.create_fence("registered with", 0)?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    let before = setup.counted();
    for batch in 0..BATCHES {
        let events: Vec<_> =
            (0..BATCH).map(|_| setup.device.create_event(EventDesc::manual_reset())).collect();
        let (first, start) = (batch * BATCH + 1, setup.now_ns());
        for (event, value) in events.iter().zip(first..) {
            fence.set_event_on_completion(value, event)?;
        }
        samples.push_batch(setup.now_ns() - start, BATCH);
        fence.signal((batch + 1) * BATCH)?;
    }
    let cpu_ns = cpu.per(BATCHES * BATCH);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::exactly("released", happened.events_set, BATCHES * BATCH),
        Count::of("kernel calls", happened.kernel_calls),
        Count::of("system calls to wake", happened.wake_calls),
    ];
    Ok(Measured { samples, cpu_ns, counts, note: None })
}

/// Resident memory of the process, in bytes.
fn resident_bytes() -> std::result::Result<u64, Trouble> {
    const PAGE_BYTES: u64 = 4_096;
    let path = "/proc/self/statm";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: cannot read: {e}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or_else(|| format!("{path}: no resident size in '{text}'"))? * PAGE_BYTES)
}

/// Creates `count` objects, and destroys them in the order of their creation. A sample is one
/// object's part of a batch of both.
fn many<T>(count: u64, mut create: impl FnMut(&Setup, u64) -> ApiResult<T>) -> Result {
    const BATCHES: u64 = 64;
    let setup =
        Setup::new(Shape { ring_slots: tidegate::d3d12::MIN_RING_SLOTS, ..Shape::default() })?;
    let (mut objects, batch) = (Vec::with_capacity(count as usize), count / BATCHES);
    let (resident, cpu, before) = (resident_bytes()?, CpuMeter::start(), setup.counted());
    let mut created_ns = Vec::new();
    for _ in 0..BATCHES {
        let start = setup.now_ns();
        for _ in 0..batch {
            let number = objects.len() as u64;
            objects.push(create(&setup, number)?);
        }
        created_ns.push(setup.now_ns() - start);
    }
    let bytes = resident_bytes()?.saturating_sub(resident) / objects.len().max(1) as u64;
    let (mut samples, mut objects) = (Samples::default(), objects.into_iter());
    let (mut first, mut last) = (0, 0);
    for created in created_ns {
        let start = setup.now_ns();
        objects.by_ref().take(batch as usize).for_each(drop);
        let both = created + setup.now_ns() - start;
        samples.push_batch(both, batch);
        first = if first == 0 { both } else { first };
        last = both;
    }
    let cpu_ns = cpu.per(batch * BATCHES);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::of("bytes of resident memory each", bytes),
        Count::of("kernel calls", happened.kernel_calls),
        Count::exactly("interrupts", happened.interrupts, 0),
    ];
    let note = format!(
        "{} ns each for the first {batch}, {} ns each for the last {batch}",
        first / batch,
        last / batch
    );
    Ok(Measured { samples, cpu_ns, counts, note: Some(note) })
}

pub(super) fn fences(count: u64) -> Result {
    many(count, |setup, _| setup.device.create_fence("one of many", 0))
}

/// User-mode queues with the smallest ring.
pub(super) fn queues() -> Result {
    many(QUEUES, |setup, number| {
        let desc = QueueDesc::compute(format!("queue {number}")).submission(Submission::User);
        setup.device.create_queue(desc)
    })
}
