//! What a watch saw: calls of the driver, what they returned, and reports of the driver, in order.

use tidegate::d3dukmdt::DoorbellStatus;
use tidegate::ddi::timeout::{EngineStatus, HwContextLoss};
use tidegate::ddi::{
    AdapterCaps, DdiCall, DriverHandle, EngineId, Entry, InterruptData, OsHandle, Status,
};
use tidegate::dxgkrnl::{DriverFault, StartError};
use tidegate::platform::CpuTime;

/// One event.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// An entry was called.
    Called(DdiCall),
    /// It returned; `None` for an entry without a status.
    Returned(Entry, Option<Status>),
    /// It returned a handle of a new object.
    Made(Entry, DriverHandle),
    /// DxgkDdiQueryAdapterInfo returned caps.
    Caps(Box<AdapterCaps>),
    /// DxgkDdiResetEngine returned LastAbortedFenceId.
    EngineReset(EngineId, u32),
    /// DxgkDdiQueryCurrentFence returned an id.
    CurrentFence(EngineId, u32),
    /// DxgkDdiQueryEngineStatus returned.
    EngineStatus(EngineStatus),
    /// DxgkDdiQueryDependentEngineGroup returned.
    DependentEngines(EngineId, u64),
    /// DxgkDdiSuspendContext returned whether the context is suspended already.
    Suspended { context: DriverHandle, suspend_fence: u64, complete: bool },
    /// DxgkDdiCreateContext returned the driver's handle of a context.
    Context(OsHandle, DriverHandle),
    /// A packet was refused.
    Refused(EngineId, u32),
    /// DxgkDdiCollectDbgInfo returned this many bytes of text.
    DebugText(usize),
    /// DxgkCbDisconnectDoorbell was called.
    Disconnects(OsHandle),
    /// DxgkCbCreateContextAllocation returned.
    SaveArea(OsHandle),
    /// DxgkCbDestroyContextAllocation was called.
    SaveAreaEnds(OsHandle),
    /// DxgkDdiConnectDoorbell returned.
    Connected(DoorbellStatus),
    /// DxgkDdiInterruptRoutine returned whether the interrupt was the adapter's.
    Interrupted(bool),
    /// DxgkCbNotifyInterrupt.
    Report(InterruptData),
    /// DxgkCbQueueDpc.
    QueuedDpc,
    /// DxgkCbNotifyDpc.
    NotifiedDpc,
    /// DxgkCbInvalidateHwContext.
    Invalidated(OsHandle, HwContextLoss),
}

/// An event and its time.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: CpuTime,
    pub(crate) event: Event,
}

/// A run of a situation.
pub(crate) struct Journal {
    pub(crate) seen: Vec<Seen>,
    /// Whether it has each event of the run.
    pub(crate) is_whole: bool,
    /// Whether the GPU was stopped because the run did not end.
    pub(crate) was_ended: bool,
    /// Why the adapter did not start.
    pub(crate) refused: Option<StartError>,
    /// What was wrong with the results of the program, and what the kernel found.
    pub(crate) problems: Vec<String>,
    /// What the kernel worked around.
    pub(crate) faults_of_driver: Vec<DriverFault>,
    /// Whether the program is one of `situations`.
    pub(crate) is_ours: bool,
    /// Whether work of the program hangs.
    pub(crate) hangs: bool,
    /// Whether work of the program faults.
    pub(crate) faults: bool,
    /// Whether interrupts get lost.
    pub(crate) loses_interrupts: bool,
    /// Whether each interrupt comes twice.
    pub(crate) doubled: bool,
    /// Whether the results of the program must be right.
    pub(crate) results: bool,
    /// Whether a violation stopped the adapter: obligations that are due at the end are void.
    pub(crate) stopped: bool,
}

impl Journal {
    /// Returns the events with their places.
    pub(crate) fn events(&self) -> impl Iterator<Item = (usize, &Event)> {
        self.seen.iter().enumerate().map(|(place, seen)| (place, &seen.event))
    }
}
