//! Arguments of device, context and hardware queue calls.

use crate::{
    BroadcastExclusions, FaultErrorCode, Handle, PageFaultFlags, Priority, ReadOnly,
    RenderPipelineStage,
};
use serde::{Deserialize, Serialize};
use tidegate_platform::QueueNumber;

/// State of a device (D3DKMT_DEVICEEXECUTION_STATE).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceState {
    /// Working.
    Active,
    /// Lost to a GPU page fault or a malformed packet.
    Faulted(FaultReport),
    /// Lost because the GPU made no progress with its work.
    Hung(HangReport),
    /// Lost because the GPU was reset for another device. The text is the reason.
    Reset(String),
    /// Lost because the adapter stopped with a bug check.
    Stopped,
    /// Lost because the adapter was removed, or stopped before the device ended.
    Removed,
    /// Lost because its process was ended. Its shared fences keep their values.
    ProcessEnded,
    /// Lost because its user-mode driver marked it ([`crate::Kernel::mark_device_as_error`]).
    MarkedAsError(DeviceErrorReason),
}

/// D3DKMT_DEVICE_ERROR_REASON: why a user-mode driver marks its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum DeviceErrorReason {
    /// The application broke a rule.
    Generic = 0x8000_0000,
    /// The driver itself failed.
    DriverError = 0x8000_0006,
}

/// Work that hung and put its device into error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HangReport {
    /// The symptom.
    pub what: String,
    /// The number of the queue; 0 if unknown.
    pub queue: QueueNumber,
    /// The progress value of the command buffer, or the packet's number; 0 if unknown.
    pub fence_id: u64,
    /// The command buffer or packet in words; empty if unknown.
    pub command: String,
    /// GPU address of the packet's commands; 0 if unknown. The progress value names the command
    /// buffer of a hardware queue.
    pub commands_gpu_va: u64,
    /// Number of the command that ran in its buffer, counted from 1 without labels; 0 if unknown.
    pub command_number: u64,
}

/// A fault that put a device into error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// The number of the queue (see [`crate::Kernel::queue_number`]); 0 if unknown.
    pub queue: QueueNumber,
    /// The engine that ran it: its node.
    pub node_ordinal: u32,
    /// Physical adapter of the engine.
    pub engine_ordinal: u32,
    /// The slot or packet number, counted from the creation of the queue.
    pub position: u64,
    /// The progress value of the command buffer, or the packet's number; 0 for none or unknown.
    pub fence_id: u64,
    /// GPU address of the packet's commands; 0 for a hardware queue, whose command buffer the
    /// progress value names.
    pub commands_gpu_va: u64,
    /// The faulting address.
    pub gpu_va: u64,
    /// Whether it was a store: [`PageFaultFlags::WRITE`].
    pub write: bool,
    /// The driver's flags.
    pub flags: PageFaultFlags,
    /// Number of the command in its buffer, counted from 1 without labels; 0 when unknown.
    pub primitive_api_sequence_number: u64,
    /// Stage of the pipeline of a draw.
    pub pipeline_stage: RenderPipelineStage,
    /// Entry of the bind table; 0 when unknown.
    pub bind_table_entry: u32,
    /// Page table level at which translation stopped; the last level is 0.
    pub page_table_level: u32,
    /// The driver's code.
    pub error_code: FaultErrorCode,
    /// The driver's description.
    pub what: String,
}

/// D3DKMTCreateContextVirtual: a context whose packets VidSch schedules.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CreateContextVirtual {
    /// The device.
    pub device: Handle,
    /// Node of the engine.
    pub node_ordinal: u32,
    /// Bit of the physical adapter of the engine; 0 for the first. Several bits are invalid.
    pub engine_affinity: u32,
    /// Its priority.
    pub priority: Priority,
}

/// The most commands of a [`Render`], in bytes.
pub const MAX_RENDER_BYTES: usize = 1 << 20;

/// D3DKMTRender: commands that the driver checks, copies and patches, for hardware with physical
/// addresses. They name allocations by GPU address and reach listed allocations only. The kernel
/// pages allocations in, and runs the commands in parts if they do not fit into memory at once.
#[derive(Clone, Copy, Debug)]
pub struct Render<'a> {
    /// The contexts of one device, on different physical adapters, that run the buffer
    /// (BroadcastContext).
    pub contexts: &'a [Handle],
    /// The commands; at most [`MAX_RENDER_BYTES`].
    pub commands: &'a [u8],
    /// The allocations, and whether the commands store to each.
    pub allocations: &'a [(Handle, bool)],
}

/// D3DKMTSubmitCommand: one command buffer for a context. It runs after all earlier work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SubmitCommand {
    /// The context.
    pub context: Handle,
    /// Process GPU address of the commands.
    pub commands_gpu_va: u64,
    /// Size in bytes.
    pub command_bytes: u32,
}

/// D3DKMTCreateHwContext.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CreateHwContext {
    /// The device.
    pub device: Handle,
    /// Node of the engine.
    pub node_ordinal: u32,
    /// Physical adapter of the engine, as in [`CreateContextVirtual`].
    pub engine_affinity: u32,
}

/// D3DKMTCreateHwQueue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CreateHwQueue {
    /// The hardware context.
    pub hw_context: Handle,
    /// D3DDDI_CREATEHWQUEUEFLAGS::UserModeSubmission: the queue takes work by doorbell only.
    pub user_mode_submission: bool,
    /// Its priority.
    pub priority: Priority,
    /// The command buffers of a kernel-mode queue carry waits and signals of native fences, so it
    /// gets fence logs. NOT_SUPPORTED on an adapter without native fences. A choice of this
    /// project: no published flag says so. Without effect on a user-mode queue.
    pub native_fence_commands: bool,
    /// NoBroadcastSignal and NoBroadcastWait: operations that leave the queue out.
    pub exclusions: BroadcastExclusions,
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
    /// GPU address of the progress fence's value.
    pub progress_gpu_va: u64,
    /// Whether it is a native fence (NativeProgressFence).
    pub native_progress_fence: bool,
}

/// D3DKMTSubmitCommandToHwQueue: kernel-mode hardware queues only.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SubmitCommandToHwQueue {
    /// The queue.
    pub hw_queue: Handle,
    /// The progress value of its completion; strictly increasing per queue.
    pub progress_fence_id: u64,
    /// Process GPU address of the commands.
    pub commands_gpu_va: u64,
    /// Size in bytes.
    pub command_bytes: u32,
}

/// D3DKMT_TDRDBGCTRLTYPE: a test of timeout detection and recovery, see D3DKMTEscape
/// (D3DKMT_ESCAPE_TDRDBGCTRL).
#[doc(alias = "D3DKMT_TDRDBGCTRLTYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TdrTest {
    /// TDRDBGCTRLTYPE_FORCETDR: the adapter is reset.
    ForceTdr,
    /// TDRDBGCTRLTYPE_DISABLEBREAK: the debugger is not notified before a recovery.
    DisableBreak,
    /// TDRDBGCTRLTYPE_ENABLEBREAK: the debugger is notified before a recovery.
    EnableBreak,
    /// TDRDBGCTRLTYPE_UNCONDITIONAL: recoveries are not counted any more.
    Unconditional,
    /// TDRDBGCTRLTYPE_VSYNCTDR: the adapter is reset as if its display did not acknowledge a flip.
    VSyncTdr,
    /// TDRDBGCTRLTYPE_GPUTDR: the adapter is reset.
    GpuTdr,
    /// TDRDBGCTRLTYPE_FORCEDODTDR.
    ForceDodTdr,
    /// TDRDBGCTRLTYPE_FORCEDODVSYNCTDR.
    ForceDodVSyncTdr,
    /// TDRDBGCTRLTYPE_ENGINETDR: an engine is reset.
    EngineTdr {
        /// Node of the engine.
        node_ordinal: u32,
        /// Physical adapter of the engine.
        engine_ordinal: u32,
    },
}

impl TdrTest {
    /// Returns the published number.
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

    /// The test of that number; a test of an engine is about this one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// TDRDBGCTRLTYPE_FORCETDR is 0, TDRDBGCTRLTYPE_ENGINETDR is 8.
    #[test]
    fn each_published_number_of_a_test_names_one_test() {
        let of = |number| TdrTest::from_number(number, 3, 1);
        for number in 0..=8 {
            assert_eq!(of(number).map(TdrTest::number), Some(number));
        }
        assert_eq!(of(0), Some(TdrTest::ForceTdr));
        assert_eq!(of(5), Some(TdrTest::GpuTdr));
        assert_eq!(of(8), Some(TdrTest::EngineTdr { node_ordinal: 3, engine_ordinal: 1 }));
        assert_eq!(of(9), None);
    }
}
