//! Start and stop of the device, and its capabilities.

use crate::CDriver;
use crate::address::{address_of, address_of_first};
use crate::driver::{WaitsForNothing, before_run};
use crate::foreign::{DxgkStartInfo, Interface, place};
use crate::host::{Host, Kernel};
use crate::model::DeviceModel;
use crate::objects::{Declared, SegmentAddresses};
use crate::rule::Rule;
use tidegate_d3dukmdt::{ComputePreemption, EngineKind, GraphicsPreemption};
use tidegate_ddi::memory::{PageTableShape, Segment};
use tidegate_ddi::{
    AdapterCaps, DisplayCaps, MonitoredNotification, NativeFenceCaps, NodeMetadata, PreemptionCaps,
    StartInfo, Status, UserModeSubmissionCaps, VidSchCaps,
};
use tidegate_gpu_abi::Register;
use tidegate_gpu_abi::regs::{DeviceTraits, NodeTraits};
use tidegate_platform::level::Level;
use tidegate_wddm_abi::d3dkmddi::{
    self, HW_QUEUE_PACKET_CAP_SHIFT, NATIVE_FENCE_CAPS_QUERY, USER_MODE_SUBMISSION_CAPS_QUERY,
    UserModeSubmissionCapsFlags,
};
use tidegate_wddm_abi::d3dukmdt::{self, NodeMetadataFlags};
use tidegate_wddm_abi::miniport::{
    DriverCaps, GpuMmuCaps, GpuMmuCapsFlags, PageTableLevelDesc, QueryAdapterInfo,
    QuerySegmentOut3, QuerySegmentOut4, SegmentDescriptor3, SegmentDescriptor4, SegmentFlags,
};

/// DXGKQAITYPE_DRIVERCAPS and the other queries.
const DRIVERCAPS: u32 = 1;
const QUERYSEGMENT3: u32 = 5;
const NUMPOWERCOMPONENTS: u32 = 6;
const QUERYSEGMENT4: u32 = 11;
const GPUMMUCAPS: u32 = 13;
const PAGETABLELEVELDESC: u32 = 14;

/// FlipOnVSyncMmIo of DXGK_FLIPCAPS.
const FLIP_ON_VSYNC_MMIO: u32 = 1 << 1;
/// The four bits of HwQueuePacketCap.
const PACKET_CAP: u32 = 0xF << HW_QUEUE_PACKET_CAP_SHIFT;
/// Segments of an adapter.
const MOST_SEGMENTS: u32 = 32;
/// Levels of page tables.
const MOST_LEVELS: u32 = 8;
/// Bits of a GPU virtual address.
const MOST_ADDRESS_BITS: u64 = 63;
/// Bytes of an entry of a page table are this or more.
const LEAST_ENTRY_BYTES: u128 = 8;

/// Calls of the interrupt routine for a line that stays high.
const MOST_CALLS_FOR_A_LINE: u32 = 100;

const NO_INPUT: Option<&mut u32> = None;

/// Flags, BaseAddress and Size of a segment.
type StatedSegment = (u32, u64, u64);

impl CDriver {
    pub(crate) fn start(&self, info: StartInfo) -> Result<(), Status> {
        let StartInfo { callbacks, features, system_memory } = info;
        if let Some(model) = &self.host().hardware.model {
            model.begin(system_memory);
        }
        self.host().set_kernel(Some(Kernel { callbacks, features }));
        let started = self.begin_miniport().and_then(|has_display| {
            let declared = self.declare(has_display);
            if declared.is_err() {
                self.stop_miniport();
            }
            declared
        });
        match started {
            Ok(declared) => {
                self.objects.lock().declared = declared;
                self.host().begin_injection();
            }
            Err(status) => {
                self.forget_kernel();
                // Threads that the driver has left end: no run may follow.
                self.host().platform.rest_unless_run();
                return Err(status);
            }
        }
        Ok(())
    }

    /// The device is stopped: nothing reaches the kernel's callbacks and memory.
    fn forget_kernel(&self) {
        self.host().set_kernel(None);
        self.host().hardware.model.iter().for_each(|model| model.end());
    }

    /// Queries the capabilities of the started device.
    fn declare(&self, has_display: bool) -> Result<Declared, Status> {
        if !self.entries.has_virtual_addresses() {
            let (segments, addresses) = self.physical_segments()?;
            let shape = PageTableShape::default();
            let caps = self.caps(has_display)?;
            let has_components = self.has_components(caps.nodes.len() as u32);
            return Ok(Declared { caps, shape, segments, addresses, has_components });
        }
        let (caps, shape) = (self.caps(has_display)?, self.shape()?);
        let (segments, addresses) = self.segments()?;
        let has_components = self.has_components(caps.nodes.len() as u32);
        Ok(Declared { caps, shape, segments, addresses, has_components })
    }

    /// Starts the device. The driver may wait for its threads, also before the machine runs.
    fn begin_miniport(&self) -> Result<bool, Status> {
        let Host { platform, hardware, .. } = self.host();
        hardware.model.iter().for_each(|model| model.set_starting(true));
        let started = before_run(platform, || self.start_miniport());
        hardware.model.iter().for_each(|model| model.set_starting(false));
        let started = started.unwrap_or_else(|WaitsForNothing| {
            let what = "DxgkDdiStartDevice waits for what nothing sets";
            self.host().violation(Rule::Answer, what);
            None
        });
        started.unwrap_or(Err(Status::UNSUCCESSFUL))
    }

    /// Starts the device. Returns whether it has a display, which is one source with one child.
    fn start_miniport(&self) -> Result<bool, Status> {
        let version = self.entries.version;
        let mut interface = Interface::new(self.context(), version.number, version.interface_bytes);
        let mut start = DxgkStartInfo::default();
        let (mut sources, mut children) = (0, 0);
        self.call("DxgkDdiStartDevice", |entries| {
            let words = interface.words.as_mut_ptr();
            entries.start_device(self.adapter, &mut start, words, &mut sources, &mut children)
        })?;
        let has_display = (sources, children) == (1, 1);
        if !has_display && (sources, children) != (0, 0) {
            self.host().violation(
                Rule::Answer,
                format!(
                    "DxgkDdiStartDevice reports {sources} sources and {children} children: an \
                     adapter has one of each, or only renders"
                ),
            );
        }
        Ok(has_display)
    }

    pub(crate) fn stop(&self) {
        self.remove_primaries();
        self.stop_miniport();
        self.forget_kernel();
    }

    /// The driver may wait for its threads, also if it is refused before the machine runs.
    fn stop_miniport(&self) {
        self.host().platform.end_unless_run(|| {
            self.must("DxgkDdiStopDevice", |entries| entries.stop_device(self.adapter));
        });
    }

    /// DxgkDdiQueryAdapterInfo. `bytes` is the size of the output in the driver's version.
    fn query<I, O>(
        &self,
        query_type: u32,
        input: Option<&mut I>,
        output: &mut O,
        bytes: u32,
    ) -> Result<(), Status> {
        let input_data_size = if input.is_some() { size_of::<I>() as u32 } else { 0 };
        let mut args = QueryAdapterInfo {
            query_type,
            input_data: input.map_or(0, address_of),
            input_data_size,
            output_data: address_of(output),
            output_data_size: bytes,
            ..QueryAdapterInfo::ZERO
        };
        self.call("DxgkDdiQueryAdapterInfo", |e| e.query_adapter_info(self.adapter, &mut args))
    }

    /// As [`CDriver::query`]. A refusal is recorded: the adapter does not start.
    fn need<I, O>(
        &self,
        query_type: u32,
        input: Option<&mut I>,
        output: &mut O,
        bytes: u32,
    ) -> Result<(), Status> {
        self.query(query_type, input, output, bytes).inspect_err(|status| {
            self.host().violation(Rule::Answer, format!(
                "DxgkDdiQueryAdapterInfo of the type {query_type} failed: {status}; without the \
                 answer the adapter does not start"
            ));
        })
    }

    /// Queries the number of components with F-states.
    pub(crate) fn component_count(&self) -> Result<u32, Status> {
        let mut count = 0_u32;
        self.query(NUMPOWERCOMPONENTS, NO_INPUT, &mut count, size_of::<u32>() as u32)?;
        Ok(count)
    }

    fn caps(&self, has_display: bool) -> Result<AdapterCaps, Status> {
        let mut caps = DriverCaps::ZERO;
        let bytes = self.entries.version.driver_caps_bytes;
        self.need(DRIVERCAPS, NO_INPUT, &mut caps, bytes)?;
        // spec: NF-292
        let packet_cap = (caps.scheduling_caps & PACKET_CAP) >> HW_QUEUE_PACKET_CAP_SHIFT;
        let scheduling = VidSchCaps::from_bits_truncate(caps.scheduling_caps & !PACKET_CAP);
        let nodes = caps.nodes.min(self.host().hardware.device.node_count());
        if nodes != caps.nodes {
            self.host().violation(
                Rule::Answer,
                format!(
                    "NbAsymetricProcessingNodes is {}: the device has {nodes} nodes",
                    caps.nodes
                ),
            );
        }
        Ok(AdapterCaps {
            description: format!("driver {}", self.host().name),
            scheduling,
            hw_queue_packet_cap: packet_cap,
            preemption: PreemptionCaps {
                graphics: GraphicsPreemption::from_number(caps.graphics_preemption)
                    .unwrap_or(GraphicsPreemption::None),
                compute: ComputePreemption::from_number(caps.compute_preemption)
                    .unwrap_or(ComputePreemption::None),
            },
            max_allocation_list_slot_id: caps.max_allocation_list_slot_id,
            per_engine_tdr: caps.support_per_engine_tdr != 0,
            flip_on_vsync_mmio: caps.flip_caps & FLIP_ON_VSYNC_MMIO != 0,
            nodes: (0..nodes).map(|node| self.node(node)).collect(),
            display: has_display.then(|| DisplayCaps {
                refresh_period_ns: self
                    .host()
                    .hardware
                    .device
                    .read_register(Register::DISPLAY_PERIOD),
            }),
            physical_adapters: 1,
            monitored_values_in_memory: true,
            cache_coherent_memory: self.is_coherent()?,
            patches_addresses: !self.entries.has_virtual_addresses(),
            ..AdapterCaps::default()
        })
    }

    /// Without GPU virtual addresses the device's accesses are of one kind, which is its trait.
    fn is_coherent(&self) -> Result<bool, Status> {
        if !self.entries.has_virtual_addresses() {
            let traits =
                DeviceTraits(self.host().hardware.device.read_register(Register::DEVICE_TRAITS));
            return Ok(!traits.has(DeviceTraits::NOT_IO_COHERENT));
        }
        Ok(GpuMmuCapsFlags::from_bits_truncate(self.mmu_caps()?.flags)
            .contains(GpuMmuCapsFlags::CACHE_COHERENT_MEMORY_SUPPORTED))
    }

    /// DxgkDdiGetNodeMetadata. What user-mode drivers know about the engines of their hardware, and
    /// no query reports, is read from the device.
    // spec: UMS-134
    fn node(&self, node: u32) -> NodeMetadata {
        let mut metadata = d3dukmdt::NodeMetadata {
            engine_type: 0,
            friendly_name: [0; 32],
            flags: 0,
            gpu_mmu_supported: 0,
            iommu_supported: 0,
        };
        // WDDM 1.2 has no such entry. A kernel then knows engines by their numbers.
        let kind = self.host().hardware.device.read_register(Register::NODE_CLASS.offset(node));
        let kind = EngineKind::ALL.get(kind as usize).copied().unwrap_or(EngineKind::Compute);
        metadata.engine_type = kind.engine_type();
        if self.entries.has(place::GET_NODE_METADATA) {
            self.must("DxgkDdiGetNodeMetadata", |entries| {
                entries.get_node_metadata(self.adapter, node, &mut metadata)
            });
        }
        let (engine_type, flags) = (metadata.engine_type, metadata.flags);
        let name: Vec<u16> =
            { metadata.friendly_name }.into_iter().take_while(|unit| *unit != 0).collect();
        let has = |flag: NodeMetadataFlags| flags & flag.bits() != 0;
        let device = &self.host().hardware.device;
        let traits = NodeTraits(device.read_register(Register::NODE_TRAITS.offset(node)));
        let mut kinds = EngineKind::ALL.iter().copied();
        NodeMetadata {
            engine_type: kinds
                .find(|kind| kind.engine_type() == engine_type)
                .unwrap_or(EngineKind::Compute),
            friendly_name: match self.entries.has(place::GET_NODE_METADATA) {
                true => String::from_utf16_lossy(&name),
                false => kind.name().to_owned(),
            },
            context_scheduling: has(NodeMetadataFlags::CONTEXT_SCHEDULING_SUPPORTED),
            user_mode_submission: has(NodeMetadataFlags::USER_MODE_SUBMISSION),
            max_in_flight_hw_queue_buffers: (flags >> 16) as u16,
            // A fence has no physical address that a driver could patch.
            writes_fences: self.entries.has_virtual_addresses()
                && !traits.has(NodeTraits::NO_FENCE_WRITES),
            monitored_notification: match traits.has(NodeTraits::NOTIFIES_FENCE_WRITES) {
                true => MonitoredNotification::Advanced,
                false => MonitoredNotification::Basic,
            },
        }
    }

    fn mmu_caps(&self) -> Result<GpuMmuCaps, Status> {
        let mut caps = GpuMmuCaps::ZERO;
        self.need(GPUMMUCAPS, NO_INPUT, &mut caps, size_of::<GpuMmuCaps>() as u32)?;
        Ok(caps)
    }

    /// Queried if the driver declares native fences.
    // spec: NF-072
    pub(crate) fn native_fence_caps(&self) -> NativeFenceCaps {
        let mut caps = d3dkmddi::NativeFenceCaps::ZERO;
        let bytes = size_of::<d3dkmddi::NativeFenceCaps>() as u32;
        // A refusal leaves a stride that the kernel refuses.
        let _answered = self.need(NATIVE_FENCE_CAPS_QUERY, NO_INPUT, &mut caps, bytes);
        let bound = |address: u64| (address != 0).then_some(address);
        NativeFenceCaps {
            monitored_value_stride: caps.monitored_value_stride,
            map_to_gpu_system_process: caps.map_to_gpu_system_process != 0,
            minimum_address: bound(caps.minimum_address),
            maximum_address: bound(caps.maximum_address),
        }
    }

    /// Queried if a node declares user-mode submission.
    // spec: UMS-013
    pub(crate) fn user_mode_submission_caps(&self) -> UserModeSubmissionCaps {
        let mut caps = d3dkmddi::UserModeSubmissionCaps::ZERO;
        let bytes = size_of::<d3dkmddi::UserModeSubmissionCaps>() as u32;
        let _answered = self.need(USER_MODE_SUBMISSION_CAPS_QUERY, NO_INPUT, &mut caps, bytes);
        let flags = UserModeSubmissionCapsFlags::from_bits_truncate(caps.flags);
        let has_second = flags.contains(UserModeSubmissionCapsFlags::SECONDARY_DOORBELL_SUPPORTED);
        UserModeSubmissionCaps {
            doorbell_size_bytes: caps.doorbell_size_bytes,
            secondary_doorbell_size_bytes: has_second.then_some(caps.secondary_doorbell_size_bytes),
        }
    }

    /// GPUMMUCAPS, then PAGETABLELEVELDESC for each level. All levels must be alike.
    fn shape(&self) -> Result<PageTableShape, Status> {
        let caps = self.mmu_caps()?;
        let level = |mut number: u32| {
            let mut level = PageTableLevelDesc::ZERO;
            let bytes = size_of::<PageTableLevelDesc>() as u32;
            self.need(PAGETABLELEVELDESC, Some(&mut number), &mut level, bytes)?;
            Ok((level.page_table_index_bit_count, level.page_table_size_in_bytes))
        };
        let described = caps.page_table_level_count.min(MOST_LEVELS);
        let levels = (0..described).map(level).collect::<Result<Vec<(u32, u32)>, Status>>()?;
        let of_first = levels.first().copied().unwrap_or_default();
        if let Some(reason) = wild_shape(caps.page_table_level_count, of_first) {
            self.host().violation(Rule::Answer, format!("{reason}; the adapter does not start"));
            return Err(Status::INVALID_PARAMETER);
        }
        let (index_bits, table_bytes) = of_first;
        if levels.iter().any(|level| *level != (index_bits, table_bytes)) {
            self.host().violation(
                Rule::Answer,
                format!(
                    "levels of page tables differ: index bits and bytes are {levels:?}; all levels \
                 must be alike"
                ),
            );
        }
        let page_bytes = tidegate_gpu_abi::PAGE_BYTES;
        let covered = page_bytes.trailing_zeros() + index_bits * levels.len() as u32;
        if covered != caps.virtual_address_bit_count {
            self.host().violation(
                Rule::Answer,
                format!(
                    "VirtualAddressBitCount is {}: the levels cover {covered} bits",
                    caps.virtual_address_bit_count
                ),
            );
        }
        Ok(PageTableShape {
            page_bytes,
            levels: levels.len() as u32,
            index_bits,
            table_bytes: table_bytes.into(),
        })
    }

    /// QUERYSEGMENT4. An aperture is system memory. A memory segment is the device's local memory.
    fn segments(&self) -> Result<(Vec<Segment>, SegmentAddresses), Status> {
        let stated = self.stated_segments4()?;
        Ok(self.accept_segments(stated, SegmentFlags::APERTURE, |number| {
            format!("segment {number} is a memory segment: the device has one local memory")
        }))
    }

    /// QUERYSEGMENT4, for the number and then for the segments.
    fn stated_segments4(&self) -> Result<Vec<StatedSegment>, Status> {
        let mut out = QuerySegmentOut4 {
            segment_descriptor_stride: size_of::<SegmentDescriptor4>() as u64,
            ..QuerySegmentOut4::ZERO
        };
        let bytes = size_of::<QuerySegmentOut4>() as u32;
        self.need(QUERYSEGMENT4, NO_INPUT, &mut out, bytes)?;
        let count = self.segment_count(out.segments)?;
        let mut descriptors = vec![SegmentDescriptor4::ZERO; count];
        out.segment_descriptor = address_of_first(&mut descriptors);
        self.need(QUERYSEGMENT4, NO_INPUT, &mut out, bytes)?;
        Ok(descriptors.iter().map(|of| (of.flags, of.base_address, of.size)).collect())
    }

    /// QUERYSEGMENT3, as [`CDriver::stated_segments4`].
    fn stated_segments3(&self) -> Result<Vec<StatedSegment>, Status> {
        let mut out = QuerySegmentOut3::ZERO;
        let bytes = size_of::<QuerySegmentOut3>() as u32;
        self.need(QUERYSEGMENT3, NO_INPUT, &mut out, bytes)?;
        let mut descriptors = vec![SegmentDescriptor3::ZERO; self.segment_count(out.segments)?];
        out.segment_descriptor = address_of_first(&mut descriptors);
        self.need(QUERYSEGMENT3, NO_INPUT, &mut out, bytes)?;
        Ok(descriptors.iter().map(|of| (of.flags, of.base_address, of.size)).collect())
    }

    /// Takes the flags, the BaseAddress and the Size of each segment. Those with the flag `system`
    /// are system memory, and the first memory segment is the device's local memory. Any other one
    /// is a violation in the words of `refusal`, which gets the segment's number.
    fn accept_segments(
        &self,
        stated: Vec<StatedSegment>,
        system: SegmentFlags,
        refusal: impl Fn(u32) -> String,
    ) -> (Vec<Segment>, SegmentAddresses) {
        let device = &self.host().hardware.device;
        let local_base = device.read_register(Register::LOCAL_MEMORY_BASE);
        let mut addresses = SegmentAddresses { local_base, ..SegmentAddresses::default() };
        let mut segments = Vec::new();
        for ((flags, base_address, bytes), number) in stated.into_iter().zip(1_u32..) {
            let flags = SegmentFlags::from_bits_truncate(flags);
            let place = (number, base_address);
            match device.local_memory(0) {
                _ if flags.contains(system) => addresses.system = place,
                Some(memory) if segments.is_empty() && !flags.contains(SegmentFlags::APERTURE) => {
                    addresses.local = place;
                    segments.push(Segment {
                        memory: memory.clone(),
                        physical_adapter: 0,
                        cpu_visible: flags.contains(SegmentFlags::CPU_VISIBLE),
                        bytes: bytes.min(device.local_memory_bytes()),
                    });
                }
                _ => self.host().violation(Rule::Answer, refusal(number)),
            }
        }
        (segments, addresses)
    }

    /// Checks the number of segments before the driver fills in as many descriptors.
    fn segment_count(&self, count: u32) -> Result<usize, Status> {
        if count > MOST_SEGMENTS {
            let what = format!("{count} segments: there are at most {MOST_SEGMENTS}");
            self.host().violation(Rule::Answer, what);
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(count as usize)
    }

    /// As [`CDriver::segments`], without GPU virtual addresses. One segment is system memory at the
    /// addresses that the device uses: DMA buffers are in it, and allocations that are not in local
    /// memory.
    fn physical_segments(&self) -> Result<(Vec<Segment>, SegmentAddresses), Status> {
        let stated = match self.entries.has_segments4() {
            true => self.stated_segments4()?,
            false => self.stated_segments3()?,
        };
        let populated = SegmentFlags::POPULATED_FROM_SYSTEM_MEMORY;
        let (segments, addresses) = self.accept_segments(stated, populated, |number| {
            format!(
                "segment {number}: aperture segments are not mapped, and the device has one local \
                 memory"
            )
        });
        if addresses.system.0 == 0 {
            self.host().violation(
                Rule::Answer,
                "no segment has PopulatedFromSystemMemory, in which DMA buffers are; the adapter \
                 does not start",
            );
            return Err(Status::INVALID_PARAMETER);
        }
        Ok((segments, addresses))
    }

    /// Calls the interrupt routine. The line orders it with DxgkCbSynchronizeExecution.
    pub(crate) fn interrupt(&self, level: &tidegate_ddi::Dirql<'_>) -> bool {
        let line = self.host().line.lock_device();
        let ours = match &self.host().hardware.model {
            None => self.serve_interrupt(0),
            Some(model) if model.has_messages() => self.serve_messages(model),
            Some(model) => self.serve_line(model),
        };
        self.host().forward(level);
        drop(line);
        ours
    }

    fn serve_interrupt(&self, message: u32) -> bool {
        let ours = self.host().at_level("DxgkDdiInterruptRoutine", Level::Dirql, || {
            self.entries.interrupt_routine(self.adapter, message)
        });
        ours.is_some_and(|ours| ours != 0)
    }

    /// Calls the interrupt routine once for each message.
    // spec: PRE-181
    fn serve_messages(&self, model: &DeviceModel) -> bool {
        let mut ours = false;
        while let Some(message) = model.take_message() {
            ours |= self.serve_interrupt(message);
        }
        ours
    }

    /// Calls the interrupt routine, and again while the line is high.
    fn serve_line(&self, model: &DeviceModel) -> bool {
        let mut ours = self.serve_interrupt(0);
        for _ in 1..MOST_CALLS_FOR_A_LINE {
            if !model.is_line_high() {
                return ours;
            }
            ours |= self.serve_interrupt(0);
        }
        if model.is_line_high() {
            self.host().violation(
                Rule::Line,
                format!(
                    "the interrupt line is high after {MOST_CALLS_FOR_A_LINE} calls of \
                     DxgkDdiInterruptRoutine: it stays masked until the device lowers it"
                ),
            );
            model.mask_line();
        }
        ours
    }
}

/// Returns why page tables of a number of levels, of these index bits and bytes each, cannot be.
fn wild_shape(levels: u32, (index_bits, table_bytes): (u32, u32)) -> Option<String> {
    if levels == 0 || levels > MOST_LEVELS {
        return Some(format!("PageTableLevelCount is {levels}: 1 to {MOST_LEVELS} are possible"));
    }
    let page_bits = u64::from(tidegate_gpu_abi::PAGE_BYTES.trailing_zeros());
    let covered = page_bits + u64::from(index_bits) * u64::from(levels);
    if index_bits == 0 || covered > MOST_ADDRESS_BITS {
        return Some(format!(
            "PageTableIndexBitCount is {index_bits}: {levels} levels cover {covered} bits, of at \
             most {MOST_ADDRESS_BITS}"
        ));
    }
    let needed = LEAST_ENTRY_BYTES << index_bits;
    (u128::from(table_bytes) < needed).then(|| {
        format!(
            "PageTableSizeInBytes is {table_bytes}: {index_bits} index bits need {needed} bytes"
        )
    })
}
