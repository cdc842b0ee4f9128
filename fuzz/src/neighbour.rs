//! Owns the process beside the hostile one. It goes on with its work, by packets and by doorbell, on
//! the engine that the hostile process uses, and must notice nothing.
//!
//! The order of a run:
//! 1. both processes are made;
//! 2. the hostile one does what the input says while the neighbour does its rounds;
//! 3. the neighbour does one more round, when the hostile process is done or stuck;
//! 4. the hostile process ends, with whatever it left behind;
//! 5. results, contracts and devices are checked.

use crate::client::Client;
use std::sync::Arc;
use tidegate::calls::DeviceState;
use tidegate::d3d12::{
    Buffer, BufferDesc, ClosedList, CommandListType, Device, DeviceOptions, Fence, FenceChoice,
    Heap, Queue, QueueDesc,
};
use tidegate::kmd::DoorbellModel;
use tidegate::platform::{Step, StepCosts};
use tidegate::trace::LaneKind;
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_testbed::setup;

/// What a machine is like where the targets differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// What the engine is that both processes use: 3D, compute or copy.
    pub(crate) class: u32,
    /// Whether a timeline is recorded.
    pub(crate) traced: bool,
    /// How doorbells are given out.
    pub(crate) doorbells: DoorbellModel,
    /// Whether the hostile process has a secondary one.
    pub(crate) second_doorbell: bool,
}

impl Setting {
    /// With a physical doorbell for every queue.
    pub(crate) fn roomy(kind: u8) -> Setting {
        Setting {
            class: u32::from(kind) % 3,
            traced: kind & 0x40 != 0,
            doorbells: DoorbellModel::Dedicated { physical: 64 },
            second_doorbell: false,
        }
    }

    /// With all that there is of doorbells, want of them among it.
    pub(crate) fn of(kind: u8) -> Setting {
        let physical = 1 + u32::from(kind >> 7) * 3;
        let doorbells = match kind & 0x20 {
            0 => DoorbellModel::Dedicated { physical },
            _ => DoorbellModel::Global,
        };
        Setting { doorbells, second_doorbell: kind & 0x10 != 0, ..Setting::roomy(kind) }
    }
}

/// Name of the agent that is allowed to hang: the hostile process's own thread.
const HOSTILE: &str = "hostile";
const ROUNDS: u64 = 2;
const BYTES: usize = 256;

/// Everything costs something, so that nothing goes on for ever at one moment.
fn costs() -> StepCosts {
    Step::ALL.iter().fold(StepCosts::free(), |costs, step| costs.with(*step, 100))
}

struct Lane {
    queue: Queue,
    fence: Fence,
    list: ClosedList,
    from: Buffer,
    to: Buffer,
}

/// A process that does as it should.
struct Neighbour {
    device: Device,
    lanes: Vec<Lane>,
}

impl Lane {
    fn new(device: &Device, submission: Submission) -> Lane {
        let list_type = CommandListType::Copy;
        let desc = QueueDesc {
            name: "good".to_owned(),
            node: Some(0),
            ..QueueDesc::new(list_type, submission)
        };
        let buffer = |name: &str| {
            let desc =
                BufferDesc { name: name.to_owned(), bytes: BYTES as u64, heap: Heap::Upload };
            device.create_buffer(desc).expect("the neighbour's buffer")
        };
        let (from, to) = (buffer("from"), buffer("to"));
        let mut list = device.create_command_list(list_type);
        list.copy(&to, 0, &from, 0, BYTES as u64).expect("the neighbour's command");
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
        self.from.write(0, &Lane::content(round)).expect("the neighbour's own buffer");
        self.queue.execute(&[&self.list]).expect("the neighbour's work is taken");
        self.queue.signal(&self.fence, round).expect("the neighbour's signal is taken");
    }

    fn finish(&self, round: u64) {
        self.fence.wait(round).expect("the neighbour's wait ends well");
        let mut found = [0; BYTES];
        self.to.read(0, &mut found).expect("the neighbour's own buffer");
        assert_eq!(
            (found, self.fence.completed_value()),
            (Lane::content(round), round),
            "the neighbour's results"
        );
    }
}

impl Neighbour {
    fn new(machine: &Machine) -> Neighbour {
        let options = DeviceOptions {
            process_name: "neighbour".to_owned(),
            fences: FenceChoice::Native,
            ring_slots: 16,
            ..DeviceOptions::default()
        };
        let device = machine.device(options).expect("the neighbour's device");
        let models = [Submission::User, Submission::Packet];
        let lanes = models.into_iter().map(|model| Lane::new(&device, model)).collect();
        Neighbour { device, lanes }
    }

    fn round(&self, round: u64) {
        self.lanes.iter().for_each(|lane| lane.submit(round));
        self.lanes.iter().for_each(|lane| lane.finish(round));
    }
}

/// What became of the hostile process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Faults of queues and packets, which are all its own.
    pub(crate) faults: u64,
    /// Devices that were lost.
    pub(crate) devices_lost: u64,
}

impl Outcome {
    /// For processes that destroy nothing: asserts that a fault has cost its process the device.
    pub(crate) fn assert_faults_lose_a_device(self) {
        assert!(self.faults == 0 || self.devices_lost > 0, "{self:?}");
    }
}

/// Runs `act` as a process with a user-mode queue beside the neighbour, and asserts that `act`
/// harms its own process only.
pub(crate) fn unharmed_by(
    setting: Setting,
    act: impl FnOnce(&mut Client) + Send + 'static,
) -> Outcome {
    let platform = Platform::virtual_time(costs());
    if setting.traced {
        platform.enable_tracing();
    }
    // 1. One engine, for speed: both processes are on it anyway.
    let node = setting.class as usize;
    let one_engine = |config: &mut MachineConfig| {
        config.gpu.nodes = vec![config.gpu.nodes.swap_remove(node)];
        config.driver.doorbells = setting.doorbells;
    };
    let machine = setup(one_engine).on(platform.clone()).machine();
    let neighbour = Arc::new(Neighbour::new(&machine));
    let lane = setting.traced.then(|| platform.lane(LaneKind::Queue, "hostile", "queue"));
    let mut client = Client::new(&machine, lane, setting.second_doorbell);
    let (kernel, device) = (client.kernel.clone(), client.device);
    let (spawner, good) = (platform.clone(), neighbour.clone());
    let ends_with = kernel.clone();
    let main = move || {
        // 2.
        spawner.spawn(HOSTILE, move || act(&mut client));
        (1..=ROUNDS).for_each(|round| good.round(round));
        // 3.
        spawner.sleep_until(spawner.now().after(1_000_000_000));
        good.round(ROUNDS + 1);
        // 4. The process's thread may still hold it, blocked in a call of its own; its device goes
        //    all the same.
        let _gone_already = ends_with.destroy_device(device);
        good.round(ROUNDS + 2);
    };
    let before = kernel.device_state(device);
    assert_eq!(before, Ok(DeviceState::Active));
    let report = machine.run(main);
    // 5.
    assert_eq!(report.panics, [""; 0], "no thread panics");
    let stuck: Vec<_> = report.blocked.iter().filter(|(name, _)| name != HOSTILE).collect();
    assert!(stuck.is_empty(), "no other thread hangs: {stuck:?}");
    drop(kernel);
    assert_eq!(neighbour.device.removed_reason(), None, "the neighbour keeps its device");
    assert_eq!(machine.adapter().bug_checks(), [], "no contract was broken");
    assert_eq!(machine.driver().violations(), []);
    let outcome = Outcome {
        faults: machine.gpu().stats().faults,
        devices_lost: machine.adapter().stats().devices_lost,
    };
    drop(neighbour);
    if setting.traced {
        let trace = platform.take_trace("a hostile client");
        let mut page = Vec::new();
        let written = tidegate::trace::chrome::write(&trace, &mut page)
            .and_then(|()| tidegate::trace::perfetto::write(&trace, &mut page))
            .and_then(|()| tidegate::trace::html::write(&trace, &mut page));
        written.expect("memory takes what is written to it");
    }
    outcome
}
