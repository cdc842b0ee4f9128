//! The end of an adapter: surprise removal, and a stop. Both are one list; see decision 46.
//!
//! Invariants: waiters are released by the maximum of their fences before their handles go. The
//! driver ends each object in the published order of an abnormal termination. DxgkDdiStopDevice
//! comes last, alone. After that the driver is not called (`gone`).
//!
//! Lock order: `removing` is taken first, and is held over all of it.
//!
//! Entry points: [`Adapter::remove`], [`Adapter::stop`].

use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::fence::instance;
use crate::recovery::device_loss;
use std::sync::Arc;
use tidegate_calls::DeviceState;
use tidegate_ddi::Passive;
use tidegate_platform::Event;

impl Adapter {
    /// Removes the adapter while processes use it, as a surprise removal does. On return every
    /// device of it reads [`DeviceState::Removed`], its fences read `u64::MAX`, everything that
    /// waited on it is released, and its driver has stopped. Every later call on it returns
    /// DEVICE_REMOVED. A second removal waits for the first and does nothing.
    ///
    /// A shared fence that is made with NO_SIGNAL_MAX_VALUE_ON_TDR keeps its value on the other
    /// adapters, where its waiters wait on. Blocks for calls that are under way in the adapter, for
    /// TdrDdiDelay at most.
    // monster: the list of a removal.
    #[doc(alias = "IRP_MN_SURPRISE_REMOVAL")]
    pub fn remove(self: &Arc<Adapter>) {
        let level = &Passive::enter();
        let _one_at_a_time = self.removing.lock_device();
        if self.is_stopped() {
            return;
        }
        // 1. Nothing begins on the adapter: no call, no recovery. A recovery that is under way is
        //    over first.
        self.recovery.between_recoveries(|| self.begin_removal());
        // A thread that waits for a vertical sync waits for the hardware.
        if let Some(display) = &self.display {
            display.forget();
        }
        if self.has_processes() {
            // 2. No engine is given anything, and what was reported is taken.
            let _of_devices_that_are_lost_next = self.sched.stop_all_engines();
            // 3. Devices are in error: doorbells read ABORT, contexts are suspended, queued work is
            //    given up, fences read their maximum. That releases the waiters, here and on other
            //    adapters.
            // spec: PRE-093
            for device in self.devices_of_processes() {
                device_loss::lose_device(self, level, &device, DeviceState::Removed);
            }
            // No answer of the hardware is waited for.
            self.complete_suspensions(|_| true);
            self.sched.end_kernel_packets();
            self.sched.end_all_packets();
            // 4. For each process and each of its queues: doorbell and queue are destroyed, and
            //    then contexts, fences, devices.
            for process in self.objects.processes() {
                process.end_with_adapter();
            }
        }
        // 5. The kernel's own agents and objects.
        self.stop_agents();
        // 6. Calls that were under way return, and drop what they held: with the last device the
        //    last instance of a fence is closed.
        self.wait_for_end_of("devices", |event| self.objects.devices.lock().await_empty(event));
        // 7. Fences that only NT handles keep end for the driver.
        let left = self.fences.matching(|_| true);
        left.iter().for_each(instance::end_with_adapter);
        drop(left);
        self.wait_for_end_of("fences", |event| self.fences.await_empty(event));
        // 8. DxgkDdiStopDevice, alone in the driver, on a device that has power.
        let _awake = self.awake();
        let stopped = self.threads.exclusive(self.config.tdr.ddi_delay_ns, || {
            self.driver_as_it_is().stop_device(level);
            // spec: PRE-094
            self.note_stopped();
        });
        if stopped.is_none() {
            self.note_stuck_in_driver(BugCheck::StuckInDriver);
            self.note_stopped();
        }
        self.dpc.forget();
    }

    /// Stops the adapter and its driver. The same as [`Adapter::remove`]: a process that still has
    /// the adapter open loses it.
    #[doc(alias = "DxgkDdiStopDevice")]
    pub fn stop(self: &Arc<Adapter>) {
        self.remove();
    }

    /// Whether a process has it open that did not end.
    fn has_processes(&self) -> bool {
        self.objects.processes().iter().any(|process| !process.has_ended())
    }

    fn stop_agents(&self) {
        self.timer.stop();
        self.recovery.forget();
        let worker = self.interrupt_worker.lock().take();
        if let Some(worker) = worker {
            worker.stop();
        }
        self.memory.stop();
        let kept = self.sched.lock().take_kept();
        drop(kept);
        let idle_contexts = std::mem::take(&mut *self.objects.idle_contexts.lock());
        drop(idle_contexts);
        self.memory.end_system_space();
    }

    /// Waits for the calls that hold the last objects of a table, for TdrDdiDelay at most.
    fn wait_for_end_of(&self, table: &str, await_empty: impl FnOnce(&Event) -> bool) {
        self.timer.drop_work();
        let emptied = self.platform.event(true);
        if await_empty(&emptied) {
            let deadline = self.platform.now().after(self.config.tdr.ddi_delay_ns);
            emptied.wait_for(Some(deadline), &format!("the last {table} of a removed adapter"));
        }
    }
}
