//! Chooses the kernel behind the calls, and starts it. The only place that knows which one it is.
//!
//! Entry point: [`open`].

use std::any::Any;
use std::sync::Arc;
use tidegate::{Machine, MachineConfig, MachineError};
use tidegate_calls::{Kernel, Status};
use tidegate_platform::Platform;

/// The adapters of a kernel, each opened by this process.
pub(crate) struct Backend {
    /// The platform that the kernel's memory and events belong to.
    pub(crate) platform: Platform,
    /// The calls of this process, for each adapter.
    pub(crate) kernels: Vec<Arc<dyn Kernel>>,
    /// Keeps the kernel alive.
    pub(crate) _owner: Box<dyn Any + Send + Sync>,
}

/// Opens the kernel's adapters for this process.
///
/// # Errors
/// What a configuration or the kernel refuses.
pub(crate) fn open() -> Result<Backend, Status> {
    in_process()
}

/// A machine inside this process, with one adapter.
fn in_process() -> Result<Backend, Status> {
    let platform = Platform::host();
    let mut config = MachineConfig::standard(&platform);
    // A client knows the published doorbell alone, whose store wakes no engine. It is called to
    // notify instead.
    config.driver.notify_submissions = true;
    let refusal = |error: MachineError| match error {
        MachineError::Open(status) => status,
        _ => Status::NO_MEMORY,
    };
    let machine = Machine::new(&platform, config).map_err(refusal)?;
    let kernel = machine.open(&process_name()).map_err(refusal)?;
    Ok(Backend { platform, kernels: vec![kernel], _owner: Box::new(machine) })
}

/// The name of this process in reports: that of its program.
fn process_name() -> String {
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = program.as_ref().and_then(|path| path.file_name());
    name.map_or_else(|| "a C program".to_owned(), |name| name.to_string_lossy().into_owned())
}
