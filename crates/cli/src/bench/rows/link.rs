//! Measures links from engine to engine: a chain in which each queue waits for the value that the
//! other one signals. The chain is queued whole before it starts; no interrupt, kernel call or
//! system call may happen while it runs on one thread.

use super::setup::{Setup, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, spin_rarely};
use tidegate::d3d12::CommandListType;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const LINKS: u64 = 10_000;
/// A wait and a signal for each link of a queue's half, with room for checkpoints and the marks.
const SLOTS: u64 = 16_384;
const CHAINS: u64 = 6;

/// With two service threads both processors are theirs: the client sleeps until the chain's end,
/// which is the one interrupt.
pub(super) fn measure(service_threads: usize) -> Result<Measured> {
    let setup = Setup::new(Shape {
        ring_slots: SLOTS,
        fence_logs: true,
        service_threads,
        ..Shape::default()
    })?;
    let queues = [setup.queue(CommandListType::Compute)?, setup.queue(CommandListType::Copy)?];
    let (gate, mark, chain) = (
        setup.device.create_fence("gate", 0)?,
        setup.device.create_fence("mark", 0)?,
        setup.device.create_fence("chain", 0)?,
    );
    let mut samples = Samples::default();
    let (mut counts, mut cpu_ns): (Vec<Count>, f64) = (Vec::new(), 0.0);
    for number in 0..=CHAINS {
        let (gate_value, first) = (number + 1, number * LINKS);
        queues[0].wait(&gate, gate_value)?;
        queues[0].signal(&mark, 2 * gate_value - 1)?;
        for link in 0..LINKS {
            let queue = &queues[(link % 2) as usize];
            queue.wait(&chain, first + link)?;
            queue.signal(&chain, first + link + 1)?;
        }
        let last = &queues[((LINKS - 1) % 2) as usize];
        last.signal(&mark, 2 * gate_value)?;
        // From the opening, not from the first mark, which a client may see late.
        let (cpu, start) = (CpuMeter::start(), setup.now_ns());
        gate.signal(gate_value)?;
        if service_threads == 1 {
            spin_rarely(|| mark.completed_value() >= 2 * gate_value - 1);
        }
        let before = setup.counted();
        match service_threads {
            1 => spin_rarely(|| mark.completed_value() >= 2 * gate_value),
            _ => mark.wait(2 * gate_value)?,
        }
        let took = setup.now_ns() - start;
        let happened = setup.counted().since(&before);
        if number == 0 {
            continue;
        }
        samples.push_batch(took, LINKS);
        cpu_ns += cpu.per(LINKS * CHAINS);
        let these = match service_threads {
            1 => happened.nothing(),
            _ => vec![
                Count::of("interrupts", happened.interrupts),
                Count::of("parks", happened.parks),
            ],
        };
        match counts.is_empty() {
            true => counts = these,
            false => counts.iter_mut().zip(these).for_each(|(sum, more)| sum.value += more.value),
        }
    }
    counts.push(Count::of("links", LINKS * CHAINS));
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}
