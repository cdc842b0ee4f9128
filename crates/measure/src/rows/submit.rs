//! Measures submission: one packet until its fence is seen, command buffers in a stream, and a
//! doorbell that has to be connected again.
//!
//! The packet of the first is a signal without a log entry: for the engine the same store, barrier
//! and comparison as the progress fence of a command buffer, and a value that the client can read.

use crate::measure::{CLIENT_CPU, Count, Found, Measured, SERVICE_CPU, spin_rarely};
use crate::row::Scale;
use crate::setup::{Meter, PARKS, Setup, Shape, see, signal_and_see};
use tidegate::Submission;
use tidegate::d3d12::{CommandListType, QueueDesc};
use tidegate::kmd::DoorbellModel;

/// One packet after the other, each until its fence is seen.
pub(super) fn doorbells() -> Found<Measured> {
    let setup = Setup::new(Shape::default())?;
    let (queue, fence) = setup.queue_and_fence()?;
    let mut meter = Meter::start(&setup);
    meter.times(2_000, 28_000, 1, |value| signal_and_see(&queue, &fence, value))?;
    Ok(meter.end(|happened| {
        vec![
            Count::exactly("interrupts", happened.interrupts, 0),
            Count::exactly("kernel calls", happened.kernel_calls, 0),
            Count::of(PARKS, happened.parks),
        ]
    }))
}

/// Command buffers of a batch of the user-mode model.
const USER_STREAM: u64 = 60_000;
/// Batches of a stream that count.
const BATCHES: u64 = 6;
/// CPU time of the process over the time that passed.
pub const PROCESSORS: &str = "processors kept busy";

/// Empty command buffers through a queue of a model. The user-mode queue's ring holds a whole
/// batch, so no submission waits for room; the other models make a call of the kernel for each.
pub fn stream(submission: Submission, scale: Scale) -> Found<Measured> {
    let size = if submission == Submission::User { USER_STREAM } else { 2_000 };
    stream_of(submission, scale.of(size, 10), SERVICE_CPU)
}

/// The stream of a user-mode queue with client and engines on one processor. Batches are whole at
/// every scale: the wait for a short one may find its value and make no call.
pub fn stream_on_one_processor(_: Scale) -> Found<Measured> {
    stream_of(Submission::User, USER_STREAM, CLIENT_CPU)
}

fn stream_of(submission: Submission, size: u64, engines_cpu: usize) -> Found<Measured> {
    let (is_shared, is_user) = (engines_cpu == CLIENT_CPU, submission == Submission::User);
    let setup = Setup::new(Shape { ring_slots: 65_536, engines_cpu, ..Shape::default() })?;
    let desc = QueueDesc::new(CommandListType::Compute).submission(submission);
    let queue = setup.device.create_queue(desc)?;
    let list = setup.device.create_command_list(CommandListType::Compute).close()?;
    let fence = setup.device.create_fence("end of a batch", 0)?;
    let (mut submit_ns, mut begun_ns) = (0, 0);
    let mut meter = Meter::start(&setup);
    meter.times(1, BATCHES, size, |batch| -> Found<()> {
        let start = setup.now_ns();
        for _ in 0..size {
            queue.execute(&[&list])?;
        }
        match batch {
            1 => {}
            2 => (begun_ns, submit_ns) = (start, setup.now_ns() - start),
            _ => submit_ns += setup.now_ns() - start,
        }
        queue.signal(&fence, batch)?;
        // A client that spun would keep the engines off their only processor.
        match is_shared {
            true => fence.wait(batch)?,
            false => spin_rarely(|| fence.completed_value() >= batch),
        }
        Ok(())
    })?;
    let passed_ns = (setup.now_ns() - begun_ns) as f64 / (size * BATCHES) as f64;
    let mut measured = meter.end(|happened| {
        let (interrupts, calls) = (happened.interrupts, happened.kernel_calls);
        let waits = if is_shared { BATCHES } else { 0 };
        vec![
            match is_shared || !is_user {
                true => Count::of("interrupts", interrupts),
                false => Count::exactly("interrupts", interrupts, 0),
            },
            match is_user {
                true => Count::exactly("kernel calls", calls, waits),
                false => Count::of("kernel calls", calls),
            },
            Count::of(PARKS, happened.parks),
        ]
    });
    measured.figures = vec![(PROCESSORS, measured.cpu_ns / passed_ns)];
    let share = submit_ns as f64 / (size * BATCHES) as f64;
    let note = format!("the client's part of a submission: {share:.0} ns; the engine overlaps it");
    measured.note = Some(note);
    Ok(measured)
}

/// Two queues and one doorbell, which each takes from the other.
pub(super) fn reconnect(scale: Scale) -> Found<Measured> {
    const WARM_UP: u64 = 100;
    let calls = scale.of(5_000, 10);
    let one = DoorbellModel::Dedicated { physical: 1 };
    let setup = Setup::new(Shape { doorbells: Some(one), ..Shape::default() })?;
    let queues = [setup.queue(CommandListType::Compute)?, setup.queue(CommandListType::Compute)?];
    let fence = setup.device.create_fence("seen", 0)?;
    let mut meter = Meter::start(&setup);
    for value in 1..=WARM_UP + calls {
        if value == WARM_UP + 1 {
            meter = Meter::start(&setup);
        }
        meter.time(1, || queues[(value % 2) as usize].signal(&fence, value))?;
        see(&fence, value);
    }
    Ok(meter.end(|happened| {
        // A queue of signals announces no progress: after eight connects it notifies once
        // (UMS-201). The other queue keeps the doorbell meanwhile, and its next call connects none.
        let most_connect = happened.connects >= calls * 4 / 5;
        vec![
            Count::of("doorbells connected", happened.connects),
            Count::exactly("four of five connect", u64::from(most_connect), 1),
            Count::of("kernel calls", happened.kernel_calls),
        ]
    }))
}
