//! Features, hardware queues and priorities: the rows of the DDI of WDDM 2.7 and later.
//!
//! The system of this project is the user-mode driver as well, so contexts and queues have no
//! private data.

use crate::CDriver;
use crate::objects::BufferSizes;
use tidegate_ddi::feature::{
    DriverFeatureTable, FeatureSupport, QueryFeatureInterface, QueryFeatureSupport,
};
use tidegate_ddi::queue::{CreateContext, CreateHwQueue, ProgressFence, SubmitCommandToHwQueue};
use tidegate_ddi::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use tidegate_ddi::{
    Dispatch, DriverHandle, EngineId, FeatureDdi, HwQueueDdi, Passive, PriorityBandDdi, Status,
};
use tidegate_platform::level::Level;
use tidegate_wddm_abi::d3dkmddi;
use tidegate_wddm_abi::d3dukmdt::CreateHwQueueFlags;

/// Returns the flags of a hardware queue that a driver is told.
fn creation_flags(args: &CreateHwQueue) -> CreateHwQueueFlags {
    let is_native = matches!(args.progress_fence, ProgressFence::Native(_));
    let flags = [
        (CreateHwQueueFlags::NO_BROADCAST_SIGNAL, args.exclusions.signals),
        (CreateHwQueueFlags::NO_BROADCAST_WAIT, args.exclusions.waits),
        (CreateHwQueueFlags::USER_MODE_SUBMISSION, args.user_mode_submission),
        (CreateHwQueueFlags::NATIVE_PROGRESS_FENCE, is_native),
    ];
    flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).collect()
}

impl CDriver {
    pub(crate) fn add_hw_context(&self, args: CreateContext) -> Result<DriverHandle, Status> {
        let mut c = d3dkmddi::CreateHwContext {
            hw_context: args.os_handle.0,
            node_ordinal: args.node_ordinal,
            engine_affinity: args.engine_affinity,
            ..d3dkmddi::CreateHwContext::ZERO
        };
        self.call("DxgkDdiCreateHwContext", |e| e.create_hw_context(args.device.0, &mut c))?;
        Ok(self.keep_context(args, c.hw_context, BufferSizes::default()))
    }

    // spec: UMS-135
    fn add_hw_queue(&self, args: &CreateHwQueue) -> Result<DriverHandle, Status> {
        let progress_fence = match args.progress_fence {
            ProgressFence::Native(fence) => fence.0,
            ProgressFence::Monitored { .. } => 0,
        };
        let mut c = d3dkmddi::CreateHwQueue {
            hw_queue: args.os_handle.0,
            flags: creation_flags(args).bits(),
            progress_fence,
            progress_fence_gpu_va: args.progress_current_gpu_va,
            ..d3dkmddi::CreateHwQueue::ZERO
        };
        self.call("DxgkDdiCreateHwQueue", |e| e.create_hw_queue(args.context.0, &mut c))?;
        self.objects.lock().hw_queues.insert(c.hw_queue, args.progress_current_gpu_va);
        Ok(DriverHandle(c.hw_queue))
    }

    // spec: UMS-136
    fn submit_to(&self, args: &SubmitCommandToHwQueue) -> Result<(), Status> {
        let progress = self.objects.lock().hw_queues.get(&args.hw_queue.0).copied();
        let mut c = d3dkmddi::SubmitCommandToHwQueue {
            hw_queue: args.hw_queue.0,
            progress_fence_id: args.progress_fence_id,
            dma_buffer_gpu_va: args.dma_buffer_gpu_va,
            dma_buffer_size: args.dma_buffer_bytes,
            progress_fence_gpu_va: progress.unwrap_or(0),
            ..d3dkmddi::SubmitCommandToHwQueue::ZERO
        };
        self.call_at("DxgkDdiSubmitCommandToHwQueue", Level::Dispatch, |e| {
            e.submit_command_to_hw_queue(self.adapter, &mut c)
        })
    }
}

impl FeatureDdi for CDriver {
    fn query_feature_support(&self, _level: &Passive, args: QueryFeatureSupport) -> FeatureSupport {
        let Some(features) = &self.features else { return FeatureSupport::default() };
        let mut c = d3dkmddi::QueryFeatureSupport {
            feature_id: args.feature.0,
            min_supported_version: args.min_version,
            max_supported_version: args.max_version,
            allow_experimental: args.allow_experimental.into(),
            ..d3dkmddi::QueryFeatureSupport::ZERO
        };
        let answered =
            self.call("DxgkDdiQueryFeatureSupport", |_| features.support(self.adapter, &mut c));
        match answered {
            Ok(()) => FeatureSupport {
                min_version: c.min_supported_version,
                max_version: c.max_supported_version,
                supported_by_driver: c.supported_by_driver != 0,
                supported_on_current_config: c.supported_on_current_config != 0,
            },
            Err(_) => FeatureSupport::default(),
        }
    }

    fn query_feature_interface(
        &self,
        _level: &Passive,
        args: QueryFeatureInterface,
    ) -> Result<DriverFeatureTable, Status> {
        let features = self.features.as_ref().ok_or(Status::NOT_SUPPORTED)?;
        let mut c = d3dkmddi::QueryFeatureInterface {
            feature_id: args.feature.0,
            version: args.version,
            // No table of a driver has functions that are called.
            ..d3dkmddi::QueryFeatureInterface::ZERO
        };
        self.call("DxgkDdiQueryFeatureInterface", |_| features.table(self.adapter, &mut c))?;
        Ok(DriverFeatureTable::Empty)
    }
}

impl HwQueueDdi for CDriver {
    fn suspend_context(
        &self,
        _level: &Passive,
        context: DriverHandle,
        suspend_fence: u64,
    ) -> Result<bool, Status> {
        let mut c =
            d3dkmddi::SuspendContext { context: context.0, context_suspend_fence: suspend_fence };
        let status = self.call_for_status("DxgkDdiSuspendContext", Level::Passive, |e| {
            e.suspend_context(self.adapter, &mut c)
        })?;
        Ok(status != Status::PENDING)
    }

    fn resume_context(&self, _level: &Passive, context: DriverHandle) -> Result<(), Status> {
        let mut c = d3dkmddi::ResumeContext { context: context.0 };
        self.call("DxgkDdiResumeContext", |e| e.resume_context(self.adapter, &mut c))
    }

    fn create_hw_queue(
        &self,
        _level: &Passive,
        args: CreateHwQueue,
    ) -> Result<DriverHandle, Status> {
        self.add_hw_queue(&args)
    }

    fn destroy_hw_queue(&self, _level: &Passive, hw_queue: DriverHandle) {
        self.objects.lock().hw_queues.remove(&hw_queue.0);
        self.must("DxgkDdiDestroyHwQueue", |e| e.destroy_hw_queue(hw_queue.0));
        self.host().logs.lock().retain(|(queue, _), _| *queue != hw_queue.0);
    }

    fn submit_command_to_hw_queue(
        &self,
        _level: &Dispatch,
        args: SubmitCommandToHwQueue,
    ) -> Result<(), Status> {
        self.submit_to(&args)
    }

    fn reset_hw_engine(&self, _level: &Passive, engine: EngineId) -> Result<(), Status> {
        let EngineId { node_ordinal, engine_ordinal } = engine;
        let mut c = d3dkmddi::ResetHwEngine { node_ordinal, engine_ordinal };
        self.call("DxgkDdiResetHwEngine", |e| e.reset_hw_engine(self.adapter, &mut c))
    }

    fn resume_hw_engine(&self, _level: &Passive, engine: EngineId) -> Result<(), Status> {
        let EngineId { node_ordinal, engine_ordinal } = engine;
        let mut c = d3dkmddi::ResumeHwEngine { node_ordinal, engine_ordinal };
        self.call("DxgkDdiResumeHwEngine", |e| e.resume_hw_engine(self.adapter, &mut c))
    }
}

impl PriorityBandDdi for CDriver {
    fn setup_priority_bands(
        &self,
        _level: &Passive,
        args: SetupPriorityBands,
    ) -> Result<(), Status> {
        let mut c = d3dkmddi::SetupPriorityBands {
            grace_period_for_band: args.grace_period_for_band,
            process_quantum_for_band: args.process_quantum_for_band,
            process_grace_period_for_band: args.process_grace_period_for_band,
            target_normal_band_percentage: args.target_normal_band_percentage,
        };
        self.call("DxgkDdiSetupPriorityBands", |e| e.setup_priority_bands(self.adapter, &mut c))
    }

    fn set_context_scheduling_properties(
        &self,
        _level: &Passive,
        args: SetContextSchedulingProperties,
    ) -> Result<(), Status> {
        let SetContextSchedulingProperties { context, properties } = args;
        let mut c = d3dkmddi::SetContextSchedulingProperties {
            context: context.0,
            priority_band: properties.priority_band as u32,
            realtime_band_priority_level: properties.realtime_band_priority_level.cast_signed(),
            in_process_priority: properties.in_process_priority,
            own_quantum: properties.quantum,
            grace_period_same_priority: properties.grace_period_same_priority,
            grace_period_lower_priority: properties.grace_period_lower_priority,
        };
        self.call("DxgkDdiSetContextSchedulingProperties", |e| {
            e.set_context_scheduling_properties(self.adapter, &mut c)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ddi::{BroadcastExclusions, OsHandle};

    #[test]
    fn a_driver_is_told_the_flags_of_a_queue() {
        let flags = |[signals, waits, user_mode_submission]: [bool; 3], progress_fence| {
            let args = CreateHwQueue {
                context: DriverHandle(1),
                os_handle: OsHandle(2),
                user_mode_submission,
                exclusions: BroadcastExclusions { signals, waits },
                progress_fence,
                progress_current_gpu_va: 4096,
                progress_monitored_gpu_va: 0,
            };
            creation_flags(&args).bits()
        };
        let monitored = ProgressFence::Monitored { gpu_va: 4096 };
        assert_eq!(flags([false; 3], monitored), 0);
        assert_eq!(flags([true, false, false], monitored), 1 << 1);
        assert_eq!(flags([false, true, false], monitored), 1 << 2);
        assert_eq!(flags([false, false, true], monitored), 1 << 4);
        let native = ProgressFence::Native(DriverHandle(3));
        assert_eq!(flags([true; 3], native), 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5);
    }
}
