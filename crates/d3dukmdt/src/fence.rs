//! Owns fence types, creation flags and priorities.

// spec: NF-098
/// D3DDDI_NATIVEFENCE_TYPE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NativeFenceType {
    /// System memory; everybody may wait and signal.
    #[default]
    Default = 0,
    /// Local memory, for a driver's own use; no CPU waits or signals.
    IntraGpu = 1,
}

/// Scheduling priority of a context or hardware queue, as four levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Priority {
    /// Only when nothing else runs.
    Idle = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Before normal work.
    High = 2,
    /// Before everything.
    Realtime = 3,
}

bitflags::bitflags! {
    /// D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SyncObjectFlags: u32 {
        /// May be shared with other processes.
        const SHARED = 1;
        /// Shared by handles with security; only together with SHARED.
        const NT_SECURITY_SHARING = 1 << 1;
        /// May be opened on another adapter.
        const CROSS_ADAPTER = 1 << 2;
        /// This instance must not signal.
        const NO_SIGNAL = 1 << 4;
        /// This instance must not wait.
        const NO_WAIT = 1 << 5;
        /// Device loss does not raise the fence to its maximum.
        const NO_SIGNAL_MAX_VALUE_ON_TDR = 1 << 6;
        /// No GPU mapping.
        const NO_GPU_ACCESS = 1 << 7;
        /// CPU waiters stay until the shared fence goes, also when the instance by which they wait is destroyed.
        const UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY = 1 << 10;
    }
}
