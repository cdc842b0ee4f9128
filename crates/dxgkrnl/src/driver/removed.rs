//! The driver of an adapter that is gone: what the kernel calls after DxgkDdiStopDevice.
//!
//! Purpose: objects that outlive the adapter (fences of NT handles, calls that were under way) end
//! without a call to a driver that has stopped. Every call is refused with DEVICE_REMOVED, and
//! every call that cannot fail does nothing.

use std::sync::Arc;
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
use tidegate_ddi::queue::{
    CreateContext, CreateDevice, CreateHwQueue, SetRootPageTable, SubmitCommandToHwQueue,
    SubmitCommandVirtual,
};
use tidegate_ddi::{
    AdapterCaps, ComponentState, DdiVersion, DevicePowerState, Dirql, Dispatch, Driver,
    DriverHandle, InterruptService, NativeFenceCaps, Passive, PowerAction, StartInfo, Status,
    UserModeSubmissionCaps,
};

/// Stands in the place of a driver that has stopped.
pub(super) struct RemovedDriver {
    /// What the driver declared.
    pub(super) version: DdiVersion,
    pub(super) caps: AdapterCaps,
    pub(super) shape: PageTableShape,
}

impl Driver for RemovedDriver {
    fn ddi_version(&self) -> DdiVersion {
        self.version
    }

    fn query_feature_support(&self, _: &Passive, _: QueryFeatureSupport) -> FeatureSupport {
        FeatureSupport::default()
    }

    fn query_feature_interface(
        &self,
        _: &Passive,
        _: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn start_device(&self, _: &Passive, _: StartInfo) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn stop_device(&self, _: &Passive) {}

    fn query_adapter_caps(&self, _: &Passive) -> AdapterCaps {
        self.caps.clone()
    }

    fn query_native_fence_caps(&self, _: &Passive) -> NativeFenceCaps {
        NativeFenceCaps::default()
    }

    fn query_user_mode_submission_caps(&self, _: &Passive) -> UserModeSubmissionCaps {
        UserModeSubmissionCaps::default()
    }

    fn page_table_shape(&self, _: &Passive) -> PageTableShape {
        self.shape
    }

    fn query_segments(&self, _: &Passive) -> Vec<Segment> {
        Vec::new()
    }

    fn update_page_table(&self, _: &Passive, _: UpdatePageTable<'_>) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn get_standard_allocation_driver_data(
        &self,
        _: &Passive,
        _: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn build_paging_buffer(&self, _: &Passive, _: PagingOperation<'_>) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn set_root_page_table(&self, _: &Passive, _: SetRootPageTable) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn create_device(&self, _: &Passive, _: CreateDevice) -> Result<DriverHandle, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn destroy_device(&self, _: &Passive, _: DriverHandle) {}

    fn create_context(&self, _: &Passive, _: CreateContext) -> Result<DriverHandle, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn destroy_context(&self, _: &Passive, _: DriverHandle) {}

    fn suspend_context(&self, _: &Passive, _: DriverHandle, _: u64) -> Result<bool, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn resume_context(&self, _: &Passive, _: DriverHandle) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn submit_command_virtual(&self, _: &Dispatch, _: SubmitCommandVirtual) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn create_hw_queue(&self, _: &Passive, _: CreateHwQueue) -> Result<DriverHandle, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn destroy_hw_queue(&self, _: &Passive, _: DriverHandle) {}

    fn submit_command_to_hw_queue(
        &self,
        _: &Dispatch,
        _: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn create_native_fence(
        &self,
        _: &Passive,
        _: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn open_native_fence(&self, _: &Passive, _: OpenNativeFence) -> Result<DriverHandle, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn close_native_fence(&self, _: &Passive, _: DriverHandle) {}

    fn destroy_native_fence(&self, _: &Passive, _: DriverHandle) {}

    fn update_monitored_values(&self, _: &Dirql<'_>, _: &[UpdateMonitoredValue<'_>]) {}

    fn update_current_values_from_cpu(
        &self,
        _: &Dispatch,
        _: &[UpdateCurrentValue<'_>],
        _: UpdateCurrentMode,
    ) {
    }

    fn set_native_fence_log_buffer(&self, _: &Dispatch, _: SetNativeFenceLogBuffer) {}

    fn calibrate_gpu_clock(&self, _: &Dispatch, _: u32) -> GpuClockCalibration {
        GpuClockCalibration { gpu_ns: 0, cpu: Default::default() }
    }

    fn update_native_fence_logs(&self, _: &Dispatch, _: &[DriverHandle]) {}

    fn create_doorbell(&self, _: &Passive, _: &mut CreateDoorbell) -> Result<DriverHandle, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn connect_doorbell(
        &self,
        _: &Passive,
        _: DriverHandle,
        _: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, Status> {
        Err(Status::DEVICE_REMOVED)
    }

    fn disconnect_doorbell(&self, _: &Passive, _: DriverHandle) {}

    fn destroy_doorbell(&self, _: &Passive, _: DriverHandle) {}

    fn notify_work_submission(&self, _: &Passive, _: DriverHandle) {}

    fn set_power_state(
        &self,
        _: &Passive,
        _: DevicePowerState,
        _: PowerAction,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn set_power_component_f_state(
        &self,
        _: &Dispatch,
        _: u32,
        _: ComponentState,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn interrupt_routine(&self, _: &Dirql<'_>) -> bool {
        false
    }

    fn dpc_routine(&self, _: &Dispatch) {}

    fn connect_interrupt(&self, _: &Passive, _: Arc<dyn InterruptService>) {}
}
