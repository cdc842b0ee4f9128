//! What a watch sees: calls of the driver, what they return, and reports of the driver. What is
//! known about the run before it begins, and at its end.

use tidegate::RunResult;
use tidegate::d3dukmdt::DoorbellStatus;
use tidegate::ddi::timeout::{EngineStatus, HwContextLoss};
use tidegate::ddi::{
    AdapterCaps, ComponentState, DdiCall, DevicePowerState, DriverHandle, EngineId, Entry,
    InterruptData, OsHandle, PowerAction, Status,
};
use tidegate::dxgkrnl::{Adapter, DriverFault, StartError};

/// One event.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// An entry was called.
    Called(DdiCall),
    /// It returned; `None` for an entry without a status.
    Returned(Entry, Option<Status>),
    /// It returned a handle of a new object. `os_handle` is the kernel's, where it names one.
    Made { entry: Entry, handle: DriverHandle, os_handle: OsHandle },
    /// DxgkDdiQueryAdapterInfo returned caps.
    Caps(Box<AdapterCaps>),
    /// The last packet that the device has completed on an engine. It is read before a call of the
    /// interrupt routine, and before an event that names a complete packet.
    OnDevice(EngineId, u32),
    /// DxgkDdiSetPowerState returned.
    Power(DevicePowerState, PowerAction, Status),
    /// DxgkDdiSetPowerComponentFState returned.
    ComponentPower(EngineId, ComponentState, Status),
    /// DxgkDdiCreateDoorbell returned private data: bytes that were given, and that came back.
    DoorbellData(usize, usize),
    /// DxgkDdiQueryAdapterInfo returned a segment of this size.
    Segment(usize, u64),
    /// DxgkDdiQueryAdapterInfo returned the size of a doorbell.
    DoorbellBytes(u32),
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
    /// DxgkDdiBuildPagingBuffer returned from an operation with commands.
    Paged(Paged),
    /// A packet was refused.
    Refused(EngineId, u32),
    /// DxgkDdiCollectDbgInfo returned this many bytes of text.
    DebugText(usize),
    /// DxgkCbDisconnectDoorbell was called.
    Disconnects { hw_queue: OsHandle, doorbell: OsHandle },
    /// DxgkCbCreateContextAllocation returned.
    SaveArea(OsHandle),
    /// DxgkCbDestroyContextAllocation was called.
    SaveAreaEnds(OsHandle),
    /// DxgkDdiConnectDoorbell returned.
    Connected(DoorbellStatus),
    /// DxgkDdiInterruptRoutine returned whether the interrupt was the adapter's.
    Interrupted(bool),
    /// DxgkCbNotifyInterrupt, and whether the interrupt routine called it.
    Report(InterruptData, bool),
    /// DxgkCbQueueDpc.
    QueuedDpc,
    /// DxgkCbNotifyDpc.
    NotifiedDpc,
    /// DxgkCbInvalidateHwContext.
    Invalidated(OsHandle, HwContextLoss),
}

/// An operation of DxgkDdiBuildPagingBuffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paged {
    /// The bytes that it moves or fills.
    pub(crate) bytes: u64,
    /// What was in the buffer, and what is there now, in bytes of commands.
    pub(crate) used: (u32, u32),
    /// MultipassOffset before and now.
    pub(crate) multipass_offset: (u32, u32),
    pub(crate) status: Status,
}

/// What is known about a run before it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whether the program is one of `situations`.
    pub(crate) is_ours: bool,
    /// What happens to work of the program.
    pub(crate) accident: Accident,
    /// How interrupts come.
    pub(crate) interrupts: Interrupts,
    /// How fast the engines are.
    pub(crate) engines: Engines,
}

impl Facts {
    /// A run of a program that is not known: work may hang and fault.
    pub(crate) const UNKNOWN: Facts = Facts {
        is_ours: false,
        accident: Accident::Unknown,
        interrupts: Interrupts::InTime,
        engines: Engines::Even,
    };

    /// Returns whether work of the program hangs.
    pub(crate) fn hangs(self) -> bool {
        self.accident == Accident::Hang
    }

    /// Returns whether a packet may stay without an end for a reason that is not the driver's.
    pub(crate) fn may_hang(self) -> bool {
        matches!(self.accident, Accident::Hang | Accident::Lost | Accident::Unknown)
    }

    /// Returns whether work of the program may fault.
    pub(crate) fn may_fault(self) -> bool {
        matches!(self.accident, Accident::Fault | Accident::Unknown)
    }

    /// Returns whether interrupts get lost.
    pub(crate) fn loses_interrupts(self) -> bool {
        self.accident == Accident::Lost
    }

    /// Returns whether the results of the program must be right.
    pub(crate) fn has_results(self) -> bool {
        self.accident == Accident::None
    }
}

/// What happens to work of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accident {
    /// Nothing: its results are right.
    None,
    /// It hangs.
    Hang,
    /// It faults.
    Fault,
    /// Interrupts get lost, so its end is late.
    Lost,
    /// The program is unknown.
    Unknown,
}

/// How interrupts of a run come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupts {
    /// As the machine has it.
    InTime,
    /// Each comes twice: the second has no cause.
    Twice,
    /// Each comes late, so it is for several packets.
    Late,
}

/// How fast the engines of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engines {
    /// As the machine has them.
    Even,
    /// One has long packets while others have short ones.
    Uneven,
    /// All are slow.
    Slow,
}

/// What is known about a run when it has ended.
#[derive(Debug, Default)]
pub struct RunEnd {
    /// Whether a violation stopped the adapter: obligations that are due at the end are void.
    pub stopped: bool,
    /// Why the adapter did not start.
    pub refused: Option<StartError>,
    /// What the kernel worked around.
    pub driver_faults: Vec<DriverFault>,
    /// What was wrong with the results of the program, and what the kernel found.
    pub problems: Vec<String>,
    /// Whether the GPU was stopped because the run did not end.
    pub was_ended: bool,
}

impl RunEnd {
    /// Returns the end of the run of a workload.
    pub fn of_run(result: &RunResult) -> RunEnd {
        let (stopped, driver_faults) =
            (!result.violations.is_empty(), result.driver_faults.clone());
        RunEnd { stopped, driver_faults, ..RunEnd::default() }
    }

    /// Returns the end of a run on an adapter.
    pub fn of(adapter: &Adapter) -> RunEnd {
        let (stopped, driver_faults) = (!adapter.bug_checks().is_empty(), adapter.driver_faults());
        RunEnd { stopped, driver_faults, ..RunEnd::default() }
    }
}
