//! What the curves measure: the rows' measurements with a number of their own, and numbers that no
//! row has.

use super::chain::measure as measure_chain;
use super::setup::{Setup, Shape};
use super::{api, explore, idle, signal, virtual_time, waiters};
use crate::bench::measure::{CpuMeter, Measured, Samples, Trouble};
use crate::bench::sizes::{Calls, Scale};
use std::hint::spin_loop;
use tidegate::d3d12::{CommandListType, DeviceOptions, QueueDesc};
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform, Submission};

type Result<T = Measured> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) fn tasks(count: u64, scale: Scale) -> Result {
    waiters::release_tasks(count, scale)
}

pub(crate) fn chain(size: Calls, scale: Scale) -> Result {
    // The depth is the number of the curve.
    let batches = (size.batches / scale.0).max(1);
    measure_chain(Calls { batches, ..size }, Scale(1))
}

pub(crate) fn queues(size: Calls) -> Result {
    api::queues(size)
}

pub(crate) fn fences(size: Calls) -> Result {
    api::fences(size)
}

pub(crate) fn idle_queues(count: u64, scale: Scale) -> Result {
    idle::doorbell_beside(count, scale)
}

pub(crate) fn explored(values: u64) -> std::result::Result<Measured, Trouble> {
    explore::exhaust(&format!("litmus-1x{values}"))
}

pub(crate) fn pending(engines: u64, scale: Scale) -> std::result::Result<Measured, Trouble> {
    virtual_time::events(engines as u32, (5_000 / engines).clamp(3, 60), scale)
}

pub(crate) fn log(entries: u64, scale: Scale) -> Result {
    signal::with_log_of(entries as u32, scale)
}

/// The part of one adapter in building and ending a machine.
pub(crate) fn adapters(count: u64) -> Result {
    const MACHINES: u64 = 5;
    let (host, mut samples, cpu) = (Platform::host(), Samples::default(), CpuMeter::start());
    for _ in 0..MACHINES {
        let platform = Platform::virtual_time(CostModel::nominal().steps);
        let start = host.now();
        let builder = (0..count).fold(Machine::builder(&platform), |machine, adapter| {
            let mut config = MachineConfig::standard(&platform);
            config.gpu.lane_group = format!("GPU {adapter}");
            machine.reference(config)
        });
        drop(builder.start()?);
        samples.push_batch(host.now().since(start), count);
    }
    Ok(Measured { samples, cpu_ns: cpu.per(MACHINES * count), ..Measured::default() })
}

/// A doorbell until its fence is seen, beside processes that each have a queue of the same engine.
pub(crate) fn processes(count: u64, scale: Scale) -> Result {
    let doorbells = (10_000 / scale.0).max(10);
    let setup = Setup::new(Shape { ring_slots: 64, ..Shape::default() })?;
    let mut idle = Vec::new();
    for number in 0..count {
        let options = DeviceOptions {
            process_name: format!("process {number}"),
            ring_slots: 64,
            ..DeviceOptions::default()
        };
        let device = setup.machine.device(options)?;
        let desc = QueueDesc::new(CommandListType::Compute).submission(Submission::User);
        let queue = device.create_queue(desc)?;
        let fence = device.create_fence("connected", 0)?;
        queue.signal(&fence, 1)?;
        while fence.completed_value() < 1 {
            spin_loop();
        }
        idle.push((device, queue, fence));
    }
    let queue = setup.queue(CommandListType::Compute)?;
    let fence = setup.device.create_fence("seen", 0)?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for value in 1..=doorbells {
        let start = setup.now_ns();
        queue.signal(&fence, value)?;
        while fence.completed_value() < value {
            spin_loop();
        }
        samples.push((setup.now_ns() - start) as f64);
    }
    Ok(Measured { samples, cpu_ns: cpu.per(doorbells), ..Measured::default() })
}
