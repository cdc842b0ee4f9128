//! Fences without the rest of the kernel, above a driver without native fences.

use super::on_driver;
use crate::driver::DriverPort;
use crate::fence::FenceTarget;
use crate::fence::instance;
use crate::fence::storage::FencePool;
use crate::fence::{
    CreateFence, EventSet, Fences, Instance, InstanceOwner, WaitOwner, Waiter, monitor, signal,
    signaled,
};
use crate::memory::{AddressSpace, Affinity, Memory};
use std::sync::Arc;
use tidegate_calls::{SignalFlags, SyncObjectFlags};
use tidegate_ddi::{DriverHandle, Irql, MonitoredNotification, OsHandle, Passive};
use tidegate_platform::{Mutex, Platform};

/// The fences of an adapter without histories, and where a device makes its instances.
pub(crate) struct FencesOfDevice {
    pub(crate) port: Arc<DriverPort>,
    pub(crate) fences: Arc<Fences>,
    pool: Arc<FencePool>,
}

impl FencesOfDevice {
    pub(crate) fn new(platform: &Platform) -> FencesOfDevice {
        FencesOfDevice::on_nodes(platform, &[MonitoredNotification::Basic])
    }

    /// The same on an adapter of these nodes.
    fn on_nodes(platform: &Platform, nodes: &[MonitoredNotification]) -> FencesOfDevice {
        let level = &Passive::enter();
        let (port, _driver) = on_driver(platform, nodes);
        let memory = Memory::new(&port);
        let space = Arc::new(AddressSpace::new(level, &port).unwrap());
        let (fences, pool) = (Fences::new(&memory), FencePool::new(&memory, &space));
        // No adapter is told of signals, and no hardware waits.
        fences.relays.leave_out();
        fences.hardware_waits.leave_out();
        FencesOfDevice { port, fences, pool }
    }

    /// A monitored fence, which ends with its instance.
    pub(crate) fn instance(&self, initial_value: u64) -> Instance {
        let owner =
            InstanceOwner { device: OsHandle(1), driver: DriverHandle(1), pool: &self.pool };
        let args = CreateFence {
            name: "a fence",
            initial_value,
            flags: SyncObjectFlags::empty(),
            native: None,
            private_data: [0; 64],
            affinity: Affinity::ALL,
        };
        Instance::create(&Passive::enter(), &self.fences, &owner, &args).unwrap()
    }
}

/// The tickets of the waits that were released.
pub(crate) struct Released(pub(crate) Mutex<Vec<u64>>);

impl Released {
    pub(crate) fn new(platform: &Platform) -> Arc<Released> {
        Arc::new(Released(platform.mutex("tickets", Vec::new())))
    }
}

impl Waiter for Released {
    fn wake(&self, _: Irql<'_>, ticket: u64, _: &mut EventSet) {
        self.0.lock().push(ticket);
    }
}

#[test]
fn a_signal_releases_the_waits_that_it_satisfies_and_a_fence_ends_with_its_instance() {
    let level = &Passive::enter();
    let made = FencesOfDevice::new(&Platform::closed_host());
    let (fences, instance) = (&made.fences, made.instance(5));
    let released = Released::new(&made.port.platform);
    let wait = |value, ticket| {
        monitor::wait(
            level.into(),
            &instance.fence,
            value,
            released.clone(),
            ticket,
            WaitOwner::Kernel,
        )
        .is_some()
    };
    assert_eq!([wait(5, 1), wait(7, 2), wait(6, 3)], [false, true, true], "5 is reached");
    let at = |value| FenceTarget { fence: instance.fence.clone(), value };
    signal::signal(level.into(), &[at(6)], SignalFlags::empty());
    assert_eq!(*released.0.lock(), [3]);
    signal::signal(level.into(), &[at(9)], SignalFlags::empty());
    assert_eq!((released.0.lock().clone(), fences.len()), (vec![3, 2], 1));
    drop(instance);
    assert_eq!(fences.len(), 0);
}

#[test]
fn a_satisfied_wait_counts_as_missed_where_every_engine_interrupts_for_its_writes() {
    use MonitoredNotification::{Advanced, Basic};
    let level = &Passive::enter();
    for (nodes, missed) in [([Advanced, Advanced], 1), ([Advanced, Basic], 0), ([Basic; 2], 0)] {
        let made = FencesOfDevice::on_nodes(&Platform::closed_host(), &nodes);
        let (instance, released) = (made.instance(0), Released::new(&made.port.platform));
        let fence = &instance.fence;
        monitor::wait(level.into(), fence, 4, released, 0, WaitOwner::Kernel).unwrap();
        assert!(signaled::unreleased(&made.fences).is_empty());
        fence.current.as_ref().unwrap().store(4);
        assert_eq!(signaled::unreleased(&made.fences).len(), missed, "{nodes:?}");
    }
}

/// A removal ends the fences that only NT handles keep, and may meet one that its last holder ends.
#[test]
fn a_fence_ends_once_however_often_its_adapter_is_removed() {
    let level = &Passive::enter();
    let made = FencesOfDevice::new(&Platform::closed_host());
    let (instance, released) = (made.instance(0), Released::new(&made.port.platform));
    let fence = instance.fence.clone();
    let owner = WaitOwner::Kernel;
    monitor::wait(level.into(), &fence, 4, released.clone(), 7, owner).unwrap();
    instance::end_with_adapter(level, &fence);
    assert_eq!((made.fences.len(), released.0.lock().clone()), (0, vec![7]));
    let next = made.instance(1);
    instance::end_with_adapter(level, &fence);
    drop(instance);
    assert_eq!(made.fences.len(), 1, "the next fence, which may have the same place");
    drop(next);
    assert_eq!((made.fences.len(), released.0.lock().len()), (0, 1));
}
