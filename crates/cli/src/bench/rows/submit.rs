//! Measures submission through a user-mode queue: one packet until its fence is seen, and packets
//! in a stream.
//!
//! The packet of the first row is a signal without a log entry: for the engine the same store,
//! barrier and comparison as the progress fence of a command buffer, and a value that the client
//! can look at.

use super::setup::{Setup, Shape};
use crate::bench::measure::{
    CLIENT_CPU, Count, CpuMeter, Measured, SERVICE_CPU, Samples, spin_rarely,
};
use std::hint::spin_loop;
use tidegate::Platform;
use tidegate::d3d12::{CommandListType, Fence, Queue};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DOORBELLS: u64 = 28_000;
const WARM_UP: u64 = 2_000;

pub(super) fn measure_doorbell() -> Result<Measured> {
    let setup = Setup::new(Shape::default())?;
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("seen", 0)?;
    let (mut cpu, mut before) = (CpuMeter::start(), setup.counted());
    let samples = doorbells(&setup.platform, &queue, &fence, DOORBELLS, || {
        (cpu, before) = (CpuMeter::start(), setup.counted());
    })?;
    let cpu_ns = cpu.per(DOORBELLS);
    let happened = setup.counted().since(&before);
    let counts = vec![
        Count::exactly("interrupts", happened.interrupts, 0),
        Count::exactly("kernel calls", happened.kernel_calls, 0),
        Count::of("parks of an idle service", happened.parks),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// Times `count` signals of a queue, each until the fence, which begins at 0, is seen. Calls `warm`
/// before the first one that counts.
pub(super) fn doorbells(
    platform: &Platform,
    queue: &Queue,
    fence: &Fence,
    count: u64,
    warm: impl FnOnce(),
) -> Result<Samples> {
    let mut warm = Some(warm);
    let mut samples = Samples::default();
    for value in 1..=WARM_UP + count {
        if let Some(warm) = warm.take_if(|_| value > WARM_UP) {
            warm();
        }
        let start = platform.now().0;
        queue.signal(fence, value)?;
        while fence.completed_value() < value {
            spin_loop();
        }
        let took = platform.now().0 - start;
        if value > WARM_UP {
            samples.push(took as f64);
        }
    }
    Ok(samples)
}

/// The ring holds a whole batch, so that no submission waits for room.
const STREAM_SLOTS: u64 = 65_536;
const STREAM: u64 = 60_000;
const BATCHES: u64 = 6;
/// CPU time of the process over the time that passed.
pub(crate) const PROCESSORS: &str = "processors kept busy";

pub(super) fn measure_stream() -> Result<Measured> {
    stream_on(SERVICE_CPU)
}

/// The same with client and engines on one processor.
pub(super) fn measure_stream_on_one_processor() -> Result<Measured> {
    stream_on(CLIENT_CPU)
}

fn stream_on(engines_cpu: usize) -> Result<Measured> {
    let shared = engines_cpu == CLIENT_CPU;
    let setup = Setup::new(Shape { ring_slots: STREAM_SLOTS, engines_cpu, ..Shape::default() })?;
    let queue = setup.queue(CommandListType::Compute)?;
    let list = setup.empty_list(CommandListType::Compute)?;
    let fence = setup.device.create_fence("end of a batch", 0)?;
    let mut samples = Samples::default();
    let mut submit_ns = 0;
    let (mut cpu, mut before) = (CpuMeter::start(), setup.counted());
    let mut begun_ns = 0;
    for batch in 0..=BATCHES {
        if batch == 1 {
            begun_ns = setup.now_ns();
            (cpu, before) = (CpuMeter::start(), setup.counted());
        }
        let start = setup.now_ns();
        for _ in 0..STREAM {
            queue.execute(&[&list])?;
        }
        let submitted = setup.now_ns();
        queue.signal(&fence, batch + 1)?;
        // A client that spun would keep the engines off their only processor.
        match shared {
            true => fence.wait(batch + 1)?,
            false => spin_rarely(|| fence.completed_value() > batch),
        }
        if batch > 0 {
            samples.push_batch(setup.now_ns() - start, STREAM);
            submit_ns += submitted - start;
        }
    }
    let cpu_ns = cpu.per(STREAM * BATCHES);
    let passed_ns = (setup.now_ns() - begun_ns) as f64 / (STREAM * BATCHES) as f64;
    let figures = vec![(PROCESSORS, cpu_ns / passed_ns)];
    let happened = setup.counted().since(&before);
    let (waits, interrupts) = match shared {
        true => (BATCHES, Count::of("interrupts", happened.interrupts)),
        false => (0, Count::exactly("interrupts", happened.interrupts, 0)),
    };
    let counts = vec![
        interrupts,
        Count::exactly("kernel calls", happened.kernel_calls, waits),
        Count::of("parks of an idle service", happened.parks),
    ];
    let share = submit_ns as f64 / (STREAM * BATCHES) as f64;
    let note = format!("the client's part of a submission: {share:.0} ns; the engine overlaps it");
    Ok(Measured { samples, cpu_ns, counts, figures, note: Some(note) })
}
