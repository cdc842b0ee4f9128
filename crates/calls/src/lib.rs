//! The D3DKMT call surface as data: the calls of a process to the graphics kernel, without their
//! implementation.
//!
//! [`Kernel`] is the surface of one process. The graphics kernel implements it in process; a
//! service can implement it over a socket. Rooms: [`adapter`] · [`allocation`] · [`client`] ·
//! [`device`] (devices, contexts, hardware queues) · [`display`] (presents) · [`doorbell`] ·
//! [`fence`] ·
//! [`older`] · [`paging`] (residency) · [`resource`] · [`share`] · [`handle`] · [`HandleTable`] ·
//! [`Slots`] · [`view`] · [`report`] and [`snapshot`] (for the owner of a machine). The C
//! structures of these calls are in `wddm-abi`.
//!
//! CPU addresses are returned as typed views of memory: [`ReadOnly`] where the process may not
//! write.

pub mod adapter;
pub mod allocation;
pub mod client;
pub mod device;
pub mod display;
pub mod doorbell;
pub mod fence;
pub mod handle;
mod handle_table;
pub mod kernel;
pub mod keyed_mutex;
pub mod older;
pub mod paging;
pub mod report;
pub mod resource;
pub mod share;
mod slots;
pub mod snapshot;
#[macro_use]
mod table;
pub mod view;

pub use adapter::{AdapterInfo, ClockCalibration, NodeInfo};
pub use allocation::{
    Allocation, AllocationKind, AllocationMemory, CreateAllocation, MovingBytes, Placement,
    ReserveGpuVirtualAddress, ReservedAddresses, TILE_BYTES, TileOperation,
    UpdateGpuVirtualAddress,
};
pub use client::{ClientKind, Grant};
pub use device::{
    CreateContextVirtual, CreateHwContext, CreateHwQueue, DeviceErrorReason, DeviceState,
    FaultReport, HangReport, HwQueue, MAX_RENDER_BYTES, Render, SubmitCommand,
    SubmitCommandToHwQueue, TdrTest,
};
pub use display::{DisplayInfo, Present, PresentQueue};
pub use doorbell::{
    ConnectAnnouncement, Connection, CreateDoorbell, CreateDoorbellFlags, Doorbell,
};
pub use fence::{
    CpuWaitRegistration, CreateMonitoredFence, CreateNativeFence, CurrentValueView, FenceInstance,
    FenceValue, LogDetail, MAX_OBJECTS_PER_CPU_WAIT, RegisteredWait, SignalFlags, SignalFromGpu2,
    SubmitSignalToHwQueues, WaitCallback, WaitMode, WaitNotice,
};
pub use handle::Handle;
pub use handle_table::HandleTable;
pub use kernel::{CALLS, Kernel};
pub use keyed_mutex::{
    CreateKeyedMutex, KeyedMutex, KeyedMutexAcquire, MAX_KEYED_MUTEX_DATA_BYTES, OpenedKeyedMutex,
    ReleaseKeyedMutex,
};
pub use older::{
    CreateSynchronizationObject, OlderObject, OpenSynchronizationObject, SynchronizationObject,
};
pub use paging::{
    AllocationResidency, CreatePagingQueue, MakeResident, PagingPriority, PagingQueue, Residency,
    ResidencyPriority, SegmentGroup, VideoMemoryInfo,
};
pub use report::{DisplayStats, PendingWait};
pub use resource::{
    CreateResource, MAX_RESOURCE_DATA_BYTES, MAX_SHARED_ALLOCATIONS, OpenedResource, Resource,
    ResourceData, ResourceName,
};
pub use share::{NtHandle, OpenSyncObject, SyncObjectAccess};
pub use slots::{SlotKey, Slots};
pub use tidegate_d3dukmdt::{
    BroadcastExclusions, DoorbellStatus, FaultErrorCode, NativeFenceType, NoHint, PageFaultFlags,
    PixelFormat, Priority, RenderPipelineStage, RingBits, RingHint, Status, Surface,
    SyncObjectFlags,
};
pub use view::ReadOnly;
