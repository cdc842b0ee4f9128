//! The processes of a run: in the kernel's own process, or clients of a service.
//!
//! Invariant: all processes of a run are of one kind, because a handle that one kind shares is no
//! handle of the other.

use super::objects::{CallError, Called};
use crate::program::{ProcessSetup, Program};
use crate::words::{Fate, ProcessId};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate::calls::{Kernel, Status};
use tidegate::d3d12::{Device, DeviceOptions, TeardownReport};
use tidegate::dxgkrnl::Process;
use tidegate::platform::Mutex;
use tidegate::service::client::{self, Life};
use tidegate::service::server::Sessions;
use tidegate::{Machine, Platform};
use tidegate_testbed::Client;

/// How the processes of a run reach the kernel.
pub(super) enum Transport<'a> {
    /// They are in its process.
    InProcess(&'a Machine),
    /// As agents of a cooperative machine.
    Agents(Sessions),
    /// Over a socket.
    Socket(PathBuf),
}

/// A process of a run.
pub(super) struct RunProcess {
    /// The queue API's device; `None` once it is dropped.
    device: Mutex<Option<Device>>,
    teardown: TeardownReport,
    pub(super) client: Client,
    life: ProcessLife,
    pub(super) adapter: usize,
    pub(super) is_doomed: bool,
    /// Whether a step destroys the D3DKMT device.
    pub(super) may_be_destroyed: bool,
}

enum ProcessLife {
    InProcess(Arc<Process>),
    Agent(Life),
    Socket,
}

impl RunProcess {
    /// Opens a process with a device of each surface.
    pub(super) fn open(
        platform: &Platform,
        program: &Program,
        transport: &Transport<'_>,
        (id, may_be_destroyed): (ProcessId, bool),
    ) -> Result<RunProcess, String> {
        let ProcessSetup { adapter, fate } = program.process(id);
        let (adapter, name) = (usize::from(adapter.0), id.to_string());
        let in_words = |error: &dyn std::fmt::Display| format!("{name} cannot open: {error}");
        let (kernel, life): (Arc<dyn Kernel>, ProcessLife) = match transport {
            Transport::InProcess(machine) => {
                let process = machine.process_on(adapter, &name).map_err(|e| in_words(&e))?;
                (process.clone(), ProcessLife::InProcess(process))
            }
            Transport::Agents(sessions) => {
                let opened = client::connect_agent(sessions, adapter as u32, &name);
                let (kernel, life) = opened.map_err(|e| in_words(&e))?;
                (kernel, ProcessLife::Agent(life))
            }
            Transport::Socket(path) => {
                let kernel = client::connect(platform, path, adapter as u32, &name);
                (kernel.map_err(|e| in_words(&e))?, ProcessLife::Socket)
            }
        };
        let raw = kernel.create_device().map_err(|e: Status| in_words(&e))?;
        let setup = &program.adapters[adapter];
        let options = DeviceOptions::new(name.clone())
            .ring_slots(setup.ring_slots())
            .hardware_fences(setup.hardware_fences());
        let device = Device::new(platform, kernel.clone(), options).map_err(|e| in_words(&e))?;
        Ok(RunProcess {
            teardown: device.teardown_report(),
            device: platform.mutex("a device", Some(device)),
            client: Client::of(platform, kernel, raw),
            life,
            adapter,
            is_doomed: fate == Fate::Doomed,
            may_be_destroyed,
        })
    }

    /// Returns the queue API's device.
    pub(super) fn device(&self) -> Called<Device> {
        self.device.lock().clone().ok_or(CallError::Missing)
    }

    /// Drops the queue API's device.
    pub(super) fn drop_device(&self) {
        let device = self.device.lock().take();
        drop(device);
    }

    /// Returns the destroy calls of the queue API that the kernel refused.
    pub(super) fn refused(&self) -> usize {
        self.teardown.refused().len()
    }

    /// Ends the process without its help. A client over a socket ends with its connection.
    pub(super) fn kill(&self) {
        match &self.life {
            ProcessLife::InProcess(process) => process.terminate(),
            ProcessLife::Agent(life) => life.end(),
            ProcessLife::Socket => {}
        }
    }
}

/// A service on a socket for the processes of a run on threads.
pub(crate) struct SocketService {
    stopper: tidegate::service::server::Stopper,
    pub(crate) path: PathBuf,
    ended: tidegate::platform::Event,
}

impl SocketService {
    /// The threads of a service without clients: it takes them, and ends closed NT handles.
    pub(crate) const THREADS: usize = 2;

    /// Starts the service of a machine.
    pub(crate) fn start(machine: &Arc<Machine>) -> Result<SocketService, String> {
        use tidegate::service::server::{ServerConfig, listen};
        let platform = machine.platform();
        let in_words = |error: std::io::Error| format!("the service does not start: {error}");
        let number = platform.now().0;
        let name = format!("tidegate-swarm-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let server = listen(&path).and_then(|l| machine.service(l, ServerConfig::default()));
        let server = server.map_err(in_words)?;
        let stopper = server.stopper();
        let ended = platform.event(true);
        let done = ended.clone();
        let serve = move || {
            // A service that cannot go on ends its clients, whose calls then fail.
            let _ = server.serve();
            drop(server);
            done.set(tidegate::platform::Step::ThreadWake);
        };
        platform.spawn_outside("service", serve).map_err(in_words)?;
        Ok(SocketService { stopper, path, ended })
    }

    /// Stops the service and removes its socket.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
        self.ended.wait_for(None, "the end of the service");
        let _ = std::fs::remove_file(&self.path);
    }
}
