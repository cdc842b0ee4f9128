//! Why a driver, or the model of its device, is not loaded.

use std::io;
use std::path::PathBuf;
use tidegate_ddi::Status;

/// Errors of loading a driver.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the {what} {}: {error}", path.display())]
    Read {
        /// Driver or device model.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file that TIDEGATE_REGISTRY names cannot be a registry.
    #[error(transparent)]
    Registry(#[from] crate::RegistryError),
    /// The dynamic linker refuses it.
    #[error("cannot link the {what} {}: {reason}", path.display())]
    Link {
        /// Driver or device model.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The linker's words, which name an undefined symbol.
        reason: String,
    },
    /// A symbol is missing.
    #[error("the {what} {} has no symbol {name}: {remedy}", path.display())]
    Symbol {
        /// Driver or device model.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The symbol.
        name: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A device model that does not describe a device.
    #[error("the device model {} is refused: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The value that was seen, and what is allowed.
        reason: String,
    },
    /// `tidegate_nt.c` of another release.
    #[error("the driver {} has another release of tidegate_nt.c: compile it again", path.display())]
    Release {
        /// The file.
        path: PathBuf,
    },
    /// An entry failed.
    #[error("{entry} of the driver {} failed: {status}{reason}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The entry.
        entry: &'static str,
        /// What it returned.
        status: Status,
        /// What the host found.
        reason: String,
    },
    /// DriverEntry or DxgkDdiAddDevice waits, and nothing can move.
    #[error("the start of the driver {} waits for what nothing sets", path.display())]
    Waits {
        /// The library.
        path: PathBuf,
    },
    /// DriverEntry succeeded without a call of DxgkInitialize.
    #[error("DriverEntry of the driver {} did not call DxgkInitialize", path.display())]
    NoTable {
        /// The file.
        path: PathBuf,
    },
    /// Entries are missing without which no packet runs.
    #[error("the driver {} lacks {}", path.display(), entries.join(", "))]
    MissingEntries {
        /// The file.
        path: PathBuf,
        /// Their published names.
        entries: Vec<&'static str>,
    },
    /// The hardware has several linked GPUs.
    #[error("drivers in C drive one GPU: {0} are linked")]
    LinkedGpus(u32),
    /// The machine is explored.
    #[error("machines that are explored have no drivers in C yet: run it in virtual time")]
    Explored,
}
