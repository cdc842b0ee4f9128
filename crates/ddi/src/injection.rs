//! Failures that a test has the kernel inject. The kernel of a driver may do so at any time, and a
//! driver must lose no work by it.

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// The first call of DxgkCbSynchronizeExecution after the start.
    Synchronize,
}
