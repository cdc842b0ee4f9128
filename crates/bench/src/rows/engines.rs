//! Measures programs on queues that give their lists to several engines, and the same programs on
//! one engine (`decisions/0082`).

use crate::aim::{Aimed, row};
use tidegate::Submission;
use tidegate::d3d12::{BufferDesc, CommandListType, EnginePolicy, QueueDesc};
use tidegate::programs::Saxpy;
use tidegate_measure::{Found, Measured, Meter, Setup, Shape, floor};

/// With both goals met, `EnginePolicy::ByCommands` could be the default (`decisions/0082`).
pub(super) const ROWS: &[Aimed] = &[
    row(
        "engines_of_one_queue",
        "a dispatch and a copy of 32 KiB in turn on one queue that gives them to two engines",
        floor("on_its_own_engine", || measure(Queues::One, EnginePolicy::Own).map(|m| m.samples)),
        |_| measure(Queues::One, EnginePolicy::ByCommands),
    )
    .within(1.0),
    row(
        "engines_of_two_queues",
        "the same with a queue for the dispatches and one for the copies",
        floor("on_one_engine", || measure(Queues::Two, EnginePolicy::Own).map(|m| m.samples)),
        |_| measure(Queues::Two, EnginePolicy::ByCommands),
    )
    .within(1.0),
];

const ROUNDS: u64 = 200;
const BATCHES: u64 = 8;
const NUMBERS: u32 = 8 << 10;
const BYTES: u64 = 4 * NUMBERS as u64;

/// The queues that run the dispatch and the copy of a round.
#[derive(Clone, Copy)]
enum Queues {
    /// One queue runs both in turn.
    One,
    /// Each has its own queue.
    Two,
}

/// Measures one round, with the compute and the copy engine on a thread each.
fn measure(queues: Queues, policy: EnginePolicy) -> Found<Measured> {
    let setup = Setup::new(Shape { service_threads: 2, ring_slots: 4_096, ..Shape::default() })?;
    let device = &setup.device;
    let desc = |name| QueueDesc::direct(name).submission(Submission::User).engines(policy);
    let dispatches = device.create_queue(desc("dispatches"))?;
    let copies = match queues {
        Queues::One => dispatches.clone(),
        Queues::Two => device.create_queue(desc("copies"))?,
    };
    let buffer = || device.create_buffer(BufferDesc::new("numbers", BYTES));
    let [x, y, source, target] = [buffer()?, buffer()?, buffer()?, buffer()?];
    let mut list = device.create_command_list(CommandListType::Direct);
    let saxpy = Saxpy { x: &x, y: &y, n: NUMBERS, a: 2.0 };
    list.dispatch(&saxpy, saxpy.groups())?;
    let dispatch = list.close()?;
    let mut list = device.create_command_list(CommandListType::Direct);
    list.copy(&target, 0, &source, 0, BYTES)?;
    let copy = list.close()?;

    let fences = [device.create_fence("dispatched", 0)?, device.create_fence("copied", 0)?];
    let mut meter = Meter::start(&setup);
    meter.times(1, BATCHES, ROUNDS, |batch| -> Found<()> {
        for _ in 0..ROUNDS {
            dispatches.execute(&[&dispatch])?;
            copies.execute(&[&copy])?;
        }
        dispatches.signal(&fences[0], batch)?;
        copies.signal(&fences[1], batch)?;
        Ok(fences.iter().try_for_each(|fence| fence.wait(batch))?)
    })?;
    Ok(meter.end(|_| Vec::new()))
}
