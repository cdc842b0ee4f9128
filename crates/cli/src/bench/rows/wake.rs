//! Measures the wake-up of a thread that is parked on a fence: from the engine's signal to the
//! return of the wait.
//!
//! Both times are read off the timeline that the machine records, since only there the engine's
//! time stands. The engine is busy for the time that the thread needs to park, and does not sleep
//! itself meanwhile.

use super::setup::{Setup, Shape};
use crate::bench::measure::{Count, CpuMeter, Measured, Samples};
use crate::bench::sizes::ASLEEP_NS;
use std::collections::BTreeMap;
use tidegate::d3d12::CommandListType;
use tidegate::d3d12::testing::TestCommands;
use tidegate::trace::{Kind, LaneKind, Trace};

const WAKES: u64 = 400;

pub(super) fn measure() -> Result<Measured, Box<dyn std::error::Error>> {
    let setup = Setup::new(Shape { tracing: true, ..Shape::default() })?;
    let lane = setup.platform.lane(LaneKind::CpuThread, "bench", "client");
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.with_lane(lane).create_fence("awaited", 0)?;
    let mut work = setup.device.create_command_list(CommandListType::Compute);
    work.timed(ASLEEP_NS)?;
    let work = work.close()?;
    let (before, cpu) = (setup.counted(), CpuMeter::start());
    let wakes = || -> Result<(), tidegate::d3d12::Error> {
        for value in 1..=WAKES {
            queue.execute(&[&work])?;
            queue.signal(&fence, value)?;
            fence.wait(value)?;
        }
        Ok(())
    };
    let ended = setup.machine.run(wakes);
    let (cpu_ns, happened) = (cpu.per(WAKES), setup.counted().since(&before));
    ended??;
    let trace = setup.platform.take_trace("wake of a parked thread");
    let samples = wakes_of(&trace);
    let counts = vec![
        Count::of("wakes", WAKES),
        Count::of("interrupts", happened.interrupts),
        Count::of("released", happened.events_set),
    ];
    Ok(Measured { samples, cpu_ns, counts, note: None })
}

/// For each value: the time from the signal's record to the wait's.
fn wakes_of(trace: &Trace) -> Samples {
    let mut signalled = BTreeMap::new();
    let mut samples = Samples::default();
    for record in trace.records.iter().filter(|r| r.kind == Kind::Signal) {
        signalled.extend(record.fence.map(|at| (at, record.start_ns)));
    }
    for record in trace.records.iter().filter(|r| r.kind == Kind::CpuWait) {
        let Some(at) = record.fence.and_then(|at| signalled.get(&at)) else { continue };
        // A wait that came after its signal did not park.
        if record.start_ns < *at {
            samples.push(record.end_ns.saturating_sub(*at) as f64);
        }
    }
    samples
}
