//! Measures virtual time: agent turns in a second of a machine with as many engines as there can
//! be, each with a user-mode queue and a thread that submits timed work, signals, and waits.

use crate::bench::measure::{CLIENT_CPU, Count, CpuMeter, Measured, Trouble, on_own_thread, pin};
use crate::bench::sizes::NODES;
use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{CommandListType, Device, DeviceOptions, QueueDesc};
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform, Submission};

const ROUNDS: u64 = 150;
/// Work takes from here on, more for each queue, so that no two end at once.
const WORK_NS: u64 = 10_000;

/// Row `virtual_time_events`.
pub(super) fn events() -> Result<Measured, Trouble> {
    on_own_thread(|| {
        pin(CLIENT_CPU)?;
        let mut measured = Measured::default();
        const MACHINES: u64 = 4;
        let (mut cpu_ns, mut turns) = (0.0, 0);
        for machine in 0..=MACHINES {
            let (took, steps, cpu) = one_machine().map_err(|e| e.to_string())?;
            if machine > 0 {
                measured.samples.push_batch(took, steps);
                cpu_ns += cpu;
                turns = steps;
            }
        }
        measured.cpu_ns = cpu_ns / MACHINES as f64;
        let rounds = u64::from(NODES) * ROUNDS;
        measured.counts = vec![Count::of("turns", turns), Count::of("submissions", rounds)];
        Ok(measured)
    })
}

fn one_machine() -> Result<(u64, u64, f64), Box<dyn std::error::Error>> {
    let host = Platform::host();
    let platform = Platform::virtual_time(CostModel::nominal().steps);
    let config = MachineConfig::standard(&platform).with_nodes(1, NODES - 2, 1);
    let machine = Machine::new(&platform, config)?;
    let device = machine.device(DeviceOptions::default())?;
    let threads = platform.clone();
    let (start, cpu) = (host.now(), CpuMeter::start());
    let (_, report) = machine.run_to_report(|| {
        let queues = (0..NODES).map(|node| {
            let device = device.clone();
            threads.spawn(format!("thread {node}"), move || {
                client(&device, node).unwrap_or_else(|e| panic!("thread {node}: {e}"));
            })
        });
        let handles: Vec<_> = queues.collect();
        handles.iter().for_each(|handle| {
            handle.join();
        });
    });
    let took = host.now().since(start);
    if !report.completed() {
        return Err(format!(
            "the machine did not come to its end: {:?} {:?}",
            report.blocked, report.panics
        )
        .into());
    }
    Ok((took, report.steps, cpu.per(report.steps)))
}

fn client(device: &Device, node: u32) -> tidegate::d3d12::error::Result<()> {
    let list_type = match node {
        0 => CommandListType::Direct,
        n if n == NODES - 1 => CommandListType::Copy,
        _ => CommandListType::Compute,
    };
    let desc = QueueDesc {
        name: format!("queue {node}"),
        node: Some(node),
        ..QueueDesc::new(list_type).submission(Submission::User)
    };
    let (queue, fence) = (device.create_queue(desc)?, device.create_fence("done", 0)?);
    let mut work = device.create_command_list(list_type);
    work.timed(WORK_NS + 37 * u64::from(node))?;
    let work = work.close()?;
    for value in 1..=ROUNDS {
        queue.execute(&[&work])?;
        queue.signal(&fence, value)?;
        fence.wait(value)?;
    }
    Ok(())
}
