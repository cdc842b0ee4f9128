//! Measures clients of a service in another process beside clients of a machine in this one: single
//! submissions, streams of the three models, a call, a shared fence that is opened, the start of a
//! service, and the end of a process that is killed.

use super::service::{Hosted, here, queue, standard, start_killable, start_listening};
use super::submit::doorbells;
use crate::bench::floors;
use crate::bench::measure::{Count, CpuMeter, Measured, Samples, Trouble, spin_rarely};
use crate::bench::row::{Floor, Goal, Row, Unit, floor, own};
use crate::bench::sizes::Scale;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::calls::Kernel;
use tidegate::d3d12::{CommandListType, Device, FenceDesc};
use tidegate::service::server::{self, ServerConfig};
use tidegate::{Machine, Platform, Submission};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The figure of `process_beside_kills` from before the kills.
pub(crate) const UNDISTURBED: &str = "an undisturbed submission of the neighbour";

/// The figure of `process_killed` for the system's part: the client's memory is unmapped before its
/// sockets are closed.
pub(crate) const OWN_END: &str = "from the kill to the end of the client's own sockets";

/// Rows of several processes.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "process_doorbell_to_fence_seen",
        about: "doorbell to fence seen of a client in another process than the machine, logs on",
        unit: Unit::Time,
        floor: floor("in_one_process", || own(|| doorbell_here(Scale(1))).map(|m| m.samples)),
        goal: Goal::TimesFloor(1.2),
        measure: |scale| own(move || doorbell_there(scale)),
        peers: &[],
    },
    Row {
        name: "process_submissions_user",
        about: "one of many empty command buffers of another process through a user-mode queue",
        unit: Unit::Time,
        floor: floor("in_one_process", || {
            own(|| stream_here(Submission::User, Scale(1))).map(|m| m.samples)
        }),
        goal: Goal::TimesFloor(1.2),
        measure: |scale| own(move || stream_there(Submission::User, scale)),
        peers: &[],
    },
    Row {
        name: "process_submissions_hardware",
        about: "the same through a hardware queue, by calls of the kernel",
        unit: Unit::Time,
        floor: MESSAGE,
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || stream_there(Submission::Hardware, scale)),
        peers: &[],
    },
    Row {
        name: "process_submissions_packet",
        about: "the same through the kernel's software queue",
        unit: Unit::Time,
        floor: MESSAGE,
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || stream_there(Submission::Packet, scale)),
        peers: &[],
    },
    Row {
        name: "process_call",
        about: "a call that does next to nothing, by a client of a service",
        unit: Unit::Time,
        floor: MESSAGE,
        goal: Goal::TimesFloor(1.5),
        measure: |scale| own(move || calls(scale)),
        peers: &[],
    },
    Row {
        name: "process_fence_opened",
        about: "a shared fence opened through the service, mapped and read",
        unit: Unit::Time,
        floor: floor("page_over_a_socket", floors::processes::page_over_a_socket),
        goal: Goal::TimesFloor(1.5),
        measure: |scale| own(move || fences_opened(scale)),
        peers: &[],
    },
    Row {
        name: "service_start",
        about: "from the start of a service's process to the first answer to a client",
        unit: Unit::Time,
        floor: floor("process_that_listens", processes_that_listen),
        goal: Goal::TimesFloorOr(2.0, 100e6),
        measure: |scale| own(move || starts(scale)),
        peers: &[],
    },
    Row {
        name: "process_killed",
        about: "from the kill of a client with 4 connected queues to the end of its process in the kernel",
        unit: Unit::Time,
        floor: floor("kill_to_end_of_socket", floors::processes::kill_to_end_of_socket),
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || kills(scale)),
        peers: &[],
    },
    Row {
        name: "process_beside_kills",
        about: "process_doorbell_to_fence_seen while the queues of another, killed process are torn down",
        unit: Unit::Time,
        floor: floor("in_one_process", || own(|| doorbell_here(Scale(1))).map(|m| m.samples)),
        goal: Goal::TimesFloor(1.5),
        measure: |scale| own(move || beside_kills(scale)),
        peers: &[],
    },
];

const MESSAGE: Floor = floor("message_across_processors", floors::wakes::message_across_processors);

const SLOTS: u64 = 1024;
const DOORBELLS: u64 = 20_000;

fn doorbell_there(scale: Scale) -> Result<Measured> {
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let device = hosted.device(&platform, SLOTS)?;
    doorbell_of(&platform, &device, CpuMeter::with_process(hosted.process.number()), scale)
}

fn doorbell_here(scale: Scale) -> Result<Measured> {
    let platform = Platform::closed_host();
    let (_machine, device) = here(&platform, SLOTS)?;
    doorbell_of(&platform, &device, CpuMeter::start(), scale)
}

fn doorbell_of(
    platform: &Platform,
    device: &Device,
    mut cpu: CpuMeter,
    scale: Scale,
) -> Result<Measured> {
    let count = (DOORBELLS / scale.0).max(10);
    let (queue, fence) = (queue(device, Submission::User)?, device.create_fence("seen", 0)?);
    let mut before = device.counters();
    let samples = doorbells(platform, &queue, &fence, count, || {
        (cpu, before) = (cpu.again(), device.counters());
    })?;
    let cpu_ns = cpu.per(count);
    let calls = device.counters().since(&before).kernel_calls;
    let counts = vec![Count::exactly("kernel calls", calls, 0)];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

/// The ring holds a whole batch of the longest stream.
const STREAM_SLOTS: u64 = 32_768;
const BATCHES: u64 = 5;

fn stream_there(submission: Submission, scale: Scale) -> Result<Measured> {
    // A call runs on the processor of the client, which sleeps meanwhile.
    let hosted = match submission {
        Submission::User => Hosted::start()?,
        Submission::Hardware | Submission::Packet => Hosted::unbound()?,
    };
    let platform = Platform::host();
    let device = hosted.device(&platform, STREAM_SLOTS)?;
    let cpu = CpuMeter::with_process(hosted.process.number());
    stream_of(&platform, &device, submission, cpu, scale)
}

fn stream_here(submission: Submission, scale: Scale) -> Result<Measured> {
    let platform = Platform::closed_host();
    let (_machine, device) = here(&platform, STREAM_SLOTS)?;
    stream_of(&platform, &device, submission, CpuMeter::start(), scale)
}

fn stream_of(
    platform: &Platform,
    device: &Device,
    submission: Submission,
    mut cpu: CpuMeter,
    scale: Scale,
) -> Result<Measured> {
    // Each submission of the other models is a message.
    let all = if submission == Submission::User { 30_000 } else { 1_000 };
    let stream = (all / scale.0).max(10);
    let queue = queue(device, submission)?;
    let list = device.create_command_list(CommandListType::Compute).close()?;
    let fence = device.create_fence("end of a batch", 0)?;
    let (mut samples, mut before) = (Samples::default(), device.counters());
    for batch in 0..=BATCHES {
        if batch == 1 {
            (cpu, before) = (cpu.again(), device.counters());
        }
        let start = platform.now().0;
        for _ in 0..stream {
            queue.execute(&[&list])?;
        }
        queue.signal(&fence, batch + 1)?;
        spin_rarely(|| fence.completed_value() > batch);
        if batch > 0 {
            samples.push_batch(platform.now().0 - start, stream);
        }
    }
    let cpu_ns = cpu.per(stream * BATCHES);
    let happened = device.counters().since(&before);
    let calls = match submission {
        Submission::User => Count::exactly("kernel calls", happened.kernel_calls, 0),
        _ => Count::of("kernel calls", happened.kernel_calls),
    };
    let counts = vec![Count::of("submissions", happened.submissions), calls];
    Ok(Measured { samples, cpu_ns, counts, ..Measured::default() })
}

fn calls(scale: Scale) -> Result<Measured> {
    const CALLS: u64 = 3_000;
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let kernel = hosted.kernel(&platform)?;
    let count = (CALLS / scale.0).max(10);
    let (mut samples, cpu) = (Samples::default(), CpuMeter::with_process(hosted.process.number()));
    for _ in 0..count {
        let start = platform.now().0;
        kernel.query_clock_calibration(0, 0)?;
        samples.push((platform.now().0 - start) as f64);
    }
    Ok(Measured { samples, cpu_ns: cpu.per(count), ..Measured::default() })
}

fn fences_opened(scale: Scale) -> Result<Measured> {
    const OPENED: u64 = 500;
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let owner = hosted.device(&platform, SLOTS)?;
    let shared = owner.create_fence_with(FenceDesc::new("shared").initial_value(7).shared())?;
    let handle = owner.create_shared_handle(&shared)?;
    let device = hosted.device(&platform, SLOTS)?;
    let count = (OPENED / scale.0).max(10);
    let (mut samples, cpu) = (Samples::default(), CpuMeter::with_process(hosted.process.number()));
    let before = device.counters();
    for _ in 0..count {
        let start = platform.now().0;
        let fence = device.open_shared_handle("opened", &handle)?;
        let value = fence.completed_value();
        samples.push((platform.now().0 - start) as f64);
        if value != 7 {
            return Err(format!("an opened fence has the value {value}, not 7").into());
        }
    }
    let calls = device.counters().since(&before).kernel_calls;
    let counts = vec![Count::of("kernel calls", calls), Count::of("fences", count)];
    Ok(Measured { samples, cpu_ns: cpu.per(count), counts, ..Measured::default() })
}

const STARTS: u64 = 20;

fn starts(scale: Scale) -> Result<Measured> {
    let platform = Platform::host();
    let count = (STARTS / scale.0).max(2);
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for _ in 0..count {
        let start = platform.now().0;
        let hosted = Hosted::unbound()?;
        let kernel = hosted.kernel(&platform)?;
        samples.push((platform.now().0 - start) as f64);
        drop((kernel, hosted));
    }
    let counts = vec![Count::of("services", count)];
    Ok(Measured { samples, cpu_ns: cpu.per(count), counts, ..Measured::default() })
}

/// Floor of a service that starts: this program, which listens and answers.
fn processes_that_listen() -> std::result::Result<Samples, Trouble> {
    let platform = Platform::host();
    let mut samples = Samples::default();
    for _ in 0..STARTS {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let start = platform.now().0;
        let process = start_listening(&folder.path().join("socket")).map_err(|e| e.to_string())?;
        samples.push((platform.now().0 - start) as f64);
        drop(process);
    }
    Ok(samples)
}

/// The service is in this process, so that its counters can be watched without a message.
fn kills(scale: Scale) -> Result<Measured> {
    const KILLS: u64 = 30;
    let folder = TempDir::new()?;
    let socket = folder.path().join("socket");
    let platform = Platform::sharing_host();
    let machine = Arc::new(Machine::new(&platform, standard(&platform))?);
    let listener = server::listen(&socket)?;
    let server = Arc::new(machine.service(listener, ServerConfig::default())?);
    let (stopper, serving) = (server.stopper(), server.clone());
    platform.spawn_outside("service", move || {
        // What stops it early shows as a client that does not reach it.
        let _ = serving.serve();
    })?;
    let count = (KILLS / scale.0).max(2);
    let own_end = own_ends(count)?.median();
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for _ in 0..count {
        let mut killed = start_killable(&socket)?;
        let start = platform.now().0;
        killed.kill()?;
        // The processor is the killed process's meanwhile, as it is that of the floor.
        server.wait_until_empty();
        samples.push((platform.now().0 - start) as f64);
    }
    stopper.stop();
    let counts = vec![Count::of("killed processes", count)];
    let figures = vec![(OWN_END, own_end)];
    Ok(Measured { samples, cpu_ns: cpu.per(count), counts, figures, ..Measured::default() })
}

/// The ends of such clients as their sockets say them. The service is stopped, so that it takes no
/// processor from them.
fn own_ends(count: u64) -> Result<Samples> {
    let (platform, hosted) = (Platform::host(), Hosted::unbound()?);
    let mut samples = Samples::default();
    for _ in 0..count {
        let mut killed = start_killable(&hosted.socket())?;
        hosted.process.stop()?;
        let start = platform.now().0;
        killed.kill()?;
        killed.wait_until_closed()?;
        samples.push((platform.now().0 - start) as f64);
        hosted.process.go_on()?;
    }
    Ok(samples)
}

/// The neighbour's submissions in the milliseconds after a kill, and those before it.
fn beside_kills(scale: Scale) -> Result<Measured> {
    const KILLS: u64 = 20;
    const WINDOW_NS: u64 = 3_000_000;
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let device = hosted.device(&platform, SLOTS)?;
    let (queue, fence) = (queue(&device, Submission::User)?, device.create_fence("seen", 0)?);
    let mut value = 0;
    let mut window = |samples: &mut Samples| -> Result<()> {
        let end = platform.now().0 + WINDOW_NS;
        loop {
            value += 1;
            let start = platform.now().0;
            queue.signal(&fence, value)?;
            while fence.completed_value() < value {
                std::hint::spin_loop();
            }
            let now = platform.now().0;
            samples.push((now - start) as f64);
            if now >= end {
                return Ok(());
            }
        }
    };
    let (mut undisturbed, mut samples) = (Samples::default(), Samples::default());
    window(&mut Samples::default())?;
    let (cpu, kills) = (CpuMeter::start(), (KILLS / scale.0).max(2));
    for _ in 0..kills {
        let mut killed = start_killable(&hosted.socket())?;
        window(&mut undisturbed)?;
        killed.kill()?;
        window(&mut samples)?;
    }
    let cpu_ns = cpu.per(samples.len() + undisturbed.len());
    let figures = vec![(UNDISTURBED, undisturbed.median())];
    let counts = vec![Count::of("killed processes", kills)];
    Ok(Measured { samples, cpu_ns, counts, figures, ..Measured::default() })
}
