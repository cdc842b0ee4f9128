//! The DDI entries of the driver, one row each. A row charges the call's cost and calls the
//! implementation. A row with `must` is a call that must succeed: its failure is recorded as
//! a [`Violation`](crate::Violation).

use crate::{ReferenceDriver, caps, paging, segments};
use std::sync::Arc;
use tidegate_ddi::InterruptType;
use tidegate_ddi::allocation::{CloseAllocation, CreateAllocation, OpenAllocation};
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
    AdapterResetDdi, AllocationDdi, CancelCommand, CancellationDdi, ComponentState, DdiVersion,
    DebugInfo, DebugReason, DevicePowerState, Dirql, Dispatch, DisplayDdi, Driver, DriverHandle,
    EngineId, EngineResetDdi, EngineStatus, FeatureDdi, FenceWaitDdi, HwQueueDdi, InterruptService,
    Irql, LinkNativeFence, NativeFenceDdi, Passive, PatchDdi, PeerDdi, PeerDoorbell, PowerAction,
    PowerDdi, PreemptCommand, PreemptionDdi, PriorityBandDdi, SetVidPnSourceAddress, StartInfo,
    Status, UserModeSubmissionDdi,
};
use tidegate_platform::{PhysicalAddress, Word};

/// The entries of a trait: published name, signature, body.
macro_rules! entries {
    (@outcome $self:ident $name:literal must $body:block) => { $self.must($name, $body) };
    (@outcome $self:ident $name:literal $body:block) => { $body };
    ($Trait:ident [$($other:tt)*] $(
        $name:literal
        fn $f:ident($self:ident $(, $arg:ident: $ty:ty)*)
        $(-> $ret:ty)?, $($must:ident)? $body:block
    )*) => {
        impl $Trait for ReferenceDriver {
            $($other)*
            $(fn $f(&$self $(, $arg: $ty)*) $(-> $ret)? {
                $self.enter($name);
                entries!(@outcome $self $name $($must)? $body)
            })*
        }
    };
}

entries! { Driver [
    fn ddi_version(&self) -> DdiVersion { DdiVersion::WDDM_3_2 }
    fn features(&self) -> Option<&dyn FeatureDdi> { Some(self) }
    fn hw_queues(&self) -> Option<&dyn HwQueueDdi> { Some(self) }
    fn priority_bands(&self) -> Option<&dyn PriorityBandDdi> { Some(self) }
    fn native_fences(&self) -> Option<&dyn NativeFenceDdi> { Some(self) }
    fn user_mode_submission(&self) -> Option<&dyn UserModeSubmissionDdi> { Some(self) }
    fn power(&self) -> Option<&dyn PowerDdi> { Some(self) }
    fn preemption(&self) -> Option<&dyn PreemptionDdi> { Some(self) }
    fn cancellation(&self) -> Option<&dyn CancellationDdi> { Some(self) }
    fn adapter_reset(&self) -> Option<&dyn AdapterResetDdi> { Some(self) }
    fn engine_reset(&self) -> Option<&dyn EngineResetDdi> { Some(self) }
    fn display(&self) -> Option<&dyn DisplayDdi> { Some(self) }
    fn patching(&self) -> Option<&dyn PatchDdi> { Some(self) }
    fn fence_waits(&self) -> Option<&dyn FenceWaitDdi> {
        self.config.kernel_stores_fence_values.then_some(self)
    }
    fn peers(&self) -> Option<&dyn PeerDdi> { Some(self) }
    fn allocations(&self) -> Option<&dyn AllocationDdi> {
        self.config.opens_allocations.then_some(self)
    }
]
    "DxgkDdiStartDevice"
    fn start_device(self, level: &Passive, start: StartInfo) -> Result<(), Status>, {
        Ok(self.start(level, start)?)
    }
    "DxgkDdiStopDevice"
    fn stop_device(self, level: &Passive), must { self.stop(level) }
    "DxgkDdiQueryAdapterInfo"
    fn query_adapter_caps(self, _level: &Passive) -> AdapterCaps, { self.caps() }
    "DxgkDdiQueryAdapterInfo"
    fn page_table_shape(self, _level: &Passive) -> PageTableShape, { paging::shape() }
    "DxgkDdiQueryAdapterInfo"
    fn query_segments(self, _level: &Passive) -> Vec<Segment>, { segments::report(&*self.device) }
    "DxgkDdiBuildPagingBuffer"
    fn update_page_table(self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status>, {
        Ok(self.write_page_table(level, &args)?)
    }
    "DxgkDdiBuildPagingBuffer"
    fn build_paging_buffer(self, level: &Passive, operation: PagingOperation<'_>)
        -> Result<(), Status>, { Ok(self.page(level, operation)?) }
    "DxgkDdiSetRootPageTable"
    fn set_root_page_table(self, level: &Passive, args: SetRootPageTable) -> Result<(), Status>, {
        Ok(self.set_root(level, args)?)
    }
    "DxgkDdiCreateDevice"
    fn create_device(self, _level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status>, {
        Ok(self.add_device(args)?)
    }
    "DxgkDdiDestroyDevice"
    fn destroy_device(self, _level: &Passive, device: DriverHandle), must {
        self.remove_device(device)
    }
    "DxgkDdiCreateContext"
    fn create_context(self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status>, {
        Ok(self.add_context(level, args)?)
    }
    "DxgkDdiDestroyContext"
    fn destroy_context(self, level: &Passive, context: DriverHandle), must {
        self.remove_context(level, context)
    }
    "DxgkDdiSubmitCommandVirtual"
    fn submit_command_virtual(self, _level: &Dispatch, args: SubmitCommandVirtual)
        -> Result<(), Status>, { Ok(self.submit_packet(&args)?) }
    "DxgkDdiInterruptRoutine"
    fn interrupt_routine(self, level: &Dirql<'_>) -> bool, { self.service_interrupt(level) }
    "DxgkDdiDpcRoutine"
    fn dpc_routine(self, level: &Dispatch), {
        let callbacks = self.objects.lock().started.as_ref().map(|s| Arc::clone(&s.callbacks));
        if let Some(callbacks) = callbacks {
            callbacks.notify_dpc(level);
        }
    }
    "DxgkDdiStartDevice"
    fn connect_interrupt(self, _level: &Passive, service: Arc<dyn InterruptService>), {
        self.connect_line(service);
    }
}

entries! { FeatureDdi []
    "DxgkDdiQueryFeatureSupport"
    fn query_feature_support(self, _level: &Passive, args: QueryFeatureSupport) -> FeatureSupport, {
        caps::support(&self.config, self.device.node_count(), args.feature)
    }
    "DxgkDdiQueryFeatureInterface"
    fn query_feature_interface(self, _level: &Passive, args: QueryFeatureInterface)
        -> Result<DriverFeatureTable, Status>, { Ok(self.feature_table(args)?) }
}

entries! { HwQueueDdi []
    "DxgkDdiSuspendContext"
    fn suspend_context(self, level: &Passive, context: DriverHandle, suspend_fence: u64)
        -> Result<bool, Status>, { Ok(self.suspend(level, context, suspend_fence)?) }
    "DxgkDdiResumeContext"
    fn resume_context(self, level: &Passive, context: DriverHandle) -> Result<(), Status>, {
        Ok(self.resume(level, context)?)
    }
    "DxgkDdiCreateHwQueue"
    fn create_hw_queue(self, level: &Passive, args: CreateHwQueue)
        -> Result<DriverHandle, Status>, { Ok(self.add_hw_queue(level, &args)?) }
    "DxgkDdiDestroyHwQueue"
    fn destroy_hw_queue(self, level: &Passive, hw_queue: DriverHandle), must {
        self.remove_hw_queue(level, hw_queue)
    }
    "DxgkDdiSubmitCommandToHwQueue"
    fn submit_command_to_hw_queue(self, _level: &Dispatch, args: SubmitCommandToHwQueue)
        -> Result<(), Status>, { Ok(self.submit_to_hw_queue(&args)?) }
    "DxgkDdiResetHwEngine"
    fn reset_hw_engine(self, level: &Passive, engine: EngineId) -> Result<(), Status>, {
        Ok(self.reset_queues_of(level, engine)?)
    }
    "DxgkDdiResumeHwEngine"
    fn resume_hw_engine(self, _level: &Passive, engine: EngineId) -> Result<(), Status>, {
        Ok(self.resume_queues_of(engine)?)
    }
}

entries! { PriorityBandDdi []
    "DxgkDdiSetupPriorityBands"
    fn setup_priority_bands(self, _level: &Passive, args: SetupPriorityBands)
        -> Result<(), Status>, { Ok(self.set_bands(args)?) }
    "DxgkDdiSetContextSchedulingProperties"
    fn set_context_scheduling_properties(
        self, _level: &Passive, args: SetContextSchedulingProperties
    ) -> Result<(), Status>, { Ok(self.set_scheduling(args)?) }
}

entries! { NativeFenceDdi []
    "DxgkDdiQueryAdapterInfo"
    fn query_native_fence_caps(self, _level: &Passive) -> NativeFenceCaps, {
        caps::native_fence_caps(&self.config)
    }
    "DxgkDdiGetStandardAllocationDriverData"
    fn get_standard_allocation_driver_data(self, _level: &Passive, args: StandardAllocation<'_>)
        -> Result<AllocationSegments, Status>, { Ok(self.fence_storage_segments(&args.surface)?) }
    "DxgkDdiCreateNativeFence"
    fn create_native_fence(self, _level: &Passive, args: CreateNativeFence)
        -> Result<(DriverHandle, [u8; 64]), Status>, { Ok(self.add_fence(&args)?) }
    "DxgkDdiOpenNativeFence"
    fn open_native_fence(self, _level: &Passive, args: OpenNativeFence)
        -> Result<DriverHandle, Status>, { Ok(self.open_fence(args)?) }
    "DxgkDdiCloseNativeFence"
    fn close_native_fence(self, _level: &Passive, local: DriverHandle), must {
        self.close_fence(local)
    }
    "DxgkDdiDestroyNativeFence"
    fn destroy_native_fence(self, _level: &Passive, global: DriverHandle), must {
        self.remove_fence(global)
    }
    "DxgkDdiUpdateMonitoredValues"
    fn update_monitored_values(self, _level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]), {
        let unknown = self.publish_monitored(fences);
        self.violated("DxgkDdiUpdateMonitoredValues", &unknown);
    }
    "DxgkDdiUpdateCurrentValuesFromCpu"
    fn update_current_values_from_cpu(
        self, _level: &Dispatch, fences: &[UpdateCurrentValue<'_>], mode: UpdateCurrentMode
    ), {
        let failed = self.update_current(fences, mode);
        self.violated("DxgkDdiUpdateCurrentValuesFromCpu", &failed);
    }
    "DxgkDdiSetNativeFenceLogBuffer"
    fn set_native_fence_log_buffer(self, _level: &Dispatch, args: SetNativeFenceLogBuffer), must {
        self.place_log(&args)
    }
    "DxgkDdiCalibrateGpuClock"
    fn calibrate_gpu_clock(self, _level: &Dispatch, _node_ordinal: u32) -> GpuClockCalibration, {
        self.read_clocks()
    }
    "DxgkDdiUpdateNativeFenceLogs"
    fn update_native_fence_logs(self, _level: &Dispatch, hw_queues: &[DriverHandle]), {
        let unknown = self.flush_logs(hw_queues);
        self.violated("DxgkDdiUpdateNativeFenceLogs", &unknown);
    }
}

entries! { UserModeSubmissionDdi []
    "DxgkDdiQueryAdapterInfo"
    fn query_user_mode_submission_caps(self, _level: &Passive) -> UserModeSubmissionCaps, {
        caps::user_mode_submission_caps(&self.config)
    }
    "DxgkDdiCreateDoorbell"
    fn create_doorbell(self, level: &Passive, args: &mut CreateDoorbell)
        -> Result<DriverHandle, Status>, { Ok(self.add_doorbell(level, args)?) }
    "DxgkDdiConnectDoorbell"
    fn connect_doorbell(self, level: &Passive, doorbell: DriverHandle, flags: ConnectDoorbellFlags)
        -> Result<ConnectedDoorbell, Status>, { Ok(self.connect(level, doorbell, flags)?) }
    "DxgkDdiDisconnectDoorbell"
    fn disconnect_doorbell(self, level: &Passive, doorbell: DriverHandle), must {
        self.disconnect(level, doorbell)
    }
    "DxgkDdiDestroyDoorbell"
    fn destroy_doorbell(self, level: &Passive, doorbell: DriverHandle), must {
        self.remove_doorbell(level, doorbell)
    }
    "DxgkDdiNotifyWorkSubmission"
    fn notify_work_submission(self, _level: &Passive, hw_queue: DriverHandle), must {
        self.kick(hw_queue)
    }
}

entries! { PowerDdi []
    "DxgkDdiSetPowerState"
    fn set_power_state(self, level: &Passive, state: DevicePowerState, action: PowerAction)
        -> Result<(), Status>, { Ok(self.power_device(level, state, action)?) }
    "DxgkDdiSetPowerComponentFState"
    fn set_power_component_f_state(self, level: Irql<'_>, engine: EngineId, state: ComponentState)
        -> Result<(), Status>, { Ok(self.power_engine(level, engine, state)?) }
}

entries! { PreemptionDdi []
    "DxgkDdiPreemptCommand"
    fn preempt_command(self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status>, {
        Ok(self.preempt(level, args)?)
    }
}

entries! { CancellationDdi []
    "DxgkDdiCancelCommand"
    fn cancel_command(self, _level: &Dispatch, args: CancelCommand) -> Result<(), Status>, {
        Ok(self.cancel(args)?)
    }
}

entries! { AdapterResetDdi []
    "DxgkDdiQueryCurrentFence"
    fn query_current_fence(self, _level: &Dispatch, engine: EngineId) -> Result<u32, Status>, {
        Ok(self.current_fence(engine)?)
    }
    "DxgkDdiResetFromTimeout"
    fn reset_from_timeout(self, level: &Passive) -> Result<(), Status>, {
        Ok(self.reset_all(level)?)
    }
    "DxgkDdiRestartFromTimeout"
    fn restart_from_timeout(self, _level: &Passive) -> Result<(), Status>, { Ok(self.restart()?) }
    "DxgkDdiCollectDbgInfo"
    fn collect_debug_info(self, level: &Passive, engine: Option<EngineId>, _reason: DebugReason)
        -> Result<DebugInfo, Status>, { Ok(self.debug_info(level, engine)?) }
}

entries! { EngineResetDdi []
    "DxgkDdiQueryDependentEngineGroup"
    fn query_dependent_engine_group(self, _level: &Passive, engine: EngineId)
        -> Result<u64, Status>, { Ok(self.dependent_nodes(engine)?) }
    "DxgkDdiQueryEngineStatus"
    fn query_engine_status(self, level: &Passive, engine: EngineId)
        -> Result<EngineStatus, Status>, { Ok(self.engine_status(level, engine)?) }
    "DxgkDdiResetEngine"
    fn reset_engine(self, level: &Passive, engine: EngineId) -> Result<u32, Status>, {
        Ok(self.reset_node(level, engine)?)
    }
}

entries! { DisplayDdi []
    "DxgkDdiSetVidPnSourceAddress"
    fn set_vid_pn_source_address(self, _level: &Dirql<'_>, args: SetVidPnSourceAddress)
        -> Result<(), Status>, { Ok(self.flip(args)?) }
    "DxgkDdiSetVidPnSourceVisibility"
    fn set_vid_pn_source_visibility(self, _level: &Passive, vid_pn_source_id: u32, visible: bool)
        -> Result<(), Status>, { Ok(self.show(vid_pn_source_id, visible)?) }
    "DxgkDdiControlInterrupt"
    fn control_interrupt(self, _level: &Passive, interrupt_type: InterruptType, enable: bool)
        -> Result<(), Status>, { Ok(self.control_vsync(interrupt_type, enable)?) }
}

entries! { PatchDdi []
    "DxgkDdiRender"
    fn render(self, _level: &Passive, args: Render<'_>) -> Result<Vec<PatchLocation>, Status>, {
        Ok(self.translate(&args)?)
    }
    "DxgkDdiPatch"
    fn patch(self, _level: &Passive, args: Patch<'_>) -> Result<(), Status>, {
        Ok(self.patch_part(&args)?)
    }
    "DxgkDdiSubmitCommand"
    fn submit_command(self, _level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status>, {
        Ok(self.submit_part(&args)?)
    }
}

entries! { AllocationDdi []
    "DxgkDdiCreateAllocation"
    fn create_allocation(self, _level: &Passive, args: CreateAllocation)
        -> Result<DriverHandle, Status>, { Ok(self.add_allocation(args)?) }
    "DxgkDdiOpenAllocation"
    fn open_allocation(self, _level: &Passive, args: OpenAllocation)
        -> Result<DriverHandle, Status>, { Ok(self.open(args)?) }
    "DxgkDdiCloseAllocation"
    fn close_allocation(self, _level: &Passive, args: CloseAllocation), must {
        self.close(args)
    }
    "DxgkDdiDestroyAllocation"
    fn destroy_allocation(self, _level: &Passive, allocation: DriverHandle), must {
        self.remove_allocation(allocation)
    }
}

entries! { FenceWaitDdi []
    "waiting_word"
    fn waiting_word(self, _level: &Passive, fence: DriverHandle, current_value: PhysicalAddress)
        -> Result<Word, Status>, { Ok(self.waiting_word_of(fence, current_value)?) }
}

entries! { PeerDdi []
    "common_doorbell"
    fn common_doorbell(self, _level: &Passive) -> Result<PeerDoorbell, Status>, {
        Ok(self.give_doorbell()?)
    }
    "connect_peer"
    fn connect_peer(self, _level: &Passive, peer: u32, doorbell: PeerDoorbell)
        -> Result<(), Status>, { Ok(self.take_doorbell(peer, &doorbell)?) }
    "link_native_fence"
    fn link_native_fence(self, _level: &Passive, args: LinkNativeFence) -> Result<(), Status>, {
        Ok(self.link(&args)?)
    }
}
