//! What a driver declares: scheduling caps, nodes, native fence caps, user-mode submission caps. The
//! caps of a feature are a query of their own, which is made only when the feature is declared.

use crate::display::DisplayCaps;
use crate::engine::{EngineId, EngineMap};
use crate::peer::PeerSignalCaps;
use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption};

bitflags::bitflags! {
    /// DXGK_VIDSCHCAPS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VidSchCaps: u32 {
        /// Several nodes.
        const MULTI_ENGINE_AWARE = 1;
        /// Powers down on its own while nothing but the vertical blank is waited for.
        const VSYNC_POWER_SAVE_AWARE = 1 << 1;
        /// The preemption model of WDDM 1.2.
        const PREEMPTION_AWARE = 1 << 2;
        /// Virtual addresses: no patch lists.
        const NO_DMA_PATCHING = 1 << 3;
        /// DxgkDdiCancelCommand is there.
        const CANCEL_COMMAND_AWARE = 1 << 4;
        /// Only 32 bits are stored atomically.
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

/// DXGK_ENGINE_TYPE. There is no compute type: a compute-only node reports [`EngineType::Other`]
/// and a friendly name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum EngineType {
    /// Anything else; compute.
    Other = 0,
    /// 3D.
    ThreeD = 1,
    /// Copy.
    Copy = 6,
}

/// How the kernel learns that an engine wrote a monitored fence.
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
    /// What the engine does.
    pub engine_type: EngineType,
    /// A name for people.
    pub friendly_name: String,
    /// DXGK_NODEMETADATA_FLAGS::ContextSchedulingSupported: hardware scheduling, so that the node
    /// takes hardware queues.
    pub context_scheduling: bool,
    /// DXGK_NODEMETADATA_FLAGS::UserModeSubmission.
    // spec: UMS-010
    pub user_mode_submission: bool,
    /// MaxInFlightHwQueueBuffers; 0 is no limit.
    pub max_in_flight_hw_queue_buffers: u16,
    /// Whether its command streams can write a fence. Without it signals are software packets, and
    /// the node has no hardware queues, whose progress is a fence. No published field says it;
    /// user-mode drivers know their hardware.
    pub writes_fences: bool,
    /// How writes to monitored fences are heard of.
    pub monitored_notification: MonitoredNotification,
}

/// DXGK_NATIVE_FENCE_CAPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFenceCaps {
    /// Bytes between two fences packed into a page; a power of two from 8 to 4096.
    pub monitored_value_stride: u32,
    /// Map fences into the system process too.
    pub map_to_gpu_system_process: bool,
    /// Lowest GPU virtual address at which fence values may be mapped, if the driver cares.
    pub minimum_address: Option<u64>,
    /// Highest GPU virtual address at which fence values may be mapped, itself included, if the
    /// driver cares.
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
    /// How many bytes a doorbell takes.
    pub doorbell_size_bytes: u32,
    /// How many a secondary doorbell takes (SecondaryDoorbellSizeInBytes); `None` where there is
    /// none (SecondaryDoorbellSupported not set).
    pub secondary_doorbell_size_bytes: Option<u32>,
}

/// DXGK_QUERYADAPTERINFOTYPE: the types of DxgkDdiQueryAdapterInfo. Here each is an entry of
/// its own.
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
    /// A name for people.
    pub description: String,
    /// Scheduling caps.
    pub scheduling: VidSchCaps,
    /// HwQueuePacketCap: DMA packets queued per node at once; 0 means the kernel's default of 2.
    pub hw_queue_packet_cap: u32,
    /// How finely its engines are preempted, the coarsest of them (D3DKMDT_PREEMPTION_CAPS).
    pub preemption: PreemptionCaps,
    /// The hardware keeps the context that it worked for last until it gets a packet of another
    /// one: the kernel has engines that fall idle turned away from it by a zero-length packet.
    /// Ours; no cap of the documents.
    pub lazy_context_switch: bool,
    /// Highest row of the binding table that patch lists name (MaxAllocationListSlotId).
    pub max_allocation_list_slot_id: u32,
    /// SupportPerEngineTDR: the three entries of engine recovery are there.
    pub per_engine_tdr: bool,
    /// DXGK_FLIPCAPS::FlipOnVSyncMmIo: flips are memory-mapped and latched at the next vertical
    /// sync.
    pub flip_on_vsync_mmio: bool,
    /// The display; `None` for an adapter that only renders.
    pub display: Option<DisplayCaps>,
    /// Nodes; every physical adapter has all of them.
    pub nodes: Vec<NodeMetadata>,
    /// Physical adapters (GPUs) behind this one, from 1 to 4: as many bits has an engine affinity.
    pub physical_adapters: u32,
    /// The signalled interrupt names hardware queues in an array
    /// ([`crate::InterruptData::HwQueuesSignaled`]). Ours, beyond the published caps; it rests on
    /// OPTIMIZED_NATIVE_FENCE_SIGNALED_INTERRUPT, whose form without a queue stays in use.
    pub signaled_hw_queue_array: bool,
    /// Whether the hardware keeps what a fence's value has been, so that waits latch over a rewind.
    /// Ours; no cap of the documents. Without it a wait that hardware holds is judged by the value
    /// at the moment of the look.
    pub fence_history: bool,
    /// What it can do with other adapters of its kind. Ours.
    pub peer_signal: PeerSignalCaps,
    /// DXGK_GPUMMUCAPS::CacheCoherentMemorySupported: page table entries may ask for accesses that
    /// are coherent with the CPUs' caches. Without it the kernel keeps what engines reach out of
    /// those caches.
    pub cache_coherent_memory: bool,
    /// DXGK_VIDMMCAPS::IoMmuSupported: its engines use a process's CPU addresses. Here all of its
    /// contexts do (UseIoMmu).
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
