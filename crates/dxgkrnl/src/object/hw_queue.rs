//! Hardware queues. A kernel-mode queue takes commands, waits and signals through the kernel, and
//! VidSch holds its software queue (`scheduling`). A user-mode queue takes work only by doorbell
//! and has fence logs. So does a kernel-mode queue whose command buffers carry fence commands.

use crate::fence::log::FenceLogs;
use crate::fence::{CreateFence, Fence, FenceTarget, LoggedQueue, log_change, signaled};
use crate::memory::Affinity;
use crate::object::FenceObject;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::layers::Layers;
use crate::registry::Registry;
use crate::scheduling::{CommandRange, KernelModeQueue, ScheduledQueue, fence_signal};
use crate::timer::{AtPassive, EndAtPassive};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{
    BroadcastExclusions, NativeFenceType, Priority, SignalFlags, Status, SyncObjectFlags,
};
use tidegate_ddi::queue::{CreateHwQueue, ProgressFence};
use tidegate_ddi::{DriverHandle, EngineId, Irql, OsHandle, Passive, VidSchCaps};
use tidegate_platform::{Mutex, QueueNumber};
use tidegate_vidsch::Submitter;

/// Arguments of a creation.
pub(crate) struct HwQueueDesc {
    pub(crate) user_mode_submission: bool,
    /// Its command buffers carry waits and signals of native fences.
    pub(crate) native_fence_commands: bool,
    pub(crate) exclusions: BroadcastExclusions,
    pub(crate) priority: Priority,
}

/// The hardware queues of an adapter, with indexes by the driver's handle and by context.
#[derive(Default)]
pub(crate) struct HwQueueTable {
    by_kernel: Registry<HwQueue>,
    by_driver: DriverHandles,
    /// Live queues, by hardware context and queue.
    of_contexts: BTreeSet<(OsHandle, OsHandle)>,
    /// Number of live user-mode queues.
    user_mode: usize,
    /// Number of live queues whose waits the hardware holds. Each end of a fence reads it.
    hardware_waits: usize,
}

/// The kernel's handles by the driver's. The driver may reuse a handle once it has released the
/// queue, before the kernel removes the entry. A removal therefore compares the owner.
#[derive(Default)]
struct DriverHandles(BTreeMap<DriverHandle, OsHandle>);

impl DriverHandles {
    fn remove(&mut self, driver: DriverHandle, queue: OsHandle) {
        if self.0.get(&driver) == Some(&queue) {
            self.0.remove(&driver);
        }
    }
}

impl HwQueueTable {
    fn insert(&mut self, queue: &Arc<HwQueue>) {
        self.by_kernel.insert(queue.os_handle, queue);
        self.by_driver.0.insert(queue.driver, queue.os_handle);
        self.of_contexts.insert((queue.context.os_handle, queue.os_handle));
        self.user_mode += usize::from(queue.user_mode_submission);
        self.hardware_waits += usize::from(queue.has_hardware_waits);
    }

    /// Removes a queue that the driver has released.
    fn remove(&mut self, queue: &HwQueueBody) {
        // A creation that failed late retires nothing.
        self.retire(queue);
        // A removal never waits only for queues.
        let _emptied = self.by_kernel.remove(queue.os_handle);
        self.by_driver.remove(queue.driver, queue.os_handle);
    }

    /// See [`Registry::retire`].
    fn retire(&mut self, queue: &HwQueueBody) {
        if self.by_kernel.retire(queue.os_handle) {
            self.user_mode -= usize::from(queue.user_mode_submission);
            self.hardware_waits -= usize::from(queue.has_hardware_waits);
        }
        self.of_contexts.remove(&(queue.context.os_handle, queue.os_handle));
    }

    /// Returns whether a user-mode queue is live.
    pub(crate) fn has_user_mode_queues(&self) -> bool {
        self.user_mode > 0
    }

    /// Returns whether a queue is live whose waits the hardware holds.
    pub(crate) fn has_hardware_waits(&self) -> bool {
        self.hardware_waits > 0
    }

    /// Returns whether the hardware context has a live queue.
    fn has_queue_of(&self, context: OsHandle) -> bool {
        let range = (context, OsHandle(0))..=(context, OsHandle(u64::MAX));
        self.of_contexts.range(range).next().is_some()
    }

    /// Returns the queue of the driver's handle; see [`Registry::named`].
    pub(crate) fn of_driver(&self, handle: DriverHandle) -> Option<Weak<HwQueue>> {
        self.named(*self.by_driver.0.get(&handle)?)
    }
}

impl Deref for HwQueueTable {
    type Target = Registry<HwQueue>;

    fn deref(&self) -> &Registry<HwQueue> {
        &self.by_kernel
    }
}

/// One hardware queue.
pub(crate) type HwQueue = AtPassive<HwQueueBody>;

/// The parts of a hardware queue.
pub(crate) struct HwQueueBody {
    /// The context outlives its queues.
    pub(crate) context: Arc<Context>,
    pub(crate) device: Arc<Device>,
    table: Arc<Mutex<HwQueueTable>>,
    pub(crate) os_handle: OsHandle,
    pub(crate) driver: DriverHandle,
    // spec: UMS-002
    pub(crate) user_mode_submission: bool,
    /// Whether a broadcast of signals may name it.
    takes_broadcast_signals: bool,
    /// Whether the hardware holds its waits: a user-mode queue, or one with fence commands.
    has_hardware_waits: bool,
    /// Set by DisableGpuTimeout: no timeout preempts the queue.
    no_timeout: OnceLock<()>,
    pub(crate) progress: Arc<FenceObject>,
    pub(crate) logs: Option<FenceLogs>,
}

impl HwQueue {
    /// Creates a queue with its progress fence and, if the hardware holds its waits, its logs.
    pub(crate) fn new(
        level: &Passive,
        context: &Arc<Context>,
        desc: &HwQueueDesc,
        table: &Arc<Mutex<HwQueueTable>>,
    ) -> Result<Arc<HwQueue>, Status> {
        let (device, layers) = (&context.device, &context.device.layers);
        let node = &layers.port.declared.caps.nodes[context.engine.node_ordinal as usize];
        // spec: UMS-011, UMS-012
        if desc.user_mode_submission && !node.user_mode_submission {
            return Err(Status::NOT_SUPPORTED);
        }
        // An engine that cannot write a fence has no progress to report.
        if !node.context_scheduling || !node.writes_fences {
            return Err(Status::NOT_SUPPORTED);
        }
        // spec: NF-115
        let native = layers.port.declared.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
        let has_hardware_waits = desc.user_mode_submission || desc.native_fence_commands;
        if desc.native_fence_commands && !native {
            return Err(Status::NOT_SUPPORTED);
        }
        context.priority.adopt(level, &context.priority_request(), desc.priority)?;
        let fence = CreateFence {
            name: "progress",
            initial_value: 0,
            flags: SyncObjectFlags::empty(),
            native: native.then_some(NativeFenceType::Default),
            private_data: [0; 64],
            affinity: Affinity::ALL,
        };
        let progress = Arc::new(FenceObject::create(level, device, &fence)?);
        let current = progress.mapping.current_va;
        let (progress_fence, monitored) = match &progress.fence.native {
            // spec: NF-117
            Some(native) => {
                (ProgressFence::Native(native.driver_global), progress.mapping.monitored_va)
            }
            None => (ProgressFence::Monitored { gpu_va: current }, 0),
        };
        let os_handle = layers.port.new_handle();
        let args = CreateHwQueue {
            context: context.driver,
            os_handle,
            user_mode_submission: desc.user_mode_submission,
            exclusions: desc.exclusions,
            progress_fence,
            progress_current_gpu_va: current,
            progress_monitored_gpu_va: monitored,
        };
        // VidSch knows the times of its own commands, so a queue that has only those gets no logs.
        // spec: NF-172
        let logs = match has_hardware_waits {
            true => layers.log_reader.new_logs(level, &device.space)?,
            false => None,
        };
        let driver = layers.port.driver(level).create_hw_queue(level, args)?;
        if let Some(logs) = &logs {
            layers.log_reader.set_buffers(level.into(), logs, driver);
        }
        let body = HwQueueBody {
            context: context.clone(),
            device: device.clone(),
            table: table.clone(),
            os_handle,
            driver,
            user_mode_submission: desc.user_mode_submission,
            takes_broadcast_signals: !desc.exclusions.signals,
            has_hardware_waits,
            no_timeout: OnceLock::new(),
            progress,
            logs,
        };
        let queue = Arc::new(AtPassive::wrap(&layers.port.timer, body));
        if !desc.user_mode_submission {
            let max_in_flight = match node.max_in_flight_hw_queue_buffers {
                0 => usize::MAX,
                most => usize::from(most),
            };
            layers.sched.lock().add_hw_queue(os_handle, max_in_flight);
        }
        table.lock().insert(&queue);
        // The log mode may have changed since the logs were allocated. The queue is now in the
        // table and follows later changes.
        log_change::follow_mode(level, &layers.log_reader, &**queue)?;
        Ok(queue)
    }

    /// Queues a command (D3DKMTSubmitCommandToHwQueue). Progress values must rise strictly.
    pub(crate) fn submit_command(
        &self,
        level: &Passive,
        progress_fence_id: u64,
        commands: CommandRange,
    ) -> Result<(), Status> {
        let current = self.progress.fence.current.as_ref();
        if !current.is_some_and(|value| value.admits(progress_fence_id)) {
            return Err(Status::INVALID_PARAMETER);
        }
        let sched = &self.layers().sched;
        sched.submit_to_hw_queue(level, self, progress_fence_id, commands)
    }

    /// Checks that one signal may name all of `queues`.
    pub(crate) fn check_broadcast(queues: &[Arc<HwQueue>]) -> Result<(), Status> {
        let takes_it = |queue: &Arc<HwQueue>| queue.takes_broadcast_signals;
        match queues.len() == 1 || queues.iter().all(takes_it) {
            true => Ok(()),
            false => Err(Status::INVALID_PARAMETER),
        }
    }

    /// Queues one signal packet on each of `queues`, which belong to one
    /// adapter (D3DKMTSubmitSignalSyncObjectsToHwQueue).
    pub(crate) fn submit_signal(
        level: &Passive,
        queues: &[Arc<HwQueue>],
        fences: Vec<FenceTarget>,
        flags: SignalFlags,
    ) {
        let Some(first) = queues.first() else { return };
        let all: Vec<_> = queues.iter().map(|queue| queue.scheduled()).collect();
        first.layers().sched.signal(level, &all, fence_signal(fences, flags));
    }
}

impl HwQueueBody {
    /// Exempts the queue from timeouts (DisableGpuTimeout).
    pub(crate) fn disable_timeout(&self) {
        let _first = self.no_timeout.set(());
    }

    pub(crate) fn has_timeout(&self) -> bool {
        self.no_timeout.get().is_none()
    }

    fn layers(&self) -> &Layers {
        &self.device.layers
    }

    /// Returns the progress value of the last command queued on a kernel-mode queue.
    pub(crate) fn announced(&self) -> u64 {
        self.layers().sched.lock().announced_progress(self.os_handle)
    }

    /// Returns the engine that runs the queue.
    pub(crate) fn engine(&self) -> EngineId {
        self.context.engine
    }

    /// Returns the queue's handle and its submitter.
    pub(crate) fn scheduled(&self) -> ScheduledQueue {
        ScheduledQueue { queue: self.os_handle, submitter: Submitter::HwQueue(self.os_handle) }
    }

    /// Queues a wait (D3DKMTSubmitWaitForSyncObjectsToHwQueue).
    pub(crate) fn submit_wait(&self, level: Irql<'_>, fences: &[FenceTarget]) {
        self.layers().sched.wait(level, self.scheduled(), fences);
    }

    /// Returns whether the queue is not being destroyed.
    pub(super) fn is_live(&self) -> bool {
        self.table.lock().is_live(self.os_handle)
    }

    /// Removes the queue from all lists.
    pub(crate) fn unlist(&self) {
        self.table.lock().retire(self);
    }

    /// Removes the queue from all lists at the start of its destruction. Queued work is
    /// not started.
    pub(crate) fn retire(&self, level: Irql<'_>) {
        self.unlist();
        // Only a kernel-mode queue holds work. Its signals are dropped.
        if !self.user_mode_submission {
            let _not_made = self.layers().sched.give_up(level, &[self.os_handle]);
        }
        retire_if_over(level, &self.context, &self.table);
    }

    /// Returns whether the kernel holds back work of this queue.
    pub(crate) fn holds_back(&self) -> bool {
        self.layers().sched.lock().holds_work(self.os_handle)
    }

    /// Returns the progress value of the last command submitted to a kernel-mode queue.
    pub(crate) fn last_submitted(&self) -> u64 {
        self.layers().sched.lock().submitted_progress(self.os_handle).0
    }
}

/// Closes the handle of a hardware context. The context stays listed while it has queues.
pub(super) fn close_context(level: Irql<'_>, context: &Context, queues: &Mutex<HwQueueTable>) {
    let _first = context.handle_closed.set(());
    retire_if_over(level, context, queues);
}

/// Removes a hardware context from the lists once its handle is closed and its last queue is
/// retired. Each agent records its own step before it reads the other, so the later one sees both.
fn retire_if_over(level: Irql<'_>, context: &Context, queues: &Mutex<HwQueueTable>) {
    let is_over =
        context.handle_closed.get().is_some() && !queues.lock().has_queue_of(context.os_handle);
    if is_over {
        context.retire(level);
    }
}

impl KernelModeQueue for HwQueue {
    fn os_handle(&self) -> OsHandle {
        self.os_handle
    }

    fn driver_handle(&self) -> DriverHandle {
        self.driver
    }

    fn engine(&self) -> EngineId {
        self.context.engine
    }

    fn progress_fence(&self) -> &Arc<Fence> {
        &self.progress.fence
    }
}

impl EndAtPassive for HwQueueBody {
    fn end(&mut self, level: &Passive) {
        let layers = self.layers();
        layers.log_reader.read_before_end(level, self);
        // An interrupt may name the queue until the driver has released it, so the queue stays in
        // the table until then.
        layers.port.driver(level).destroy_hw_queue(level, self.driver);
        self.table.lock().remove(self);
        layers.log_reader.read_last(level, self);
        signaled::queue_ended(level.into(), &layers.fences, self);
        // A concurrent call may have queued work after the queue was retired.
        if !self.user_mode_submission {
            layers.sched.remove_queue(level.into(), self.os_handle);
        }
    }
}

impl LoggedQueue for HwQueueBody {
    fn driver(&self) -> DriverHandle {
        self.driver
    }

    fn logs(&self) -> Option<&FenceLogs> {
        self.logs.as_ref()
    }

    fn number(&self) -> QueueNumber {
        self.os_handle.into()
    }

    fn progress(&self) -> &Arc<Fence> {
        &self.progress.fence
    }

    fn fence_of_handle(&self, handle: u32) -> Option<Arc<Fence>> {
        self.device.fence_of_handle(handle)
    }

    fn fences_of_device(&self) -> Vec<Arc<Fence>> {
        self.device.fences()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_removed_late_leaves_its_successor_the_handle_of_the_driver() {
        let [ended, successor, other] = [1, 2, 3].map(OsHandle);
        let mut of_driver = DriverHandles::default();
        of_driver.0.extend([(DriverHandle(7), ended), (DriverHandle(8), other)]);
        of_driver.0.insert(DriverHandle(7), successor);
        of_driver.remove(DriverHandle(7), ended);
        assert_eq!(of_driver.0.get(&DriverHandle(7)), Some(&successor));
        of_driver.remove(DriverHandle(8), other);
        of_driver.remove(DriverHandle(7), successor);
        assert!(of_driver.0.is_empty());
    }
}
