//! Measures the wake-up of a thread that is parked on a fence: from the engine's signal to the
//! return of the wait.
//!
//! Both times are read off the timeline that the machine records, since only there the engine's
//! time stands. The engine is busy for the time that the thread needs to park, and does not sleep
//! itself meanwhile.

use super::setup::{Setup, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, SERVICE_CPU, Samples};
use crate::bench::sizes::{ASLEEP_NS, Scale};
use std::collections::BTreeMap;
use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{ClosedList, CommandListType, Fence, Queue};
use tidegate::trace::{Kind, LaneKind, Trace};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const WAKES: u64 = 400;

/// A queue that is busy for some time and then signals, and a thread that waits for it.
pub(super) struct Wakes {
    pub(super) setup: Setup,
    queue: Queue,
    awaited: Fence,
    /// Signalled with the same value behind the awaited fence. Nothing waits for it.
    behind: Option<Fence>,
    work: ClosedList,
}

impl Wakes {
    /// The engine is busy for `busy_ns` before each signal.
    pub(super) fn new(setup: Setup, busy_ns: u64, has_next_packet: bool) -> Result<Wakes> {
        let lane = setup.platform.lane(LaneKind::CpuThread, "bench", "client");
        let queue = setup.queue(CommandListType::Compute)?;
        let awaited = setup.device.with_lane(lane).create_fence("awaited", 0)?;
        let behind = has_next_packet.then(|| setup.device.create_fence("behind", 0)).transpose()?;
        let mut work = setup.device.create_command_list(CommandListType::Compute);
        work.timed(busy_ns)?;
        let work = work.close()?;
        Ok(Wakes { setup, queue, awaited, behind, work })
    }

    /// Wakes the calling thread, and returns how often.
    pub(super) fn run(&self, scale: Scale) -> Result<u64> {
        let wakes = (WAKES / scale.0).max(2);
        let run = || -> std::result::Result<(), tidegate::d3d12::Error> {
            for value in 1..=wakes {
                self.queue.execute(&[&self.work])?;
                self.queue.signal(&self.awaited, value)?;
                self.behind.iter().try_for_each(|fence| self.queue.signal(fence, value))?;
                self.awaited.wait(value)?;
            }
            Ok(())
        };
        self.setup.machine.run(run)??;
        Ok(wakes)
    }
}

/// Row `wake_parked_thread`.
pub(super) fn measure(scale: Scale) -> Result<Measured> {
    measure_on(SERVICE_CPU, ASLEEP_NS, scale)
}

/// The same with the engines on processor `engines_cpu`, which are busy for `busy_ns` before each
/// signal.
pub(super) fn measure_on(engines_cpu: usize, busy_ns: u64, scale: Scale) -> Result<Measured> {
    let shape = Shape { tracing: true, engines_cpu, ..Shape::default() };
    let wakes = Wakes::new(Setup::new(shape)?, busy_ns, false)?;
    let (before, cpu) = (wakes.setup.counted(), CpuMeter::start());
    let count = wakes.run(scale)?;
    let (cpu_ns, happened) = (cpu.per(count), wakes.setup.counted().since(&before));
    let trace = wakes.setup.platform.take_trace("wake of a thread");
    let samples = wakes_of(&trace);
    let counts = vec![
        Count::of("wakes", count),
        Count::of("waits that began before the signal", samples.len()),
        Count::of("interrupts", happened.interrupts),
        Count::of("released", happened.events_set),
    ];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// For each value: the time from the signal's record to the wait's.
fn wakes_of(trace: &Trace) -> Samples {
    let mut signalled = BTreeMap::new();
    let mut samples = Samples::default();
    for record in trace.records.iter().filter(|r| r.kind == Kind::Signal) {
        signalled.extend(record.fence().map(|at| (at, record.start_ns)));
    }
    for record in trace.records.iter().filter(|r| r.kind == Kind::CpuWait) {
        let Some(at) = record.fence().and_then(|at| signalled.get(&at)) else { continue };
        // A wait that came after its signal did not park.
        if record.start_ns < *at {
            samples.push(record.end_ns.saturating_sub(*at) as f64);
        }
    }
    samples
}
