//! Arguments of the entries for timeout detection and recovery.

use crate::{EngineId, OsHandle};

/// DXGKARG_QUERYENGINESTATUS, what comes out.
#[doc(alias = "DXGK_ENGINESTATUS")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// The engine responds.
    pub responsive: bool,
    /// The kernel's handle of the hardware context that runs. Not published: the published
    /// structure has only the bit above, which does not distinguish a hang from queues that all
    /// wait.
    pub hw_context: Option<OsHandle>,
    /// Progress counter of that context. It changes whenever the engine makes progress. Not
    /// published.
    pub progress: u64,
    /// The kernel's handles of the hardware queues that have work and may not run it: the head
    /// waits for a fence, or the queue is suspended or faulted. The kernel reads it when no context
    /// runs. `None` from a driver that does not know. A queue with accepted work that neither runs
    /// nor is listed here has lost its work. Not published.
    pub held_back: Option<Vec<OsHandle>>,
}

/// What a reset did to a hardware context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HwContextLoss {
    /// Its work made the reset necessary.
    Culprit,
    /// It was on the same engine and lost its work there.
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

/// The command that an engine ran at a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningCommand {
    /// The engine.
    pub engine: EngineId,
    /// The hardware queue; `None` for the first packet that is in flight on the engine.
    pub hw_queue: Option<OsHandle>,
    /// Its number in its command buffer, counted from 1 without labels; 0 if unknown.
    pub number: u64,
}

/// The driver's description of the state at a recovery. Kept in the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugInfo {
    /// As text.
    pub text: String,
    /// What the engines ran, as far as it is known.
    pub commands: Vec<RunningCommand>,
}
