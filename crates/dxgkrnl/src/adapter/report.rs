//! Reports of an adapter to its owner, and their switches. Each function forwards to the layer that
//! has the data.

use super::{Adapter, entered};
use crate::driver::{DriverFault, OutstandingWork};
use crate::error::BugCheck;
use crate::fence::log::LogTimeFault;
use crate::memory::LocalMemoryUse;
use crate::stats::{Census, FenceRewind, KernelStats, LostHistory, LostSignal};
use std::collections::BTreeMap;
use tidegate_calls::PendingWait;
use tidegate_ddi::{FeatureId, FeatureState, Status};
use tidegate_platform::{PhysicalAddress, QueueNumber, WorkStats};

impl Adapter {
    /// Returns the negotiated state of a feature.
    #[doc(alias = "D3DKMTIsFeatureEnabled")]
    pub fn feature(&self, feature: FeatureId) -> FeatureState {
        self.objects.port.features.state(feature)
    }

    /// Returns the number of physical adapters, which is the number of bits in an engine affinity.
    pub fn physical_adapters(&self) -> u32 {
        self.objects.port.declared.caps.physical_adapters
    }

    /// Returns the counters.
    pub fn stats(&self) -> KernelStats {
        self.objects.fences.note_lost_histories();
        self.objects.port.stats.read()
    }

    /// Returns the driver contract violation that stopped the adapter, if any. Its consequences are
    /// not reported.
    pub fn bug_checks(&self) -> Vec<BugCheck> {
        self.objects.port.condition.bug_checks()
    }

    /// Returns the first 64 driver faults that the kernel worked around.
    pub fn driver_faults(&self) -> Vec<DriverFault> {
        self.objects.port.condition.driver_faults()
    }

    /// Returns the last 64 unannounced fence rewinds, oldest first.
    pub fn fence_rewinds(&self) -> Vec<FenceRewind> {
        self.objects.port.stats.fence_rewinds()
    }

    /// Returns the last 64 shared fences that lost a process which could signal them, oldest first.
    /// Their waiters may never be released.
    pub fn lost_signals(&self) -> Vec<LostSignal> {
        self.objects.port.stats.lost_signals()
    }

    /// Returns the last 64 fences whose histories dropped values, oldest first. Waits made before
    /// may have missed one, and may never end.
    pub fn lost_histories(&self) -> Vec<LostHistory> {
        self.objects.fences.note_lost_histories();
        self.objects.port.stats.lost_histories()
    }

    /// Returns the waits and signals that VidSch has carried out, by context and kernel-mode
    /// hardware queue.
    pub fn fence_operations(&self) -> BTreeMap<QueueNumber, WorkStats> {
        self.objects.sched.fence_operations()
    }

    /// Returns the waits that VidSch holds for contexts and kernel-mode hardware queues.
    pub fn pending_waits(&self) -> Vec<PendingWait> {
        self.objects.pending_waits()
    }

    /// Describes the wait of a hardware queue on the cell at bus address `current_value`, for
    /// deadlock reports.
    pub fn describe_wait(
        &self,
        queue: QueueNumber,
        current_value: PhysicalAddress,
        value: u64,
    ) -> Option<PendingWait> {
        self.objects.fences.at(current_value)?.pending(queue, value)
    }

    /// Enlarges the logs of all present and future user-mode queues, up to 64 KiB, to record a
    /// timeline. Queues created while the platform traces always have large logs.
    ///
    /// # Errors
    /// Fails if no address space is left for a larger log. The other queues' logs are enlarged.
    // spec: NF-205, NF-206
    pub fn start_log_tracing(&self) -> Result<(), Status> {
        self.objects.change_logs(&entered(), |mode| mode.enlarged = true)
    }

    /// Returns logs to 4 KiB, except on a platform that traces.
    ///
    /// # Errors
    /// As [`Adapter::start_log_tracing`].
    pub fn stop_log_tracing(&self) -> Result<(), Status> {
        self.objects.change_logs(&entered(), |mode| mode.enlarged = false)
    }

    // spec: NF-230
    /// Switches the verbose log of command buffers on or off for all present and future user-mode
    /// queues. The driver is informed by SetNativeFenceLogBuffer, user-mode drivers by a word in
    /// the log detail.
    ///
    /// # Errors
    /// As [`Adapter::start_log_tracing`].
    pub fn set_verbose_logs(&self, on: bool) -> Result<(), Status> {
        self.objects.change_logs(&entered(), |mode| mode.verbose = on)
    }

    /// Reads all fence logs, so that a timeline taken next is complete.
    pub fn read_fence_logs(&self) {
        self.objects.read_logs((&entered()).into());
    }

    /// Returns the first 64 log times that were less than their predecessors.
    /// [`crate::KernelStats::log_time_faults`] counts all.
    pub fn log_time_faults(&self) -> Vec<LogTimeFault> {
        self.objects.log_reader.time_faults()
    }

    /// Evicts fence storage, oldest first, until at most `keep_bytes` are in local memory. Returns
    /// the number of bytes evicted.
    ///
    /// # Errors
    /// DEVICE_REMOVED if the driver fails, which is a bug check.
    pub fn trim_fence_storage(&self, keep_bytes: u64) -> Result<u64, Status> {
        self.objects.memory.trim_fence_storage(&entered(), keep_bytes)
    }

    /// Returns the bytes of fence storage in local memory.
    pub fn local_fence_storage_bytes(&self) -> u64 {
        self.objects.memory.local_fence_storage_bytes()
    }

    /// Returns the present use of local memory.
    pub fn local_memory_use(&self) -> LocalMemoryUse {
        self.objects.memory.usage()
    }

    /// Returns work that the driver accepted and has not reported complete, by queue, for
    /// deadlock reports.
    pub fn outstanding_work(&self) -> Vec<OutstandingWork> {
        self.objects.outstanding_work()
    }

    /// Returns whether the driver owes the end of work or of a preemption request, or will be given
    /// work without another call. Work of the kernel itself counts; an adapter that has stopped has
    /// none.
    pub fn has_due_work(&self) -> bool {
        let objects = &self.objects;
        !objects.port.condition.is_stopped()
            && (objects.memory.is_paging()
                || objects.sched.lock().has_due_work()
                || !objects.outstanding_work().is_empty())
    }

    /// Returns the number of kernel objects of each kind.
    pub fn census(&self) -> Census {
        let (context_allocations, local_context_allocations) =
            self.objects.memory.save_areas.census();
        let (devices, contexts) =
            (self.objects.devices.lock().live(), self.objects.contexts.lock().live());
        Census {
            context_allocations,
            local_context_allocations,
            devices: devices.len(),
            contexts: contexts.len(),
            kernel_devices: devices.iter().filter(|device| device.is_of_kernel()).count(),
            kernel_contexts: contexts.iter().filter(|c| c.device.is_of_kernel()).count(),
            hw_contexts: self.objects.hw_contexts.lock().len(),
            hw_queues: self.objects.hw_queues.lock().len(),
            doorbells: self.objects.doorbells.len(),
            fences: self.objects.fences.len(),
            fence_waits: self.objects.fences.waits(),
            memory_regions: self.objects.port.system_memory.regions(),
        }
    }
}
