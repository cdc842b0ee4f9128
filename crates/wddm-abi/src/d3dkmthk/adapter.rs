//! Adapters: enumeration, opening, and the answers of D3DKMTQueryAdapterInfo. Also arguments that
//! are one handle, and the debug escape.
//!
//! A WCHAR has 2 bytes in the bindings and 4 bytes in C programs on Linux, so structures with text
//! are `published!` with the sizes that they have on Linux.

/// Numbers of KMTQUERYADAPTERINFOTYPE.
pub mod query {
    /// KMTQAITYPE_GETSEGMENTSIZE
    pub const SEGMENT_SIZE: u32 = 3;
    /// KMTQAITYPE_ADAPTERADDRESS
    pub const ADAPTER_ADDRESS: u32 = 6;
    /// KMTQAITYPE_ADAPTERREGISTRYINFO
    pub const ADAPTER_REGISTRY_INFO: u32 = 8;
    /// KMTQAITYPE_CHECKDRIVERUPDATESTATUS
    pub const CHECK_DRIVER_UPDATE_STATUS: u32 = 11;
    /// KMTQAITYPE_DRIVERVERSION
    pub const DRIVER_VERSION: u32 = 13;
    /// KMTQAITYPE_ADAPTERTYPE
    pub const ADAPTER_TYPE: u32 = 15;
    /// KMTQAITYPE_WDDM_1_2_CAPS
    pub const WDDM_1_2_CAPS: u32 = 17;
    /// KMTQAITYPE_UMD_DRIVER_VERSION
    pub const UMD_DRIVER_VERSION: u32 = 18;
    /// KMTQAITYPE_WDDM_1_3_CAPS
    pub const WDDM_1_3_CAPS: u32 = 22;
    /// KMTQAITYPE_WDDM_2_0_CAPS
    pub const WDDM_2_0_CAPS: u32 = 24;
    /// KMTQAITYPE_NODEMETADATA
    pub const NODE_METADATA: u32 = 25;
    /// KMTQAITYPE_PHYSICALADAPTERCOUNT
    pub const PHYSICAL_ADAPTER_COUNT: u32 = 30;
    /// KMTQAITYPE_PHYSICALADAPTERDEVICEIDS
    pub const PHYSICAL_ADAPTER_DEVICE_IDS: u32 = 31;
    /// KMTQAITYPE_QUERY_GPUMMU_CAPS
    pub const GPUMMU_CAPS: u32 = 34;
    /// KMTQAITYPE_GETSEGMENTGROUPSIZE
    pub const SEGMENT_GROUP_SIZE: u32 = 42;
    /// KMTQAITYPE_KMD_DRIVER_VERSION
    pub const KMD_DRIVER_VERSION: u32 = 49;
    /// KMTQAITYPE_ADAPTERADDRESS_RENDER
    pub const ADAPTER_ADDRESS_RENDER: u32 = 53;
    /// KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER
    pub const ADAPTER_REGISTRY_INFO_RENDER: u32 = 54;
    /// KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER
    pub const CHECK_DRIVER_UPDATE_STATUS_RENDER: u32 = 55;
    /// KMTQAITYPE_DRIVERVERSION_RENDER
    pub const DRIVER_VERSION_RENDER: u32 = 56;
    /// KMTQAITYPE_ADAPTERTYPE_RENDER
    pub const ADAPTER_TYPE_RENDER: u32 = 57;
    /// KMTQAITYPE_WDDM_1_2_CAPS_RENDER
    pub const WDDM_1_2_CAPS_RENDER: u32 = 58;
    /// KMTQAITYPE_WDDM_1_3_CAPS_RENDER
    pub const WDDM_1_3_CAPS_RENDER: u32 = 59;
    /// KMTQAITYPE_DRIVER_DESCRIPTION
    pub const DRIVER_DESCRIPTION: u32 = 65;
    /// KMTQAITYPE_DRIVER_DESCRIPTION_RENDER
    pub const DRIVER_DESCRIPTION_RENDER: u32 = 66;
    /// KMTQAITYPE_WDDM_2_7_CAPS
    pub const WDDM_2_7_CAPS: u32 = 70;
    /// KMTQAITYPE_WDDM_2_9_CAPS
    pub const WDDM_2_9_CAPS: u32 = 75;
    /// KMTQAITYPE_WDDM_3_0_CAPS
    pub const WDDM_3_0_CAPS: u32 = 77;
}

/// Bits of D3DKMT_ENUMADAPTERS_FILTER: IncludeComputeOnly, IncludeDisplayOnly.
pub const ENUM_ADAPTERS_FILTER: u64 = 0b11;

/// KMT_DRIVERVERSION_WDDM_3_1, the last version with a published number of its own.
pub const DRIVER_VERSION_WDDM_3_1: u32 = 3100;

/// D3DKMT_ESCAPE_TDRDBGCTRL
pub const ESCAPE_TDRDBGCTRL: u32 = 2;

/// Most adapters that D3DKMTEnumAdapters returns.
pub const MAX_ENUM_ADAPTERS: usize = 16;

published! {
    /// Number of an adapter, unique until the machine restarts.
    #[derive(Default, PartialEq, Eq)]
    Luid = "LUID", 8 bytes {
        /// Low half.
        0 "LowPart" low: u32,
        /// High half.
        4 "HighPart" high: i32,
    }
}

public! {
    /// Opens an adapter.
    OpenAdapterFromLuid = D3DKMT_OPENADAPTERFROMLUID {
        /// Number of the adapter. In.
        AdapterLuid luid: Luid,
        /// Its handle. Out.
        hAdapter adapter: u32,
    }

    /// Closes a handle of an adapter.
    CloseAdapter = D3DKMT_CLOSEADAPTER {
        /// The handle.
        hAdapter adapter: u32,
    }

    /// An adapter that was enumerated.
    #[derive(Default)]
    AdapterInfo = D3DKMT_ADAPTERINFO {
        /// Its handle, which the caller closes. Out.
        hAdapter adapter: u32,
        /// Its number. Out.
        AdapterLuid luid: Luid,
        /// Displays. Out.
        NumOfSources sources: u32,
        /// Not 0: presents of parts are cheaper. Out.
        bPrecisePresentRegionsPreferred precise_present_regions: u32,
    }

    /// Enumerates at most 16 adapters.
    EnumAdapters = D3DKMT_ENUMADAPTERS {
        /// Number of adapters. Out.
        NumAdapters adapters: u32,
        /// The adapters. Out.
        Adapters info: [AdapterInfo; MAX_ENUM_ADAPTERS],
    }

    /// Enumerates adapters.
    EnumAdapters2 = D3DKMT_ENUMADAPTERS2 {
        /// Room of the array in; number of adapters out.
        NumAdapters adapters: u32,
        /// Address of the array; 0 to get only the number.
        pAdapters info: u64,
    }

    /// Enumerates adapters that a filter admits.
    EnumAdapters3 = D3DKMT_ENUMADAPTERS3 {
        /// Bit 0 admits compute-only adapters, bit 1 adapters that only display.
        Filter filter: u64,
        /// Room of the array in; number of adapters out.
        NumAdapters adapters: u32,
        /// Address of the array; 0 to get only the number.
        pAdapters info: u64,
    }

    /// Ends a device.
    DestroyDevice = D3DKMT_DESTROYDEVICE {
        /// The device.
        hDevice device: u32,
    }

    /// Puts a device into error.
    MarkDeviceAsError = D3DKMT_MARKDEVICEASERROR {
        /// The device.
        hDevice device: u32,
        /// A number of D3DKMT_DEVICE_ERROR_REASON.
        Reason reason: u32,
    }

    /// Ends a context.
    DestroyContext = D3DKMT_DESTROYCONTEXT {
        /// The context.
        hContext context: u32,
    }

    /// Sizes of the adapter's memory in bytes.
    SegmentSizeInfo = D3DKMT_SEGMENTSIZEINFO {
        /// Local memory.
        DedicatedVideoMemorySize dedicated_video: u64,
        /// System memory of its own.
        DedicatedSystemMemorySize dedicated_system: u64,
        /// System memory that it shares.
        SharedSystemMemorySize shared_system: u64,
    }

    /// The same by groups.
    SegmentGroupSizeInfo = D3DKMT_SEGMENTGROUPSIZEINFO {
        /// Physical adapter. In.
        PhysicalAdapterIndex physical_adapter: u32,
        /// In the older form. Out.
        LegacyInfo legacy: SegmentSizeInfo,
        /// Bytes of the group LOCAL. Out.
        LocalMemory local: u64,
        /// Bytes of the group NON_LOCAL. Out.
        NonLocalMemory non_local: u64,
        /// Bytes without a budget. Out.
        NonBudgetMemory non_budget: u64,
    }

    /// Place on the bus.
    AdapterAddress = D3DKMT_ADAPTERADDRESS {
        /// Bus.
        BusNumber bus: u32,
        /// Device.
        DeviceNumber device: u32,
        /// Function.
        FunctionNumber function: u32,
    }

    /// Kind of the adapter.
    AdapterType = D3DKMT_ADAPTERTYPE {
        /// See [`AdapterTypeFlags`].
        Anonymous flags: u32,
    }

    /// Preemption, and flags of WDDM 1.2.
    Wddm12Caps = D3DKMT_WDDM_1_2_CAPS {
        /// Granularity.
        PreemptionCaps preemption: crate::d3dukmdt::PreemptionCaps,
        /// Bits.
        Anonymous flags: u32,
    }

    /// Number of physical adapters.
    PhysicalAdapterCount = D3DKMT_PHYSICAL_ADAPTER_COUNT {
        /// How many are linked.
        Count count: u32,
    }

    /// Ids of hardware.
    DeviceIds = D3DKMT_DEVICE_IDS {
        /// Vendor.
        VendorID vendor: u32,
        /// Device.
        DeviceID device: u32,
        /// Vendor of the board.
        SubVendorID sub_vendor: u32,
        /// Board.
        SubSystemID sub_system: u32,
        /// Revision.
        RevisionID revision: u32,
        /// Kind of bus.
        BusType bus_type: u32,
    }

    /// Ids of a physical adapter.
    QueryDeviceIds = D3DKMT_QUERY_DEVICE_IDS {
        /// Physical adapter. In.
        PhysicalAdapterIndex physical_adapter: u32,
        /// Its ids. Out.
        DeviceIds ids: DeviceIds,
    }

    /// GPU page tables.
    GpuMmuCaps = D3DKMT_GPUMMU_CAPS {
        /// Bits.
        Flags flags: u32,
        /// Bits of a GPU address.
        VirtualAddressBitCount virtual_address_bits: u32,
    }

    /// GPU page tables of a physical adapter.
    QueryGpuMmuCaps = D3DKMT_QUERY_GPUMMU_CAPS {
        /// Physical adapter. In.
        PhysicalAdapterIndex physical_adapter: u32,
        /// Out.
        Caps caps: GpuMmuCaps,
    }

    /// Clocks of the GPU and the CPU at one moment.
    #[repr(packed)]
    GpuClockData = DXGK_GPUCLOCKDATA {
        /// Ticks of the GPU's clock in a second.
        GpuFrequency gpu_frequency: u64,
        /// The GPU's clock.
        GpuClockCounter gpu_clock: u64,
        /// The CPU's clock.
        CpuClockCounter cpu_clock: u64,
        /// Bits.
        Flags flags: u32,
    }

    /// Arguments of a query for clocks.
    #[repr(packed)]
    QueryClockCalibration = D3DKMT_QUERYCLOCKCALIBRATION {
        /// The adapter. In.
        hAdapter adapter: u32,
        /// Node ordinal. In.
        NodeOrdinal node_ordinal: u32,
        /// Physical adapter. In.
        PhysicalAdapterIndex physical_adapter: u32,
        /// The clocks. Out.
        ClockData clocks: GpuClockData,
    }

    /// A private call of a user-mode driver, or a debug command.
    Escape = D3DKMT_ESCAPE {
        /// The adapter.
        hAdapter adapter: u32,
        /// The device; 0 for none.
        hDevice device: u32,
        /// A number of D3DKMT_ESCAPETYPE.
        Type escape_type: u32,
        /// Bits.
        Flags flags: u32,
        /// Address of the data.
        pPrivateDriverData data: u64,
        /// Bytes of it.
        PrivateDriverDataSize data_bytes: u32,
        /// The context; 0 for none.
        hContext context: u32,
    }

    /// Data of the escape TDRDBGCTRL.
    TdrDebugControl = D3DKMT_TDRDBGCTRL_ESCAPE {
        /// A number of D3DKMT_TDRDBGCTRLTYPE.
        TdrControl control: u32,
        /// Node of the engine.
        Anonymous node_ordinal: u32,
    }
}

bitflags::bitflags! {
    /// Bits of [`AdapterType`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AdapterTypeFlags: u32 {
        /// It renders.
        #[doc(alias = "RenderSupported")]
        const RENDER_SUPPORTED = 1;
        /// It displays.
        #[doc(alias = "DisplaySupported")]
        const DISPLAY_SUPPORTED = 1 << 1;
        /// It is made of software.
        #[doc(alias = "SoftwareDevice")]
        const SOFTWARE_DEVICE = 1 << 2;
    }

    /// Bits of D3DKMT_WDDM_2_7_CAPS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Wddm27CapsFlags: u32 {
        /// Hardware scheduling is possible.
        #[doc(alias = "HwSchSupported")]
        const HW_SCH_SUPPORTED = 1;
        /// It is on.
        #[doc(alias = "HwSchEnabled")]
        const HW_SCH_ENABLED = 1 << 1;
        /// It is on unless it is switched off.
        #[doc(alias = "HwSchEnabledByDefault")]
        const HW_SCH_ENABLED_BY_DEFAULT = 1 << 2;
    }

    /// Bits of D3DKMT_WDDM_2_0_CAPS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Wddm20CapsFlags: u32 {
        /// Engines update 64 bits in one step.
        #[doc(alias = "Support64BitAtomics")]
        const SUPPORT_64BIT_ATOMICS = 1;
        /// It has GPU page tables.
        #[doc(alias = "GpuMmuSupported")]
        const GPU_MMU_SUPPORTED = 1 << 1;
        /// It can use the CPU's page tables.
        #[doc(alias = "IoMmuSupported")]
        const IO_MMU_SUPPORTED = 1 << 2;
    }
}

published! {
    /// Metadata of a node, with text of Linux.
    #[repr(packed)]
    NodeMetadataWide = "DXGK_NODEMETADATA", 138 bytes {
        /// A number of DXGK_ENGINE_TYPE.
        0 "EngineType" engine_type: u32,
        /// UTF-32, ended by a zero.
        4 "FriendlyName" friendly_name: [u32; 32],
        /// See `NodeMetadataFlags`; the upper half is MaxInFlightHwQueueBuffers.
        132 "Flags" flags: u32,
        /// Not 0: it has GPU page tables.
        136 "GpuMmuSupported" gpu_mmu_supported: u8,
        /// Not 0: it can use the CPU's page tables.
        137 "IoMmuSupported" iommu_supported: u8,
    }

    /// Query for the metadata of a node.
    #[repr(packed)]
    QueryNodeMetadataWide = "D3DKMT_NODEMETADATA", 142 bytes {
        /// The node in the low half, the physical adapter in the upper half. In.
        0 "NodeOrdinalAndAdapterIndex" node_and_adapter: u32,
        /// Out.
        4 "NodeData" node: NodeMetadataWide,
    }

    /// Names of the adapter, with text of Linux.
    AdapterRegistryInfoWide = "D3DKMT_ADAPTERREGISTRYINFO", 4160 bytes {
        /// Name of the adapter.
        0 "AdapterString" adapter: [u32; 260],
        /// Name of its firmware.
        1040 "BiosString" bios: [u32; 260],
        /// Name of its converter.
        2080 "DacType" dac: [u32; 260],
        /// Name of its chip.
        3120 "ChipType" chip: [u32; 260],
    }

    /// Name of the driver, with text of Linux.
    DriverDescriptionWide = "D3DKMT_DRIVER_DESCRIPTION", 16384 bytes {
        /// The name.
        0 "DriverDescription" description: [u32; 4096],
    }
}
