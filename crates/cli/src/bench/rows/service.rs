//! A service in a process of its own, clients of it that can be killed, and the same machine in
//! this process.

use crate::bench::floors::processes::{LISTENING, answered};
use crate::bench::floors::wakes::pair;
use crate::bench::measure::{CLIENT_CPU, SERVICE_CPU, pin};
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
use tidegate::{Machine, MachineConfig, Platform, Submission};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const NAME: &str = "bench";
/// Queues of a client that can be killed.
const QUEUES_OF_KILLED: u64 = 4;
/// What a service, a killable client and a floor say when they are ready.
const READY: [&str; 3] = ["serving on ", "ready", LISTENING];

/// Engines of each class, as a service has them without a configuration.
pub(super) fn standard(platform: &Platform) -> MachineConfig {
    MachineConfig::standard(platform)
}

fn options(ring_slots: u64) -> DeviceOptions {
    DeviceOptions { process_name: NAME.to_owned(), ring_slots, ..DeviceOptions::default() }
}

/// A user-mode queue, or one of another model.
pub(super) fn queue(device: &Device, submission: Submission) -> Result<Queue> {
    let desc = QueueDesc::new(CommandListType::Compute).submission(submission);
    Ok(device.create_queue(desc)?)
}

/// Another process, until this is dropped.
pub(super) struct Process {
    child: Child,
    /// The other end of its standard input, which ends with it.
    input: OwnedFd,
}

impl Process {
    /// Runs this program, and waits until it says that it is ready.
    fn of_this_program(arguments: &[&Path]) -> Result<Process> {
        let (input, other) = pair()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::from(other))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = child.stdout.take();
        let process = Process { child, input };
        let mut line = String::new();
        BufReader::new(out.ok_or("no pipe to a process")?).read_line(&mut line)?;
        match READY.iter().any(|ready| line.starts_with(ready)) {
            true => Ok(process),
            false => Err(format!("a process of this program said '{}'", line.trim_end()).into()),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill()?)
    }

    /// Takes all processors from the process, until [`Process::go_on`].
    pub(super) fn stop(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    pub(super) fn go_on(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// Waits until the system has closed the sockets of the killed process.
    pub(super) fn wait_until_closed(&self) -> Result<()> {
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
    pub(super) fn start() -> Result<Hosted> {
        // Processes start where the thread that makes them is bound.
        pin(SERVICE_CPU)?;
        let hosted = Hosted::unbound()?;
        pin(CLIENT_CPU)?;
        Ok(hosted)
    }

    /// A service whose threads the system places.
    pub(super) fn unbound() -> Result<Hosted> {
        let folder = TempDir::new()?;
        let socket = folder.path().join("socket");
        let arguments = ["serve", "--socket"].map(Path::new);
        let process = Process::of_this_program(&[arguments[0], arguments[1], &socket])?;
        Ok(Hosted { process, folder })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(super) fn kernel(&self, platform: &Platform) -> Result<Arc<RemoteKernel>> {
        Ok(client::connect(platform, &self.socket(), 0, NAME)?)
    }

    pub(super) fn device(&self, platform: &Platform, ring_slots: u64) -> Result<Device> {
        Ok(Device::new(platform, self.kernel(platform)?, options(ring_slots))?)
    }
}

/// The same machine in this process. Its services run on the processor of the engines.
pub(super) fn here(platform: &Platform, ring_slots: u64) -> Result<(Machine, Device)> {
    pin(SERVICE_CPU)?;
    let machine = Machine::new(platform, standard(platform))?;
    pin(CLIENT_CPU)?;
    let device = machine.device(options(ring_slots))?;
    Ok((machine, device))
}

/// Starts a process that listens and does nothing else. Returns when it has answered.
pub(super) fn start_listening(socket: &Path) -> Result<Process> {
    let process =
        Process::of_this_program(&[Path::new("bench"), Path::new("--listening"), socket])?;
    answered(socket)?;
    Ok(process)
}

/// Starts a client that holds queues with connected doorbells until it is killed.
pub(super) fn start_killable(socket: &Path) -> Result<Process> {
    Process::of_this_program(&[Path::new("bench"), Path::new("--killable"), socket])
}

/// `tidegate bench --killable`: what [`start_killable`] runs.
pub(crate) fn killable(socket: &Path) -> Result<()> {
    let platform = Platform::host();
    let kernel = client::connect(&platform, socket, 0, "killable")?;
    let device = Device::new(&platform, kernel, options(64))?;
    let fence = device.create_fence("rung", 0)?;
    let queues: Vec<Queue> =
        (0..QUEUES_OF_KILLED).map(|_| queue(&device, Submission::User)).collect::<Result<_>>()?;
    for (queue, value) in queues.iter().zip(1..) {
        queue.signal(&fence, value)?;
        fence.wait(value)?;
    }
    crate::streams::outln!("{}", READY[1]);
    // Until it is killed, or its parent has ended.
    std::io::stdin().lines().next();
    Ok(())
}
