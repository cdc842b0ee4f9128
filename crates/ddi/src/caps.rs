//! Caps of a driver: scheduling, nodes, native fences, user-mode submission. The caps of a feature
//! are a separate query, which is made only when the feature is declared.

use crate::display::DisplayCaps;
use crate::engine::{EngineId, EngineMap};
use crate::peer::PeerSignalCaps;
use tidegate_d3dukmdt::{ComputePreemption, EngineKind, GraphicsPreemption};

bitflags::bitflags! {
    /// DXGK_VIDSCHCAPS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VidSchCaps: u32 {
        /// The driver supports several nodes.
        const MULTI_ENGINE_AWARE = 1;
        /// The driver powers down by itself while only the vertical blank is waited for.
        const VSYNC_POWER_SAVE_AWARE = 1 << 1;
        /// The preemption model of WDDM 1.2.
        const PREEMPTION_AWARE = 1 << 2;
        /// GPU virtual addresses, without patch lists.
        const NO_DMA_PATCHING = 1 << 3;
        /// The driver has DxgkDdiCancelCommand.
        const CANCEL_COMMAND_AWARE = 1 << 4;
        /// Engines store only 32 bits atomically.
        // spec: MF-017
        const NO_64BIT_ATOMICS = 1 << 5;
        /// DxgkDdiPreemptCommand need not be called at a raised level.
        const LOW_IRQL_PREEMPT_COMMAND = 1 << 6;
        /// Native fences.
        // spec: NF-070
        const NATIVE_GPU_FENCE = 1 << 11;
        /// The interrupt names a hardware queue instead of fences.
        const OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT = 1 << 12;
    }
}

/// How an engine's write to a monitored fence reaches the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MonitoredNotification {
    /// No interrupt reports it. When a packet completes, the kernel reads the fences of its process
    /// that have waiters.
    #[default]
    Basic,
    /// The engine raises DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED after each write.
    Advanced,
}

/// DXGK_NODEMETADATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMetadata {
    /// Type of the engine, published as its number of DXGK_ENGINE_TYPE.
    pub engine_type: EngineKind,
    /// A name for display.
    pub friendly_name: String,
    /// DXGK_NODEMETADATA_FLAGS::ContextSchedulingSupported: hardware scheduling, so that the node
    /// takes hardware queues.
    pub context_scheduling: bool,
    /// DXGK_NODEMETADATA_FLAGS::UserModeSubmission.
    // spec: UMS-010
    pub user_mode_submission: bool,
    /// MaxInFlightHwQueueBuffers; 0 is no limit.
    pub max_in_flight_hw_queue_buffers: u16,
    /// Whether its command streams can write a fence. If not, signals are software packets, and the
    /// node has no hardware queues, because their progress is a fence. Not published: user-mode
    /// drivers know their hardware.
    pub writes_fences: bool,
    /// Notification of writes to monitored fences.
    pub monitored_notification: MonitoredNotification,
}

/// DXGK_NATIVE_FENCE_CAPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFenceCaps {
    /// Bytes between two fences packed into a page; a power of two from 8 to 4096.
    pub monitored_value_stride: u32,
    /// Fences are mapped into the system process, too.
    pub map_to_gpu_system_process: bool,
    /// Lowest GPU virtual address at which fence values may be mapped; `None` for any.
    pub minimum_address: Option<u64>,
    /// Highest GPU virtual address at which fence values may be mapped, inclusive; `None` for any.
    pub maximum_address: Option<u64>,
}

impl Default for NativeFenceCaps {
    fn default() -> NativeFenceCaps {
        NativeFenceCaps {
            monitored_value_stride: 64,
            map_to_gpu_system_process: false,
            minimum_address: None,
            maximum_address: None,
        }
    }
}

/// DXGK_USERMODESUBMISSION_CAPS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserModeSubmissionCaps {
    /// Size of a doorbell in bytes.
    pub doorbell_size_bytes: u32,
    /// SecondaryDoorbellSizeInBytes; `None` without secondary doorbells (SecondaryDoorbellSupported
    /// clear).
    pub secondary_doorbell_size_bytes: Option<u32>,
}

/// DXGK_QUERYADAPTERINFOTYPE: the types of DxgkDdiQueryAdapterInfo. Each is an entry here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AdapterInfoType {
    /// DXGKQAITYPE_DRIVERCAPS, with the nodes' metadata.
    DriverCaps = 1,
    /// DXGKQAITYPE_NATIVE_FENCE_CAPS
    // spec: NF-071
    NativeFenceCaps = 37,
    /// DXGKQAITYPE_USERMODESUBMISSION_CAPS
    UserModeSubmissionCaps = 38,
}

/// D3DKMDT_PREEMPTION_CAPS: the coarsest granularity over all engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreemptionCaps {
    /// GraphicsPreemptionGranularity
    pub graphics: GraphicsPreemption,
    /// ComputePreemptionGranularity
    pub compute: ComputePreemption,
}

/// What DxgkDdiQueryAdapterInfo(DRIVERCAPS) and DxgkDdiGetNodeMetadata report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterCaps {
    /// A name for display.
    pub description: String,
    /// Scheduling caps.
    pub scheduling: VidSchCaps,
    /// HwQueuePacketCap: DMA packets queued per node at once; 0 means the kernel's default of 2.
    pub hw_queue_packet_cap: u32,
    /// The coarsest preemption granularity of its engines (D3DKMDT_PREEMPTION_CAPS).
    pub preemption: PreemptionCaps,
    /// The hardware keeps its last context until it receives a packet of another one. The kernel
    /// therefore sends idle engines a zero-length packet of the system context. Not published.
    pub lazy_context_switch: bool,
    /// The driver has no GPU virtual addresses (VirtualAddressingSupported is 0) and patches
    /// physical ones. One before WDDM 2.0 does in any case.
    pub patches_addresses: bool,
    /// MaxAllocationListSlotId: the highest row of the binding table in patch lists.
    pub max_allocation_list_slot_id: u32,
    /// SupportPerEngineTDR: the driver has the entries of engine recovery.
    pub per_engine_tdr: bool,
    /// DXGK_FLIPCAPS::FlipOnVSyncMmIo: flips are memory-mapped and latched at the next vertical
    /// sync.
    pub flip_on_vsync_mmio: bool,
    /// The display; `None` for an adapter that only renders.
    pub display: Option<DisplayCaps>,
    /// Nodes, the same on every physical adapter.
    pub nodes: Vec<NodeMetadata>,
    /// Linked physical adapters (GPUs), from 1 to 4: the bits of an engine affinity.
    pub physical_adapters: u32,
    /// The signalled interrupt names hardware queues in an array
    /// ([`crate::InterruptData::HwQueuesSignaled`]). Not published. Requires
    /// OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT, whose form without a queue stays in use.
    pub signaled_hw_queue_array: bool,
    /// Whether the hardware keeps the history of fence values, so that waits latch over a rewind.
    /// Without it, waits in hardware are judged only by the current value. Not published.
    pub fence_history: bool,
    /// Values of a fence's history beyond those in its page. Not published.
    pub fence_history_peaks: u32,
    /// Whether engines compare each signal with MonitoredValue in memory and keep no copy of it.
    /// The kernel then raises the value itself after a CPU signal has released waiters. Not
    /// published.
    pub monitored_values_in_memory: bool,
    /// Signals to other adapters. Not published.
    pub peer_signal: PeerSignalCaps,
    /// DXGK_GPUMMUCAPS::CacheCoherentMemorySupported: page table entries may select accesses that
    /// are coherent with the CPUs' caches. Without it, memory that engines access is uncached.
    pub cache_coherent_memory: bool,
    /// DXGK_VIDMMCAPS::IoMmuSupported: its engines use a process's CPU addresses, in all contexts
    /// (UseIoMmu).
    pub io_mmu: bool,
}

impl AdapterCaps {
    /// Returns all engines in order.
    pub fn engines(&self) -> impl Iterator<Item = EngineId> + Clone + use<> {
        EngineId::all(self.nodes.len() as u32, self.physical_adapters)
    }

    /// Returns a table with a value for each engine.
    pub fn engine_map<T>(&self, value: impl FnMut(EngineId) -> T) -> EngineMap<T> {
        EngineMap::new(self.nodes.len() as u32, self.physical_adapters, value)
    }

    /// Returns the number of an engine among all, the nodes of physical adapter 0 first; `None` for
    /// an engine that the adapter lacks.
    pub fn engine_number(&self, engine: EngineId) -> Option<u32> {
        engine.number(self.nodes.len() as u32, self.physical_adapters)
    }
}
