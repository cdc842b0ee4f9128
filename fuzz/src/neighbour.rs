//! A well-behaved neighbour of the hostile process. It submits packets and rings a doorbell on the
//! same engine and must not be affected.
//!
//! Order of a run:
//! 1. both processes are created;
//! 2. the hostile one follows the input while the neighbour does its rounds;
//! 3. the neighbour does one more round after the hostile process is done or blocked;
//! 4. the hostile device is destroyed with everything that is left;
//! 5. results, contracts and devices are checked.

use crate::client::Client;
use std::sync::Arc;
use tidegate::calls::DeviceState;
use tidegate::d3d12::{
    Buffer, BufferDesc, ClosedList, CommandListType, Device, DeviceOptions, Fence, FenceChoice,
    Queue, QueueDesc,
};
use tidegate::kmd::DoorbellModel;
use tidegate::platform::{Step, StepCosts};
use tidegate::trace::LaneKind;
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_testbed::setup;

/// Configuration of the machine that differs between targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The class of the engine that both processes use: 3D, compute or copy.
    pub(crate) class: u32,
    /// Whether a timeline is recorded.
    pub(crate) traced: bool,
    /// The doorbell model.
    pub(crate) doorbells: DoorbellModel,
    /// Whether the hostile process has a secondary doorbell.
    pub(crate) second_doorbell: bool,
}

impl Setting {
    /// Provides a physical doorbell for every queue.
    pub(crate) fn roomy(kind: u8) -> Setting {
        Setting {
            class: u32::from(kind) % 3,
            traced: kind & 0x40 != 0,
            doorbells: DoorbellModel::Dedicated { physical: 64 },
            second_doorbell: false,
        }
    }

    /// Chooses among all doorbell models, including a shortage of doorbells.
    pub(crate) fn of(kind: u8) -> Setting {
        let physical = 1 + u32::from(kind >> 7) * 3;
        let doorbells = match kind & 0x20 {
            0 => DoorbellModel::Dedicated { physical },
            _ => DoorbellModel::Global,
        };
        Setting { doorbells, second_doorbell: kind & 0x10 != 0, ..Setting::roomy(kind) }
    }
}

/// Name of the hostile process's thread, the only agent that may hang.
const HOSTILE: &str = "hostile";
const ROUNDS: u64 = 2;
const BYTES: usize = 256;

/// All steps cost time, so that virtual time always advances.
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

/// A well-behaved process.
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

/// The outcome for the hostile process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Number of faults of queues and packets, all of which are its own.
    pub(crate) faults: u64,
    /// Number of lost devices.
    pub(crate) devices_lost: u64,
}

impl Outcome {
    /// Asserts that a fault has cost the process its device. For processes that destroy no objects.
    pub(crate) fn assert_faults_lose_a_device(self) {
        assert!(self.faults == 0 || self.devices_lost > 0, "{self:?}");
    }
}

/// Runs `act` as a process with a user-mode queue next to the neighbour. Asserts that `act` harms
/// only its own process.
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
        // The process's thread may still be blocked in a call. Its device is destroyed regardless.
        let _gone_already = ends_with.destroy_device(device);
        good.round(ROUNDS + 2);
    };
    let before = kernel.device_state(device);
    assert_eq!(before, Ok(DeviceState::Active));
    let (_, report) = machine.run_to_report(main);
    // 5.
    assert_eq!(report.panics, [""; 0], "no thread panics");
    let stuck: Vec<_> = report.blocked.iter().filter(|(name, _)| name != HOSTILE).collect();
    assert!(stuck.is_empty(), "no other thread hangs: {stuck:?}");
    drop(kernel);
    assert_eq!(neighbour.device.removed_reason(), None, "the neighbour's device survives");
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
        written.expect("writing to memory succeeds");
    }
    outcome
}
