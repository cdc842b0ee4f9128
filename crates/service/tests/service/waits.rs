//! Threads that sleep for a fence of the service, and what ends their waits besides a signal.

use super::process::{self, Setting};
use tidegate::calls::{
    CreateMonitoredFence, DeviceErrorReason, FenceValue, Handle, Kernel, Status, SyncObjectFlags,
    WaitMode,
};

/// Has a thread sleep for a fence until `end` of its device and itself. Returns what its call
/// returned.
fn slept_until(end: impl FnOnce(&dyn Kernel, Handle, Handle)) -> Result<(), Status> {
    let service = process::start(Setting::Standard);
    let client = service.client("sleeper");
    let device = client.create_device().unwrap();
    let args = CreateMonitoredFence {
        device,
        initial_value: 0,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
        name: "never signalled",
    };
    let fence = client.create_monitored_fence(args).unwrap().handle;
    let wait = [FenceValue { fence, value: 1 }];
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| client.wait_from_cpu(&wait, WaitMode::All, None));
        service.until_waiting(1);
        end(&*client, device, fence);
        sleeper.join().unwrap()
    })
}

/// As a wait of a thread beside its machine does: the thread had a fence to wait for.
#[test]
fn a_thread_whose_fence_is_destroyed_is_released() {
    let ended = slept_until(|client, _, fence| {
        client.destroy_synchronization_object(fence).unwrap();
    });
    assert_eq!(ended, Ok(()));
    let ended = slept_until(|client, device, _| client.destroy_device(device).unwrap());
    assert_eq!(ended, Ok(()));
}

#[test]
fn a_thread_whose_device_is_lost_is_told_so() {
    let ended = slept_until(|client, device, _| {
        client.mark_device_as_error(device, DeviceErrorReason::Generic).unwrap();
    });
    assert_eq!(ended, Err(Status::DEVICE_REMOVED));
}
