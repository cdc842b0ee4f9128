//! Clients that are stopped, and services that end or are killed under their clients.
//!
//! Beside a stopped client the others go on and nothing grows. It goes on later, or is told what it
//! has lost.

use super::kills::Neighbour;
use super::peers::{App, NOTICES, Peer, Role};
use super::process::{self, Setting};
use tidegate::Platform;
use tidegate::calls::{DeviceState, FenceValue, Kernel, WaitMode};
use tidegate::d3d12::{Device, DeviceOptions, Error};
use tidegate::platform::Event;

#[test]
fn a_stopped_client_holds_up_its_waiters_alone_and_finds_its_notices() {
    let service = process::start(Setting::Standard);
    let mut neighbour = Neighbour::new(&service);
    let app = App::new(&service.socket(), "app");
    let (gate, _handle) = app.share("gate");
    let mut holder = Peer::start(&service.socket(), Role::Holder);
    holder.reached("waiting");
    let held = app.open("held");
    let due: Event = Platform::host().event(false);
    let fences = [FenceValue { fence: held.handle, value: 1 }];
    app.kernel.wait_from_cpu(&fences, WaitMode::All, Some(due.clone())).unwrap();
    neighbour.work();
    holder.stop();
    let before = service.open_files();
    for value in 1..=NOTICES {
        app.signal(&gate, value);
    }
    assert!(service.open_files() <= before, "what piles up has its place already");
    (0..10).for_each(|_| neighbour.work());
    assert!(!due.is_set() && held.value.load() == 0, "the stopped client holds it");
    holder.go_on();
    assert_eq!(holder.reached("noticed"), [NOTICES]);
    due.wait();
    holder.kill();
    drop((app, neighbour));
    service.until_left(usize::MAX);
}

#[test]
fn a_client_that_is_stopped_in_a_call_goes_on() {
    let service = process::start(Setting::Standard);
    let mut neighbour = Neighbour::new(&service);
    let mut caller = Peer::start(&service.socket(), Role::Caller);
    let calls = |caller: &mut Peer| {
        caller.go();
        caller.reached("calls")[0]
    };
    for _ in 0..20 {
        let seen = calls(&mut caller);
        while calls(&mut caller) == seen {}
        caller.stop();
        neighbour.work();
        caller.go_on();
        let seen = calls(&mut caller);
        while calls(&mut caller) == seen {}
    }
    // Killed while it is stopped.
    caller.stop();
    caller.kill();
    drop(neighbour);
    service.until_left(usize::MAX);
}

#[test]
fn a_service_ends_beside_a_stopped_client_which_is_told_so() {
    let mut service = process::start(Setting::Standard);
    let mut caller = Peer::start(&service.socket(), Role::Caller);
    caller.go();
    caller.reached("calls");
    caller.stop();
    process::end(&mut service);
    caller.go_on();
    caller.reached("lost");
    caller.kill();
}

#[test]
fn a_killed_service_is_a_removed_device_and_the_process_goes_on_with_a_new_one() {
    let mut service = process::start(Setting::Standard);
    let mut before = Neighbour::new(&service);
    before.work();
    let client = service.client("left");
    let device = client.create_device().unwrap();
    let options = || DeviceOptions::new("left");
    let lost = Device::new(&Platform::host(), service.client("left"), options()).unwrap();
    let fence = lost.create_fence("never signalled", 0).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| fence.wait(1));
        service.process().kill().unwrap();
        service.process().wait().unwrap();
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(Error::DeviceRemoved(_))), "a wait ended with {ended:?}");
    });
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
    let refused = lost.create_fence("of a lost device", 0).map(drop);
    assert!(matches!(refused, Err(Error::DeviceRemoved(_))), "a call ended with {refused:?}");
    assert!(service.socket().exists(), "nothing could remove it");
    process::start_again(&mut service);
    // The objects of the killed service are dropped beside the objects of the new one, and after it
    // began.
    let mut after = Neighbour::new(&service);
    after.work();
    drop((fence, lost, before));
    after.work();
}
