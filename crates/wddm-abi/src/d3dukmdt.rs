//! d3dukmdt.h: structures, flags and limits that user mode and kernel mode share. The limits are
//! the bounds of every array that crosses the interface.

use crate::Union64;

/// Contexts, or hardware queues, that one broadcast names.
#[doc(alias = "D3DDDI_MAX_BROADCAST_CONTEXT")]
pub const MAX_BROADCAST_CONTEXTS: usize = 64;

/// Fences that one queued wait names. A CPU wait has a limit of its own.
#[doc(alias = "D3DDDI_MAX_OBJECT_WAITED_ON")]
pub const MAX_OBJECTS_WAITED_ON: usize = 32;

/// Fences that one signal names, by the CPU or queued.
#[doc(alias = "D3DDDI_MAX_OBJECT_SIGNALED")]
pub const MAX_OBJECTS_SIGNALED: usize = 32;

/// Objects behind one shared NT handle.
#[doc(alias = "D3DKMT_MAX_OBJECTS_PER_HANDLE")]
pub const MAX_OBJECTS_PER_HANDLE: usize = 3;

/// Primaries that one command buffer says it writes.
#[doc(alias = "D3DDDI_MAX_WRITTEN_PRIMARIES")]
pub const MAX_WRITTEN_PRIMARIES: usize = 16;

/// Private driver data of a doorbell, bytes at most.
#[doc(alias = "D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1")]
pub const DOORBELL_PRIVATE_DATA_BYTES: usize = 16;

/// Private driver data of a native fence, bytes always.
#[doc(alias = "D3DDDI_NATIVE_FENCE_PDD_SIZE")]
pub const NATIVE_FENCE_PRIVATE_DATA_BYTES: usize = 64;

public! {
    /// How finely the adapter's engines can be preempted: the largest piece of work that has to end
    /// first.
    PreemptionCaps = D3DKMDT_PREEMPTION_CAPS {
        /// For graphics: a number of D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY.
        GraphicsPreemptionGranularity graphics_granularity: u32,
        /// For compute: a number of D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY.
        ComputePreemptionGranularity compute_granularity: u32,
    }

    /// Metadata of a node. The header packs it, so it ends in the middle of a word.
    #[repr(packed)]
    NodeMetadata = DXGK_NODEMETADATA {
        /// A number of DXGK_ENGINE_TYPE.
        EngineType engine_type: u32,
        /// UTF-16, ended by a zero.
        FriendlyName friendly_name: [u16; 32],
        /// See [`NodeMetadataFlags`]; the upper half is MaxInFlightHwQueueBuffers.
        Flags flags: u32,
        /// Not 0: it has GPU page tables.
        GpuMmuSupported gpu_mmu_supported: u8,
        /// Not 0: it can use the CPU's page tables.
        IoMmuSupported iommu_supported: u8,
    }
}

published! {
    /// State of a feature.
    IsFeatureEnabledResult = "DXGK_ISFEATUREENABLED_RESULT", 4 bytes {
        /// The negotiated version.
        0 "Version" version: u16,
        /// See [`FeatureResultFlags`].
        2 "Value" flags: u16,
    }
}

bitflags::bitflags! {
    /// Lower half of the flags of a node.
    #[doc(alias = "DXGK_NODEMETADATA_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NodeMetadataFlags: u32 {
        /// DxgkDdiSetContextSchedulingProperties is understood.
        const CONTEXT_SCHEDULING_SUPPORTED = 1;
        /// The driver or firmware signals the progress fence once the buffer is no longer read.
        const RING_BUFFER_FENCE_RELEASE = 1 << 1;
        /// Tracked workloads are supported.
        const SUPPORT_TRACKED_WORKLOAD = 1 << 2;
        /// User-mode submission queues may be created.
        const USER_MODE_SUBMISSION = 1 << 3;
        /// Test command buffers can be built.
        const SUPPORT_BUILD_TEST_COMMAND_BUFFER = 1 << 4;
    }
}

bitflags::bitflags! {
    /// Flags of a feature's state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FeatureResultFlags: u16 {
        /// On for this adapter.
        #[doc(alias = "Enabled")]
        const ENABLED = 1;
        /// The kernel knows the feature.
        #[doc(alias = "KnownFeature")]
        const KNOWN_FEATURE = 1 << 1;
        /// The driver has it.
        #[doc(alias = "SupportedByDriver")]
        const SUPPORTED_BY_DRIVER = 1 << 2;
        /// The driver has it on this hardware as it is configured.
        #[doc(alias = "SupportedOnCurrentConfig")]
        const SUPPORTED_ON_CURRENT_CONFIG = 1 << 3;
    }
}

bitflags::bitflags! {
    /// Creation flags of a hardware queue.
    #[doc(alias = "D3DDDI_CREATEHWQUEUEFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateHwQueueFlags: u32 {
        /// Exempt from GPU timeouts.
        const DISABLE_GPU_TIMEOUT = 1;
        /// Excluded from broadcast signals.
        const NO_BROADCAST_SIGNAL = 1 << 1;
        /// Excluded from broadcast waits.
        const NO_BROADCAST_WAIT = 1 << 2;
        /// The kernel-mode driver never touches its command buffers.
        const NO_KMD_ACCESS = 1 << 3;
        /// Takes work by doorbell only.
        const USER_MODE_SUBMISSION = 1 << 4;
        /// Its progress fence is a native fence. Set by the kernel.
        const NATIVE_PROGRESS_FENCE = 1 << 5;
        /// For tests of the kernel.
        const TEST_QUEUE = 1 << 6;
    }
}

bitflags::bitflags! {
    /// Creation flags of a context.
    #[doc(alias = "D3DDDI_CREATECONTEXTFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateContextFlags: u32 {
        /// Nothing is rendered.
        const NULL_RENDERING = 1;
        /// Used for initial data of resources.
        const INITIAL_DATA = 1 << 1;
        /// Exempt from GPU timeouts.
        const DISABLE_GPU_TIMEOUT = 1 << 2;
        /// Carries waits and signals only.
        const SYNCHRONIZATION_ONLY = 1 << 3;
        /// May have hardware queues.
        const HW_QUEUE_SUPPORTED = 1 << 4;
        /// The kernel-mode driver never touches its command buffers.
        const NO_KMD_ACCESS = 1 << 5;
        /// For tests of the kernel.
        const TEST_CONTEXT = 1 << 6;
    }
}

published! {
    /// Addresses of the two values of a native fence. Out.
    NativeFenceMapping = "D3DDDI_NATIVEFENCEMAPPING", 56 bytes {
        /// CurrentValue, process CPU address, read-only; 0 for INTRA_GPU.
        0 "CurrentValueCpuVa" current_value_cpu_va: u64,
        /// CurrentValue, process GPU address: engines read it to wait and write it to signal.
        8 "CurrentValueGpuVa" current_value_gpu_va: u64,
        /// MonitoredValue, process GPU address: engines compare against it.
        16 "MonitoredValueGpuVa" monitored_value_gpu_va: u64,
        /// Zero.
        24 "Reserved" reserved: [u8; 32],
    }

    /// Description of a native fence, and its addresses once it exists.
    NativeFenceInfo = "D3DDDI_NATIVEFENCEINFO", 112 bytes {
        /// CurrentValue at birth. In.
        0 "InitialFenceValue" initial_fence_value: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        8 "EngineAffinity" engine_affinity: u32,
        /// See `NativeFenceType`. In.
        12 "Type" fence_type: u32,
        /// See `SyncObjectFlags`. In.
        16 "Flags" flags: u32,
        /// Addresses of its values. Out.
        24 "NativeFenceMapping" mapping: NativeFenceMapping,
        /// Zero. A later header takes the first four bytes for a PhysicalAdapterIndex.
        80 "Reserved" reserved: [u8; 28],
    }
}

public! {
    /// Describes a synchronisation object: its type says which arm of the union applies.
    SynchronizationObjectInfo2 = D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
        /// See `SynchronizationObjectType`. In.
        Type object_type: u32,
        /// See `SyncObjectFlags`. In.
        Flags flags: u32,
        /// One of the arms. In and out.
        Anonymous arm: Union64,
        /// A global handle, only for the old way of sharing; else 0. Out.
        SharedHandle shared_handle: u32,
    }

    /// Arm of type 2.
    #[doc(alias = "Semaphore")]
    SemaphoreArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_1 {
        /// The largest count.
        MaxCount max_count: u32,
        /// The count at birth.
        InitialCount initial_count: u32,
    }

    /// Arm of type 3.
    #[doc(alias = "Fence")]
    FenceArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_2 {
        /// The value at birth.
        FenceValue fence_value: u64,
    }

    /// Arm of type 4.
    #[doc(alias = "CPUNotification")]
    CpuNotificationArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_3 {
        /// The event that is set.
        Event event: u64,
    }

    /// Arm of type 5. Offsets count from the union.
    #[doc(alias = "MonitoredFence")]
    MonitoredFenceArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_4 {
        /// The value at birth. In.
        InitialFenceValue initial_fence_value: u64,
        /// The value, process CPU address, read-only. Out.
        FenceValueCPUVirtualAddress fence_value_cpu_va: u64,
        /// The value, process GPU address. Out.
        FenceValueGPUVirtualAddress fence_value_gpu_va: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        EngineAffinity engine_affinity: u32,
        /// Nothing.
        Padding padding: u32,
    }

    /// Arm of type 6. Offsets count from the union.
    #[doc(alias = "PeriodicMonitoredFence")]
    PeriodicMonitoredFenceArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_5 {
        /// The adapter whose display drives it. In.
        hAdapter adapter: u32,
        /// The display. In.
        VidPnTargetId vidpn_target_id: u32,
        /// How long before the vertical blank, in 100 ns. In.
        Time time_100ns: u64,
        /// The value, process CPU address, read-only. Out.
        FenceValueCPUVirtualAddress fence_value_cpu_va: u64,
        /// The value, process GPU address, read-only. Out.
        FenceValueGPUVirtualAddress fence_value_gpu_va: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        EngineAffinity engine_affinity: u32,
        /// Nothing.
        Padding padding: u32,
    }
}

published! {
    /// Arm of type 1.
    SynchronizationMutexArm = "SynchronizationMutex", 4 bytes {
        /// Whether the creator owns it at birth.
        0 "InitialState" initial_state: u32,
    }
}

bitflags::bitflags! {
    /// Access rights of a shared handle.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SyncObjectAccess: u32 {
        /// Open an instance that waits.
        #[doc(alias = "D3DDDI_SYNC_OBJECT_WAIT")]
        const WAIT = 1;
        /// Open an instance that signals.
        #[doc(alias = "D3DDDI_SYNC_OBJECT_SIGNAL")]
        const SIGNAL = 1 << 1;
        /// Delete, read and change the object's security.
        #[doc(alias = "STANDARD_RIGHTS_REQUIRED")]
        const STANDARD_RIGHTS = 0x000F_0000;
        /// Wait on the handle itself.
        const SYNCHRONIZE = 0x0010_0000;
        /// All of them.
        #[doc(alias = "D3DDDI_SYNC_OBJECT_ALL_ACCESS")]
        const ALL = 0x001F_0003;
    }
}

/// Type of a synchronisation object. There is no type 0, and TYPE_LIMIT is 8.
#[doc(alias = "D3DDDI_SYNCHRONIZATIONOBJECT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SynchronizationObjectType {
    /// D3DDDI_SYNCHRONIZATION_MUTEX
    SynchronizationMutex = 1,
    /// D3DDDI_SEMAPHORE
    Semaphore = 2,
    /// D3DDDI_FENCE: the fence of WDDM 1.x.
    Fence = 3,
    /// D3DDDI_CPU_NOTIFICATION: an event in place of a fence.
    CpuNotification = 4,
    /// D3DDDI_MONITORED_FENCE
    MonitoredFence = 5,
    /// D3DDDI_PERIODIC_MONITORED_FENCE: signalled by a display.
    PeriodicMonitoredFence = 6,
    /// D3DDDI_NATIVE_FENCE: has a creation call of its own.
    NativeFence = 7,
}

published! {
    /// Header of a log.
    LogHeader = "DXGK_NATIVE_FENCE_LOG_HEADER", 40 bytes {
        /// See `LogIndex`: written by the GPU, as one word.
        0 "AtomicWraparoundAndEntryIndex" index: u64,
        /// See `LogType`.
        8 "Type" log_type: u32,
        /// Number of entries.
        16 "NumberOfEntries" number_of_entries: u64,
        /// Zero.
        24 "Reserved" reserved: [u64; 2],
    }

    // spec: NF-185, NF-193
    /// One entry of a log.
    #[derive(Default, PartialEq, Eq)]
    LogEntry = "DXGK_NATIVE_FENCE_LOG_ENTRY", 48 bytes {
        /// The value signalled or reached. From the process.
        0 "FenceValue" fence_value: u64,
        /// The process's handle of the fence. From the process.
        8 "hNativeFence" fence_handle: u32,
        /// See `LogOperation`. From the process.
        12 "OperationType" operation: u32,
        /// Nothing.
        16 "Reserved0" reserved_0: u64,
        /// When an unmet wait was first seen and stalled its queue, or a command buffer begun, GPU
        /// ns; 0 for signals and waits that never stalled.
        24 "FenceObservedGpuTimestamp" observed_ns: u64,
        /// Nothing.
        32 "Reserved1" reserved_1: u64,
        /// When the operation was complete, GPU ns; 0 when the adapter left it out.
        40 "FenceEndGpuTimestamp" end_ns: u64,
    }
}

impl LogEntry {
    /// Returns the entry's words; their bytes are little-endian.
    #[inline]
    pub fn words(&self) -> [u64; 6] {
        [
            self.fence_value,
            u64::from(self.operation) << 32 | u64::from(self.fence_handle),
            self.reserved_0,
            self.observed_ns,
            self.reserved_1,
            self.end_ns,
        ]
    }

    /// Returns the entry's bytes, little-endian.
    pub fn encode(&self) -> [u8; 48] {
        let mut bytes = [0; 48];
        let chunks = bytes.as_chunks_mut().0;
        chunks.iter_mut().zip(self.words()).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }

    /// Reads an entry.
    pub fn decode(bytes: &[u8; 48]) -> LogEntry {
        let word = |index: usize| u64::from_le_bytes(bytes.as_chunks().0[index]);
        LogEntry {
            fence_value: word(0),
            fence_handle: word(1) as u32,
            operation: (word(1) >> 32) as u32,
            reserved_0: word(2),
            observed_ns: word(3),
            reserved_1: word(4),
            end_ns: word(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_entry_survives_encoding() {
        let bytes = std::array::from_fn(|at| at as u8);
        let entry = LogEntry::decode(&bytes);
        assert_eq!((entry.fence_handle, entry.operation), (0x0B0A_0908, 0x0F0E_0D0C));
        assert_eq!(entry.end_ns, 0x2F2E_2D2C_2B2A_2928);
        assert_eq!(entry.encode(), bytes);
    }
}
