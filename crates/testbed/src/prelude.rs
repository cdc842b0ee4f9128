//! The names that most tests of the kernel, the driver, the hardware and the queue API need: this
//! crate's, and the types of the calls, the driver interface, the packets and the machine.
//!
//! A test that needs another type of the same name imports it, which takes precedence. [`gpu`] and
//! [`driver`] are for tests of one part without the rest.

pub use crate::*;
pub use std::collections::BTreeSet;
pub use std::sync::{Arc, OnceLock};
pub use tidegate::calls::{
    Allocation, AllocationKind, AllocationMemory, CreateDoorbellFlags, CreateResource,
    CreateSynchronizationObject, DeviceErrorReason, DeviceState, Doorbell, DoorbellStatus,
    FaultReport, FenceInstance, FenceValue, Handle, HwQueue, Kernel, MakeResident, NativeFenceType,
    NtHandle, OlderObject, OpenSynchronizationObject, PagingQueue, PixelFormat, Placement, Present,
    PresentQueue, Priority, Render, ReserveGpuVirtualAddress, Residency, ResourceData,
    ResourceName, SegmentGroup, SignalFlags, SignalFromGpu2, Status, SubmitCommand,
    SubmitCommandToHwQueue, SubmitSignalToHwQueues, Surface, SyncObjectAccess, SyncObjectFlags,
    TdrTest, TileOperation, UpdateGpuVirtualAddress, WaitCallback, WaitMode, WaitNotice,
};
pub use tidegate::d3d12::testing::TestCommands;
pub use tidegate::d3d12::{
    Arg, Barrier, Buffer, BufferDesc, ClosedList, CommandList, CommandListType, Device,
    DeviceOptions, EnginePolicy, Error, ErrorCode, EventDesc, Fence, FenceChoice, FenceDesc,
    FenceFlags, Format, Heap, HeapDesc, OnAbort, PipelineState, PredicationOp, Queue, QueueDesc,
    QueueOptions, RemovedReason, ResidencyChoice, ResourceStates, StateRule, SwapChain,
    SwapChainDesc, TextureCopyLocation, TextureDesc, TileCopy, TileMapping, Validation,
};
pub use tidegate::d3dukmdt::FenceCell;
pub use tidegate::d3dukmdt::fence_cell::{MAX_ANNEX_PEAKS, PAGE_WORDS};
pub use tidegate::ddi::doorbell::CreateDoorbell;
pub use tidegate::ddi::feature::{
    FeatureSupport, NativeFenceOsCaps, QueryFeatureInterface, QueryFeatureSupport,
};
pub use tidegate::ddi::fence::{
    SetNativeFenceLogBuffer, UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
pub use tidegate::ddi::memory::{PageTableEntry, PagingOperation, UpdatePageTable};
pub use tidegate::ddi::queue::{ProgressFence, SubmitCommandVirtual};
pub use tidegate::ddi::record::Paging;
pub use tidegate::ddi::{
    AdapterCaps, AdapterResetDdi, ComponentState, ComputePreemption, ConnectDoorbellFlags, DdiCall,
    DdiVersion, DevicePowerState, DisconnectReason, Driver, DriverHandle, EngineId, EngineState,
    EngineStatus, Entry, EntryGroup, FaultErrorCode, FeatureId, GraphicsPreemption, HwContextLoss,
    HwQueueDdi, InterruptData, MonitoredNotification, NativeFenceCaps, NativeFenceDdi, OsHandle,
    Overrides, PageFault, PageFaultFlags, Passive, PeerSignalCaps, PreemptCommand,
    RenderPipelineStage, SubmitCommandFlags, UserModeSubmissionDdi, VidSchCaps,
};
pub use tidegate::dxgkrnl::{
    Adapter, BugCheck, DriverFault, FeatureSetting, InterruptDelivery, KernelStats,
    PowerManagement, ProcessKind, RecoveryOutcome, StartError, TdrDebugMode, TdrLevel,
};
pub use tidegate::gpu_abi::admin::{EngineAnswer, PENDING};
pub use tidegate::gpu_abi::log::{
    LOG_HEADER_WORDS, LOG_INDEX_WORD, LogEntry, LogOperation, LogType,
};
pub use tidegate::gpu_abi::regs::{DeviceTraits, FaultKind, NodePreemption};
pub use tidegate::gpu_abi::ring::{DmaFlags, NO_LOG_ENTRY, SAVED_STATE};
pub use tidegate::gpu_abi::{
    AddressSpaceId, AdminCommand, AdminError, CONTROL_WORDS, CONTROL_WRITE_WORD, Cause, Command,
    CommandWriter, DOORBELL_VALUE_WORD, GpuVa, InterruptSink, QueueId, QueueKind, QueueShape,
    QueueState, Register, RingPacket, SLOT_BYTES,
};
pub use tidegate::kmd::{DoorbellModel, FaultNaming, InterruptMode};
pub use tidegate::platform::{
    Bulk, BulkWindow, CpuTime, Event, MemoryModel, Mutex, Page, PhysicalAddress, PhysicalMemory,
    PlantedFault, QueueNumber, Step, StepCosts, WaitEnd, Word,
};
pub use tidegate::runner::cost::CostModel;
pub use tidegate::softgpu::{DisplayConfig, EngineKind, Frame, NodeConfig, WorkRates};
pub use tidegate::trace::{LaneId, LaneKind};
pub use tidegate::workload::LoadOptions;
pub use tidegate::workload::expect::Clock;
pub use tidegate::workload::model::Workload;
pub use tidegate::{Machine, MachineConfig, MachineError, Platform, RunRequest, Submission};

/// For tests of the GPU without the rest: its machine, processes, queues and fences take
/// precedence.
pub mod gpu {
    pub use super::*;
    pub use crate::bare_gpu::{
        Buffer, COMPUTE, COPY, Fence, Machine, Process, Queue, QueueOptions, Seen, THREE_D,
        everywhere, on, timed_process, with_process,
    };
    pub use tidegate::gpu_abi::ring::SAVE_AREA_BYTES;
    pub use tidegate::gpu_abi::{CONTROL_READ_WORD, Device};
    pub use tidegate::programs::ProgramId;
    pub use tidegate::programs::layout::Vertex;
    pub use tidegate::programs::mesh::vertex_bytes;
    pub use tidegate::softgpu::Config;
}

/// For tests of the driver without the rest: its machine and the arguments of its entries take
/// precedence.
pub mod driver {
    pub use super::*;
    pub use crate::bare_driver::{
        ALL, ALL_AND_INTRA_GPU, Event, Features, Machine, context_args, doorbell_args, fence_args,
        open_args, queue_args,
    };
    pub use tidegate::ddi::queue::{CreateContext, SetRootPageTable, SubmitCommandToHwQueue};
    pub use tidegate::ddi::{
        CreateDoorbellFlags, DebugReason, EngineResetDdi, FenceWaitDdi, LinkNativeFence, PeerDdi,
        PeerFence, PreemptionDdi,
    };
    pub use tidegate::kmd::{Config, KmdError};
    pub use tidegate::platform::Target;
}
