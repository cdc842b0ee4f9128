//! Ports of the objects to the rooms above them.

use crate::fence::FenceTarget;
use crate::memory::AllocationObject;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::scheduling::SignalAction;
use std::sync::Arc;
use tidegate_calls::{DeviceErrorReason, Status, Surface, TdrTest};
use tidegate_ddi::{EngineId, Irql, OsHandle, Passive};
use tidegate_platform::QueueNumber;

/// Commands that a driver refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedCommands {
    pub(crate) queue: QueueNumber,
    /// Fence ID of the packet, or progress value of the command.
    pub(crate) position: u64,
    pub(crate) gpu_va: u64,
}

/// Timeout detection and recovery, and the loss of devices.
pub(crate) trait RecoveryPort: Send + Sync {
    /// Returns whether a process is blocked for causing too many timeouts (0x142).
    fn is_blocked(&self, address_space: u32) -> bool;

    /// D3DKMT_TDRDBGCTRLTYPE.
    ///
    /// # Errors
    /// NOT_SUPPORTED for tests of displays; INVALID_PARAMETER for an unknown engine; DEVICE_REMOVED
    /// when a driver contract was broken.
    fn debug_timeouts(self: Arc<Self>, level: &Passive, test: TdrTest) -> Result<(), Status>;

    /// The user-mode driver marked its device: it is lost, unless it was lost before.
    fn lose_marked_device(&self, level: &Passive, device: &Arc<Device>, reason: DeviceErrorReason);

    /// The driver refused commands of a process as malformed: the device is lost.
    fn commands_refused(
        self: Arc<Self>,
        level: Irql<'_>,
        device: &Arc<Device>,
        engine: EngineId,
        of: RefusedCommands,
    );

    /// The rest of a split buffer cannot run after a part of it was queued: the device is lost.
    fn split_refused(
        self: Arc<Self>,
        level: Irql<'_>,
        context: &Arc<Context>,
        offset: u32,
        what: String,
    );
}

/// Arguments of a flip.
pub(crate) struct FlipDesc {
    pub(crate) vid_pn_source_id: u32,
    pub(crate) allocation: Arc<AllocationObject>,
    pub(crate) surface: Surface,
    pub(crate) sync_interval: u32,
    /// Signalled when the flip is latched.
    pub(crate) shown: Option<FenceTarget>,
}

/// The display of an adapter that has one.
pub(crate) trait DisplayPort: Send + Sync {
    /// Creates a flip, to be queued behind the work that renders its picture.
    ///
    /// # Errors
    /// See `display::flip::begin`.
    fn begin_flip(
        self: Arc<Self>,
        level: Irql<'_>,
        device: &Arc<Device>,
        desc: FlipDesc,
    ) -> Result<Box<dyn SignalAction>, Status>;

    /// Blocks until the next vertical sync.
    ///
    /// # Errors
    /// CANCELLED when the machine stopped; DEVICE_REMOVED with the adapter.
    fn wait_for_vertical_blank(self: Arc<Self>, level: &Passive) -> Result<(), Status>;

    /// Called when a device ends. Blanks the screen if it shows one of the device's pictures.
    fn device_ends(self: Arc<Self>, level: &Passive, device: OsHandle);
}

/// A process that has the adapter open, as seen by a removal.
pub(crate) trait OpenProcess: Send + Sync {
    /// Ends the process because its adapter is removed. GPU work is not waited for. The devices are
    /// already lost.
    fn end_with_adapter(&self, level: &Passive);
}
