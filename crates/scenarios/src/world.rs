//! The machine that a scenario races on: as few engines as it needs, one process, small rings.
//!
//! Invariants: the machine is built and taken down outside the run, so neither is explored. The
//! world keeps a handle of every queue, fence and list of a run: otherwise the last handle would be
//! dropped inside the run, where its teardown would be explored.
//!
//! Entry points: [`Run::world`] builds the machine, [`World::race`] makes the run.

use crate::left_out::LeftOut;
use crate::race::Run;
use crate::seam::{Seam, Seen};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use tidegate::calls::{Kernel, Priority};
use tidegate::d3d12::{
    ClosedList, CommandList, CommandListType, Device, DeviceOptions, Error, Fence, Queue, QueueDesc,
};
use tidegate::ddi::feature::NativeFenceOsCaps;
use tidegate::dxgkrnl::{InterruptDelivery, PowerManagement, TdrLevel};
use tidegate::explorer::{Prepared, Verdict};
use tidegate::kmd::IdlePolicy;
use tidegate::platform::QueueNumber;
use tidegate::softgpu::{EngineClass, NodeConfig};
use tidegate::trace::LaneKind;
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_testbed::Client;

/// Slots of a ring: few, so that it is made quickly; enough that three submissions need no
/// checkpoint among them.
const RING_SLOTS: u64 = 16;

/// A machine with one process. It derefs to what passed through its driver.
pub(crate) struct World {
    /// Dropped first, then the device: kernel objects end while the machine is there.
    kept: RefCell<Vec<Box<dyn std::any::Any>>>,
    pub(crate) device: Device,
    pub(crate) machine: Machine,
    seen: Seen,
    options: DeviceOptions,
}

impl Deref for World {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        &self.seen
    }
}

/// Interrupts run on an agent of their own, as on another processor.
pub(crate) fn worker_interrupts(config: &mut MachineConfig) {
    config.kernel.interrupts = InterruptDelivery::Worker;
}

/// Adapter and engines may lose power. The driver does not poll its queues.
pub(crate) fn managed_power(config: &mut MachineConfig) {
    config.kernel.power = PowerManagement::Managed;
}

/// One physical doorbell, which each connection takes from the last.
pub(crate) fn one_doorbell(config: &mut MachineConfig) {
    config.driver.doorbells = tidegate::kmd::DoorbellModel::Dedicated { physical: 1 };
}

/// So many copy engines.
pub(crate) fn engines(config: &mut MachineConfig, count: u32) {
    config.gpu.nodes = NodeConfig::of_classes(&vec![EngineClass::Copy; count as usize]);
}

impl Run<'_> {
    /// The adapter that scenarios race on, changed so.
    pub(crate) fn config(&self, change: impl FnOnce(&mut MachineConfig)) -> MachineConfig {
        let mut config = MachineConfig::standard(self.platform);
        config.kernel.interrupts = InterruptDelivery::Inline;
        // No queue of a scenario fills so many, and a small log is made quickly.
        config.kernel.log_entries = 8;
        config.kernel.native_fence_os_caps.remove(NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE);
        config.driver.kernel_ring_slots = 2;
        config.driver.idle = IdlePolicy { engine_after_ns: 0, looks_at_queues: false };
        // Few, since machines are made by the thousand.
        config.gpu.kept_translations = 32;
        engines(&mut config, 1);
        if self.left_out() == LeftOut::CpuBarrier || self.platform.fault("no shadow barrier") {
            // The driver's gate is a locked operation at the end of each call, which stands in for
            // either barrier. Without recovery there is no gate.
            config.kernel.tdr.level = TdrLevel::Off;
        }
        change(&mut config);
        config
    }

    /// Options of the devices that scenarios make.
    pub(crate) fn device_options(&self) -> DeviceOptions {
        DeviceOptions { fences: self.fences, ring_slots: RING_SLOTS, ..DeviceOptions::default() }
    }

    /// Builds the machine of the run.
    pub(crate) fn world(&self, change: impl FnOnce(&mut MachineConfig)) -> World {
        let (platform, seen) = (self.platform, Seen::new(self.left_out()));
        let machine = Machine::builder(platform)
            .reference_behind(self.config(change), |inner| Arc::new(Seam::new(self, inner, &seen)));
        let machine = machine.start().expect("the machine of a scenario starts");
        let options = self.device_options();
        let mut device = machine.device(options.clone()).expect("a device");
        if platform.tracing() {
            device = device.with_lane(platform.lane(LaneKind::CpuThread, "app", "main"));
        }
        World { kept: RefCell::default(), device, machine, seen, options }
    }
}

/// A queue of copies on engine 0.
pub(crate) fn queue_on(device: &Device, name: &str, submission: Submission) -> Queue {
    queue_of(device, name, Priority::Normal, submission, 0)
}

/// The same of any priority on engine `node`.
pub(crate) fn queue_of(
    device: &Device,
    name: &str,
    priority: Priority,
    submission: Submission,
    node: u32,
) -> Queue {
    let desc = QueueDesc {
        name: name.to_owned(),
        priority,
        node: Some(node),
        ..QueueDesc::new(CommandListType::Copy, submission)
    };
    device.create_queue(desc).expect("a queue")
}

/// A recorded list of copies.
pub(crate) fn list_of(
    device: &Device,
    record: impl FnOnce(&mut CommandList) -> Result<(), Error>,
) -> ClosedList {
    let mut list = device.create_command_list(CommandListType::Copy);
    record(&mut list).expect("a command");
    list.close().expect("a list")
}

impl World {
    /// Keeps a handle until the world ends.
    pub(crate) fn keep<T: Clone + 'static>(&self, made: T) -> T {
        self.kept.borrow_mut().push(Box::new(made.clone()));
        made
    }

    /// A queue of the world's device on engine 0.
    pub(crate) fn queue(&self, name: &str, submission: Submission) -> Queue {
        self.keep(queue_on(&self.device, name, submission))
    }

    /// A user-mode queue on engine `node`.
    pub(crate) fn queue_at(&self, node: u32, name: &str) -> Queue {
        self.keep(queue_of(&self.device, name, Priority::Normal, Submission::User, node))
    }

    /// A queue for packets of high priority.
    pub(crate) fn urgent_queue(&self, name: &str) -> Queue {
        self.keep(queue_of(&self.device, name, Priority::High, Submission::Packet, 0))
    }

    /// A device in another process.
    pub(crate) fn another_device(&self) -> Device {
        self.keep(self.machine.device(self.options.clone()).expect("another process"))
    }

    /// A process at the call surface.
    pub(crate) fn client(&self, name: &str) -> Client {
        self.client_of(self.machine.open(name).expect("a process"))
    }

    /// The same with the privilege to raise priorities.
    pub(crate) fn privileged_client(&self, name: &str) -> Client {
        self.client_of(self.machine.privileged_process(name).expect("a process"))
    }

    fn client_of(&self, kernel: Arc<dyn Kernel>) -> Client {
        let device = kernel.create_device().expect("a device");
        self.keep(Client::of(self.machine.platform(), kernel, device))
    }

    /// Packets of `queues` that engines have completed. The kernel's own are not among them.
    pub(crate) fn packets_of(&self, queues: &[&Queue]) -> u64 {
        let numbers: Vec<_> = queues.iter().flat_map(|queue| queue.numbers()).collect();
        self.packets_of_numbers(&numbers)
    }

    /// The same of the queues that the kernel's numbers name.
    pub(crate) fn packets_of_numbers(&self, numbers: &[QueueNumber]) -> u64 {
        self.machine.gpu().stats().of(numbers).packets
    }

    /// A fence at 0.
    pub(crate) fn fence(&self, name: &str) -> Fence {
        self.keep(self.device.create_fence(name, 0).expect("a fence"))
    }

    /// A list that does nothing, for its completion.
    pub(crate) fn empty_list(&self) -> ClosedList {
        self.keep(list_of(&self.device, |list| list.label("nothing")))
    }

    /// A run of `main` until no agent can move, judged by `check` and by what every run must keep.
    pub(crate) fn race(
        self,
        main: impl FnOnce(&Platform) + Send + 'static,
        check: impl FnOnce(&World, &mut Verdict<'_>) + 'static,
    ) -> Prepared {
        let quiet = |platform: &Platform| {
            main(platform);
            until_quiet(platform);
        };
        self.race_to_the_end(quiet, check)
    }

    /// The same without a pause behind `main`.
    pub(crate) fn race_to_the_end(
        self,
        main: impl FnOnce(&Platform) + Send + 'static,
        check: impl FnOnce(&World, &mut Verdict<'_>) + 'static,
    ) -> Prepared {
        let platform = self.machine.platform().clone();
        let main = move || main(&platform);
        Prepared::new(main, move |end: &mut Verdict<'_>| {
            check(&self, end);
            sound(&self.machine, end);
            end.always("no destroy call is refused", self.machine.refused_destroys().is_empty());
        })
    }
}

/// What every run of every scenario must keep on each adapter. The timer's agent releases a waiter
/// that was missed and reports the driver for it, which is a fault too.
pub(crate) fn sound(machine: &Machine, end: &mut Verdict<'_>) {
    for index in 0..machine.adapter_count() {
        let (driver, kernel) = (machine.driver_at(index), machine.adapter_at(index));
        end.always("the driver keeps its contract", driver.violations().is_empty());
        end.always("the kernel sees no broken contract", kernel.bug_checks().is_empty());
        let faults = kernel.driver_faults();
        end.always("the kernel reports no fault of the driver", faults.is_empty());
    }
}

/// Sleeps until no other agent can move: under exploration time passes only then.
pub(crate) fn until_quiet(platform: &Platform) {
    platform.sleep_until(platform.now().after(1));
}

/// For calls of the run. A call that ends because the machine stopped is not judged: the agent that
/// was blocked is the failure.
pub(crate) fn ends_well(call: Result<(), Error>) {
    match call {
        Ok(()) | Err(Error::Stopped) => {}
        Err(error) => panic!("{error}"),
    }
}
