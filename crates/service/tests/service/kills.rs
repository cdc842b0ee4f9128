//! Clients that are killed: others go on, and nothing is left.

use super::child::{Program, Stepper};
use super::peers::{App, NEVER_SIGNALLED, Peer, Role};
use super::process::{self, Setting};
use tidegate::Platform;
use tidegate::d3d12::{BufferDesc, CommandListType, Device, DeviceOptions, QueueDesc, Submission};
use tidegate_testbed::{Held, ServiceProcess};

/// A client whose work must come out right whatever happens to the others.
pub(crate) struct Neighbour {
    device: Device,
    round: u8,
}

impl Neighbour {
    pub(crate) fn new(service: &ServiceProcess) -> Neighbour {
        let (platform, kernel) = (Platform::host(), service.client("neighbour"));
        let device = Device::new(&platform, kernel, DeviceOptions::new("neighbour")).unwrap();
        Neighbour { device, round: 0 }
    }

    pub(crate) fn work(&mut self) {
        self.round = self.round.wrapping_add(1);
        let device = &self.device;
        let queue = QueueDesc::new(CommandListType::Copy).submission(Submission::User);
        let queue = device.create_queue(queue).unwrap();
        let upload = device.create_buffer(BufferDesc::upload("upload", 4096)).unwrap();
        let back = device.create_buffer(BufferDesc::readback("back", 4096)).unwrap();
        upload.write(0, &[self.round; 4096]).unwrap();
        let mut list = device.create_command_list(CommandListType::Copy);
        list.copy(&back, 0, &upload, 0, 4096).unwrap();
        let done = device.create_fence("done", 0).unwrap();
        queue.execute(&[&list.close().unwrap()]).unwrap();
        queue.signal(&done, 1).unwrap();
        done.wait(1).unwrap();
        let mut seen = vec![0; 4096];
        back.read(0, &mut seen).unwrap();
        assert_eq!(seen, vec![self.round; 4096]);
    }
}

/// Starts a service, and has each kind of client come and go. Returns it with what it holds without
/// a client: what it makes once for all clients is there.
pub(crate) fn warm() -> (ServiceProcess, Held) {
    let service = process::start(Setting::Patching);
    for program in [Program::Work, Program::Calls] {
        let steps = program.steps();
        let mut client = Stepper::start(&service.socket(), program);
        (0..steps).for_each(|_| client.step());
        client.kill();
    }
    Neighbour::new(&service).work();
    // The memory manager's context is made with the first move, which needs room or time
    // elsewhere.
    App::new(&service.socket(), "pages").page();
    service.until_left(usize::MAX);
    let held = service.held();
    (service, held)
}

/// Waits until no more is left than the service held `before`, without a client. An engine keeps
/// what it has mapped last until its next turn, which one without power does not take: a client
/// calls it.
pub(crate) fn until_empty(service: &ServiceProcess, before: Held) {
    service.until_left(usize::MAX);
    while !service.held().is_within(before) {
        Neighbour::new(service).work();
        service.until_left(usize::MAX);
    }
}

/// Most turns that a killed client is given in the middle of a step.
const MOST_TURNS: usize = 64;

/// Kills clients of both programs before each step and in the middle of each, at different moments:
/// all of them once, and on until there were so many.
fn kill_clients(least: usize) {
    let (service, before) = warm();
    let mut neighbour = Neighbour::new(&service);
    let programs = [Program::Work, Program::Calls].map(|program| (program, program.steps()));
    let steps =
        programs.iter().flat_map(|(program, steps)| (0..*steps).map(|step| (*program, step)));
    let moments = steps.flat_map(|step| [(step, false), (step, true)]).collect::<Vec<_>>();
    let kills = least.max(moments.len());
    for (kill, ((program, step), in_the_middle)) in moments.iter().cycle().take(kills).enumerate() {
        let mut client = Stepper::start(&service.socket(), *program);
        (0..*step).for_each(|_| client.step());
        if *in_the_middle {
            client.begin_step();
            // Until the client runs, is in its call, or has left it.
            (0..kill % MOST_TURNS).for_each(|_| std::thread::yield_now());
        }
        client.kill();
        neighbour.work();
    }
    drop(neighbour);
    until_empty(&service, before);
    assert_eq!(service.counter("sessions_failed_total"), 0);
}

#[test]
fn killed_clients_leave_nothing_and_disturb_no_neighbour() {
    kill_clients(0);
}

#[test]
#[ignore = "the full form: 10,000 kills"]
fn ten_thousand_killed_clients_leave_nothing() {
    kill_clients(10_000);
}

/// The value stays, waits stay, what the killed process had queued never comes, and the fence works
/// on.
#[test]
fn a_shared_fence_outlives_its_killed_owner_without_the_signals_that_it_had_queued() {
    let service = process::start(Setting::Standard);
    let mut neighbour = Neighbour::new(&service);
    let owner = {
        let mut owner = Peer::start(&service.socket(), Role::Owner);
        owner.reached("queued");
        owner
    };
    let app = App::new(&service.socket(), "app");
    let frame = app.open("frame");
    app.signal(&frame, 2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&frame, 3));
        owner.kill();
        // The neighbour and the app are left.
        while service.counter("processes") > 2 {
            std::thread::yield_now();
        }
        neighbour.work();
        assert_eq!(frame.value.load(), 2, "the end of a process is no lost device");
        assert!(!waiter.is_finished());
        app.signal(&frame, 3);
        waiter.join().unwrap().unwrap();
    });
    neighbour.work();
    assert!(frame.value.load() < NEVER_SIGNALLED);
    app.signal(&frame, NEVER_SIGNALLED);
    app.wait(&frame, NEVER_SIGNALLED).unwrap();
}

/// The TDR delay is an hour, for which the call that destroys the device may wait.
#[test]
fn the_end_of_a_client_is_noticed_while_its_device_waits_for_work() {
    let service = process::start(Setting::Patient);
    let mut destroyer = Peer::start(&service.socket(), Role::Destroyer);
    destroyer.reached("queued");
    let calls = service.counter("calls_total");
    destroyer.go();
    destroyer.reached("destroys");
    while service.counter("calls_total") == calls {
        std::thread::yield_now();
    }
    destroyer.kill();
    service.until_left(usize::MAX);
}
