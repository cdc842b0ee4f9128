//! A series of inputs, which share machines: to build one takes longer than most inputs.
//!
//! Invariants
//! - The number of a machine in its series determines the machine's configuration.
//! - A machine runs [`INPUTS`] inputs, each by a hostile process of its own. A traced machine runs
//!   one, because its timeline is taken at the end.
//! - After an input, the process is terminated, and every table of kernel, driver and hardware is
//!   as
//!   long as before. So an input finds the machine as the one before found it, but for numbers.
//!
//! Entry points: [`Series::unharmed_by`], [`Series::served`] and [`Series::in_process`], for the
//! targets; [`inputs_of_machine`], which a harmful input may need before it.

use crate::c_library::InProcess;
use crate::c_library::memory::Memory;
use crate::census::Census;
use crate::client::Client;
use crate::neighbour::Neighbour;
use crate::served::{self, Served};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use tidegate::calls::{DeviceState, Kernel};
use tidegate::kmd::DoorbellModel;
use tidegate::platform::{Step, StepCosts};
use tidegate::trace::LaneKind;
use tidegate::{Machine, MachineConfig, Platform};
use tidegate_testbed::setup;

/// Number of inputs of a machine.
const INPUTS: usize = 64;

/// Name of the hostile process's thread.
const HOSTILE: &str = "hostile";

thread_local! {
    /// The inputs of the present machine, and its number. A hook of panics reads it while an input
    /// runs.
    static RUN: RefCell<(usize, Vec<Vec<u8>>)> = const { RefCell::new((0, Vec::new())) };
}

/// The machines of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doorbells {
    /// Each queue has a physical doorbell.
    Enough,
    /// All doorbell models in turn, with shortages.
    Any,
}

impl Doorbells {
    const fn models(self) -> &'static [DoorbellModel] {
        match self {
            Doorbells::Enough => &[DoorbellModel::Dedicated { physical: 64 }],
            Doorbells::Any => &[
                DoorbellModel::Dedicated { physical: 1 },
                DoorbellModel::Dedicated { physical: 4 },
                DoorbellModel::Global,
            ],
        }
    }

    /// Returns the number of different machines.
    pub(crate) const fn machines(self) -> usize {
        2 * self.models().len()
    }
}

/// How a hostile process differs between inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hostile {
    /// The machines that it runs on.
    pub(crate) doorbells: Doorbells,
    /// The engine that it and the neighbour use: 3D, compute or copy.
    pub(crate) node: u32,
    /// Whether it has a secondary doorbell.
    pub(crate) second_doorbell: bool,
}

impl Hostile {
    /// Reads the engine from the first byte of an input.
    pub(crate) fn roomy(kind: u8) -> Hostile {
        Hostile { doorbells: Doorbells::Enough, node: u32::from(kind) % 3, second_doorbell: false }
    }

    /// Reads the engine and the doorbells from the first byte of an input.
    pub(crate) fn of(kind: u8) -> Hostile {
        Hostile {
            doorbells: Doorbells::Any,
            second_doorbell: kind & 0x10 != 0,
            ..Hostile::roomy(kind)
        }
    }
}

/// The outcome for the hostile process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Number of faults of queues and packets until its device was destroyed. All are its own.
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

/// Inputs of one target that run one after another.
#[derive(Default)]
pub struct Series {
    machine: Option<Kept>,
    /// The machine behind a service, for the target that has one.
    served: Option<Served>,
    /// The machine of the C library, for the target that has one.
    in_process: Option<InProcess>,
    /// Number of the present machine, or of the next one.
    number: usize,
}

impl Series {
    /// Begins a series with machine `number`.
    pub fn new(number: usize) -> Series {
        Series { number, ..Series::default() }
    }

    /// Notes an input that is about to run.
    pub(crate) fn begin_input(&self, data: &[u8]) {
        RUN.with_borrow_mut(|(number, inputs)| {
            if self.machine.is_none() && self.served.is_none() {
                *number = self.number;
                inputs.clear();
            }
            inputs.push(data.to_vec());
        });
    }

    /// Runs `act` with the socket of a service. Asserts that nothing is left of its connections,
    /// and that another client is not affected.
    pub(crate) fn served(&mut self, act: impl FnOnce(&Path)) {
        let mut served = self.served.take().unwrap_or_else(|| Served::new(served::INPUTS));
        served.run(act);
        if served.inputs_left > 0 {
            self.served = Some(served);
        } else {
            self.number += 1;
        }
    }

    /// Runs `act` as a program that has the C library, with memory for its arguments; before the
    /// first one
    /// `warm_up`. It returns how many fences it has made. Asserts that nothing is left of it, and
    /// that another process is not affected.
    pub(crate) fn in_process(
        &mut self,
        warm_up: impl FnOnce(&mut Memory),
        act: impl FnOnce(&mut Memory) -> usize,
    ) {
        // Taken, as below.
        let mut library = self.in_process.take().unwrap_or_else(|| InProcess::new(warm_up));
        library.run(act);
        self.in_process = Some(library);
    }

    /// Runs `act` as a process with a user-mode queue next to the neighbour. Asserts that `act`
    /// harms only its own process.
    pub(crate) fn unharmed_by(
        &mut self,
        hostile: Hostile,
        act: impl FnOnce(&mut Client) + Send + 'static,
    ) -> Outcome {
        // Taken: a machine on which an input did harm is not used again.
        let mut machine =
            self.machine.take().unwrap_or_else(|| Kept::new(hostile.doorbells, self.number));
        let outcome = machine.run(hostile, act);
        if machine.inputs_left > 0 {
            self.machine = Some(machine);
        } else {
            self.number += 1;
        }
        outcome
    }
}

/// Returns the number of the thread's present machine, and all inputs since it was built.
pub(crate) fn inputs_of_machine() -> (usize, Vec<Vec<u8>>) {
    RUN.with_borrow(Clone::clone)
}

/// A machine and the neighbours on it.
struct Kept {
    /// By engine. Created when an input uses the engine. Dropped before the machine.
    neighbours: [Option<Neighbour>; 3],
    machine: Machine,
    traced: bool,
    inputs_left: usize,
    /// Number of regions of memory that inputs have left.
    kept_regions: usize,
}

/// All steps cost time, so that virtual time always advances.
fn costs() -> StepCosts {
    Step::ALL.iter().fold(StepCosts::free(), |costs, step| costs.with(*step, 100))
}

impl Kept {
    fn new(doorbells: Doorbells, number: usize) -> Kept {
        let models = doorbells.models();
        let (model, traced) = (models[number / 2 % models.len()], number % 2 == 1);
        let platform = Platform::virtual_time(costs());
        if traced {
            platform.enable_tracing();
        }
        let configure = |config: &mut MachineConfig| {
            config.driver.doorbells = model;
            // A process touches a few pages.
            config.gpu.kept_translations = 32;
        };
        let machine = setup(configure).on(platform).machine();
        let inputs_left = if traced { 1 } else { INPUTS };
        Kept { neighbours: [None, None, None], machine, traced, inputs_left, kept_regions: 0 }
    }

    /// Order: 1. the hostile process follows the input while the neighbour does a round; 2. when
    /// the hostile process is done or blocked, its device is destroyed with everything that is
    /// left. Faults are counted before: a fault of a queue that is being destroyed costs nothing
    /// any more; 3. the neighbour does another round; 4. the hostile process is terminated;
    /// 5. results, contracts, devices and numbers of objects are checked.
    fn run(&mut self, hostile: Hostile, act: impl FnOnce(&mut Client) + Send + 'static) -> Outcome {
        let Kept { neighbours, machine, traced, inputs_left, kept_regions } = self;
        let (machine, traced, node) = (&*machine, *traced, hostile.node);
        let platform = machine.platform();
        *inputs_left -= 1;
        let neighbour = &mut neighbours[node as usize];
        if neighbour.is_none() {
            // Its first round connects its doorbell.
            let made = machine.run(|| {
                let mut made = Neighbour::new(machine, node);
                made.round();
                made
            });
            *neighbour = Some(made.expect("the neighbour is created"));
        }
        let neighbour = neighbour.as_mut().expect("the engine has a neighbour");
        let (census, before) = (Census::of(machine), Outcome::so_far(machine));
        let main = || {
            let process = machine.process("hostile").expect("a process");
            let lane = traced.then(|| platform.lane(LaneKind::Queue, "hostile", "queue"));
            let kernel: Arc<dyn Kernel> = process.clone();
            let mut client =
                Client::new(platform, kernel, hostile.node, lane, hostile.second_doorbell);
            let device = client.device;
            assert_eq!(process.device_state(device), Ok(DeviceState::Active));
            // 1.
            let hostile = platform.spawn(HOSTILE, move || act(&mut client));
            neighbour.round();
            platform.sleep_until(platform.now().after(1_000_000_000));
            // 2. The process's thread may still be blocked in a call.
            let at_end = Outcome::so_far(machine);
            let _gone_already = process.destroy_device(device);
            // 3.
            neighbour.round();
            // 4.
            process.terminate();
            hostile.join();
            neighbour.assert_active();
            at_end.faults
        };
        let (faults, report) = machine.run_to_report(main);
        // 5.
        assert_eq!(report.panics, [""; 0], "no thread panics");
        assert_eq!(report.blocked, [], "no thread hangs");
        assert_eq!(machine.adapter().bug_checks(), [], "no contract was broken");
        assert_eq!(machine.driver().violations(), []);
        census.assert_left(Census::of(machine), kept_regions);
        if traced {
            let trace = platform.take_trace("a hostile client");
            let mut page = Vec::new();
            let written = tidegate::trace::chrome::write(&trace, &mut page)
                .and_then(|()| tidegate::trace::perfetto::write(&trace, &mut page))
                .and_then(|()| tidegate::trace::html::write(&trace, &mut page));
            written.expect("writing to memory succeeds");
        }
        let faults = faults.expect("the run has ended");
        Outcome { faults, ..Outcome::so_far(machine) }.since(before)
    }
}

impl Outcome {
    fn so_far(machine: &Machine) -> Outcome {
        Outcome {
            faults: machine.gpu().stats().faults,
            devices_lost: machine.adapter().stats().devices_lost,
        }
    }

    fn since(self, before: Outcome) -> Outcome {
        Outcome {
            faults: self.faults - before.faults,
            devices_lost: self.devices_lost - before.devices_lost,
        }
    }
}
