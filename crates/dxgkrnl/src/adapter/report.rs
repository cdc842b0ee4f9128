//! What an adapter reports to its owner, and the switches of its reports. Each forwards to the layer
//! that knows.

use super::{Adapter, entered};
use crate::driver::{DriverFault, OutstandingWork};
use crate::error::BugCheck;
use crate::fence::log::LogTimeFault;
use crate::memory::LocalMemoryUse;
use crate::stats::{Census, FenceRewind, KernelStats, LostSignal};
use std::collections::BTreeMap;
use tidegate_calls::PendingWait;
use tidegate_ddi::{FeatureId, FeatureState, Status};
use tidegate_platform::{PhysicalAddress, QueueNumber, WorkStats};

impl Adapter {
    /// What was negotiated about a feature.
    #[doc(alias = "D3DKMTIsFeatureEnabled")]
    pub fn feature(&self, feature: FeatureId) -> FeatureState {
        self.objects.port.features.state(feature)
    }

    /// Physical adapters behind this one: as many bits has an engine affinity.
    pub fn physical_adapters(&self) -> u32 {
        self.objects.port.caps.physical_adapters
    }

    /// Counts so far.
    pub fn stats(&self) -> KernelStats {
        self.objects.port.stats.read()
    }

    /// The broken driver contract that stopped the adapter, if one did. What follows from it is not
    /// a bug check of its own.
    pub fn bug_checks(&self) -> Vec<BugCheck> {
        self.objects.port.bug_checks()
    }

    /// Faults of the driver, the first 64. The kernel worked around each of them.
    pub fn driver_faults(&self) -> Vec<DriverFault> {
        self.objects.port.driver_faults()
    }

    /// The last 64 signals below their fence's value that did not announce it, oldest first.
    pub fn fence_rewinds(&self) -> Vec<FenceRewind> {
        self.objects.port.stats.fence_rewinds()
    }

    /// The last 64 shared fences that lost a process which could signal them, oldest first. Their
    /// waiters may wait for ever.
    pub fn lost_signals(&self) -> Vec<LostSignal> {
        self.objects.port.stats.lost_signals()
    }

    /// Waits and signals that VidSch has carried out, by the contexts and kernel-mode
    /// hardware queues.
    pub fn fence_operations(&self) -> BTreeMap<QueueNumber, WorkStats> {
        self.objects.sched.fence_operations()
    }

    /// Waits that VidSch holds for contexts and kernel-mode hardware queues.
    pub fn pending_waits(&self) -> Vec<PendingWait> {
        self.objects.pending_waits()
    }

    /// The wait of a hardware queue that names the cell at `current_value` on the bus: for reports of
    /// machines that stand still.
    pub fn describe_wait(
        &self,
        queue: QueueNumber,
        current_value: PhysicalAddress,
        value: u64,
    ) -> Option<PendingWait> {
        self.objects.fences.at(current_value)?.pending(queue, value)
    }

    /// Enlarges the logs of all user-mode queues, and of those to come, up to 64 KiB: a timeline is
    /// recorded. Queues that are created while the platform traces have large logs from the start.
    ///
    /// # Errors
    /// No address space is left for a larger log; the other queues' are enlarged.
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
    /// Switches the verbose log of command buffers on or off, for the driver by
    /// SetNativeFenceLogBuffer and for user-mode drivers by the word that the log detail shows
    /// them, for all user-mode queues and those to come.
    ///
    /// # Errors
    /// As [`Adapter::start_log_tracing`].
    pub fn set_verbose_logs(&self, on: bool) -> Result<(), Status> {
        self.objects.change_logs(&entered(), |mode| mode.verbose = on)
    }

    /// Reads all logs for the timeline, up to now: before a timeline is taken.
    pub fn read_fence_logs(&self) {
        self.objects.read_logs((&entered()).into());
    }

    /// Times in fence logs that fell, the first 64 of them; [`crate::KernelStats::log_time_faults`]
    /// counts all.
    pub fn log_time_faults(&self) -> Vec<LogTimeFault> {
        self.objects.log_reader.time_faults()
    }

    /// Memory pressure: evicts fence storage, the oldest first, until at most `keep_bytes` of it are
    /// in local memory. Returns how many bytes were evicted.
    ///
    /// # Errors
    /// DEVICE_REMOVED when the driver fails, which is a bug check.
    pub fn trim_fence_storage(&self, keep_bytes: u64) -> Result<u64, Status> {
        self.objects.memory.trim_fence_storage(&entered(), keep_bytes)
    }

    /// Bytes of fence storage in local memory.
    pub fn local_fence_storage_bytes(&self) -> u64 {
        self.objects.memory.local_fence_storage_bytes()
    }

    /// Local memory now.
    pub fn local_memory_use(&self) -> LocalMemoryUse {
        self.objects.memory.usage()
    }

    /// Work that the driver accepted and has not reported, by queue: for reports of machines that
    /// stand still.
    pub fn outstanding_work(&self) -> Vec<OutstandingWork> {
        self.objects.outstanding_work()
    }

    /// How many kernel objects there are now.
    pub fn census(&self) -> Census {
        let (context_allocations, local_context_allocations) =
            self.objects.memory.save_areas.census();
        Census {
            context_allocations,
            local_context_allocations,
            devices: self.objects.devices.lock().len(),
            contexts: self.objects.contexts.lock().len(),
            hw_contexts: self.objects.hw_contexts.lock().len(),
            hw_queues: self.objects.hw_queues.lock().len(),
            doorbells: self.objects.doorbells.len(),
            fences: self.objects.fences.len(),
            memory_regions: self.objects.port.system_memory.regions(),
        }
    }
}
