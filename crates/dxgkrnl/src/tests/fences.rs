//! Fences alone, above a driver without native fences.

use super::start_driver;
use crate::fence::storage::FencePool;
use crate::fence::{
    CreateFence, EventSet, Fences, Instance, InstanceOwner, WaitOwner, Waiter, monitor, signal,
};
use crate::memory::{AddressSpace, Affinity, Memory};
use std::sync::Arc;
use tidegate_calls::{SignalFlags, SyncObjectFlags};
use tidegate_ddi::{DriverHandle, Irql, OsHandle, Passive};
use tidegate_platform::Mutex;

/// The tickets of the waits that were released.
struct Released(Mutex<Vec<u64>>);

impl Waiter for Released {
    fn wake(&self, _: Irql<'_>, ticket: u64, _: &mut EventSet) {
        self.0.lock().push(ticket);
    }
}

#[test]
fn a_signal_releases_the_waits_that_it_satisfies_and_a_fence_ends_with_its_instance() {
    let level = &Passive::enter();
    let (port, _driver) = start_driver();
    let memory = Memory::new(&port);
    let fences = Fences::new(&memory);
    let space = Arc::new(AddressSpace::new(level, &port).unwrap());
    let pool = &FencePool::new(&memory, &space);
    let owner = InstanceOwner { device: OsHandle(1), driver: DriverHandle(1), pool };
    let args = CreateFence {
        name: "a fence",
        initial_value: 5,
        flags: SyncObjectFlags::empty(),
        native: None,
        private_data: [0; 64],
        affinity: Affinity::ALL,
    };
    let instance = Instance::create(level, &fences, &owner, &args).unwrap();
    let released = Arc::new(Released(port.platform.mutex("tickets", Vec::new())));
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
    signal::signal(level.into(), &[(instance.fence.clone(), 6)], SignalFlags::empty());
    assert_eq!(*released.0.lock(), [3]);
    signal::signal(level.into(), &[(instance.fence.clone(), 9)], SignalFlags::empty());
    assert_eq!((released.0.lock().clone(), fences.len()), (vec![3, 2], 1));
    drop(instance);
    assert_eq!(fences.len(), 0);
}
