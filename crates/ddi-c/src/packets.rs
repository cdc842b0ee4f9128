//! Processes, devices, contexts and packets, and the recovery of engines: the rows of the DDI.
//!
//! Handles of the driver are what the kernel gets.

use crate::CDriver;
use crate::address::address_of_first;
use crate::foreign::place;
use crate::objects::{BufferSizes, Context, Process};
use crate::rule::Rule;
use std::sync::Arc;
use tidegate_ddi::memory::{PageTableShape, PagingOperation, Segment, UpdatePageTable};
use tidegate_ddi::queue::{CreateContext, CreateDevice, SetRootPageTable, SubmitCommandVirtual};
use tidegate_ddi::{
    AdapterCaps, AdapterResetDdi, AllocationDdi, CancelCommand, CancellationDdi, DdiVersion,
    DebugInfo, DebugReason, Dirql, Dispatch, DisplayDdi, Driver, DriverHandle, EngineId,
    EngineResetDdi, EngineStatus, FeatureDdi, HwQueueDdi, InterruptService, NativeFenceDdi,
    Passive, PatchDdi, PowerDdi, PreemptCommand, PreemptionDdi, PrimaryDdi, PriorityBandDdi,
    StartInfo, Status, UserModeSubmissionDdi,
};
use tidegate_gpu_abi::InterruptSink;
use tidegate_platform::level::Level;
use tidegate_wddm_abi::miniport::{self, CreateContextFlags};

/// The number of the system process's address space.
const SYSTEM_PROCESS: u32 = 0;
/// The largest DMA buffer, and the largest private data of one.
const MOST_BUFFER_BYTES: u32 = 16 << 20;
/// The largest patch list of a DMA buffer.
const MOST_PATCH_LOCATIONS: u32 = 1 << 16;
/// Bytes for the driver's description of a recovery.
const DEBUG_BYTES: usize = 4096;

/// Connects the device's interrupt line to the kernel's dispatch.
struct Line(Arc<dyn InterruptService>);

impl InterruptSink for Line {
    fn raise(&self) {
        self.0.raise();
    }

    fn turn_ended(&self) {
        self.0.turn_ended();
    }
}

impl CDriver {
    /// Returns the driver's handle of a process, and whether a context has its root page table.
    pub(crate) fn process_of(&self, address_space: u32) -> (u64, bool) {
        let objects = self.objects.lock();
        let handle = objects.processes.get(&address_space).map_or(0, |process| process.handle);
        let mut contexts = objects.contexts.values();
        (handle, contexts.any(|context| context.address_space == address_space))
    }

    /// DxgkDdiCreateProcess, once for each address space.
    pub(crate) fn begin_process(&self, address_space: u32) -> Result<(), Status> {
        if self.objects.lock().processes.contains_key(&address_space) {
            return Ok(());
        }
        let mut args = miniport::CreateProcess {
            dxgk_process: u64::from(address_space) + 1,
            flags: u32::from(address_space == SYSTEM_PROCESS),
            ..miniport::CreateProcess::ZERO
        };
        self.call("DxgkDdiCreateProcess", |e| e.create_process(self.adapter, &mut args))?;
        let process = Process { handle: args.kmd_process, root: 0 };
        self.objects.lock().processes.insert(address_space, process);
        Ok(())
    }

    pub(crate) fn end_process(&self, address_space: u32) -> Result<(), Status> {
        let ended = self.objects.lock().processes.remove(&address_space);
        let Some(Process { handle, .. }) = ended else { return Ok(()) };
        if self.entries.has(place::DESTROY_PROCESS) {
            self.must("DxgkDdiDestroyProcess", |e| e.destroy_process(self.adapter, handle));
        }
        Ok(())
    }

    fn add_device(&self, args: CreateDevice) -> Result<DriverHandle, Status> {
        let (kmd_process, _) = self.process_of(args.address_space);
        let mut c =
            miniport::CreateDevice { device: args.os_handle.0, flags: 0, pasid: 0, kmd_process };
        self.call("DxgkDdiCreateDevice", |e| e.create_device(self.adapter, &mut c))?;
        self.objects.lock().devices.insert(c.device, args.address_space);
        Ok(DriverHandle(c.device))
    }

    fn add_context(&self, args: CreateContext) -> Result<DriverHandle, Status> {
        if args.hardware_scheduled {
            return self.add_hw_context(args);
        }
        let mut flags = CreateContextFlags::empty();
        flags.set(CreateContextFlags::VIRTUAL_ADDRESSING, self.entries.has_virtual_addresses());
        let mut c = miniport::CreateContext {
            context: args.os_handle.0,
            node_ordinal: args.node_ordinal,
            engine_affinity: args.engine_affinity,
            flags: flags.bits(),
            ..miniport::CreateContext::ZERO
        };
        self.call("DxgkDdiCreateContext", |e| e.create_context(args.device.0, &mut c))?;
        let bounded = |size: u32, most: u32, what: &str| {
            if size > most {
                let what = format!("{what} of a context is {size}: at most {most}");
                self.host().violation(Rule::Answer, what);
            }
            size.min(most)
        };
        let sizes = BufferSizes {
            dma_buffer_bytes: bounded(c.dma_buffer_size, MOST_BUFFER_BYTES, "DmaBufferSize"),
            private_data_bytes: bounded(
                c.dma_buffer_private_data_size,
                MOST_BUFFER_BYTES,
                "DmaBufferPrivateDataSize",
            ),
            allocations: c.allocation_list_size,
            patch_locations: bounded(
                c.patch_location_list_size,
                MOST_PATCH_LOCATIONS,
                "PatchLocationListSize",
            ),
        };
        Ok(self.keep_context(args, c.context, sizes))
    }

    /// Keeps a new context and gives it the root page table of its process.
    pub(crate) fn keep_context(
        &self,
        args: CreateContext,
        context: u64,
        sizes: BufferSizes,
    ) -> DriverHandle {
        let root = {
            let mut objects = self.objects.lock();
            let space = objects.devices.get(&args.device.0).copied();
            let address_space = space.unwrap_or(SYSTEM_PROCESS);
            let hardware_scheduled = args.hardware_scheduled;
            let kept = Context { address_space, sizes, hardware_scheduled };
            objects.contexts.insert(context, kept);
            objects.root_of(address_space)
        };
        if root != 0 {
            self.set_root_of(context, root);
        }
        DriverHandle(context)
    }

    fn submit(&self, args: &SubmitCommandVirtual) -> Result<(), Status> {
        let context = self.objects.lock().contexts.get(&args.context.0).copied();
        let private_data_bytes = context.ok_or(Status::INVALID_PARAMETER)?.sizes.private_data_bytes;
        let EngineId { node_ordinal, engine_ordinal } = args.engine;
        let dma_buffer_private_data = match private_data_bytes {
            0 => 0,
            bytes => self.host().keep_private_data(
                (node_ordinal, args.submission_fence_id),
                (args.context.0, args.dma_buffer_gpu_va),
                bytes,
            ),
        };
        let mut c = miniport::SubmitCommandVirtual {
            context: args.context.0,
            dma_buffer_virtual_address: args.dma_buffer_gpu_va,
            dma_buffer_size: args.dma_buffer_bytes,
            dma_buffer_private_data,
            dma_buffer_private_data_size: private_data_bytes,
            submission_fence_id: args.submission_fence_id,
            flags: args.flags.bits(),
            engine_ordinal,
            node_ordinal,
            ..miniport::SubmitCommandVirtual::ZERO
        };
        self.call_at("DxgkDdiSubmitCommandVirtual", Level::Dispatch, |e| {
            e.submit_command_virtual(self.adapter, &mut c)
        })
    }

    fn collect(&self, reason: DebugReason) -> Result<DebugInfo, Status> {
        let mut text = vec![0_u8; DEBUG_BYTES];
        let mut c = miniport::CollectDbgInfo {
            reason: reason as u32,
            buffer: address_of_first(&mut text),
            buffer_size: DEBUG_BYTES as u64,
            extension: 0,
        };
        self.call("DxgkDdiCollectDbgInfo", |e| e.collect_dbg_info(self.adapter, &mut c))?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = String::from_utf8_lossy(&text[..end]).into_owned();
        Ok(DebugInfo { text, commands: Vec::new() })
    }
}

impl Driver for CDriver {
    fn ddi_version(&self) -> DdiVersion {
        let (major, minor) = self.entries.version.wddm;
        DdiVersion::wddm(major, minor)
    }

    fn features(&self) -> Option<&dyn FeatureDdi> {
        self.features.is_some().then_some(self)
    }

    fn hw_queues(&self) -> Option<&dyn HwQueueDdi> {
        self.has_all(place::HW_QUEUES).then_some(self)
    }

    fn priority_bands(&self) -> Option<&dyn PriorityBandDdi> {
        self.has_all(place::PRIORITY_BANDS).then_some(self)
    }

    fn native_fences(&self) -> Option<&dyn NativeFenceDdi> {
        self.has_all(place::NATIVE_FENCES).then_some(self)
    }

    fn user_mode_submission(&self) -> Option<&dyn UserModeSubmissionDdi> {
        self.has_all(place::DOORBELLS).then_some(self)
    }

    fn patching(&self) -> Option<&dyn PatchDdi> {
        self.has_all(place::PATCHING).then_some(self)
    }

    fn allocations(&self) -> Option<&dyn AllocationDdi> {
        self.has_all(place::ALLOCATIONS).then_some(self)
    }

    fn display(&self) -> Option<&dyn DisplayDdi> {
        self.has_all(place::DISPLAY).then_some(self)
    }

    fn primaries(&self) -> Option<&dyn PrimaryDdi> {
        self.has_all(place::DISPLAY).then_some(self)
    }

    fn preemption(&self) -> Option<&dyn PreemptionDdi> {
        self.entries.has(place::PREEMPT_COMMAND).then_some(self)
    }

    fn power(&self) -> Option<&dyn PowerDdi> {
        self.entries.has(place::SET_POWER_STATE).then_some(self)
    }

    fn cancellation(&self) -> Option<&dyn CancellationDdi> {
        self.entries.has(place::CANCEL_COMMAND).then_some(self)
    }

    fn adapter_reset(&self) -> Option<&dyn AdapterResetDdi> {
        self.has_all(&[
            place::RESET_FROM_TIMEOUT,
            place::RESTART_FROM_TIMEOUT,
            place::QUERY_CURRENT_FENCE,
        ])
        .then_some(self)
    }

    fn engine_reset(&self) -> Option<&dyn EngineResetDdi> {
        self.has_all(&[
            place::QUERY_DEPENDENT_ENGINE_GROUP,
            place::QUERY_ENGINE_STATUS,
            place::RESET_ENGINE,
        ])
        .then_some(self)
    }

    fn start_device(&self, _level: &Passive, start: StartInfo) -> Result<(), Status> {
        self.start(start)
    }

    fn stop_device(&self, _level: &Passive) {
        self.stop();
    }

    fn query_adapter_caps(&self, _level: &Passive) -> AdapterCaps {
        self.objects.lock().declared.caps.clone()
    }

    fn page_table_shape(&self, _level: &Passive) -> PageTableShape {
        self.objects.lock().declared.shape
    }

    fn query_segments(&self, _level: &Passive) -> Vec<Segment> {
        self.objects.lock().declared.segments.clone()
    }

    fn update_page_table(&self, _level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        self.write_page_table(&args)
    }

    fn build_paging_buffer(
        &self,
        _level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        self.page(operation)
    }

    fn set_root_page_table(&self, _level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        self.set_root(args)
    }

    fn create_device(&self, _level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.add_device(args)
    }

    fn destroy_device(&self, _level: &Passive, device: DriverHandle) {
        self.objects.lock().devices.remove(&device.0);
        self.must("DxgkDdiDestroyDevice", |entries| entries.destroy_device(device.0));
    }

    fn create_context(
        &self,
        _level: &Passive,
        args: CreateContext,
    ) -> Result<DriverHandle, Status> {
        self.add_context(args)
    }

    fn destroy_context(&self, _level: &Passive, context: DriverHandle) {
        let removed = self.objects.lock().contexts.remove(&context.0);
        if removed.is_some_and(|removed| removed.hardware_scheduled) {
            return self
                .must("DxgkDdiDestroyHwContext", |entries| entries.destroy_hw_context(context.0));
        }
        self.host().drop_private_data(context.0);
        self.must("DxgkDdiDestroyContext", |entries| entries.destroy_context(context.0));
    }

    fn submit_command_virtual(
        &self,
        _level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        self.submit(&args)
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.interrupt(level)
    }

    fn dpc_routine(&self, _level: &Dispatch) {
        self.host().at_level("DxgkDdiDpcRoutine", Level::Dispatch, || {
            self.entries.dpc_routine(self.adapter)
        });
    }

    fn connect_interrupt(&self, _level: &Passive, service: Arc<dyn InterruptService>) {
        self.host().hardware.device.connect_interrupt(Arc::new(Line(service)));
    }
}

impl PreemptionDdi for CDriver {
    fn preempt_command(&self, _level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        let EngineId { node_ordinal, engine_ordinal } = args.engine;
        let mut c = miniport::PreemptCommand {
            preemption_fence_id: args.preemption_fence_id,
            node_ordinal,
            engine_ordinal,
            flags: 0,
        };
        self.call_at("DxgkDdiPreemptCommand", Level::Dispatch, |e| {
            e.preempt_command(self.adapter, &mut c)
        })
    }
}

impl CancellationDdi for CDriver {
    fn cancel_command(&self, _level: &Dispatch, args: CancelCommand) -> Result<(), Status> {
        let mut c = miniport::CancelCommand {
            context: args.context.0,
            dma_buffer_size: args.dma_buffer_bytes,
            submission_end_offset: args.dma_buffer_bytes,
            dma_buffer_virtual_address: args.dma_buffer_gpu_va,
            ..miniport::CancelCommand::ZERO
        };
        self.call("DxgkDdiCancelCommand", |e| e.cancel_command(self.adapter, &mut c))
    }
}

impl AdapterResetDdi for CDriver {
    fn query_current_fence(&self, _level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        let mut c = miniport::QueryCurrentFence {
            current_fence: 0,
            node_ordinal: engine.node_ordinal,
            engine_ordinal: engine.engine_ordinal,
        };
        self.call("DxgkDdiQueryCurrentFence", |e| e.query_current_fence(self.adapter, &mut c))?;
        Ok(c.current_fence)
    }

    fn reset_from_timeout(&self, _level: &Passive) -> Result<(), Status> {
        self.call("DxgkDdiResetFromTimeout", |entries| entries.reset_from_timeout(self.adapter))
    }

    fn restart_from_timeout(&self, _level: &Passive) -> Result<(), Status> {
        self.call("DxgkDdiRestartFromTimeout", |entries| entries.restart_from_timeout(self.adapter))
    }

    fn collect_debug_info(
        &self,
        _level: &Passive,
        _engine: Option<EngineId>,
        reason: DebugReason,
    ) -> Result<DebugInfo, Status> {
        self.collect(reason)
    }
}

impl EngineResetDdi for CDriver {
    fn query_dependent_engine_group(
        &self,
        _level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        let mut c = miniport::QueryDependentEngineGroup {
            node_ordinal: engine.node_ordinal,
            engine_ordinal: engine.engine_ordinal,
            dependent_node_ordinal_mask: 0,
        };
        self.call("DxgkDdiQueryDependentEngineGroup", |e| {
            e.query_dependent_engine_group(self.adapter, &mut c)
        })?;
        Ok(c.dependent_node_ordinal_mask)
    }

    fn query_engine_status(
        &self,
        _level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        let mut c = miniport::QueryEngineStatus {
            node_ordinal: engine.node_ordinal,
            engine_ordinal: engine.engine_ordinal,
            engine_status: 0,
        };
        self.call("DxgkDdiQueryEngineStatus", |e| e.query_engine_status(self.adapter, &mut c))?;
        Ok(EngineStatus { responsive: c.engine_status & 1 != 0, ..EngineStatus::default() })
    }

    fn reset_engine(&self, _level: &Passive, engine: EngineId) -> Result<u32, Status> {
        let mut c = miniport::ResetEngine {
            node_ordinal: engine.node_ordinal,
            engine_ordinal: engine.engine_ordinal,
            last_aborted_fence_id: 0,
        };
        self.call("DxgkDdiResetEngine", |entries| entries.reset_engine(self.adapter, &mut c))?;
        Ok(c.last_aborted_fence_id)
    }
}
