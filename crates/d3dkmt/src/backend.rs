//! Chooses the kernel behind the calls, and starts it. The only place that knows which one it is.
//!
//! Entry point: [`open`].

use std::any::Any;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tidegate::dxgkrnl::ProcessKind;
use tidegate::service::client;
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

/// The adapters of a kernel, each opened by this process.
pub(crate) struct Backend {
    /// The platform that the kernel's memory and events belong to.
    pub(crate) platform: Platform,
    /// The calls of this process, for each adapter.
    pub(crate) kernels: Vec<Arc<dyn Kernel>>,
    /// Where the objects of NT handles are.
    pub(crate) handles: Handles,
    /// Keeps the kernel alive.
    pub(crate) _owner: Box<dyn Any + Send + Sync>,
}

/// Names the socket of a service. Without it the kernel is in this process.
const SOCKET: &str = "TIDEGATE_SOCKET";

/// Opens the kernel's adapters for this process.
///
/// # Errors
/// What a configuration or the kernel refuses; OBJECT_NAME_NOT_FOUND for a socket at which no
/// service takes this process, which is said on standard error.
pub(crate) fn open() -> Result<Backend, Status> {
    match std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) {
        Some(socket) => of_service(Path::new(&socket)),
        None => in_process(),
    }
}

/// The adapters of a service, each with a connection of its own.
fn of_service(socket: &Path) -> Result<Backend, Status> {
    let platform = Platform::host();
    let connect = |adapter| {
        let connected = client::connect_published(&platform, socket, adapter, &process_name());
        connected.map_err(|error| {
            // A status says too little for what is a matter of set-up.
            let _ = writeln!(std::io::stderr(), "tidegate: {SOCKET}: {error}");
            Status::OBJECT_NAME_NOT_FOUND
        })
    };
    let first = connect(0)?;
    let mut kernels: Vec<Arc<dyn Kernel>> = vec![first.clone()];
    for adapter in 1..first.adapters() {
        kernels.push(connect(adapter)?);
    }
    Ok(Backend { platform, kernels, handles: Handles::OfService, _owner: Box::new(()) })
}

/// A machine inside this process, with one adapter.
fn in_process() -> Result<Backend, Status> {
    let platform = Platform::host();
    let config = MachineConfig::standard(&platform);
    let refusal = |error: MachineError| match error {
        MachineError::Open(status) => status,
        _ => Status::NO_MEMORY,
    };
    let machine = Machine::new(&platform, config).map_err(refusal)?;
    // A client knows the published doorbell alone, whose store wakes no engine. It is called to
    // notify instead.
    let kind = ProcessKind { notifies: true, ..ProcessKind::default() };
    let kernel = machine.process_of_kind(0, &process_name(), kind).map_err(refusal)?;
    let (kernels, handles) = (vec![kernel as Arc<dyn Kernel>], Handles::OfProcess);
    Ok(Backend { platform, kernels, handles, _owner: Box::new(machine) })
}

/// The name of this process in reports: that of its program.
fn process_name() -> String {
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = program.as_ref().and_then(|path| path.file_name());
    name.map_or_else(|| "a C program".to_owned(), |name| name.to_string_lossy().into_owned())
}
