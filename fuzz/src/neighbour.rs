//! A well-behaved neighbour of the hostile process. It submits packets and rings a doorbell on the
//! same engine and must not be affected.
//!
//! Entry points: [`Neighbour::new`] and [`Neighbour::round`], which both run as an agent of the
//! machine. The neighbour of a service ([`Neighbour::of`]) runs on any thread.

use std::sync::Arc;
use tidegate::calls::Kernel;
use tidegate::d3d12::{
    Buffer, BufferDesc, ClosedList, CommandListType, Device, DeviceOptions, Fence, FenceChoice,
    Queue, QueueDesc,
};
use tidegate::{Machine, Platform, Submission};

const BYTES: usize = 256;

struct Lane {
    queue: Queue,
    fence: Fence,
    list: ClosedList,
    from: Buffer,
    to: Buffer,
}

fn options() -> DeviceOptions {
    DeviceOptions {
        process_name: "neighbour".to_owned(),
        fences: FenceChoice::Native,
        ring_slots: 16,
        ..DeviceOptions::default()
    }
}

/// A well-behaved process.
pub(crate) struct Neighbour {
    device: Device,
    lanes: Vec<Lane>,
    /// Number of rounds so far, which is the value of its fences.
    rounds: u64,
}

impl Lane {
    fn new(device: &Device, submission: Submission, node: u32) -> Lane {
        let list_type = CommandListType::Copy;
        let desc = QueueDesc {
            name: "good".to_owned(),
            node: Some(node),
            ..QueueDesc::new(list_type).submission(submission)
        };
        let buffer = |name: &str| {
            let desc = BufferDesc::upload(name, BYTES as u64);
            device.create_buffer(desc).expect("the neighbour's buffer")
        };
        let (from, to) = (buffer("from"), buffer("to"));
        let mut list = device.create_command_list(list_type);
        list.copy(&to, 0, &from, 0, BYTES as u64).expect("the neighbour's command is valid");
        Lane {
            queue: device.create_queue(desc).expect("the neighbour's queue"),
            fence: device.create_fence("good", 0).expect("the neighbour's fence"),
            list: list.close().expect("the neighbour's list"),
            from,
            to,
        }
    }

    fn content(round: u64) -> [u8; BYTES] {
        [round as u8; BYTES]
    }

    fn submit(&self, round: u64) {
        self.from.write(0, &Lane::content(round)).expect("the neighbour's buffer is writable");
        self.queue.execute(&[&self.list]).expect("the neighbour's work is accepted");
        self.queue.signal(&self.fence, round).expect("the neighbour's signal is accepted");
    }

    fn finish(&self, round: u64) {
        self.fence.wait(round).expect("the neighbour's wait succeeds");
        let mut found = [0; BYTES];
        self.to.read(0, &mut found).expect("the neighbour's buffer is readable");
        assert_eq!(
            (found, self.fence.completed_value()),
            (Lane::content(round), round),
            "the neighbour's results are correct"
        );
    }
}

impl Neighbour {
    /// Creates the process with its queues on engine `node`.
    pub(crate) fn new(machine: &Machine, node: u32) -> Neighbour {
        Neighbour::with(machine.device(options()).expect("the neighbour's device"), node)
    }

    /// Takes the process behind `kernel`, which needs no machine in this one.
    pub(crate) fn of(platform: &Platform, kernel: Arc<dyn Kernel>, node: u32) -> Neighbour {
        let device = Device::new(platform, kernel, options()).expect("the neighbour's device");
        Neighbour::with(device, node)
    }

    fn with(device: Device, node: u32) -> Neighbour {
        let models = [Submission::User, Submission::Packet];
        let lanes = models.into_iter().map(|model| Lane::new(&device, model, node)).collect();
        Neighbour { device, lanes, rounds: 0 }
    }

    /// Submits work by each model, waits for it, and asserts that its results are right.
    pub(crate) fn round(&mut self) {
        self.rounds += 1;
        self.lanes.iter().for_each(|lane| lane.submit(self.rounds));
        self.lanes.iter().for_each(|lane| lane.finish(self.rounds));
    }

    /// Asserts that its device is active.
    pub(crate) fn assert_active(&self) {
        assert_eq!(self.device.removed_reason(), None, "the neighbour's device survives");
    }
}
