//! Measures programs on queues that give their lists to several engines, and the same programs on
//! one engine (`decisions/0082`).

use super::setup::{Setup, Shape};
use crate::bench::measure::{CpuMeter, Measured, Samples};
use tidegate::Submission;
use tidegate::d3d12::{BufferDesc, CommandListType, EnginePolicy, QueueDesc};
use tidegate::programs::Saxpy;

const ROUNDS: u64 = 200;
const BATCHES: u64 = 8;
const NUMBERS: u32 = 8 << 10;
const BYTES: u64 = 4 * NUMBERS as u64;

/// The queues that run the dispatch and the copy of a round.
#[derive(Clone, Copy)]
pub(super) enum Queues {
    /// One queue runs both in turn.
    One,
    /// Each has a queue of its own.
    Two,
}

/// Measures one round, with the compute and the copy engine on a thread each.
pub(super) fn measure(
    queues: Queues,
    policy: EnginePolicy,
) -> Result<Measured, Box<dyn std::error::Error>> {
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
    let mut samples = Samples::default();
    let mut cpu = CpuMeter::start();
    for batch in 0..=BATCHES {
        if batch == 1 {
            cpu = CpuMeter::start();
        }
        let start = setup.now_ns();
        for _ in 0..ROUNDS {
            dispatches.execute(&[&dispatch])?;
            copies.execute(&[&copy])?;
        }
        dispatches.signal(&fences[0], batch + 1)?;
        copies.signal(&fences[1], batch + 1)?;
        fences.iter().try_for_each(|fence| fence.wait(batch + 1))?;
        if batch > 0 {
            samples.push_batch(setup.now_ns() - start, ROUNDS);
        }
    }
    Ok(Measured { samples, cpu_ns: cpu.per(ROUNDS * BATCHES), ..Measured::default() })
}
