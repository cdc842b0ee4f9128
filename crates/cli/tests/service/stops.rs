//! Clients that are stopped: others go on, nothing grows, and a stopped one goes on later or is
//! told what it has lost.

use super::Service;
use super::kills::Neighbour;
use super::peers::{App, NOTICES, Peer, Role};
use rustix::process::Signal;
use tidegate::Platform;
use tidegate::calls::{FenceValue, Kernel, WaitMode};
use tidegate::platform::Event;

#[test]
fn a_stopped_client_holds_up_its_waiters_alone_and_finds_its_notices() {
    let service = Service::start();
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
    let service = Service::start();
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
    let mut service = Service::start();
    let mut caller = Peer::start(&service.socket(), Role::Caller);
    caller.go();
    caller.reached("calls");
    caller.stop();
    service.signal(Signal::TERM);
    assert!(service.process.wait().unwrap().success());
    caller.go_on();
    caller.reached("lost");
    caller.kill();
}
