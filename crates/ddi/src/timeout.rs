//! Owns what kernel and driver say to each other in timeout detection and recovery.

/// DXGKARG_QUERYENGINESTATUS, what comes out.
#[doc(alias = "DXGK_ENGINESTATUS")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// The engine takes part.
    pub responsive: bool,
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
