//! Arguments of device, context and hardware queue calls.

use crate::{FaultErrorCode, Handle, PageFaultFlags, Priority, ReadOnly, RenderPipelineStage};
use tidegate_platform::QueueNumber;

/// How a device stands (D3DKMT_DEVICEEXECUTION_STATE).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Working.
    Active,
    /// Lost to a GPU page fault or a packet that makes no sense.
    Faulted(FaultReport),
    /// Lost because the GPU made no progress with its work: what was noticed, in words.
    Hung(String),
    /// Lost because the GPU was reset for the work of another device: for what, in words.
    Reset(String),
    /// Lost because the adapter stopped with a bug check.
    Stopped,
    /// Lost because the adapter was removed, or was stopped while the device was there.
    Removed,
    /// Lost because its process was ended; nothing that it shares is made to pass for that.
    ProcessEnded,
}

/// What put a device into error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// The number of the queue (see [`crate::Kernel::queue_number`]); 0 where the hardware did not
    /// know which it was.
    pub queue: QueueNumber,
    /// The engine that ran it: its node.
    pub node_ordinal: u32,
    /// And its physical adapter.
    pub engine_ordinal: u32,
    /// Which command: the slot or packet number, counted from the queue's birth.
    pub position: u64,
    /// The progress value of the command buffer, or the packet's number; 0 where it was none, or
    /// unknown.
    pub fence_id: u64,
    /// The address that was used.
    pub gpu_va: u64,
    /// Whether it was a store: [`PageFaultFlags::WRITE`].
    pub write: bool,
    /// As the driver reported them.
    pub flags: PageFaultFlags,
    /// Which primitive, counted by the API; 0 when unknown.
    pub primitive_api_sequence_number: u64,
    /// Where in the pipeline of a draw.
    pub pipeline_stage: RenderPipelineStage,
    /// Which entry of the bind table; 0 when unknown.
    pub bind_table_entry: u32,
    /// The level of page tables that did not lead on; the last one is 0.
    pub page_table_level: u32,
    /// The driver's code.
    pub error_code: FaultErrorCode,
    /// What happened, in words.
    pub what: String,
}

/// D3DKMTCreateContextVirtual: a context whose packets VidSch schedules.
#[derive(Clone, Copy, Debug)]
pub struct CreateContextVirtual {
    /// The device.
    pub device: Handle,
    /// Which engine: its node.
    pub node_ordinal: u32,
    /// And its physical adapter, by its bit; 0 is the first one. More bits than one are none that a
    /// context can run on.
    pub engine_affinity: u32,
    /// Its priority.
    pub priority: Priority,
}

/// D3DKMTRender: commands that the driver checks, copies and patches, for hardware that uses
/// physical addresses. They mean each allocation by its GPU address, and reach none that is not
/// listed. The kernel pages in what they need, and runs them in parts where they need more than
/// there is.
#[derive(Clone, Copy, Debug)]
pub struct Render<'a> {
    /// The context; several of one device, on different physical adapters, run the same buffer
    /// (BroadcastContext).
    pub contexts: &'a [Handle],
    /// The commands; at most 1 MiB.
    pub commands: &'a [u8],
    /// The allocations, and whether the commands store to each.
    pub allocations: &'a [(Handle, bool)],
}

/// D3DKMTSubmitCommand: one command buffer for a context. It runs after everything that was queued
/// before it.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommand {
    /// The context.
    pub context: Handle,
    /// Where the commands stand.
    pub commands_gpu_va: u64,
    /// How many bytes.
    pub command_bytes: u32,
}

/// D3DKMTCreateHwContext.
#[derive(Clone, Copy, Debug)]
pub struct CreateHwContext {
    /// The device.
    pub device: Handle,
    /// Which engine: its node.
    pub node_ordinal: u32,
    /// And its physical adapter, as in [`CreateContextVirtual`].
    pub engine_affinity: u32,
}

/// D3DKMTCreateHwQueue.
#[derive(Clone, Copy, Debug)]
pub struct CreateHwQueue {
    /// The hardware context.
    pub hw_context: Handle,
    /// D3DDDI_CREATEHWQUEUEFLAGS::UserModeSubmission: the queue takes work by doorbell only.
    pub user_mode_submission: bool,
    /// Its priority.
    pub priority: Priority,
}

/// A created hardware queue.
#[derive(Clone, Debug)]
pub struct HwQueue {
    /// Its handle.
    pub handle: Handle,
    /// The handle of its progress fence.
    pub progress_fence: Handle,
    /// The progress fence's value.
    pub progress_value: ReadOnly,
    /// Where engines find the progress fence's value.
    pub progress_gpu_va: u64,
    /// Whether it is a native fence (NativeProgressFence).
    pub native_progress_fence: bool,
}

/// D3DKMTSubmitCommandToHwQueue: kernel-mode hardware queues only.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandToHwQueue {
    /// The queue.
    pub hw_queue: Handle,
    /// The progress value that says it is done; strictly increasing per queue.
    pub progress_fence_id: u64,
    /// Where the commands stand.
    pub commands_gpu_va: u64,
    /// How many bytes.
    pub command_bytes: u32,
}

/// D3DKMT_TDRDBGCTRLTYPE: a test of timeout detection and recovery, see D3DKMTEscape
/// (D3DKMT_ESCAPE_TDRDBGCTRL).
#[doc(alias = "D3DKMT_TDRDBGCTRLTYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrTest {
    /// TDRDBGCTRLTYPE_FORCETDR: the adapter is reset.
    ForceTdr,
    /// TDRDBGCTRLTYPE_DISABLEBREAK: the debugger is not notified before a recovery.
    DisableBreak,
    /// TDRDBGCTRLTYPE_ENABLEBREAK: the debugger is notified before a recovery.
    EnableBreak,
    /// TDRDBGCTRLTYPE_UNCONDITIONAL: recoveries are not counted any more.
    Unconditional,
    /// TDRDBGCTRLTYPE_VSYNCTDR.
    VSyncTdr,
    /// TDRDBGCTRLTYPE_GPUTDR: the adapter is reset.
    GpuTdr,
    /// TDRDBGCTRLTYPE_FORCEDODTDR.
    ForceDodTdr,
    /// TDRDBGCTRLTYPE_FORCEDODVSYNCTDR.
    ForceDodVSyncTdr,
    /// TDRDBGCTRLTYPE_ENGINETDR: an engine is reset.
    EngineTdr {
        /// Which: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
    },
}

impl TdrTest {
    /// The published number.
    pub fn number(self) -> u32 {
        match self {
            TdrTest::ForceTdr => 0,
            TdrTest::DisableBreak => 1,
            TdrTest::EnableBreak => 2,
            TdrTest::Unconditional => 3,
            TdrTest::VSyncTdr => 4,
            TdrTest::GpuTdr => 5,
            TdrTest::ForceDodTdr => 6,
            TdrTest::ForceDodVSyncTdr => 7,
            TdrTest::EngineTdr { .. } => 8,
        }
    }

    /// The test of that number; that of an engine is about this one.
    pub fn from_number(number: u32, node_ordinal: u32, engine_ordinal: u32) -> Option<TdrTest> {
        use TdrTest::{
            DisableBreak, EnableBreak, EngineTdr, ForceDodTdr, ForceDodVSyncTdr, ForceTdr, GpuTdr,
            Unconditional, VSyncTdr,
        };
        let all = [
            ForceTdr,
            DisableBreak,
            EnableBreak,
            Unconditional,
            VSyncTdr,
            GpuTdr,
            ForceDodTdr,
            ForceDodVSyncTdr,
            EngineTdr { node_ordinal, engine_ordinal },
        ];
        all.into_iter().find(|test| test.number() == number)
    }
}
