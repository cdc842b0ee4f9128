//! Measures virtual time: agent turns in a second of a machine with many engines, each with a
//! user-mode queue and a thread that submits timed work, signals, and waits.

use crate::bench::floors;
use crate::bench::measure::{CLIENT_CPU, Count, CpuMeter, Measured, Trouble, on_own_thread, pin};
use crate::bench::row::{Counterpart, Goal, Row, Unit, floor};
use crate::bench::sizes::{Calls, NODES, Scale};
use tidegate::d3d12::testing::TestCommands;
use tidegate::d3d12::{
    ClosedList, CommandListType, Device, DeviceOptions, Fence, Queue, QueueDesc,
};
use tidegate::platform::{RunReport, Step};
use tidegate::runner::cost::CostModel;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// Rounds of the row of one adapter.
pub(super) const ROUNDS: u64 = 150;
/// Work takes from here on, more for each queue, so that no two end at once.
const WORK_NS: u64 = 10_000;

/// Rows of machines with more engines than one adapter has.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "virtual_time_100",
        about: "one agent turn of a machine of 100 engines on three adapters in virtual time",
        unit: Unit::Rate,
        floor: floor("heap_of_100", || floors::heap_of(100)),
        goal: Goal::TimesFloor(6.0),
        measure: |scale| events(100, 60, scale),
        peers: &[
            beside("simcore", "simcore_timers", "self timers of 100 components", 100),
            beside("nexosim", "nexosim_timers", "self timers of 100 models", 100),
            beside("simpy", "simpy_timers", "self timers of 100 processes", 100),
        ],
    },
    Row {
        name: "virtual_time_10000",
        about: "the same of 10,000 engines on 209 adapters",
        unit: Unit::Rate,
        floor: floor("heap_of_10000", || floors::heap_of(10_000)),
        goal: Goal::TimesFloor(6.0),
        measure: |scale| events(10_000 / scale.0 as u32, 3, scale),
        peers: &[
            beside("simcore", "simcore_timers", "self timers of 10,000 components", 10_000),
            beside("nexosim", "nexosim_timers", "self timers of 10,000 models", 10_000),
            beside("simpy", "simpy_timers", "self timers of 10,000 processes", 10_000),
        ],
    },
];

const fn beside(
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    pending: u64,
) -> Counterpart {
    let does = "less: no queue, no fence, no interrupt, one handler for each event";
    Counterpart::Calls { peer, key, calls, does, size: Calls::new(pending, 3) }
}

/// A machine with `engines` engines on as many adapters as they need, each with a queue and a
/// thread that submits `rounds` times.
pub(super) fn events(engines: u32, rounds: u64, scale: Scale) -> Result<Measured, Trouble> {
    on_own_thread(move || {
        pin(CLIENT_CPU)?;
        let (engines, rounds) = (engines.max(2), (rounds / scale.0).max(2));
        let mut measured = Measured::default();
        let machines = if engines > 1_000 { 1 } else { 4 };
        let (mut cpu_ns, mut turns) = (0.0, 0);
        for machine in 0..=machines {
            let (took, steps, cpu) = one_machine(engines, rounds).map_err(|e| e.to_string())?;
            // The first one warms up, where one more is cheap.
            if machine > 0 || machines == 1 {
                measured.samples.push_batch(took, steps);
                (cpu_ns, turns) = (cpu_ns + cpu, steps);
            }
            if machines == 1 {
                break;
            }
        }
        measured.cpu_ns = cpu_ns / f64::from(machines);
        let submissions = u64::from(engines) * rounds;
        measured.counts = vec![Count::of("turns", turns), Count::of("submissions", submissions)];
        Ok(measured)
    })
}

/// About so many submissions by the threads of 100 engines.
pub(crate) fn submissions(times: u64) -> Result<(), Trouble> {
    const ENGINES: u32 = 100;
    one_machine(ENGINES, times / u64::from(ENGINES)).map(drop).map_err(|e| e.to_string())
}

/// The time, the turns and the CPU time of a turn of one machine. Neither the set-up of the
/// machine, its queues and its threads nor its end is in them.
fn one_machine(engines: u32, rounds: u64) -> Result<(u64, u64, f64), Box<dyn std::error::Error>> {
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
