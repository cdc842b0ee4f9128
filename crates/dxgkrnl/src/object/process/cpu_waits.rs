//! CPU waits of a process, blocking and registered.
//!
//! A wait does not keep its fences open: it drops its instances before it blocks. A wait for one
//! fence polls it first, for `cpu_wait_poll_ns` at most.

use super::calls::entered;
use super::{InstanceTarget, Process};
use crate::fence::{FenceTarget, Instance, cpu_wait, monitor};
use crate::object::device::Device;
use smallvec::SmallVec;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use tidegate_calls::{
    CpuWaitRegistration, FenceValue, MAX_OBJECTS_PER_CPU_WAIT, RegisteredWait, Status,
    SyncObjectFlags, WaitMode, WaitNotice,
};
use tidegate_d3dukmdt::FenceWait;
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
        let begun = begun(&instances);
        if blocking
            && let ([(instance, _)], [wait]) = (&instances[..], &begun[..])
            && cpu_wait::poll(&instance.fence, *wait)
        {
            return self.check_after_wait([&*instance.device]);
        }
        let entered = {
            let conditions = conditions(&instances, &begun);
            let (fences, spare) = (&self.objects.fences, &self.spare_waits);
            cpu_wait::enter(level.into(), fences, conditions, mode, event, spare)
        };
        if entered.is_pending {
            // The wait may depend on a ring submission that no kernel call announced.
            self.objects.port.watch_for_hangs();
        }
        if !blocking {
            return Ok(());
        }
        let mut devices = SmallVec::<[Weak<Device>; 1]>::new();
        let mut fences = SmallVec::<[FenceTarget; 1]>::new();
        for (instance, value) in &instances {
            devices.push(Arc::downgrade(&instance.device));
            fences.push(FenceTarget { fence: instance.fence.clone(), value: *value });
        }
        // A blocked wait must not keep its instances alive.
        drop(instances);
        entered.block(level.into(), &self.spare_waits, &fences)?;
        drop(fences);
        self.check_after_wait(devices.iter().filter_map(Weak::upgrade))
    }

    /// Returns why a wait ended, if no signal ended it. The fences of a lost device or an ended
    /// process read as their maximum.
    fn check_after_wait<D: Deref<Target = Device>>(
        &self,
        devices: impl IntoIterator<Item = D>,
    ) -> Result<(), Status> {
        // spec: MF-050
        if self.final_states.get().is_some() {
            return Err(Status::DEVICE_REMOVED);
        }
        devices.into_iter().try_for_each(|device| device.check())
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
        let begun = begun(&instances);
        let entered = cpu_wait::enter_registered(
            level.into(),
            &self.objects.fences,
            conditions(&instances, &begun),
            mode,
            notice,
        );
        if entered.is_pending {
            self.objects.port.watch_for_hangs();
        }
        Ok(CpuWaitRegistration::new(Registration(entered.into_registered())))
    }
}

/// Begins the conditions of a wait.
fn begun(instances: &[InstanceTarget]) -> SmallVec<[FenceWait; 1]> {
    let begin = |(instance, value): &InstanceTarget| monitor::begin_wait(&instance.fence, *value);
    match instances {
        [one] => SmallVec::from_buf([begin(one)]),
        _ => instances.iter().map(begin).collect(),
    }
}

fn conditions<'a>(
    instances: &'a [InstanceTarget],
    begun: &'a [FenceWait],
) -> impl ExactSizeIterator<Item = (&'a Instance, FenceWait)> {
    instances.iter().zip(begun).map(|((instance, _), wait)| (&***instance as &Instance, *wait))
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
