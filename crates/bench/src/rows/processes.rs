//! Measures clients of a service in another process beside clients of a machine in this one: single
//! submissions, streams of the three models, a call, a shared fence that is opened, the start of a
//! service, and the end of a process that is killed.

use super::service::{Hosted, Role, here, queue, standard, start, start_listening};
use crate::aim::{Aimed, row};
use crate::floors;
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::calls::Kernel;
use tidegate::d3d12::{CommandListType, Counters, Device, FenceDesc};
use tidegate::service::server::{self, ServerConfig};
use tidegate::{Machine, Platform, Submission};
use tidegate_measure::floors::message_across_processors;
use tidegate_measure::{
    Count, CpuMeter, Floor, Found, Measured, Samples, Scale, floor, signal_and_see, spin_rarely,
};

/// The figure of `process_beside_kills` from before the kills.
pub(crate) const UNDISTURBED: &str = "an undisturbed submission of the neighbour";

/// The figure of `process_killed` for the system's part: the client's memory is unmapped before its
/// sockets are closed.
pub(crate) const OWN_END: &str = "from the kill to the end of the client's own sockets";

const MESSAGE: Floor = floor("message_across_processors", message_across_processors);
const IN_ONE_PROCESS: Floor =
    floor("in_one_process", || Place::Here.doorbells(Scale(1)).map(|m| m.samples));

/// Rows of several processes.
pub(super) const ROWS: &[Aimed] = &[
    row(
        "process_doorbell_to_fence_seen",
        "doorbell to fence seen of a client in another process than the machine, logs on",
        IN_ONE_PROCESS,
        |scale| Place::There.doorbells(scale),
    )
    .within(1.2),
    row(
        "process_submissions_user",
        "one of many empty command buffers of another process through a user-mode queue",
        floor("in_one_process", || {
            Place::Here.stream(Submission::User, Scale(1)).map(|m| m.samples)
        }),
        |scale| Place::There.stream(Submission::User, scale),
    )
    .within(1.2),
    row(
        "process_submissions_hardware",
        "the same through a hardware queue, by calls of the kernel",
        MESSAGE,
        |scale| Place::ThereUnbound.stream(Submission::Hardware, scale),
    )
    .within(2.0),
    row(
        "process_submissions_packet",
        "the same through the kernel's software queue",
        MESSAGE,
        |scale| Place::ThereUnbound.stream(Submission::Packet, scale),
    )
    .within(2.0),
    row(
        "process_call",
        "a call that does next to nothing, by a client of a service",
        MESSAGE,
        calls,
    )
    .within(1.5),
    row(
        "process_fence_opened",
        "a shared fence opened through the service, mapped and read",
        floor("page_over_a_socket", floors::processes::page_over_a_socket),
        fences_opened,
    )
    .within(1.5),
    row(
        "service_start",
        "from the start of a service's process to the first answer to a client",
        floor("process_that_listens", processes_that_listen),
        starts,
    )
    .within_or(2.0, 100e6),
    row(
        "process_killed",
        "from the kill of a client with 4 connected queues to the end of its process in the kernel",
        floor("kill_to_end_of_socket", floors::processes::kill_to_end_of_socket),
        kills,
    )
    .within(2.0),
    row(
        "process_beside_kills",
        "process_doorbell_to_fence_seen while the queues of another, killed process are torn down",
        IN_ONE_PROCESS,
        beside_kills,
    )
    .within(1.5),
];

const SLOTS: u64 = 1024;
/// The ring holds a whole batch of the longest stream.
const STREAM_SLOTS: u64 = 32_768;

/// Where the client's machine is.
#[derive(Clone, Copy)]
enum Place {
    Here,
    There,
    /// A call runs on the processor of the client, which sleeps meanwhile.
    ThereUnbound,
}

/// A client of a machine here or in another process, with a meter of all CPU time.
struct Site {
    platform: Platform,
    device: Device,
    cpu: CpuMeter,
    before: Counters,
    _machine: (Option<Machine>, Option<Hosted>),
}

impl Place {
    fn site(self, ring_slots: u64) -> Found<Site> {
        let (platform, device, cpu, machine) = match self {
            Place::Here => {
                let platform = Platform::closed_host();
                let (machine, device) = here(&platform, ring_slots)?;
                (platform, device, CpuMeter::start(), (Some(machine), None))
            }
            Place::There | Place::ThereUnbound => {
                let is_bound = matches!(self, Place::There);
                let hosted = if is_bound { Hosted::start()? } else { Hosted::unbound()? };
                let platform = Platform::host();
                let device = hosted.device(&platform, ring_slots)?;
                let cpu = CpuMeter::with_process(hosted.process.number());
                (platform, device, cpu, (None, Some(hosted)))
            }
        };
        let before = device.counters();
        Ok(Site { platform, device, cpu, before, _machine: machine })
    }

    /// One doorbell after the other, each until its fence is seen.
    fn doorbells(self, scale: Scale) -> Found<Measured> {
        const WARM_UP: u64 = 2_000;
        let count = scale.of(20_000, 10);
        let mut site = self.site(SLOTS)?;
        let queue = queue(&site.device, Submission::User)?;
        let fence = site.device.create_fence("seen", 0)?;
        let mut samples = Samples::default();
        for value in 1..=WARM_UP + count {
            if value == WARM_UP + 1 {
                site.restart();
            }
            let start = site.platform.now();
            signal_and_see(&queue, &fence, value)?;
            if value > WARM_UP {
                samples.push(site.platform.now().since(start) as f64);
            }
        }
        let cpu_ns = site.cpu.per(count);
        let counts = vec![Count::exactly("kernel calls", site.happened().kernel_calls, 0)];
        Ok(Measured { counts, ..Measured::of(samples, cpu_ns) })
    }

    fn stream(self, submission: Submission, scale: Scale) -> Found<Measured> {
        const BATCHES: u64 = 5;
        // Each submission of the other models is a message.
        let all = if submission == Submission::User { 30_000 } else { 1_000 };
        let stream = scale.of(all, 10);
        let mut site = self.site(STREAM_SLOTS)?;
        let queue = queue(&site.device, submission)?;
        let list = site.device.create_command_list(CommandListType::Compute).close()?;
        let fence = site.device.create_fence("end of a batch", 0)?;
        let mut samples = Samples::default();
        for batch in 0..=BATCHES {
            if batch == 1 {
                site.restart();
            }
            let start = site.platform.now();
            for _ in 0..stream {
                queue.execute(&[&list])?;
            }
            queue.signal(&fence, batch + 1)?;
            spin_rarely(|| fence.completed_value() > batch);
            if batch > 0 {
                samples.push_batch(site.platform.now().since(start), stream);
            }
        }
        let cpu_ns = site.cpu.per(stream * BATCHES);
        let happened = site.happened();
        let calls = match submission {
            Submission::User => Count::exactly("kernel calls", happened.kernel_calls, 0),
            _ => Count::of("kernel calls", happened.kernel_calls),
        };
        let counts = vec![Count::of("submissions", happened.submissions), calls];
        Ok(Measured { counts, ..Measured::of(samples, cpu_ns) })
    }
}

impl Site {
    /// The warm-up is over.
    fn restart(&mut self) {
        (self.cpu, self.before) = (self.cpu.again(), self.device.counters());
    }

    fn happened(&self) -> Counters {
        self.device.counters().since(&self.before)
    }
}

fn calls(scale: Scale) -> Found<Measured> {
    const CALLS: u64 = 3_000;
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let kernel = hosted.kernel(&platform)?;
    let count = scale.of(CALLS, 10);
    let (mut samples, cpu) = (Samples::default(), CpuMeter::with_process(hosted.process.number()));
    for _ in 0..count {
        let start = platform.now().0;
        kernel.query_clock_calibration(0, 0)?;
        samples.push((platform.now().0 - start) as f64);
    }
    Ok(Measured::of(samples, cpu.per(count)))
}

fn fences_opened(scale: Scale) -> Found<Measured> {
    const OPENED: u64 = 500;
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let owner = hosted.device(&platform, SLOTS)?;
    let shared = owner.create_fence_with(FenceDesc::new("shared").initial_value(7).shared())?;
    let handle = owner.create_shared_handle(&shared)?;
    let device = hosted.device(&platform, SLOTS)?;
    let count = scale.of(OPENED, 10);
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
    Ok(Measured { counts, ..Measured::of(samples, cpu.per(count)) })
}

const STARTS: u64 = 20;

fn starts(scale: Scale) -> Found<Measured> {
    let platform = Platform::host();
    let count = scale.of(STARTS, 2);
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for _ in 0..count {
        let start = platform.now().0;
        let hosted = Hosted::unbound()?;
        let kernel = hosted.kernel(&platform)?;
        samples.push((platform.now().0 - start) as f64);
        drop((kernel, hosted));
    }
    let counts = vec![Count::of("services", count)];
    Ok(Measured { counts, ..Measured::of(samples, cpu.per(count)) })
}

/// Floor of a service that starts: this program, which listens and answers.
fn processes_that_listen() -> Found<Samples> {
    let platform = Platform::host();
    let mut samples = Samples::default();
    for _ in 0..STARTS {
        let folder = TempDir::new()?;
        let start = platform.now().0;
        let process = start_listening(&folder.path().join("socket"))?;
        samples.push((platform.now().0 - start) as f64);
        drop(process);
    }
    Ok(samples)
}

/// The service is in this process, so that its counters can be watched without a message.
fn kills(scale: Scale) -> Found<Measured> {
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
    let count = scale.of(KILLS, 2);
    let own_end = own_ends(count)?.median();
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for _ in 0..count {
        let mut killed = start(Role::Killable, &socket)?;
        let start = platform.now().0;
        killed.kill()?;
        // The killed process has the processor meanwhile, as the floor's process does.
        server.wait_until_empty();
        samples.push((platform.now().0 - start) as f64);
    }
    stopper.stop();
    let counts = vec![Count::of("killed processes", count)];
    let figures = vec![(OWN_END, own_end)];
    Ok(Measured { counts, figures, ..Measured::of(samples, cpu.per(count)) })
}

/// The ends of such clients as their sockets say them. The service is stopped, so that it takes no
/// processor from them.
fn own_ends(count: u64) -> Found<Samples> {
    let (platform, hosted) = (Platform::host(), Hosted::unbound()?);
    let mut samples = Samples::default();
    for _ in 0..count {
        let mut killed = start(Role::Killable, &hosted.socket())?;
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
fn beside_kills(scale: Scale) -> Found<Measured> {
    const KILLS: u64 = 20;
    const WINDOW_NS: u64 = 3_000_000;
    let (platform, hosted) = (Platform::host(), Hosted::start()?);
    let device = hosted.device(&platform, SLOTS)?;
    let (queue, fence) = (queue(&device, Submission::User)?, device.create_fence("seen", 0)?);
    let mut value = 0;
    let mut window = |samples: &mut Samples| -> Found<()> {
        let end = platform.now().0 + WINDOW_NS;
        loop {
            value += 1;
            let start = platform.now().0;
            signal_and_see(&queue, &fence, value)?;
            let now = platform.now().0;
            samples.push((now - start) as f64);
            if now >= end {
                return Ok(());
            }
        }
    };
    let (mut undisturbed, mut samples) = (Samples::default(), Samples::default());
    window(&mut Samples::default())?;
    let (cpu, kills) = (CpuMeter::start(), scale.of(KILLS, 2));
    for _ in 0..kills {
        let mut killed = start(Role::Killable, &hosted.socket())?;
        window(&mut undisturbed)?;
        killed.kill()?;
        window(&mut samples)?;
    }
    let cpu_ns = cpu.per(samples.count() + undisturbed.count());
    let figures = vec![(UNDISTURBED, undisturbed.median())];
    let counts = vec![Count::of("killed processes", kills)];
    Ok(Measured { counts, figures, ..Measured::of(samples, cpu_ns) })
}
