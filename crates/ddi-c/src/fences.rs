//! Native fences and their logs: the rows of the DDI of WDDM 3.2.
//!
//! - Fences are in system memory. The operations that move fence storage are not published, so no
//!   segment of the driver has it, and there are no INTRA_GPU fences.
//! - Addresses of values and logs are those of the memory. MmGetPhysicalAddress has the bus address
//!   of a log's header, and of the entries after it.

use crate::CDriver;
use crate::address::{address_of_first, address_of_shared};
use crate::host::LogWindow;
use tidegate_ddi::fence::{
    CreateNativeFence, GpuClockCalibration, OpenNativeFence, SetNativeFenceLogBuffer,
    UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate_ddi::memory::{AllocationSegments, StandardAllocation};
use tidegate_ddi::{
    Dirql, Dispatch, DriverHandle, NativeFenceCaps, NativeFenceDdi, NativeFenceType, Passive,
    Status,
};
use tidegate_platform::CpuTime;
use tidegate_platform::level::Level;
use tidegate_wddm_abi::d3dkmddi::{self, UpdateCurrentValuesFlags};
use tidegate_wddm_abi::d3dukmdt::LogHeader;

const HEADER_BYTES: u64 = size_of::<LogHeader>() as u64;
/// Nanoseconds in a unit of KeQueryPerformanceCounter.
const COUNTER_NS: u64 = 100;
const SECOND_NS: u128 = 1_000_000_000;

impl CDriver {
    // spec: NF-080
    fn add_fence(&self, args: &CreateNativeFence) -> Result<(DriverHandle, [u8; 64]), Status> {
        if args.fence_type != NativeFenceType::Default {
            return Err(Status::NOT_SUPPORTED);
        }
        let (current, monitored) = args.system_process_va.unwrap_or_default();
        let mut c = d3dkmddi::CreateNativeFence {
            global_native_fence: args.os_handle.0,
            fence_type: args.fence_type as u32,
            current_value_system_process_gpu_va: current,
            monitored_value_system_process_gpu_va: monitored,
            private_driver_data: args.private_data,
            ..d3dkmddi::CreateNativeFence::ZERO
        };
        self.call("DxgkDdiCreateNativeFence", |e| e.create_native_fence(self.adapter, &mut c))?;
        Ok((DriverHandle(c.global_native_fence), c.private_driver_data))
    }

    // spec: NF-081
    fn open_fence(&self, args: OpenNativeFence) -> Result<DriverHandle, Status> {
        let mut c = d3dkmddi::OpenNativeFence {
            global_native_fence: args.global.0,
            local_native_fence: args.os_handle.0,
            device: args.device.0,
            current_value_gpu_va: args.current_value_gpu_va,
            monitored_value_gpu_va: args.monitored_value_gpu_va,
            ..d3dkmddi::OpenNativeFence::ZERO
        };
        self.call("DxgkDdiOpenNativeFence", |e| e.open_native_fence(self.adapter, &mut c))?;
        Ok(DriverHandle(c.local_native_fence))
    }

    // spec: NF-134
    fn publish_monitored(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        let mut handles: Vec<u64> = fences.iter().map(|of| of.fence.0).collect();
        let mut values: Vec<u64> = fences.iter().map(|of| of.value).collect();
        let mut cells: Vec<u64> =
            fences.iter().map(|of| of.monitored_value.cpu_address()).collect();
        let mut c = d3dkmddi::UpdateMonitoredValues {
            native_fence_array: address_of_first(&mut handles),
            updated_value_array: address_of_first(&mut values),
            monitored_value_kernel_cpu_va: address_of_first(&mut cells),
            num_fences: fences.len() as u32,
            ..d3dkmddi::UpdateMonitoredValues::ZERO
        };
        // Ordered with the interrupt routine and DxgkCbSynchronizeExecution.
        let line = self.host().line.lock_device();
        self.must_at("DxgkDdiUpdateMonitoredValues", Level::Dirql, |e| {
            e.update_monitored_values(&mut c)
        });
        self.host().forward(level);
        drop(line);
    }

    fn update_current(&self, fences: &[UpdateCurrentValue<'_>], mode: UpdateCurrentMode) {
        let mut handles: Vec<u64> = fences.iter().map(|of| of.fence.0).collect();
        let mut values: Vec<u64> = fences.iter().map(|of| of.value).collect();
        let cell = |of: &UpdateCurrentValue<'_>| {
            of.current_value.map_or(0, |cell| cell.word().cpu_address())
        };
        let mut cells: Vec<u64> = fences.iter().map(cell).collect();
        let flags = match mode {
            UpdateCurrentMode::Write => UpdateCurrentValuesFlags::empty(),
            UpdateCurrentMode::NotificationOnly => UpdateCurrentValuesFlags::NOTIFICATION_ONLY,
            UpdateCurrentMode::AlwaysSignaled => UpdateCurrentValuesFlags::ALWAYS_SIGNALED,
        };
        let mut c = d3dkmddi::UpdateCurrentValuesFromCpu {
            native_fence_array: address_of_first(&mut handles),
            updated_value_array: address_of_first(&mut values),
            current_value_kernel_cpu_va: address_of_first(&mut cells),
            num_fences: fences.len() as u32,
            flags: flags.bits(),
            reserved: [0; 28],
        };
        self.host().at_level("DxgkDdiUpdateCurrentValuesFromCpu", Level::Dispatch, || {
            self.entries.update_current_values_from_cpu(&mut c)
        });
    }

    fn set_log(&self, args: &SetNativeFenceLogBuffer) {
        let key = (args.hw_queue.0, args.log_type as u32);
        // A header with the type of the log that ends.
        let ended = LogHeader { log_type: args.log_type as u32, ..LogHeader::ZERO };
        let window = (args.number_of_entries > 0).then(|| LogWindow {
            at: args.header.cpu_address(),
            header_bytes: HEADER_BYTES,
            header: args.header_address,
            entries_bytes: args.entries.len(),
            entries: args.entries_address,
        });
        let ended = [ended];
        // spec: NF-177
        let mut c = d3dkmddi::SetNativeFenceLogBuffer {
            hw_queue: args.hw_queue.0,
            number_of_entries: args.number_of_entries,
            log_buffer_cpu_va: match &window {
                Some(window) => window.at,
                None => address_of_shared(&ended),
            },
            log_buffer_gpu_va: args.gpu_va,
            log_buffer_system_process_gpu_va: args.system_process_gpu_va,
            ..d3dkmddi::SetNativeFenceLogBuffer::ZERO
        };
        {
            let mut logs = self.host().logs.lock();
            match window {
                Some(window) => _ = logs.insert(key, window),
                None => _ = logs.remove(&key),
            }
        }
        self.must_at("DxgkDdiSetNativeFenceLogBuffer", Level::Dispatch, |e| {
            e.set_native_fence_log_buffer(&mut c)
        });
    }

    fn calibrate(&self, node_ordinal: u32) -> GpuClockCalibration {
        let mut c = d3dkmddi::CalibrateGpuClock::ZERO;
        self.must_at("DxgkDdiCalibrateGpuClock", Level::Dispatch, |e| {
            e.calibrate_gpu_clock(self.adapter, node_ordinal, 0, &mut c)
        });
        let frequency = u128::from(c.gpu_frequency.max(1));
        let gpu_ns = u128::from(c.gpu_clock_counter) * SECOND_NS / frequency;
        GpuClockCalibration {
            gpu_ns: u64::try_from(gpu_ns).unwrap_or(u64::MAX),
            cpu: CpuTime(c.cpu_clock_counter.saturating_mul(COUNTER_NS)),
        }
    }
}

impl NativeFenceDdi for CDriver {
    fn query_native_fence_caps(&self, _level: &Passive) -> NativeFenceCaps {
        self.native_fence_caps()
    }

    fn get_standard_allocation_driver_data(
        &self,
        _level: &Passive,
        _args: StandardAllocation<'_>,
    ) -> Result<AllocationSegments, Status> {
        Err(Status::NOT_SUPPORTED)
    }

    fn create_native_fence(
        &self,
        _level: &Passive,
        args: CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), Status> {
        self.add_fence(&args)
    }

    fn open_native_fence(
        &self,
        _level: &Passive,
        args: OpenNativeFence,
    ) -> Result<DriverHandle, Status> {
        self.open_fence(args)
    }

    fn close_native_fence(&self, _level: &Passive, local: DriverHandle) {
        let mut c =
            d3dkmddi::CloseNativeFence { local_native_fence: local.0, flags: 0, reserved: [0; 32] };
        self.must("DxgkDdiCloseNativeFence", |e| e.close_native_fence(self.adapter, &mut c));
    }

    // spec: NF-082
    fn destroy_native_fence(&self, _level: &Passive, global: DriverHandle) {
        let mut c = d3dkmddi::DestroyNativeFence {
            global_native_fence: global.0,
            ..d3dkmddi::DestroyNativeFence::ZERO
        };
        self.must("DxgkDdiDestroyNativeFence", |e| e.destroy_native_fence(&mut c));
    }

    fn update_monitored_values(&self, level: &Dirql<'_>, fences: &[UpdateMonitoredValue<'_>]) {
        self.publish_monitored(level, fences);
    }

    fn update_current_values_from_cpu(
        &self,
        _level: &Dispatch,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) {
        self.update_current(fences, mode);
    }

    fn set_native_fence_log_buffer(&self, _level: &Dispatch, args: SetNativeFenceLogBuffer) {
        self.set_log(&args);
    }

    fn calibrate_gpu_clock(&self, _level: &Dispatch, node_ordinal: u32) -> GpuClockCalibration {
        self.calibrate(node_ordinal)
    }

    fn update_native_fence_logs(&self, _level: &Dispatch, hw_queues: &[DriverHandle]) {
        let mut handles: Vec<u64> = hw_queues.iter().map(|queue| queue.0).collect();
        let mut c = d3dkmddi::UpdateNativeFenceLogs {
            number_of_queues: handles.len() as u32,
            hw_queues: address_of_first(&mut handles),
            ..d3dkmddi::UpdateNativeFenceLogs::ZERO
        };
        self.must_at("DxgkDdiUpdateNativeFenceLogs", Level::Dispatch, |e| {
            e.update_native_fence_logs(&mut c)
        });
    }
}
