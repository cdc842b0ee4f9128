//! Clients that are killed: others go on, and nothing is left.

use super::Service;
use super::child::{Program, Stepper};
use super::peers::{App, NEVER_SIGNALLED, Peer, Role};
use tidegate::Platform;
use tidegate::d3d12::{BufferDesc, CommandListType, Device, DeviceOptions, QueueDesc, Submission};

/// A client whose work must come out right whatever happens to the others.
pub(crate) struct Neighbour {
    device: Device,
    round: u8,
}

impl Neighbour {
    pub(crate) fn new(service: &Service) -> Neighbour {
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

/// Most turns that a killed client is given in the middle of a step.
const MOST_TURNS: usize = 64;

/// Kills clients of both programs before each step and in the middle of each, at different moments:
/// all of them once, and on until there were so many.
fn kill_clients(least: usize) {
    let (service, before) = Service::warm();
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
    service.until_empty(before);
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
    let service = Service::start();
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
