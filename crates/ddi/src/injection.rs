//! Failures that a test has the kernel inject. The kernel of a driver may do so at any time, and a
//! driver must lose no work by it.

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// The first call of DxgkCbSynchronizeExecution after the start.
    Synchronize,
    /// Each allocation of DxgkDdiStartDevice in turn, until the driver starts.
    MemoryOfStart,
    /// Each allocation of the first call of each entry that creates an object.
    MemoryOfObjects,
    /// The first allocation of each entry that gets work and must not fail for memory.
    MemoryOfWork,
}
