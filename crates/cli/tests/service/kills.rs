//! Clients that are killed: others go on, and nothing is left.

use super::Service;
use super::child::{STEPS, Stepper};
use tidegate::Platform;
use tidegate::d3d12::{BufferDesc, CommandListType, Device, DeviceOptions, QueueDesc, Submission};

/// A client whose work must come out right whatever happens to the others.
struct Neighbour {
    device: Device,
    round: u8,
}

impl Neighbour {
    fn new(service: &Service) -> Neighbour {
        let (platform, kernel) = (Platform::host(), service.client("neighbour"));
        let device = Device::new(&platform, kernel, DeviceOptions::new("neighbour")).unwrap();
        Neighbour { device, round: 0 }
    }

    fn work(&mut self) {
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

/// Kills clients before each step and in the middle of each, `rounds` times.
fn kill_clients(rounds: usize) {
    let service = Service::start();
    let mut neighbour = Neighbour::new(&service);
    // What the service makes once for all clients is there afterwards.
    let mut warm = Stepper::start(&service.socket());
    (0..STEPS).for_each(|_| warm.step());
    warm.kill();
    neighbour.work();
    while service.counter("processes") > 1 {
        std::thread::yield_now();
    }
    let before = service.open_files();
    for _ in 0..rounds {
        for step in 0..STEPS {
            for in_the_middle in [false, true] {
                let mut client = Stepper::start(&service.socket());
                (0..step).for_each(|_| client.step());
                if in_the_middle {
                    client.begin_step();
                }
                client.kill();
                neighbour.work();
            }
        }
    }
    while service.counter("processes") > 1 || service.open_files() > before {
        std::thread::yield_now();
    }
    drop(neighbour);
    service.until_left(before);
}

#[test]
fn killed_clients_leave_nothing_and_disturb_no_neighbour() {
    kill_clients(3);
}

#[test]
#[ignore = "the full form: 10,000 kills"]
fn ten_thousand_killed_clients_leave_nothing() {
    kill_clients(10_000 / (2 * STEPS));
}

#[test]
fn many_clients_connect_at_once() {
    let service = Service::start();
    // What the service makes once for all clients is there afterwards.
    Neighbour::new(&service).work();
    service.until_left(usize::MAX);
    let before = service.open_files();
    let clients: Vec<_> = std::thread::scope(|scope| {
        let connect = |n: usize| service.client(&format!("client {n}"));
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                scope.spawn(move || (0..25).map(|n| connect(25 * thread + n)).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(service.counter("processes"), 200);
    Neighbour::new(&service).work();
    drop(clients);
    service.until_left(before);
}
