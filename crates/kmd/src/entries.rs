//! The entries of the driver. Each charges the call, passes it to the file that carries it out, and
//! returns a status or, where the call must succeed, records a [`Violation`](crate::Violation).

use crate::{ReferenceDriver, caps, paging, segments};
use std::sync::Arc;
use tidegate_ddi::InterruptType;
use tidegate_ddi::caps::{AdapterCaps, NativeFenceCaps, UserModeSubmissionCaps};
use tidegate_ddi::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use tidegate_ddi::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use tidegate_ddi::fence::{
    CreateNativeFence, GpuClockCalibration, OpenNativeFence, SetNativeFenceLogBuffer,
    UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate_ddi::memory::{
    AllocationSegments, PageTableShape, PagingOperation, Segment, StandardAllocation,
    UpdatePageTable,
};
use tidegate_ddi::patch::{Patch, PatchLocation, Render, SubmitCommandPhysical};
use tidegate_ddi::queue::{
    CreateContext, CreateDevice, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue,
    SubmitCommandVirtual,
};
use tidegate_ddi::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use tidegate_ddi::{
    AdapterResetDdi, CancelCommand, CancellationDdi, ComponentState, DdiVersion, DebugReason,
    DevicePowerState, Dirql, Dispatch, DisplayDdi, Driver, DriverHandle, EngineId, EngineResetDdi,
    EngineStatus, FeatureDdi, HwQueueDdi, InterruptService, LinkNativeFence, NativeFenceDdi,
    Passive, PatchDdi, PeerDdi, PeerDoorbell, PowerAction, PowerDdi, PreemptCommand, PreemptionDdi,
    PriorityBandDdi, SetVidPnSourceAddress, StartInfo, Status, UserModeSubmissionDdi,
};

impl Driver for ReferenceDriver {
    fn ddi_version(&self) -> DdiVersion {
        DdiVersion::WDDM_3_2
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        self.enter("DxgkDdiStartDevice");
        Ok(self.start(level, start)?)
    }

    fn stop_device(&self, _level: &Passive) {
        self.enter("DxgkDdiStopDevice");
        self.must("DxgkDdiStopDevice", self.stop());
    }

    fn query_adapter_caps(&self, _level: &Passive) -> AdapterCaps {
        self.enter("DxgkDdiQueryAdapterInfo");
        self.caps()
    }

    fn page_table_shape(&self, _level: &Passive) -> PageTableShape {
        self.enter("DxgkDdiQueryAdapterInfo");
        paging::shape()
    }

    fn query_segments(&self, _level: &Passive) -> Vec<Segment> {
        self.enter("DxgkDdiQueryAdapterInfo");
        segments::report(&*self.device)
    }

    fn update_page_table(&self, _level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        self.enter("DxgkDdiBuildPagingBuffer");
        Ok(self.write_page_table(&args)?)
    }

    fn build_paging_buffer(
        &self,
        _level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiBuildPagingBuffer");
        Ok(self.page(operation)?)
    }

    fn set_root_page_table(&self, _level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        self.enter("DxgkDdiSetRootPageTable");
        Ok(self.set_root(args)?)
    }

    fn create_device(&self, _level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.enter("DxgkDdiCreateDevice");
        Ok(self.add_device(args)?)
    }

    fn destroy_device(&self, _level: &Passive, device: DriverHandle) {
        self.enter("DxgkDdiDestroyDevice");
        self.must("DxgkDdiDestroyDevice", self.remove_device(device));
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        self.enter("DxgkDdiCreateContext");
        Ok(self.add_context(level, args)?)
    }

    fn destroy_context(&self, level: &Passive, context: DriverHandle) {
        self.enter("DxgkDdiDestroyContext");
        self.must("DxgkDdiDestroyContext", self.remove_context(level, context));
    }

    fn submit_command_virtual(
        &self,
        _level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSubmitCommandVirtual");
        Ok(self.submit_packet(&args)?)
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.enter("DxgkDdiInterruptRoutine");
        self.service_interrupt(level)
    }

    fn dpc_routine(&self, level: &Dispatch) {
        self.enter("DxgkDdiDpcRoutine");
        let callbacks = self.objects.lock().started.as_ref().map(|s| Arc::clone(&s.callbacks));
        if let Some(callbacks) = callbacks {
            callbacks.notify_dpc(level);
        }
    }

    fn connect_interrupt(&self, _level: &Passive, service: Arc<dyn InterruptService>) {
        self.enter("DxgkDdiStartDevice");
        self.connect_line(service);
    }

    fn features(&self) -> Option<&dyn FeatureDdi> {
        Some(self)
    }

    fn hw_queues(&self) -> Option<&dyn HwQueueDdi> {
        Some(self)
    }

    fn priority_bands(&self) -> Option<&dyn PriorityBandDdi> {
        Some(self)
    }

    fn native_fences(&self) -> Option<&dyn NativeFenceDdi> {
        Some(self)
    }

    fn user_mode_submission(&self) -> Option<&dyn UserModeSubmissionDdi> {
        Some(self)
    }

    fn power(&self) -> Option<&dyn PowerDdi> {
        Some(self)
    }

    fn preemption(&self) -> Option<&dyn PreemptionDdi> {
        Some(self)
    }

    fn cancellation(&self) -> Option<&dyn CancellationDdi> {
        Some(self)
    }

    fn adapter_reset(&self) -> Option<&dyn AdapterResetDdi> {
        Some(self)
    }

    fn engine_reset(&self) -> Option<&dyn EngineResetDdi> {
        Some(self)
    }

    fn display(&self) -> Option<&dyn DisplayDdi> {
        Some(self)
    }

    fn patching(&self) -> Option<&dyn PatchDdi> {
        Some(self)
    }

    fn peers(&self) -> Option<&dyn PeerDdi> {
        Some(self)
    }
}

impl FeatureDdi for ReferenceDriver {
    fn query_feature_support(&self, _level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        self.enter("DxgkDdiQueryFeatureSupport");
        caps::support(&self.config, args.feature)
    }

    fn query_feature_interface(
        &self,
        _level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        self.enter("DxgkDdiQueryFeatureInterface");
        Ok(self.feature_table(args)?)
    }
}

impl HwQueueDdi for ReferenceDriver {
    fn suspend_context(
        &self,
        _level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        self.enter("DxgkDdiSuspendContext");
        Ok(self.suspend(context, suspend_fence)?)
    }

    fn resume_context(&self, _level: &Passive, context: DriverHandle) -> Result<(), Status> {
        self.enter("DxgkDdiResumeContext");
        Ok(self.resume(context)?)
    }

    fn create_hw_queue(
        &self,
        _level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.enter("DxgkDdiCreateHwQueue");
        Ok(self.add_hw_queue(&args)?)
    }

    fn destroy_hw_queue(&self, _level: &Passive, hw_queue: DriverHandle) {
        self.enter("DxgkDdiDestroyHwQueue");
        self.must("DxgkDdiDestroyHwQueue", self.remove_hw_queue(hw_queue));
    }

    fn submit_command_to_hw_queue(
        &self,
        _level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSubmitCommandToHwQueue");
        Ok(self.submit_to_hw_queue(&args)?)
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.enter("DxgkDdiResetHwEngine");
        Ok(self.reset_queues_of(level, engine)?)
    }

    fn resume_hw_engine(&self, _level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.enter("DxgkDdiResumeHwEngine");
        Ok(self.resume_queues_of(engine)?)
    }
}

impl PriorityBandDdi for ReferenceDriver {
    fn setup_priority_bands(
        &self,
        _level: &Passive,
        args: SetupPriorityBands,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSetupPriorityBands");
        Ok(self.set_bands(args)?)
    }

    fn set_context_scheduling_properties(
        &self,
        _level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSetContextSchedulingProperties");
        Ok(self.set_scheduling(args)?)
    }
}

impl NativeFenceDdi for ReferenceDriver {
    fn query_native_fence_caps(&self, _level: &Passive) -> NativeFenceCaps {
        self.enter("DxgkDdiQueryAdapterInfo");
        caps::native_fence_caps(&self.config)
    }

    fn get_standard_allocation_driver_data(
        &self,
        _level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        self.enter("DxgkDdiGetStandardAllocationDriverData");
        Ok(self.fence_storage_segments(&args.surface)?)
    }

    fn create_native_fence(
        &self,
        _level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        self.enter("DxgkDdiCreateNativeFence");
        Ok(self.add_fence(&args)?)
    }

    fn open_native_fence(
        &self,
        _level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.enter("DxgkDdiOpenNativeFence");
        Ok(self.open_fence(args)?)
    }

    fn close_native_fence(&self, _level: &Passive, local: DriverHandle) {
        self.enter("DxgkDdiCloseNativeFence");
        self.must("DxgkDdiCloseNativeFence", self.close_fence(local));
    }

    fn destroy_native_fence(&self, _level: &Passive, global: DriverHandle) {
        self.enter("DxgkDdiDestroyNativeFence");
        self.must("DxgkDdiDestroyNativeFence", self.remove_fence(global));
    }

    fn update_monitored_values(&self, _level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        self.enter("DxgkDdiUpdateMonitoredValues");
        let unknown = self.publish_monitored(fences);
        self.violated("DxgkDdiUpdateMonitoredValues", &unknown);
    }

    fn update_current_values_from_cpu(
        &self,
        _level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        self.enter("DxgkDdiUpdateCurrentValuesFromCpu");
        let failed = self.update_current(fences, mode);
        self.violated("DxgkDdiUpdateCurrentValuesFromCpu", &failed);
    }

    fn set_native_fence_log_buffer(&self, _level: &Dispatch, args: SetNativeFenceLogBuffer) {
        self.enter("DxgkDdiSetNativeFenceLogBuffer");
        self.must("DxgkDdiSetNativeFenceLogBuffer", self.place_log(&args));
    }

    fn calibrate_gpu_clock(&self, _level: &Dispatch, _node_ordinal: u32) -> GpuClockCalibration {
        self.enter("DxgkDdiCalibrateGpuClock");
        self.read_clocks()
    }

    fn update_native_fence_logs(&self, _level: &Dispatch, hw_queues: &[DriverHandle]) {
        self.enter("DxgkDdiUpdateNativeFenceLogs");
        let unknown = self.flush_logs(hw_queues);
        self.violated("DxgkDdiUpdateNativeFenceLogs", &unknown);
    }
}

impl UserModeSubmissionDdi for ReferenceDriver {
    fn query_user_mode_submission_caps(&self, _level: &Passive) -> UserModeSubmissionCaps {
        self.enter("DxgkDdiQueryAdapterInfo");
        caps::user_mode_submission_caps(&self.config)
    }

    fn create_doorbell(
        &self,
        _level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.enter("DxgkDdiCreateDoorbell");
        Ok(self.add_doorbell(args)?)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.enter("DxgkDdiConnectDoorbell");
        Ok(self.connect(level, doorbell, flags)?)
    }

    fn disconnect_doorbell(&self, _level: &Passive, doorbell: DriverHandle) {
        self.enter("DxgkDdiDisconnectDoorbell");
        self.must("DxgkDdiDisconnectDoorbell", self.disconnect(doorbell));
    }

    fn destroy_doorbell(&self, _level: &Passive, doorbell: DriverHandle) {
        self.enter("DxgkDdiDestroyDoorbell");
        self.must("DxgkDdiDestroyDoorbell", self.remove_doorbell(doorbell));
    }

    fn notify_work_submission(&self, _level: &Passive, hw_queue: DriverHandle) {
        self.enter("DxgkDdiNotifyWorkSubmission");
        self.must("DxgkDdiNotifyWorkSubmission", self.kick(hw_queue));
    }
}

impl PowerDdi for ReferenceDriver {
    fn set_power_state(
        &self,
        _level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSetPowerState");
        Ok(self.power_device(state, action)?)
    }

    fn set_power_component_f_state(
        &self,
        _level: &Dispatch,
        component: u32,
        state: ComponentState,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSetPowerComponentFState");
        Ok(self.power_engine(component, state)?)
    }
}

impl PreemptionDdi for ReferenceDriver {
    fn preempt_command(&self, _level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        self.enter("DxgkDdiPreemptCommand");
        Ok(self.preempt(args)?)
    }
}

impl CancellationDdi for ReferenceDriver {
    fn cancel_command(&self, _level: &Dispatch, args: CancelCommand) -> Result<(), Status> {
        self.enter("DxgkDdiCancelCommand");
        Ok(self.cancel(args)?)
    }
}

impl AdapterResetDdi for ReferenceDriver {
    fn query_current_fence(&self, _level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        self.enter("DxgkDdiQueryCurrentFence");
        Ok(self.current_fence(engine)?)
    }

    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.enter("DxgkDdiResetFromTimeout");
        Ok(self.reset_all(level)?)
    }

    fn restart_from_timeout(&self, _level: &Passive) -> Result<(), Status> {
        self.enter("DxgkDdiRestartFromTimeout");
        Ok(self.restart()?)
    }

    fn collect_debug_info(
        &self,
        _level: &Passive,
        engine: Option<EngineId>,
        _reason: DebugReason,
    ) -> Result<String, Status> {
        self.enter("DxgkDdiCollectDbgInfo");
        Ok(self.debug_info(engine)?)
    }
}

impl EngineResetDdi for ReferenceDriver {
    fn query_dependent_engine_group(
        &self,
        _level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        self.enter("DxgkDdiQueryDependentEngineGroup");
        Ok(self.dependent_nodes(engine)?)
    }

    fn query_engine_status(
        &self,
        _level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        self.enter("DxgkDdiQueryEngineStatus");
        Ok(self.engine_status(engine)?)
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        self.enter("DxgkDdiResetEngine");
        Ok(self.reset_node(level, engine)?)
    }
}

impl DisplayDdi for ReferenceDriver {
    fn set_vid_pn_source_address(
        &self,
        _level: &Dirql<'_>,
        args: SetVidPnSourceAddress,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSetVidPnSourceAddress");
        Ok(self.flip(args)?)
    }

    fn set_vid_pn_source_visibility(
        &self,
        _level: &Passive,
        vid_pn_source_id: u32,
        visible: bool,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiSetVidPnSourceVisibility");
        Ok(self.show(vid_pn_source_id, visible)?)
    }

    fn control_interrupt(
        &self,
        _level: &Passive,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), Status> {
        self.enter("DxgkDdiControlInterrupt");
        Ok(self.control_vsync(interrupt_type, enable)?)
    }
}

impl PatchDdi for ReferenceDriver {
    fn render(&self, _level: &Passive, args: Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        self.enter("DxgkDdiRender");
        Ok(self.translate(&args)?)
    }

    fn patch(&self, _level: &Passive, args: Patch<'_>) -> Result<(), Status> {
        self.enter("DxgkDdiPatch");
        Ok(self.patch_part(&args)?)
    }

    fn submit_command(&self, _level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status> {
        self.enter("DxgkDdiSubmitCommand");
        Ok(self.submit_part(&args)?)
    }
}

impl PeerDdi for ReferenceDriver {
    fn common_doorbell(&self, _level: &Passive) -> Result<PeerDoorbell, Status> {
        self.enter("common_doorbell");
        Ok(self.give_doorbell()?)
    }

    fn connect_peer(
        &self,
        _level: &Passive,
        peer: u32,
        doorbell: PeerDoorbell,
    ) -> Result<(), Status> {
        self.enter("connect_peer");
        Ok(self.take_doorbell(peer, &doorbell)?)
    }

    fn link_native_fence(&self, _level: &Passive, args: LinkNativeFence) -> Result<(), Status> {
        self.enter("link_native_fence");
        Ok(self.link(&args)?)
    }
}
