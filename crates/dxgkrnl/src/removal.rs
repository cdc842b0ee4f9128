//! The end of an adapter: surprise removal, and a stop. Both are one list; see decision 46.
//!
//! Invariants: waiters are released by the maximum of their fences before their handles go. The
//! driver ends each object in the published order of an abnormal termination. DxgkDdiStopDevice
//! comes last, with no other call in the driver. After that the driver is not called (`gone`). A
//! call that is under way waits for nothing that the removal has ended, and a hold keeps no
//! context: no wait below takes its time.
//!
//! Lock order: `one_at_a_time` is taken first, and is held over all of it.
//!
//! Entry point: [`Removal::remove`].

use crate::display::Display;
use crate::error::BugCheck;
use crate::fence::instance;
use crate::interrupt::Interrupts;
use crate::object::Objects;
use crate::recovery::{Recovery, lose_device};
use crate::wait_limit::WaitLimit;
use std::sync::Arc;
use tidegate_calls::DeviceState;
use tidegate_ddi::Passive;
use tidegate_platform::planted;
use tidegate_platform::{Event, Mutex};

/// What a removal ends.
pub(crate) struct Removal {
    objects: Arc<Objects>,
    /// `None` for an adapter that only renders.
    display: Option<Arc<Display>>,
    recovery: Arc<Recovery>,
    interrupts: Arc<Interrupts>,
    one_at_a_time: Mutex<()>,
}

impl Removal {
    pub(crate) fn new(
        objects: &Arc<Objects>,
        display: Option<&Arc<Display>>,
        recovery: &Arc<Recovery>,
        interrupts: &Arc<Interrupts>,
    ) -> Removal {
        Removal {
            one_at_a_time: objects.port.platform.mutex("removal of an adapter", ()),
            objects: objects.clone(),
            display: display.cloned(),
            recovery: recovery.clone(),
            interrupts: interrupts.clone(),
        }
    }

    /// The published list. A second removal waits for the first and does nothing.
    pub(crate) fn remove(&self, level: &Passive) {
        let (objects, port) = (&self.objects, &self.objects.port);
        let _one_at_a_time = self.one_at_a_time.lock_device();
        if port.condition.is_stopped() {
            return;
        }
        // 1. Nothing begins on the adapter: no call, no recovery. A recovery that is under way is
        //    over first.
        self.recovery.between_recoveries(|| port.condition.begin_removal());
        // A thread that waits for a vertical sync waits for the hardware.
        if let Some(display) = &self.display {
            display.forget();
        }
        // Steps 2 to 4 do not depend on processes: one that is ending may wait for its work, and
        // the pager for a packet of the kernel.
        // 2. No engine is given anything, and what was reported is taken.
        let _of_devices_that_are_lost_next = objects.sched.stop_all_engines(level);
        // 3. Devices are in error: doorbells read ABORT, contexts are suspended, queued work is
        //    given up, fences read their maximum. That releases the waiters, here and on other
        //    adapters.
        // spec: PRE-093
        for device in self.recovery.devices_of_processes() {
            lose_device(&self.recovery, level, &device, DeviceState::Removed);
        }
        // No answer of the hardware is waited for.
        self.recovery.complete_suspensions(|_| true);
        if !planted!(port.platform, RemovalLeavesPacketsToTheEngines) {
            // spec: PRE-164
            objects.sched.end_kernel_packets(level.into());
            // spec: PRE-144
            objects.sched.end_all_packets(level);
        }
        // 4. For each process and each of its queues: doorbell and queue are destroyed, and
        //    then contexts, fences, devices.
        for process in objects.processes() {
            process.end_with_adapter(level);
        }
        // 5. The kernel's own agents and objects.
        self.stop_agents(level);
        // 6. Calls that were under way return, and drop what they held: with the last device the
        //    last instance of a fence is closed.
        self.wait_for_end_of("devices", |event| objects.devices.lock().await_empty(event));
        // 7. Fences that only NT handles keep end for the driver.
        let left = objects.fences.matching(|_| true);
        left.iter().for_each(|fence| instance::end_with_adapter(level, fence));
        drop(left);
        self.wait_for_end_of("fences", |event| objects.fences.await_empty(event));
        // 8. DxgkDdiStopDevice, alone in the driver, on a device that has power.
        let _awake = port.awake(level);
        let stopped = port.threads.exclusive(port.config.tdr.ddi_delay_ns, || {
            port.driver_as_it_is().stop_device(level);
            // spec: PRE-094
            port.condition.note_stopped();
        });
        if stopped.is_none() {
            port.condition.note_stuck_in_driver(BugCheck::StuckInDriver);
            port.condition.note_stopped();
        }
        self.interrupts.forget();
    }

    fn stop_agents(&self, level: &Passive) {
        let objects = &self.objects;
        objects.port.timer.stop();
        self.recovery.forget();
        self.interrupts.stop_worker();
        objects.memory.stop(level);
        let kept = objects.sched.lock().take_kept();
        drop(kept);
        let idle_contexts = std::mem::take(&mut *objects.idle_contexts.lock());
        drop(idle_contexts);
        objects.memory.end_system_space();
    }

    /// Waits for the calls that hold the last objects of a table, for TdrDdiDelay at most.
    fn wait_for_end_of(&self, table: &str, await_empty: impl FnOnce(&Event) -> bool) {
        let port = &self.objects.port;
        port.timer.drop_work();
        let emptied = port.platform.event(true);
        if await_empty(&emptied) {
            let mut limit = WaitLimit::new(&port.platform, port.config.tdr.ddi_delay_ns);
            limit.wait(&emptied, &format!("the last {table} of a removed adapter"));
        }
    }
}
