//! Measures single calls of the queue API as an application's thread pays for them, and the
//! creation and destruction of many objects.
//!
//! A call returns before its work is done, so the engine's time is not in these rows. The calls of
//! a batch fit into the ring, and the batch is waited for outside of the measured time.

use crate::aim::{Aimed, Counterpart, lavapipe, row};
use crate::floors;
use crate::sizes::{
    CALLS, COPIES_IN_A_LIST, COPY_COMMAND_BYTES, Calls, FENCES, FEW_FENCES, LISTS, LONG_LISTS,
    QUEUES, WAKES,
};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use tidegate::Submission;
use tidegate::d3d12::{
    BufferDesc, CommandList, CommandListType, Event, EventDesc, Fence, MIN_RING_SLOTS, Queue,
    QueueDesc, error::Result as ApiResult,
};
use tidegate_measure::{
    Count, CpuMeter, Floor, Found, Happened, Measured, Meter, Samples, Setup, Shape, floor,
    spin_rarely,
};

const PACKET: Floor = floor("published_packet", floors::published_packet);
const WORD: Floor = floor("loaded_word", floors::loaded_word);
const MEMORY: Floor = floor("listed_256_bytes", || floors::listed_memory(256));
const FENCE_CALLS: &str = "vkCreateSemaphore, vkDestroySemaphore";

/// Rows of the queue API.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "api_list_empty",
        "one call each: record, close and execute an empty list on a user-mode queue",
        floor("published_8_bytes", || floors::published_commands(8)),
        |scale| empty_list(LISTS.scaled(scale)),
    )
    .within(10.0)
    .beside(&[lavapipe(
        "api_list_empty",
        "vkBeginCommandBuffer, vkEndCommandBuffer, vkQueueSubmit",
        LISTS,
    )]),
    row(
        "api_list_100_copies",
        "the same with 100 copies in the list",
        floor("published_3200_bytes", || {
            floors::published_commands(COPIES_IN_A_LIST as usize * COPY_COMMAND_BYTES)
        }),
        |scale| list_of_copies(LONG_LISTS.scaled(scale)),
    )
    .within(10.0)
    .beside(&[lavapipe(
        "api_list_100_copies",
        "the same with 100 vkCmdCopyBuffer",
        LONG_LISTS,
    )]),
    row(
        "api_queue_signal",
        "a signal of a user-mode queue, until the call returns",
        PACKET,
        |scale| queue_signal(CALLS.scaled(scale)),
    )
    .within(5.0)
    .beside(&[lavapipe(
        "api_queue_signal",
        "vkQueueSubmit that signals a timeline semaphore",
        CALLS,
    )]),
    row(
        "api_queue_wait",
        "a wait of a user-mode queue, for a value that is reached, until the call returns",
        PACKET,
        |scale| queue_wait(CALLS.scaled(scale)),
    )
    .within(5.0)
    .beside(&[lavapipe(
        "api_queue_wait",
        "vkQueueSubmit that waits for a timeline semaphore",
        CALLS,
    )]),
    row(
        "api_cpu_signal",
        "a signal of a fence by the CPU, for which nothing waits",
        floor("unlogged_signal", floors::unlogged_signal),
        |scale| cpu_signal(CALLS.scaled(scale)),
    )
    .within(50.0)
    .beside(&[lavapipe("api_cpu_signal", "vkSignalSemaphore", CALLS)]),
    row("api_cpu_wait_reached", "a wait of a thread for a value that is reached", WORD, |scale| {
        cpu_wait(CALLS.scaled(scale))
    })
    .within(20.0)
    .beside(&[lavapipe("api_cpu_wait_reached", "vkWaitSemaphores", CALLS)]),
    row("api_completed_value", "a read of a fence's value", WORD, |scale| {
        completed_value(CALLS.scaled(scale))
    })
    .within(10.0)
    .beside(&[lavapipe("api_completed_value", "vkGetSemaphoreCounterValue", CALLS)]),
    row(
        "api_event_registration",
        "an event that a fence is to set at a value, until the call returns",
        floor("ordered_insert", floors::ordered_insert),
        |scale| event_registration(CALLS.scaled(scale)),
    )
    .within(10.0)
    .beside(&[Counterpart::None("a wait of Vulkan blocks its thread")]),
    row(
        "api_future_poll",
        "a poll of a registered future whose value is not reached",
        WORD,
        |scale| future_poll(CALLS.scaled(scale)),
    )
    .within(50.0)
    .beside(&[Counterpart::None("Vulkan has no futures")]),
    row(
        "api_future_wake",
        "from a CPU signal to the thread that slept until the future's waker was called",
        floor("unpark_there_and_back", floors::unpark_there_and_back),
        |scale| future_wake(WAKES.scaled(scale)),
    )
    .within(2.0)
    .beside(&[Counterpart::None("Vulkan has no futures")]),
    row(
        "api_fence_created",
        "creation and destruction of a fence, of 6,400 that exist at the same time",
        MEMORY,
        |scale| fences(FEW_FENCES.scaled(scale)),
    )
    .within(20.0)
    .beside(&[lavapipe("api_fence_created", FENCE_CALLS, FEW_FENCES)]),
    row("api_fences_1000000", "the same of 1,000,000 fences", MEMORY, |scale| {
        fences(FENCES.scaled(scale))
    })
    .within(20.0)
    .beside(&[lavapipe("api_fences_1000000", FENCE_CALLS, FENCES)]),
    row(
        "api_queues_65536",
        "creation and destruction of a user-mode queue, of 65,536 that exist at the same time",
        floor("listed_4096_bytes", || floors::listed_memory(4_096)),
        |scale| queues(QUEUES.scaled(scale)),
    )
    .within(50.0)
    .beside(&[Counterpart::None("lavapipe has one queue")]),
];

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

/// Times batches of `call`, with the number of the call. `end` ends a batch, with the number of its
/// last call, and is not measured.
fn measure(
    setup: &Setup,
    calls: Calls,
    kernel_calls: u64,
    mut call: impl FnMut(u64) -> ApiResult<()>,
    mut end: impl FnMut(u64) -> ApiResult<()>,
) -> Found<Measured> {
    let Calls { batch, batches } = calls;
    let mut meter = Meter::start(setup);
    for number in 0..WARM_UP + batches {
        if number == WARM_UP {
            meter = Meter::start(setup);
        }
        let (first, last) = (number * batch + 1, (number + 1) * batch);
        meter.time(batch, || (first..=last).try_for_each(&mut call))?;
        end(last)?;
    }
    Ok(meter.end(|happened| counts(happened, calls, kernel_calls)))
}

/// Signals the fence after a batch, and polls until it is reached.
fn drain(queue: &Queue, fence: &Fence, value: u64) -> ApiResult<()> {
    queue.signal(fence, value)?;
    spin_rarely(|| fence.completed_value() >= value);
    Ok(())
}

fn small_rings() -> Shape {
    Shape { ring_slots: SLOTS, ..Shape::default() }
}

/// Rows `api_list_…`: record, close and execute a list.
fn list(
    record: impl Fn(&mut CommandList) -> ApiResult<()>,
    setup: &Setup,
    calls: Calls,
) -> Found<Measured> {
    let queue = setup.queue(CommandListType::Compute)?;
    let drained = setup.device.create_fence("drained", 0)?;
    let call = |_| {
        let mut list = setup.device.create_command_list(CommandListType::Compute);
        record(&mut list)?;
        queue.execute(&[&list.close()?])
    };
    measure(setup, calls, 0, call, |last| drain(&queue, &drained, last))
}

fn empty_list(calls: Calls) -> Found<Measured> {
    list(|_| Ok(()), &Setup::new(small_rings())?, calls)
}

fn list_of_copies(calls: Calls) -> Found<Measured> {
    let setup = Setup::new(small_rings())?;
    let buffer = |name: &str| setup.device.create_buffer(BufferDesc::new(name, 4_096));
    let (source, target) = (buffer("source")?, buffer("target")?);
    let record = |list: &mut CommandList| {
        (0..COPIES_IN_A_LIST).try_for_each(|n| list.copy(&target, 4 * n, &source, 4 * n, 4))
    };
    list(record, &setup, calls)
}

/// A machine, a queue, the fence of the calls at `initial`, and the fence that ends a batch.
fn queue_and_fences(initial: u64) -> Found<(Setup, Queue, Fence, Fence)> {
    let setup = Setup::new(small_rings())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("of the calls", initial)?;
    let drained = setup.device.create_fence("drained", 0)?;
    Ok((setup, queue, fence, drained))
}

/// A value that is reached already: the row is about the call.
const REACHED: u64 = u64::MAX / 2;

fn queue_signal(calls: Calls) -> Found<Measured> {
    let (setup, queue, fence, drained) = queue_and_fences(0)?;
    let call = |value| queue.signal(&fence, value);
    measure(&setup, calls, 0, call, |last| drain(&queue, &drained, last))
}

fn queue_wait(calls: Calls) -> Found<Measured> {
    let (setup, queue, fence, drained) = queue_and_fences(REACHED)?;
    let call = |value| queue.wait(&fence, value);
    measure(&setup, calls, 0, call, |last| drain(&queue, &drained, last))
}

fn cpu_signal(calls: Calls) -> Found<Measured> {
    let (setup, _queue, fence, _) = queue_and_fences(0)?;
    measure(&setup, calls, 1, |value| fence.signal(value), |_| Ok(()))
}

fn cpu_wait(calls: Calls) -> Found<Measured> {
    let (setup, _queue, fence, _) = queue_and_fences(REACHED)?;
    measure(&setup, calls, 0, |value| fence.wait(value), |_| Ok(()))
}

fn completed_value(calls: Calls) -> Found<Measured> {
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
fn future_poll(calls: Calls) -> Found<Measured> {
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
    setup.machine.run(polled)?
}

fn future_wake(calls: Calls) -> Found<Measured> {
    let (setup, _queue, fence, _) = queue_and_fences(0)?;
    let event = setup.device.create_event(EventDesc::auto_reset());
    let waker = Waker::from(Arc::new(SetsEvent(event.clone())));
    let mut meter = Meter::start(&setup);
    setup.machine.run(|| -> ApiResult<()> {
        let mut context = Context::from_waker(&waker);
        for value in 1..=WARM_UP + calls.all() {
            if value == WARM_UP + 1 {
                meter = Meter::start(&setup);
            }
            let mut future = pin!(fence.reached(value));
            if future.as_mut().poll(&mut context).is_pending() {
                meter.time(1, || fence.signal(value).and_then(|()| event.wait()))?;
            }
        }
        Ok(())
    })??;
    let woken = meter.count();
    Ok(meter.end(|happened| {
        vec![
            Count::exactly("wakers called", woken, calls.all()),
            Count::exactly("interrupts", happened.interrupts, 0),
            Count::of("kernel calls", happened.kernel_calls),
        ]
    }))
}

/// An event for each of many values of one fence. The registrations end after each batch, outside
/// of the measured time.
fn event_registration(calls: Calls) -> Found<Measured> {
    let Calls { batch, batches } = calls;
    let setup = Setup::new(Shape::default())?;
    let fence = setup.device.create_fence("registered with", 0)?;
    let mut meter = Meter::start(&setup);
    for number in 0..batches {
        let events: Vec<_> =
            (0..batch).map(|_| setup.device.create_event(EventDesc::manual_reset())).collect();
        let first = number * batch + 1;
        meter.time(batch, || {
            let mut values = events.iter().zip(first..);
            values.try_for_each(|(event, value)| fence.set_event_on_completion(value, event))
        })?;
        fence.signal((number + 1) * batch)?;
    }
    Ok(meter.end(|happened| {
        vec![
            Count::exactly("released", happened.events_set, calls.all()),
            Count::of("kernel calls", happened.kernel_calls),
            Count::of("system calls to wake", happened.wake_calls),
        ]
    }))
}

/// Resident memory of the process, in bytes.
fn resident_bytes() -> Found<u64> {
    const PAGE_BYTES: u64 = 4_096;
    let path = "/proc/self/statm";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: cannot read: {e}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or_else(|| format!("{path}: no resident size in '{text}'"))? * PAGE_BYTES)
}

/// Creates objects, and destroys them in the order of their creation. A sample is one object's part
/// of a batch of both.
fn many<T>(calls: Calls, mut create: impl FnMut(&Setup, u64) -> ApiResult<T>) -> Found<Measured> {
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
    Ok(Measured { counts, note: Some(note), ..Measured::of(samples, cpu_ns) })
}

pub(crate) fn fences(calls: Calls) -> Found<Measured> {
    many(calls, |setup, _| setup.device.create_fence("one of many", 0))
}

/// User-mode queues with the smallest ring.
pub(crate) fn queues(calls: Calls) -> Found<Measured> {
    many(calls, |setup, number| {
        let desc = QueueDesc::compute(format!("queue {number}")).submission(Submission::User);
        setup.device.create_queue(desc)
    })
}
