//! Measures the wake-up of a thread that is parked on a fence: from the engine's signal to the
//! return of the wait.
//!
//! Both times are read off the timeline that the machine records: the engine's time is only there.
//! The engine is busy for the time that the thread needs to park, and does not sleep meanwhile.

use crate::measure::{Count, CpuMeter, Found, Measured, SERVICE_CPU, Samples};
use crate::row::{ASLEEP_NS, Scale};
use crate::setup::{Happened, Setup, Shape};
use std::collections::BTreeMap;
use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{ClosedList, CommandListType, Fence, Queue};
use tidegate::trace::{Kind, LaneKind, Trace};

const WAKES: u64 = 400;

/// A queue that is busy for some time and then signals, and a thread that waits for it.
struct Wakes {
    setup: Setup,
    queue: Queue,
    awaited: Fence,
    /// Signalled with the same value behind the awaited fence. Nothing waits for it.
    behind: Option<Fence>,
    work: ClosedList,
}

impl Wakes {
    /// The engine is busy for `busy_ns` before each signal.
    fn new(setup: Setup, busy_ns: u64, has_next_packet: bool) -> Found<Wakes> {
        let lane = setup.platform.lane(LaneKind::CpuThread, "bench", "client");
        let queue = setup.queue(CommandListType::Compute)?;
        let awaited = setup.device.with_lane(lane).create_fence("awaited", 0)?;
        let behind = has_next_packet.then(|| setup.device.create_fence("behind", 0)).transpose()?;
        let mut work = setup.device.create_command_list(CommandListType::Compute);
        work.timed(busy_ns)?;
        let work = work.close()?;
        Ok(Wakes { setup, queue, awaited, behind, work })
    }

    /// Wakes the calling thread `wakes` times.
    fn run(&self, wakes: u64) -> Found<()> {
        let run = || -> Result<(), tidegate::d3d12::Error> {
            for value in 1..=wakes {
                self.queue.execute(&[&self.work])?;
                self.queue.signal(&self.awaited, value)?;
                self.behind.iter().try_for_each(|fence| self.queue.signal(fence, value))?;
                self.awaited.wait(value)?;
            }
            Ok(())
        };
        Ok(self.setup.machine.run(run)??)
    }
}

/// Row `wake_parked_thread`.
pub(super) fn parked(scale: Scale) -> Found<Measured> {
    on(SERVICE_CPU, ASLEEP_NS, scale)
}

/// From a signal to the return of the wait, with the engines on processor `engines_cpu`, which are
/// busy for `busy_ns` before each signal.
pub fn on(engines_cpu: usize, busy_ns: u64, scale: Scale) -> Found<Measured> {
    woken(engines_cpu, busy_ns, false, scale, wakes_of)
}

/// The engine's time of a signal that interrupts, its share of the kernel's work included.
pub fn engine_cost(busy_ns: u64, scale: Scale) -> Found<Measured> {
    woken(SERVICE_CPU, busy_ns, true, scale, until_next_packet)
}

fn woken(
    engines_cpu: usize,
    busy_ns: u64,
    has_next_packet: bool,
    scale: Scale,
    samples_of: fn(&Trace) -> Samples,
) -> Found<Measured> {
    let count = scale.of(WAKES, 2);
    let shape = Shape { tracing: true, engines_cpu, ..Shape::default() };
    let wakes = Wakes::new(Setup::new(shape)?, busy_ns, has_next_packet)?;
    let (before, cpu) = (wakes.setup.counted(), CpuMeter::start());
    wakes.run(count)?;
    let (cpu_ns, happened) = (cpu.per(count), wakes.setup.counted().since(&before));
    let samples = samples_of(&wakes.setup.platform.take_trace("wake of a thread"));
    let Happened { interrupts, events_set, .. } = happened;
    let counts = vec![
        Count::of("wakes", count),
        Count::of("waits that began before the signal", samples.count()),
        Count::of("interrupts", interrupts),
        Count::of("released", events_set),
    ];
    Ok(Measured { counts, ..Measured::of(samples, cpu_ns) })
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

/// For each value: the time between the records of the two signals of that value.
fn until_next_packet(trace: &Trace) -> Samples {
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    let mut samples = Samples::default();
    let signals = trace.records.iter().filter(|record| record.kind == Kind::Signal);
    for (start_ns, value) in signals.filter_map(|r| Some((r.start_ns, r.fence()?.1))) {
        match first.remove(&value) {
            Some(earlier) => samples.push(start_ns.abs_diff(earlier) as f64),
            None => {
                first.insert(value, start_ns);
            }
        }
    }
    samples
}
