//! Owns what kernel and driver say to each other in timeout detection and recovery.

use crate::OsHandle;

/// DXGKARG_QUERYENGINESTATUS, what comes out.
#[doc(alias = "DXGK_ENGINESTATUS")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// The engine takes part.
    pub responsive: bool,
    /// The hardware context that it works for, by the kernel's handle. Ours: the published
    /// structure has the bit above and nothing else, which cannot tell an engine that works from
    /// one whose queues all wait, and a wait is no hang.
    pub hw_context: Option<OsHandle>,
    /// Ours, with it: another number as soon as the engine has done something more.
    pub progress: u64,
    /// Ours: the hardware queues of the engine that have work and may not run it, by the kernel's
    /// handles. Their heads wait for a fence, they are suspended, or they faulted. The kernel reads
    /// it where the engine works for no context; `None` from a driver that does not know. A queue
    /// with accepted work that neither runs nor stands here has lost its work.
    pub held_back: Option<Vec<OsHandle>>,
}

/// What a reset did to a hardware context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HwContextLoss {
    /// Its work made the reset necessary.
    Culprit,
    /// It stood on the same engine and lost what it had there.
    Bystander,
}

/// Why DxgkDdiCollectDbgInfo is called: the code of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DebugReason {
    /// VIDEO_TDR_TIMEOUT_DETECTED: an adapter is reset.
    TimeoutDetected = 0x117,
    /// VIDEO_ENGINE_TIMEOUT_DETECTED: an engine is reset.
    EngineTimeoutDetected = 0x141,
    /// VIDEO_TDR_FAILURE: the recovery failed, or there were too many.
    TimeoutFailure = 0x116,
}
