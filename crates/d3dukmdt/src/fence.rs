//! Types of native fences, creation flags of synchronisation objects, priorities.

use crate::Status;
use serde::{Deserialize, Serialize};

// spec: NF-098
/// D3DDDI_NATIVEFENCE_TYPE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum NativeFenceType {
    /// System memory; CPU and GPU may wait and signal.
    #[default]
    Default = 0,
    /// Local memory, for a driver's own use; no CPU waits or signals.
    IntraGpu = 1,
}

/// Scheduling priority of a context or hardware queue, as four levels.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(u32)]
pub enum Priority {
    /// Runs when no other work is ready.
    Idle = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Before normal work.
    High = 2,
    /// Before all other work.
    Realtime = 3,
}

bitflags::bitflags! {
    /// D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SyncObjectFlags: u32 {
        /// May be shared with other processes.
        const SHARED = 1;
        /// Shared by handles with security; only together with SHARED.
        const NT_SECURITY_SHARING = 1 << 1;
        /// May be opened on another adapter.
        const CROSS_ADAPTER = 1 << 2;
        /// A signal may be made when the work before it begins instead of when it ends.
        const TOP_OF_PIPELINE = 1 << 3;
        /// This instance must not signal.
        const NO_SIGNAL = 1 << 4;
        /// This instance must not wait.
        const NO_WAIT = 1 << 5;
        /// Device loss does not raise the fence to its maximum.
        const NO_SIGNAL_MAX_VALUE_ON_TDR = 1 << 6;
        /// No GPU mapping.
        const NO_GPU_ACCESS = 1 << 7;
        /// The kernel-mode driver may set the event; only CPU notifications.
        const SIGNAL_BY_KMD = 1 << 8;
        /// CPU waiters stay until the shared fence ends, even if the instance of their wait is
        /// destroyed.
        const UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY = 1 << 10;
        /// Reserved for the operating system; no caller may set it.
        #[doc(alias = "Reserved0")]
        const OS_INTERNAL = 1 << 31;
    }
}

/// Operations on fences that leave a hardware queue out, because its work has no behaviour
/// that an application observes (flags of D3DDDI_CREATEHWQUEUEFLAGS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastExclusions {
    /// NoBroadcastSignal: the signals of a command queue, which name each of its hardware queues.
    pub signals: bool,
    /// NoBroadcastWait: the waits of a command queue. A wait that names the queue itself holds it.
    pub waits: bool,
}

impl SyncObjectFlags {
    /// Checks the flags of a caller. INVALID_PARAMETER for reserved bits (9, 11 to 30, and that of
    /// the operating system).
    // spec: MF-080
    pub fn from_caller(bits: u32) -> Result<SyncObjectFlags, Status> {
        match SyncObjectFlags::from_bits(bits) {
            Some(flags) if !flags.contains(SyncObjectFlags::OS_INTERNAL) => Ok(flags),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: MF-080
    #[test]
    fn reserved_flags_are_refused() {
        for bit in 0..32 {
            let known = matches!(bit, 0..=8 | 10 | 31);
            assert_eq!(SyncObjectFlags::from_bits(1 << bit).is_some(), known, "bit {bit}");
            assert_eq!(
                SyncObjectFlags::from_caller(1 << bit).is_ok(),
                known && bit != 31,
                "bit {bit}"
            );
        }
        assert_eq!(SyncObjectFlags::TOP_OF_PIPELINE.bits(), 0x8);
        assert_eq!(SyncObjectFlags::SIGNAL_BY_KMD.bits(), 0x100);
        assert_eq!(SyncObjectFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY.bits(), 0x400);
    }
}
