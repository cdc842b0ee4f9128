//! Threads that sleep for a fence of the service, and what ends their waits besides a signal.

use super::process::{self, Setting};
use std::sync::Arc;
use tidegate::calls::{
    CreateMonitoredFence, DeviceErrorReason, FenceValue, Handle, Kernel, Status, SyncObjectFlags,
    WaitMode,
};
use tidegate::platform::StepCosts;
use tidegate::service::client::connect_agent;
use tidegate::service::server::ServerConfig;
use tidegate::{Machine, MachineConfig, Platform};

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

// spec: UMS-206
/// In virtual time: the next frame of the display comes when nothing else is left to do.
#[test]
fn calls_are_answered_while_another_one_waits_for_the_display() {
    let platform = Platform::virtual_time(StepCosts::free());
    let config = MachineConfig::standard(&platform).with_display(16_000_000);
    let machine = Arc::new(Machine::new(&platform, config).unwrap());
    let (served, shown) = (machine.clone(), platform.page(1).word(0));
    let report = machine.run(move || {
        let sessions = served.sessions(ServerConfig::default());
        let (kernel, _life) = connect_agent(&sessions, 0, "app").unwrap();
        let (waiting, waited) = (kernel.clone(), shown.clone());
        let waiter = platform.spawn("waiter", move || {
            waiting.wait_for_vertical_blank_event().unwrap();
            waited.store(1);
        });
        platform.sleep_until(platform.now().after(1_000_000));
        kernel.create_device().unwrap();
        assert_eq!(shown.load(), 0, "before the frame");
        waiter.join();
        drop(kernel);
        sessions.end();
    });
    report.unwrap();
}
