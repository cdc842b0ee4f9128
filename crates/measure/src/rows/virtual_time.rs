//! Measures virtual time: agent turns in a second of a machine with many engines, each with a
//! user-mode queue and a thread that submits timed work, signals, and waits.

use crate::measure::{CLIENT_CPU, Count, CpuMeter, Found, Measured, pin};
use crate::row::Scale;
use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{
    ClosedList, CommandListType, Device, DeviceOptions, Fence, Queue, QueueDesc,
};
use tidegate::platform::{RunReport, Step};
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// Engines, and with them pending timers, of the row of one adapter.
pub const NODES: u32 = 48;
/// Work takes from here on, more for each queue, so that no two end at once.
const WORK_NS: u64 = 10_000;

/// A machine with `engines` engines on as many adapters as they need, each with a queue and a
/// thread that submits `rounds` times.
pub fn events(engines: u32, rounds: u64, scale: Scale) -> Found<Measured> {
    pin(CLIENT_CPU)?;
    let (engines, rounds) = (engines.max(2), scale.of(rounds, 2));
    let mut measured = Measured::default();
    let machines = if engines > 1_000 { 1 } else { 4 };
    let (mut cpu_ns, mut turns) = (0.0, 0);
    // The first one warms up, where one more is cheap.
    for machine in 0..machines + u32::from(machines > 1) {
        let (took, steps, cpu) = one_machine(engines, rounds)?;
        if machine > 0 || machines == 1 {
            measured.samples.push_batch(took, steps);
            (cpu_ns, turns) = (cpu_ns + cpu, steps);
        }
    }
    measured.cpu_ns = cpu_ns / f64::from(machines);
    let submissions = u64::from(engines) * rounds;
    measured.counts = vec![Count::of("turns", turns), Count::of("submissions", submissions)];
    Ok(measured)
}

/// About `times` submissions by the threads of 100 engines.
pub fn submissions(times: u64) -> Found<()> {
    const ENGINES: u32 = 100;
    one_machine(ENGINES, times / u64::from(ENGINES)).map(drop)
}

/// The time, the turns and the CPU time of a turn of one machine. Neither the set-up of the
/// machine, its queues and its threads nor its end is in them.
fn one_machine(engines: u32, rounds: u64) -> Found<(u64, u64, f64)> {
    let host = Platform::host();
    let platform = Platform::virtual_time(CostModel::nominal().steps);
    let adapters = engines.div_ceil(NODES);
    // As even as they can be, at least one engine of each class on every adapter.
    let engines_of = |adapter: u32| engines / adapters + u32::from(adapter < engines % adapters);
    let config = |adapter: u32| {
        let compute = engines_of(adapter).max(3) - 2;
        let mut config = MachineConfig::standard(&platform)
            .with_engines(&[(tidegate::d3dukmdt::EngineKind::Compute, compute)].into());
        config.gpu.lane_group = format!("GPU {adapter}");
        config
    };
    let builder = (0..adapters)
        .map(config)
        .fold(Machine::builder(&platform), |machine, config| machine.reference(config));
    let machine = builder.start()?;
    let devices: Vec<Device> = (0..adapters as usize)
        .map(|adapter| machine.device_on(adapter, DeviceOptions::default()))
        .collect::<Result<_, _>>()?;
    let (clients, set_up) = machine.run_to_report(|| {
        let mut clients = Vec::new();
        for (adapter, device) in (0..adapters).zip(&devices) {
            let last = engines_of(adapter).max(3) - 1;
            for node in 0..=last {
                clients
                    .push((format!("thread {adapter}.{node}"), Client::new(device, node, last)?));
            }
        }
        Ok::<_, tidegate::d3d12::error::Error>(clients)
    });
    let clients = clients.ok_or_else(|| went_wrong(&set_up))??;
    let (threads, started) = (clients.len() as u64, platform.event(true));
    let (measured, report) = machine.run_to_report(|| {
        let start = |(name, client): (String, Client)| {
            let started = started.clone();
            platform.spawn(name.clone(), move || {
                started.wait();
                client.submit(rounds).unwrap_or_else(|e| panic!("{name}: {e}"));
            })
        };
        let handles: Vec<_> = clients.into_iter().map(start).collect();
        // Every thread has come to its wait when this time is over.
        platform.busy(1);
        let (start, cpu) = (host.now(), CpuMeter::start());
        started.set(Step::ThreadWake);
        handles.iter().for_each(|handle| {
            handle.join();
        });
        (host.now().since(start), cpu.per(1))
    });
    let (took, cpu_ns) =
        measured.filter(|_| report.completed()).ok_or_else(|| went_wrong(&report))?;
    // The first turn of a thread is not in the time.
    let turns = report.steps - set_up.steps - threads;
    Ok((took, turns, cpu_ns / turns as f64))
}

fn went_wrong(report: &RunReport) -> String {
    format!("the machine did not come to its end: {:?} {:?}", report.blocked, report.panics)
}

/// A queue with its fence, and work for it.
struct Client {
    queue: Queue,
    fence: Fence,
    work: ClosedList,
}

impl Client {
    fn new(device: &Device, node: u32, last: u32) -> tidegate::d3d12::error::Result<Client> {
        let list_type = match node {
            0 => CommandListType::Direct,
            n if n == last => CommandListType::Copy,
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
        Ok(Client { queue, fence, work: work.close()? })
    }

    fn submit(&self, rounds: u64) -> tidegate::d3d12::error::Result<()> {
        for value in 1..=rounds {
            self.queue.execute(&[&self.work])?;
            self.queue.signal(&self.fence, value)?;
            self.fence.wait(value)?;
        }
        Ok(())
    }
}
