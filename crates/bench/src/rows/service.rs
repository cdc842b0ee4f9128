//! A service in another process, clients of it that can be killed, and the same machine in this
//! process.

use crate::floors::processes::{READY, answered, listen};
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate::d3d12::{CommandListType, Device, DeviceOptions, Queue, QueueDesc};
use tidegate::service::client::{self, RemoteKernel};
use tidegate::service::server::{self, ServerConfig};
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_measure::floors::pair;
use tidegate_measure::{CLIENT_CPU, Found, SERVICE_CPU, pin};

const NAME: &str = "bench";
/// Queues of a client that can be killed.
const QUEUES_OF_KILLED: u64 = 4;
/// What a process of this program does until it is killed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Role {
    /// Serves a machine.
    Service,
    /// Holds queues with connected doorbells, as a client of a service.
    Killable,
    /// Listens and answers messages: the floor of a service that starts.
    Listening,
}

/// Engines of each class, as a service has them without a configuration.
pub(super) fn standard(platform: &Platform) -> MachineConfig {
    MachineConfig::standard(platform)
}

fn options(ring_slots: u64) -> DeviceOptions {
    DeviceOptions { process_name: NAME.to_owned(), ring_slots, ..DeviceOptions::default() }
}

/// A user-mode queue, or one of another model.
pub(super) fn queue(device: &Device, submission: Submission) -> Found<Queue> {
    let desc = QueueDesc::new(CommandListType::Compute).submission(submission);
    Ok(device.create_queue(desc)?)
}

/// Another process, until this is dropped.
pub(super) struct Process {
    child: Child,
    /// The far end of its standard input, which ends with it.
    input: OwnedFd,
}

impl Process {
    /// Runs this program in a role, and waits until it says that it is ready.
    fn of(role: &str, socket: &Path) -> Found<Process> {
        let (input, other) = pair()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--role", role, "--socket"])
            .arg(socket)
            .stdin(Stdio::from(other))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take();
        let process = Process { child, input };
        let mut line = String::new();
        BufReader::new(out.ok_or("no pipe to a process")?).read_line(&mut line)?;
        match line.trim_end() {
            READY => Ok(process),
            other => Err(format!("a process of this program said '{other}'").into()),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&mut self) -> Found<()> {
        Ok(self.child.kill()?)
    }

    /// Takes all processors from the process, until [`Process::go_on`].
    pub(super) fn stop(&self) -> Found<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    pub(super) fn go_on(&self) -> Found<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// Waits until the system has closed the sockets of the killed process.
    pub(super) fn wait_until_closed(&self) -> Found<()> {
        rustix::net::recv(&self.input, &mut [0u8; 8], RecvFlags::empty())?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service that runs on the processor of the engines, and the calling thread on the client's.
pub(super) struct Hosted {
    pub(super) process: Process,
    folder: TempDir,
}

impl Hosted {
    pub(super) fn start() -> Found<Hosted> {
        // Processes start where the thread that makes them is bound.
        pin(SERVICE_CPU)?;
        let hosted = Hosted::unbound()?;
        pin(CLIENT_CPU)?;
        Ok(hosted)
    }

    /// A service whose threads the system places.
    pub(super) fn unbound() -> Found<Hosted> {
        let folder = TempDir::new()?;
        let process = start(Role::Service, &folder.path().join("socket"))?;
        Ok(Hosted { process, folder })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(super) fn kernel(&self, platform: &Platform) -> Found<Arc<RemoteKernel>> {
        Ok(client::connect(platform, &self.socket(), 0, NAME)?)
    }

    pub(super) fn device(&self, platform: &Platform, ring_slots: u64) -> Found<Device> {
        Ok(Device::new(platform, self.kernel(platform)?, options(ring_slots))?)
    }
}

/// The same machine in this process. Its services run on the processor of the engines.
pub(super) fn here(platform: &Platform, ring_slots: u64) -> Found<(Machine, Device)> {
    pin(SERVICE_CPU)?;
    let machine = Machine::new(platform, standard(platform))?;
    pin(CLIENT_CPU)?;
    let device = machine.device(options(ring_slots))?;
    Ok((machine, device))
}

/// Starts a process of this program in a role.
pub(super) fn start(role: Role, socket: &Path) -> Found<Process> {
    let name = clap::ValueEnum::to_possible_value(&role).ok_or("a role without a name")?;
    Process::of(name.get_name(), socket)
}

/// Starts a process that listens and does nothing else. Returns when it has answered.
pub(super) fn start_listening(socket: &Path) -> Found<Process> {
    let process = start(Role::Listening, socket)?;
    answered(socket)?;
    Ok(process)
}

/// `tidegate-bench --role`: what [`start`] runs.
pub(crate) fn play(role: Role, socket: &Path) -> Found<()> {
    match role {
        Role::Service => serve(socket),
        Role::Killable => hold_queues(socket),
        Role::Listening => listen(socket),
    }
}

fn serve(socket: &Path) -> Found<()> {
    let platform = Platform::sharing_host();
    let machine = Arc::new(Machine::new(&platform, standard(&platform))?);
    let server = machine.service(server::listen(socket)?, ServerConfig::default())?;
    println!("{READY}");
    Ok(server.serve()?)
}

fn hold_queues(socket: &Path) -> Found<()> {
    let platform = Platform::host();
    let kernel = client::connect(&platform, socket, 0, "killable")?;
    let device = Device::new(&platform, kernel, options(64))?;
    let fence = device.create_fence("rung", 0)?;
    let queues: Vec<Queue> =
        (0..QUEUES_OF_KILLED).map(|_| queue(&device, Submission::User)).collect::<Found<_>>()?;
    for (queue, value) in queues.iter().zip(1..) {
        queue.signal(&fence, value)?;
        fence.wait(value)?;
    }
    println!("{READY}");
    // Until it is killed, or its parent has ended.
    std::io::stdin().lines().next();
    Ok(())
}
