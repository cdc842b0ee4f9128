//! Owns what every driver around a driver has in common: it passes each call on. A recording or a
//! faulty driver says only what it does differently.

use crate::caps::{AdapterCaps, EngineId, NativeFenceCaps, UserModeSubmissionCaps};
use crate::display::SetVidPnSourceAddress;
use crate::doorbell::{ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbell};
use crate::driver::{Driver, InterruptService, StartInfo};
use crate::entries::OptionalEntries;
use crate::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use crate::fence::{
    CreateNativeFence, GpuClockCalibration, OpenNativeFence, SetNativeFenceLogBuffer,
    UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use crate::interrupt::InterruptType;
use crate::memory::{
    AllocationSegments, PageTableShape, PagingOperation, Segment, StandardAllocation,
    UpdatePageTable,
};
use crate::patch::{Patch, PatchLocation, Render, SubmitCommandPhysical};
use crate::peer::{LinkNativeFence, PeerDoorbell};
use crate::power::{ComponentState, DevicePowerState, PowerAction};
use crate::preemption::{CancelCommand, PreemptCommand};
use crate::queue::{
    CreateContext, CreateDevice, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue,
    SubmitCommandVirtual,
};
use crate::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use crate::timeout::{DebugReason, EngineStatus};
use crate::{DdiVersion, Dirql, Dispatch, DriverHandle, Passive, Status};
use std::sync::Arc;

/// A driver that stands in front of another one.
pub trait DriverLayer: Send + Sync {
    /// The driver behind it.
    fn inner(&self) -> &dyn Driver;

    /// See [`Driver::ddi_version`].
    fn ddi_version(&self) -> DdiVersion {
        self.inner().ddi_version()
    }

    /// See [`Driver::optional_entries`].
    fn optional_entries(&self) -> OptionalEntries {
        self.inner().optional_entries()
    }

    /// See [`Driver::query_feature_support`].
    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        self.inner().query_feature_support(level, args)
    }

    /// See [`Driver::query_feature_interface`].
    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        self.inner().query_feature_interface(level, args)
    }

    /// See [`Driver::start_device`].
    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        self.inner().start_device(level, start)
    }

    /// See [`Driver::stop_device`].
    fn stop_device(&self, level: &Passive) {
        self.inner().stop_device(level);
    }

    /// See [`Driver::query_adapter_caps`].
    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        self.inner().query_adapter_caps(level)
    }

    /// See [`Driver::query_native_fence_caps`].
    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps {
        self.inner().query_native_fence_caps(level)
    }

    /// See [`Driver::query_user_mode_submission_caps`].
    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps {
        self.inner().query_user_mode_submission_caps(level)
    }

    /// See [`Driver::page_table_shape`].
    fn page_table_shape(&self, level: &Passive) -> PageTableShape {
        self.inner().page_table_shape(level)
    }

    /// See [`Driver::query_segments`].
    fn query_segments(&self, level: &Passive) -> Vec<Segment> {
        self.inner().query_segments(level)
    }

    /// See [`Driver::update_page_table`].
    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        self.inner().update_page_table(level, args)
    }

    /// See [`Driver::get_standard_allocation_driver_data`].
    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        self.inner().get_standard_allocation_driver_data(level, args)
    }

    /// See [`Driver::build_paging_buffer`].
    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        self.inner().build_paging_buffer(level, operation)
    }

    /// See [`Driver::set_root_page_table`].
    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        self.inner().set_root_page_table(level, args)
    }

    /// See [`Driver::create_device`].
    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        self.inner().create_device(level, args)
    }

    /// See [`Driver::destroy_device`].
    fn destroy_device(&self, level: &Passive, device: DriverHandle) {
        self.inner().destroy_device(level, device);
    }

    /// See [`Driver::create_context`].
    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        self.inner().create_context(level, args)
    }

    /// See [`Driver::destroy_context`].
    fn destroy_context(&self, level: &Passive, context: DriverHandle) {
        self.inner().destroy_context(level, context);
    }

    /// See [`Driver::suspend_context`].
    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        self.inner().suspend_context(level, context, suspend_fence)
    }

    /// See [`Driver::resume_context`].
    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        self.inner().resume_context(level, context)
    }

    /// See [`Driver::setup_priority_bands`].
    fn setup_priority_bands(
        &self,
        level: &Passive,
        args: SetupPriorityBands,
    ) -> Result<(), Status> {
        self.inner().setup_priority_bands(level, args)
    }

    /// See [`Driver::set_context_scheduling_properties`].
    fn set_context_scheduling_properties(
        &self,
        level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        self.inner().set_context_scheduling_properties(level, args)
    }

    /// See [`Driver::submit_command_virtual`].
    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        self.inner().submit_command_virtual(level, args)
    }

    /// See [`Driver::render`].
    fn render(&self, level: &Passive, args: Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        self.inner().render(level, args)
    }

    /// See [`Driver::patch`].
    fn patch(&self, level: &Passive, args: Patch<'_>) -> Result<(), Status> {
        self.inner().patch(level, args)
    }

    /// See [`Driver::submit_command`].
    fn submit_command(&self, level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status> {
        self.inner().submit_command(level, args)
    }

    /// See [`Driver::create_hw_queue`].
    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.inner().create_hw_queue(level, args)
    }

    /// See [`Driver::destroy_hw_queue`].
    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle) {
        self.inner().destroy_hw_queue(level, hw_queue);
    }

    /// See [`Driver::submit_command_to_hw_queue`].
    fn submit_command_to_hw_queue(
        &self,
        level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        self.inner().submit_command_to_hw_queue(level, args)
    }

    /// See [`Driver::create_native_fence`].
    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        self.inner().create_native_fence(level, args)
    }

    /// See [`Driver::open_native_fence`].
    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.inner().open_native_fence(level, args)
    }

    /// See [`Driver::close_native_fence`].
    fn close_native_fence(&self, level: &Passive, local: DriverHandle) {
        self.inner().close_native_fence(level, local);
    }

    /// See [`Driver::destroy_native_fence`].
    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle) {
        self.inner().destroy_native_fence(level, global);
    }

    /// See [`Driver::common_doorbell`].
    fn common_doorbell(&self, level: &Passive) -> Result<PeerDoorbell, Status> {
        self.inner().common_doorbell(level)
    }

    /// See [`Driver::connect_peer`].
    fn connect_peer(
        &self,
        level: &Passive,
        peer: u32,
        doorbell: PeerDoorbell,
    ) -> Result<(), Status> {
        self.inner().connect_peer(level, peer, doorbell)
    }

    /// See [`Driver::link_native_fence`].
    fn link_native_fence(&self, level: &Passive, args: LinkNativeFence) -> Result<(), Status> {
        self.inner().link_native_fence(level, args)
    }

    /// See [`Driver::update_monitored_values`].
    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        self.inner().update_monitored_values(level, fences);
    }

    /// See [`Driver::update_current_values_from_cpu`].
    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        self.inner().update_current_values_from_cpu(level, fences, mode);
    }

    /// See [`Driver::set_native_fence_log_buffer`].
    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer) {
        self.inner().set_native_fence_log_buffer(level, args);
    }

    /// See [`Driver::calibrate_gpu_clock`].
    fn calibrate_gpu_clock(&self, level: &Dispatch, node_ordinal: u32) -> GpuClockCalibration {
        self.inner().calibrate_gpu_clock(level, node_ordinal)
    }

    /// See [`Driver::update_native_fence_logs`].
    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        self.inner().update_native_fence_logs(level, hw_queues);
    }

    /// See [`Driver::create_doorbell`].
    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        self.inner().create_doorbell(level, args)
    }

    /// See [`Driver::connect_doorbell`].
    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        self.inner().connect_doorbell(level, doorbell, flags)
    }

    /// See [`Driver::disconnect_doorbell`].
    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.inner().disconnect_doorbell(level, doorbell);
    }

    /// See [`Driver::destroy_doorbell`].
    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        self.inner().destroy_doorbell(level, doorbell);
    }

    /// See [`Driver::notify_work_submission`].
    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle) {
        self.inner().notify_work_submission(level, hw_queue);
    }

    /// See [`Driver::set_power_state`].
    fn set_power_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        self.inner().set_power_state(level, state, action)
    }

    /// See [`Driver::set_power_component_f_state`].
    fn set_power_component_f_state(
        &self,
        level: &Dispatch,
        node_ordinal: u32,
        state: ComponentState,
    ) -> Result<(), Status> {
        self.inner().set_power_component_f_state(level, node_ordinal, state)
    }

    /// See [`Driver::preempt_command`].
    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        self.inner().preempt_command(level, args)
    }

    /// See [`Driver::cancel_command`].
    fn cancel_command(&self, level: &Dispatch, args: CancelCommand) -> Result<(), Status> {
        self.inner().cancel_command(level, args)
    }

    /// See [`Driver::query_current_fence`].
    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        self.inner().query_current_fence(level, engine)
    }

    /// See [`Driver::query_dependent_engine_group`].
    fn query_dependent_engine_group(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        self.inner().query_dependent_engine_group(level, engine)
    }

    /// See [`Driver::query_engine_status`].
    fn query_engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        self.inner().query_engine_status(level, engine)
    }

    /// See [`Driver::reset_engine`].
    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        self.inner().reset_engine(level, engine)
    }

    /// See [`Driver::reset_from_timeout`].
    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.inner().reset_from_timeout(level)
    }

    /// See [`Driver::restart_from_timeout`].
    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        self.inner().restart_from_timeout(level)
    }

    /// See [`Driver::reset_hw_engine`].
    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.inner().reset_hw_engine(level, engine)
    }

    /// See [`Driver::resume_hw_engine`].
    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        self.inner().resume_hw_engine(level, engine)
    }

    /// See [`Driver::collect_debug_info`].
    fn collect_debug_info(
        &self,
        level: &Passive,
        engine: Option<EngineId>,
        reason: DebugReason,
    ) -> Result<String, Status> {
        self.inner().collect_debug_info(level, engine, reason)
    }

    /// See [`Driver::set_vid_pn_source_address`].
    fn set_vid_pn_source_address(
        &self,
        level: &Dirql<'_>,
        args: SetVidPnSourceAddress,
    ) -> Result<(), Status> {
        self.inner().set_vid_pn_source_address(level, args)
    }

    /// See [`Driver::set_vid_pn_source_visibility`].
    fn set_vid_pn_source_visibility(
        &self,
        level: &Passive,
        vid_pn_source_id: u32,
        visible: bool,
    ) -> Result<(), Status> {
        self.inner().set_vid_pn_source_visibility(level, vid_pn_source_id, visible)
    }

    /// See [`Driver::control_interrupt`].
    fn control_interrupt(
        &self,
        level: &Passive,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), Status> {
        self.inner().control_interrupt(level, interrupt_type, enable)
    }

    /// See [`Driver::interrupt_routine`].
    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        self.inner().interrupt_routine(level)
    }

    /// See [`Driver::dpc_routine`].
    fn dpc_routine(&self, level: &Dispatch) {
        self.inner().dpc_routine(level);
    }

    /// See [`Driver::connect_interrupt`].
    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService>) {
        self.inner().connect_interrupt(level, service);
    }
}

impl<T: DriverLayer> Driver for T {
    fn ddi_version(&self) -> DdiVersion {
        DriverLayer::ddi_version(self)
    }

    fn optional_entries(&self) -> OptionalEntries {
        DriverLayer::optional_entries(self)
    }

    fn query_feature_support(&self, level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        DriverLayer::query_feature_support(self, level, args)
    }

    fn query_feature_interface(
        &self,
        level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        DriverLayer::query_feature_interface(self, level, args)
    }

    fn start_device(&self, level: &Passive, start: StartInfo) -> Result<(), Status> {
        DriverLayer::start_device(self, level, start)
    }

    fn stop_device(&self, level: &Passive) {
        DriverLayer::stop_device(self, level);
    }

    fn query_adapter_caps(&self, level: &Passive) -> AdapterCaps {
        DriverLayer::query_adapter_caps(self, level)
    }

    fn query_native_fence_caps(&self, level: &Passive) -> NativeFenceCaps {
        DriverLayer::query_native_fence_caps(self, level)
    }

    fn query_user_mode_submission_caps(&self, level: &Passive) -> UserModeSubmissionCaps {
        DriverLayer::query_user_mode_submission_caps(self, level)
    }

    fn page_table_shape(&self, level: &Passive) -> PageTableShape {
        DriverLayer::page_table_shape(self, level)
    }

    fn query_segments(&self, level: &Passive) -> Vec<Segment> {
        DriverLayer::query_segments(self, level)
    }

    fn update_page_table(&self, level: &Passive, args: UpdatePageTable<'_>) -> Result<(), Status> {
        DriverLayer::update_page_table(self, level, args)
    }

    fn get_standard_allocation_driver_data(
        &self,
        level: &Passive,
        args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        DriverLayer::get_standard_allocation_driver_data(self, level, args)
    }

    fn build_paging_buffer(
        &self,
        level: &Passive,
        operation: PagingOperation<'_>,
    ) -> Result<(), Status> {
        DriverLayer::build_paging_buffer(self, level, operation)
    }

    fn set_root_page_table(&self, level: &Passive, args: SetRootPageTable) -> Result<(), Status> {
        DriverLayer::set_root_page_table(self, level, args)
    }

    fn create_device(&self, level: &Passive, args: CreateDevice) -> Result<DriverHandle, Status> {
        DriverLayer::create_device(self, level, args)
    }

    fn destroy_device(&self, level: &Passive, device: DriverHandle) {
        DriverLayer::destroy_device(self, level, device);
    }

    fn create_context(&self, level: &Passive, args: CreateContext) -> Result<DriverHandle, Status> {
        DriverLayer::create_context(self, level, args)
    }

    fn destroy_context(&self, level: &Passive, context: DriverHandle) {
        DriverLayer::destroy_context(self, level, context);
    }

    fn suspend_context(
        &self,
        level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        DriverLayer::suspend_context(self, level, context, suspend_fence)
    }

    fn resume_context(&self, level: &Passive, context: DriverHandle) -> Result<(), Status> {
        DriverLayer::resume_context(self, level, context)
    }

    fn setup_priority_bands(
        &self,
        level: &Passive,
        args: SetupPriorityBands,
    ) -> Result<(), Status> {
        DriverLayer::setup_priority_bands(self, level, args)
    }

    fn set_context_scheduling_properties(
        &self,
        level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        DriverLayer::set_context_scheduling_properties(self, level, args)
    }

    fn submit_command_virtual(
        &self,
        level: &Dispatch,
        args: SubmitCommandVirtual,
    ) -> Result<(), Status> {
        DriverLayer::submit_command_virtual(self, level, args)
    }

    fn render(&self, level: &Passive, args: Render<'_>) -> Result<Vec<PatchLocation>, Status> {
        DriverLayer::render(self, level, args)
    }

    fn patch(&self, level: &Passive, args: Patch<'_>) -> Result<(), Status> {
        DriverLayer::patch(self, level, args)
    }

    fn submit_command(&self, level: &Dispatch, args: SubmitCommandPhysical) -> Result<(), Status> {
        DriverLayer::submit_command(self, level, args)
    }

    fn create_hw_queue(
        &self,
        level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        DriverLayer::create_hw_queue(self, level, args)
    }

    fn destroy_hw_queue(&self, level: &Passive, hw_queue: DriverHandle) {
        DriverLayer::destroy_hw_queue(self, level, hw_queue);
    }

    fn submit_command_to_hw_queue(
        &self,
        level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        DriverLayer::submit_command_to_hw_queue(self, level, args)
    }

    fn create_native_fence(
        &self,
        level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        DriverLayer::create_native_fence(self, level, args)
    }

    fn open_native_fence(
        &self,
        level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        DriverLayer::open_native_fence(self, level, args)
    }

    fn close_native_fence(&self, level: &Passive, local: DriverHandle) {
        DriverLayer::close_native_fence(self, level, local);
    }

    fn destroy_native_fence(&self, level: &Passive, global: DriverHandle) {
        DriverLayer::destroy_native_fence(self, level, global);
    }

    fn common_doorbell(&self, level: &Passive) -> Result<PeerDoorbell, Status> {
        DriverLayer::common_doorbell(self, level)
    }

    fn connect_peer(
        &self,
        level: &Passive,
        peer: u32,
        doorbell: PeerDoorbell,
    ) -> Result<(), Status> {
        DriverLayer::connect_peer(self, level, peer, doorbell)
    }

    fn link_native_fence(&self, level: &Passive, args: LinkNativeFence) -> Result<(), Status> {
        DriverLayer::link_native_fence(self, level, args)
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        DriverLayer::update_monitored_values(self, level, fences);
    }

    fn update_current_values_from_cpu(
        &self,
        level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        DriverLayer::update_current_values_from_cpu(self, level, fences, mode);
    }

    fn set_native_fence_log_buffer(&self, level: &Dispatch, args: SetNativeFenceLogBuffer) {
        DriverLayer::set_native_fence_log_buffer(self, level, args);
    }

    fn calibrate_gpu_clock(&self, level: &Dispatch, node_ordinal: u32) -> GpuClockCalibration {
        DriverLayer::calibrate_gpu_clock(self, level, node_ordinal)
    }

    fn update_native_fence_logs(&self, level: &Dispatch, hw_queues: &[DriverHandle]) {
        DriverLayer::update_native_fence_logs(self, level, hw_queues);
    }

    fn create_doorbell(
        &self,
        level: &Passive,
        args: &mut CreateDoorbell,
    ) -> Result<DriverHandle, Status> {
        DriverLayer::create_doorbell(self, level, args)
    }

    fn connect_doorbell(
        &self,
        level: &Passive,
        doorbell: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        DriverLayer::connect_doorbell(self, level, doorbell, flags)
    }

    fn disconnect_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        DriverLayer::disconnect_doorbell(self, level, doorbell);
    }

    fn destroy_doorbell(&self, level: &Passive, doorbell: DriverHandle) {
        DriverLayer::destroy_doorbell(self, level, doorbell);
    }

    fn notify_work_submission(&self, level: &Passive, hw_queue: DriverHandle) {
        DriverLayer::notify_work_submission(self, level, hw_queue);
    }

    fn set_power_state(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        DriverLayer::set_power_state(self, level, state, action)
    }

    fn set_power_component_f_state(
        &self,
        level: &Dispatch,
        node_ordinal: u32,
        state: ComponentState,
    ) -> Result<(), Status> {
        DriverLayer::set_power_component_f_state(self, level, node_ordinal, state)
    }

    fn preempt_command(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), Status> {
        DriverLayer::preempt_command(self, level, args)
    }

    fn cancel_command(&self, level: &Dispatch, args: CancelCommand) -> Result<(), Status> {
        DriverLayer::cancel_command(self, level, args)
    }

    fn query_current_fence(&self, level: &Dispatch, engine: EngineId) -> Result<u32, Status> {
        DriverLayer::query_current_fence(self, level, engine)
    }

    fn query_dependent_engine_group(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<u64, Status> {
        DriverLayer::query_dependent_engine_group(self, level, engine)
    }

    fn query_engine_status(
        &self,
        level: &Passive,
        engine: EngineId,
    ) -> Result<EngineStatus, Status> {
        DriverLayer::query_engine_status(self, level, engine)
    }

    fn reset_engine(&self, level: &Passive, engine: EngineId) -> Result<u32, Status> {
        DriverLayer::reset_engine(self, level, engine)
    }

    fn reset_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        DriverLayer::reset_from_timeout(self, level)
    }

    fn restart_from_timeout(&self, level: &Passive) -> Result<(), Status> {
        DriverLayer::restart_from_timeout(self, level)
    }

    fn reset_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        DriverLayer::reset_hw_engine(self, level, engine)
    }

    fn resume_hw_engine(&self, level: &Passive, engine: EngineId) -> Result<(), Status> {
        DriverLayer::resume_hw_engine(self, level, engine)
    }

    fn collect_debug_info(
        &self,
        level: &Passive,
        engine: Option<EngineId>,
        reason: DebugReason,
    ) -> Result<String, Status> {
        DriverLayer::collect_debug_info(self, level, engine, reason)
    }

    fn set_vid_pn_source_address(
        &self,
        level: &Dirql<'_>,
        args: SetVidPnSourceAddress,
    ) -> Result<(), Status> {
        DriverLayer::set_vid_pn_source_address(self, level, args)
    }

    fn set_vid_pn_source_visibility(
        &self,
        level: &Passive,
        vid_pn_source_id: u32,
        visible: bool,
    ) -> Result<(), Status> {
        DriverLayer::set_vid_pn_source_visibility(self, level, vid_pn_source_id, visible)
    }

    fn control_interrupt(
        &self,
        level: &Passive,
        interrupt_type: InterruptType,
        enable: bool,
    ) -> Result<(), Status> {
        DriverLayer::control_interrupt(self, level, interrupt_type, enable)
    }

    fn interrupt_routine(&self, level: &Dirql<'_>) -> bool {
        DriverLayer::interrupt_routine(self, level)
    }

    fn dpc_routine(&self, level: &Dispatch) {
        DriverLayer::dpc_routine(self, level);
    }

    fn connect_interrupt(&self, level: &Passive, service: Arc<dyn InterruptService>) {
        DriverLayer::connect_interrupt(self, level, service);
    }
}
