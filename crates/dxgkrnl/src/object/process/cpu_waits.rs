//! CPU waits of a process, blocking and registered.
//!
//! A wait does not keep its fences open: it drops its instances before it blocks.

use super::Process;
use super::calls::entered;
use crate::fence::{FenceTarget, Instance, cpu_wait};
use std::sync::{Arc, Weak};
use tidegate_calls::{
    CpuWaitRegistration, FenceValue, MAX_OBJECTS_PER_CPU_WAIT, RegisteredWait, Status,
    SyncObjectFlags, WaitMode, WaitNotice,
};
use tidegate_ddi::Passive;
use tidegate_platform::{Event, current};

impl Process {
    /// Enters a wait. Blocks until it is over, or has `event` set then.
    pub(super) fn wait_on_cpu(
        &self,
        level: &Passive,
        fences: &[FenceValue],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<(), Status> {
        let instances =
            self.instances(fences, MAX_OBJECTS_PER_CPU_WAIT, SyncObjectFlags::NO_WAIT)?;
        let blocking = event.is_none();
        let entered = {
            let conditions = instances.iter().map(|(i, value)| (&***i as &Instance, *value));
            cpu_wait::enter(level.into(), &self.objects.fences, conditions, mode, event)
        };
        if entered.is_pending {
            // The wait may depend on a ring submission that no kernel call announced.
            self.objects.port.watch_for_hangs();
        }
        if !blocking {
            return Ok(());
        }
        let devices: Vec<_> =
            instances.iter().map(|(instance, _)| Arc::downgrade(&instance.device)).collect();
        let fences: Vec<FenceTarget> =
            instances.iter().map(|(i, value)| (i.fence.clone(), *value)).collect();
        // A blocked wait must not keep its instances alive.
        drop(instances);
        entered.block(level.into(), &fences)?;
        drop(fences);
        // spec: MF-050
        // The fences of a lost device or an ended process read as their maximum, so the wait
        // returns the reason.
        if self.final_states.get().is_some() {
            return Err(Status::DEVICE_REMOVED);
        }
        devices.iter().filter_map(Weak::upgrade).try_for_each(|device| device.check())
    }

    /// Enters a wait that gives `notice` when it is over, unless it is cancelled before.
    pub(super) fn register_wait(
        &self,
        level: &Passive,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<CpuWaitRegistration, Status> {
        let instances =
            self.instances(fences, MAX_OBJECTS_PER_CPU_WAIT, SyncObjectFlags::NO_WAIT)?;
        let conditions = instances.iter().map(|(i, value)| (&***i as &Instance, *value));
        let entered = cpu_wait::enter_registered(
            level.into(),
            &self.objects.fences,
            conditions,
            mode,
            notice,
        );
        if entered.is_pending {
            self.objects.port.watch_for_hangs();
        }
        Ok(CpuWaitRegistration::new(Registration(entered.into_registered())))
    }
}

/// A registered CPU wait of a process.
struct Registration(cpu_wait::Registered);

impl RegisteredWait for Registration {
    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn cancel(&self) {
        // A destructor of an agent that panics takes no locks.
        if !current::is_panicking() {
            self.0.cancel((&entered()).into());
        }
    }
}
