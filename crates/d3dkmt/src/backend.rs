//! Chooses the kernel behind the calls, starts it, and connects to it. The only place that knows
//! which one it is.
//!
//! Entry points: [`Backend::choose`], [`Backend::connect`].

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::dxgkrnl::{Process, ProcessKind};
use tidegate::service::client::{self, ClientKind, ConnectError, RemoteKernel};
use tidegate::{Machine, MachineConfig, MachineError};
use tidegate_calls::{Kernel, Status};
use tidegate_platform::Platform;

/// Where the objects of NT handles are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handles {
    /// In this process, which makes their descriptors.
    OfProcess,
    /// In a service, whose descriptors are passed on.
    OfService,
}

/// The kernel behind the calls.
pub(crate) enum Backend {
    /// A machine inside this process, with one adapter, which this process has opened.
    Machine {
        /// This process, and its calls.
        process: Arc<Process>,
        /// Keeps the kernel alive.
        machine: Machine,
    },
    /// The service that listens at this socket, or whose device has this folder in a guest.
    Service(PathBuf),
}

/// The adapters of a kernel, each opened by this process.
pub(crate) struct Connection {
    /// The calls of this process, for each adapter.
    pub(crate) kernels: Vec<Arc<dyn Kernel>>,
    /// The same of a service.
    remote: Vec<Arc<RemoteKernel>>,
}

/// Names the socket of a service, or in a guest the folder of its device in sysfs. Without it the
/// kernel is in this process.
const SOCKET: &str = "TIDEGATE_SOCKET";
/// Gives the process the privilege to raise priorities on a machine of its own, if it is "1".
const RAISES_PRIORITY: &str = "TIDEGATE_MAY_RAISE_PRIORITY";

impl Backend {
    /// Chooses the kernel, and starts the one of this process.
    ///
    /// # Errors
    /// What a configuration or the kernel refuses; OBJECT_NAME_INVALID for the path of a socket
    /// that the system does not resolve.
    pub(crate) fn choose(platform: &Platform) -> Result<Backend, Status> {
        match std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) {
            // The process may change its folder between two connects.
            Some(socket) => match std::path::absolute(socket) {
                Ok(socket) => Ok(Backend::Service(socket)),
                Err(_) => Err(Status::OBJECT_NAME_INVALID),
            },
            None => in_process(platform),
        }
    }

    /// Returns the machine of a kernel in this process.
    pub(crate) fn machine(&self) -> Option<&Machine> {
        match self {
            Backend::Machine { machine, .. } => Some(machine),
            Backend::Service(_) => None,
        }
    }

    /// Ends this process in order for a kernel inside of it: waits until its queued work is
    /// complete, for at most the TDR delay.
    pub(crate) fn end_process(&self) {
        if let Backend::Machine { process, .. } = self {
            process.close();
        }
    }

    /// Where the objects of NT handles are.
    pub(crate) fn handles(&self) -> Handles {
        match self {
            Backend::Machine { .. } => Handles::OfProcess,
            Backend::Service(_) => Handles::OfService,
        }
    }

    /// Opens the kernel's adapters for this process. `says`: a service that cannot be reached is
    /// reported on standard error, because a status says too little for what is a matter of set-up.
    ///
    /// # Errors
    /// OBJECT_NAME_NOT_FOUND for a socket at which no service takes this process.
    pub(crate) fn connect(&self, platform: &Platform, says: bool) -> Result<Connection, Status> {
        match self {
            Backend::Machine { process, .. } => {
                Ok(Connection { kernels: vec![process.clone()], remote: Vec::new() })
            }
            Backend::Service(socket) => of_service(platform, socket).map_err(|error| {
                if says {
                    let _ = writeln!(std::io::stderr(), "tidegate: {SOCKET}: {error}");
                }
                Status::OBJECT_NAME_NOT_FOUND
            }),
        }
    }
}

impl Connection {
    /// Ends this process in order for a service, which waits for its queued work.
    pub(crate) fn end_process(&self) {
        self.remote.iter().for_each(|kernel| kernel.end_process());
    }

    /// Makes a call, and returns whether the kernel has ended.
    pub(crate) fn is_lost(&self) -> bool {
        !self.remote.iter().all(|kernel| kernel.check_connection())
    }
}

/// The adapters of a service, each with its connection; in a guest the first adapter.
fn of_service(platform: &Platform, socket: &Path) -> Result<Connection, ConnectError> {
    let kind = ClientKind { only_stores: true, ..ClientKind::default() };
    let connect = |adapter| client::connect_as(platform, socket, (adapter, kind), &process_name());
    let first = connect(0)?;
    // A guest has one process at a time: a second connection would end the first one.
    let adapters = if socket.is_dir() { 1 } else { first.adapters() };
    let mut remote = vec![first];
    for adapter in 1..adapters {
        remote.push(connect(adapter)?);
    }
    let kernels = remote.iter().map(|kernel| kernel.clone() as Arc<dyn Kernel>).collect();
    Ok(Connection { kernels, remote })
}

/// A machine inside this process.
fn in_process(platform: &Platform) -> Result<Backend, Status> {
    let config = MachineConfig::standard(platform);
    let refusal = |error: MachineError| match error {
        MachineError::Open(status) => status,
        _ => Status::NO_MEMORY,
    };
    let machine = Machine::new(platform, config).map_err(refusal)?;
    let may_raise_priority = std::env::var_os(RAISES_PRIORITY).is_some_and(|is| is == "1");
    let kind = ProcessKind { only_stores: true, may_raise_priority, ..ProcessKind::default() };
    let process = machine.process_of_kind(0, &process_name(), kind).map_err(refusal)?;
    Ok(Backend::Machine { process, machine })
}

/// The name of this process in reports: its program's.
fn process_name() -> String {
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = program.as_ref().and_then(|path| path.file_name());
    name.map_or_else(|| "a C program".to_owned(), |name| name.to_string_lossy().into_owned())
}
