//! The statuses that an entry may return.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::{Calls, Twin};
use tidegate::ddi::{Entry, Status};

/// The statuses of one entry.
pub(crate) struct Rule {
    pub(crate) clause: Clause,
    entry: Entry,
    /// Failures that are allowed.
    legal: &'static [Status],
}

macro_rules! rule_text {
    ($name:literal) => {
        concat!($name, " succeeds")
    };
    ($name:literal $first:ident $(, $other:ident)*) => {
        concat!(
            $name, " fails only with STATUS_", stringify!($first)
            $(, " or STATUS_", stringify!($other))*
        )
    };
}

macro_rules! adapter {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

macro_rules! rules {
    ($($Entry:ident $name:literal [$($legal:ident),*] in $situation:literal $(on $adapter:literal)?,
        $calls:ident, $source:literal;)*) => {
        pub(crate) static RULES: &[Rule] = &[$(Rule {
            clause: Clause {
                id: concat!("statuses-", stringify!($Entry)),
                family: Family::Statuses,
                rule: rule_text!($name $($legal),*),
                source: $source,
                situations: &[$situation],
                twin: Twin::Fails(Entry::$Entry, Status::INTERNAL_ERROR, Calls::$calls),
                also: &[],
                adapter: adapter!($($adapter)?),
            },
            entry: Entry::$Entry,
            legal: &[$(Status::$legal),*],
        }),*];
    };
}

rules! {
    StartDevice "DxgkDdiStartDevice" [] in "packets", All, "page DXGKDDI_START_DEVICE";
    UpdatePageTable "DxgkDdiBuildPagingBuffer of page tables"
        [GRAPHICS_ALLOCATION_BUSY, GRAPHICS_INSUFFICIENT_DMA_BUFFER]
        in "packets", AfterFirst, "page DXGKDDI_BUILDPAGINGBUFFER";
    BuildPagingBuffer "DxgkDdiBuildPagingBuffer"
        [GRAPHICS_ALLOCATION_BUSY, GRAPHICS_INSUFFICIENT_DMA_BUFFER]
        in "memory", AfterFirst, "page DXGKDDI_BUILDPAGINGBUFFER";
    SetRootPageTable "DxgkDdiSetRootPageTable" [] in "packets", All,
        "page DXGKDDI_SETROOTPAGETABLE: no status";
    CreateDevice "DxgkDdiCreateDevice" [INVALID_PARAMETER, NO_MEMORY] in "packets", All,
        "page DXGKDDI_CREATEDEVICE";
    CreateContext "DxgkDdiCreateContext"
        [INVALID_PARAMETER, NO_MEMORY, INSUFFICIENT_RESOURCES, GRAPHICS_DRIVER_MISMATCH] in "packets", AfterFirst, "page DXGKDDI_CREATECONTEXT";
    SubmitCommandVirtual "DxgkDdiSubmitCommandVirtual" [INVALID_PARAMETER] in "packets", AfterFirst,
        "page DXGKDDI_SUBMITCOMMANDVIRTUAL";
    SuspendContext "DxgkDdiSuspendContext" [] in "user-sleep", All, "UMS-043";
    ResumeContext "DxgkDdiResumeContext" [] in "user-sleep", All, "UMS-046";
    CreateHwQueue "DxgkDdiCreateHwQueue" [INVALID_PARAMETER, NO_MEMORY, INSUFFICIENT_RESOURCES]
        in "hw-queues", AfterFirst, "page DXGKDDI_CREATEHWQUEUE";
    SubmitCommandToHwQueue "DxgkDdiSubmitCommandToHwQueue" [INVALID_PARAMETER] in "hw-queues",
        AfterFirst, "page DXGKDDI_SUBMITCOMMANDTOHWQUEUE";
    ResumeHwEngine "DxgkDdiResumeHwEngine" [] in "hw-hang", All, "page DXGKDDI_RESUMEHWENGINE";
    SetupPriorityBands "DxgkDdiSetupPriorityBands" [NOT_SUPPORTED] in "packets", All, "HS-001";
    SetContextSchedulingProperties "DxgkDdiSetContextSchedulingProperties" [] in "hw-urgent", All,
        "HS-002";
    GetStandardAllocationDriverData "DxgkDdiGetStandardAllocationDriverData" [NOT_SUPPORTED, NO_MEMORY]
        in "hw-queues", All, "NF-109";
    CreateNativeFence "DxgkDdiCreateNativeFence" [INVALID_PARAMETER, NO_MEMORY, INSUFFICIENT_RESOURCES]
        in "hw-queues", AfterFirst, "NF-078";
    OpenNativeFence "DxgkDdiOpenNativeFence" [INVALID_PARAMETER, NO_MEMORY, INSUFFICIENT_RESOURCES]
        in "hw-queues", AfterFirst, "NF-078";
    CreateDoorbell "DxgkDdiCreateDoorbell" [INVALID_PARAMETER, NO_MEMORY, INSUFFICIENT_RESOURCES]
        in "user-queues", AfterFirst, "UMS-064";
    ConnectDoorbell "DxgkDdiConnectDoorbell" [DEVICE_REMOVED] in "user-queues", All, "UMS-065";
    CreateAllocation "DxgkDdiCreateAllocation"
        [INVALID_PARAMETER, NO_MEMORY, GRAPHICS_DRIVER_MISMATCH]
        in "memory" on "opened-allocations", AfterFirst, "page DXGKDDI_CREATEALLOCATION";
    OpenAllocation "DxgkDdiOpenAllocation" [INVALID_PARAMETER, NO_MEMORY, GRAPHICS_DRIVER_MISMATCH]
        in "memory" on "opened-allocations", AfterFirst, "page DXGKDDI_OPENALLOCATION";
    PreemptCommand "DxgkDdiPreemptCommand" [] in "preemption", All, "PRE-019";
    CancelCommand "DxgkDdiCancelCommand" [] in "hang" on "cancel-command-aware", All, "PRE-071";
    QueryCurrentFence "DxgkDdiQueryCurrentFence" [] in "packets-lost", All,
        "page DXGKDDI_QUERYCURRENTFENCE";
    ResetFromTimeout "DxgkDdiResetFromTimeout" [] in "hang-adapter", All, "PRE-052";
    RestartFromTimeout "DxgkDdiRestartFromTimeout" [] in "hang-adapter", All, "PRE-052";
    CollectDbgInfo "DxgkDdiCollectDbgInfo" [UNSUCCESSFUL, NO_MEMORY] in "hang", All,
        "page DXGKDDI_COLLECTDBGINFO";
    QueryDependentEngineGroup "DxgkDdiQueryDependentEngineGroup" [] in "hang", All, "PRE-046";
    QueryEngineStatus "DxgkDdiQueryEngineStatus" [] in "hw-hang", All, "PRE-045";
    SetVidPnSourceAddress "DxgkDdiSetVidPnSourceAddress" [] in "flips", All,
        "page DXGKDDI_SETVIDPNSOURCEADDRESS";
    SetVidPnSourceVisibility "DxgkDdiSetVidPnSourceVisibility" [] in "flips", All,
        "page DXGKDDI_SETVIDPNSOURCEVISIBILITY";
    ControlInterrupt "DxgkDdiControlInterrupt of vertical syncs" [NOT_IMPLEMENTED] in "flips", All,
        "page DXGKDDI_CONTROLINTERRUPT";
}

/// Checks each returned status.
pub(super) struct Walk;

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        let Event::Returned(entry, Some(status)) = event else { return };
        let Some(rule) = RULES.iter().find(|rule| rule.entry == *entry) else { return };
        let holds = status.is_success() || rule.legal.contains(status);
        tally.check(rule.clause.id, holds, || format!("it returned {status:?}"));
    }
}
