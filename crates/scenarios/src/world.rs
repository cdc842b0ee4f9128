//! The machine of a scenario: the one that ships, with the settings of its race and one process.
//!
//! Invariants: the machine is built and dropped outside of the run, so neither is explored. The
//! world keeps a handle of every queue, fence and list. Otherwise the last handle would be dropped
//! inside the run and its teardown explored.
//!
//! Entry points: [`Run::world`] builds the machine, [`World::race`] creates the run.

use crate::left_out::LeftOut;
use crate::race::Run;
use crate::seam::{Seam, Seen};
use crate::setting::{SCHEDULER_FENCES, SMALL_RING, Setting};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use tidegate::calls::{Kernel, Priority};
use tidegate::d3d12::{
    ClosedList, CommandList, CommandListType, Device, DeviceOptions, Error, Fence, HardwareFences,
    Queue, QueueDesc,
};
use tidegate::dxgkrnl::{ProcessKind, TdrLevel};
use tidegate::explorer::{Prepared, Verdict};
use tidegate::platform::planted;
use tidegate::platform::{CpuTime, Event, QueueNumber};
use tidegate::trace::LaneKind;
use tidegate::{Machine, MachineConfig, Platform, Submission};
use tidegate_testbed::Client;

/// A machine with one process. Dereferences to the records of its driver layer.
pub(crate) struct World {
    /// Dropped first, then the device, because kernel objects must be dropped before the machine.
    kept: RefCell<Vec<Box<dyn std::any::Any>>>,
    pub(crate) device: Device,
    pub(crate) machine: Arc<Machine>,
    seen: Seen,
    options: DeviceOptions,
}

impl Deref for World {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        &self.seen
    }
}

impl Run<'_> {
    /// Returns the configuration of the scenario's adapter: as shipped but for its settings.
    /// `change` is made for a planted bug only.
    pub(crate) fn config(&self, change: impl FnOnce(&mut MachineConfig)) -> MachineConfig {
        let mut config = MachineConfig::standard(self.platform);
        self.settings.iter().for_each(|setting| (setting.apply)(&mut config));
        if self.left_out() == LeftOut::CpuBarrier || planted!(self.platform, NoShadowBarrier) {
            // At the end of each call, the driver's gate executes a locked operation that would
            // replace the barrier. Without recovery there is no gate.
            config.kernel.tdr.level = TdrLevel::Off;
        }
        if self.bug.is_some() {
            change(&mut config);
        }
        config
    }

    /// Returns the options of the devices that scenarios create.
    pub(crate) fn device_options(&self) -> DeviceOptions {
        let mut options = DeviceOptions { fences: self.fences, ..DeviceOptions::default() };
        let has = |setting: &Setting| self.settings.iter().any(|own| own.what == setting.what);
        if has(&SMALL_RING) {
            options.ring_slots = 16;
        }
        if has(&SCHEDULER_FENCES) {
            options.hardware_fences = HardwareFences::Scheduler;
        }
        options
    }

    /// Builds the machine of the run.
    pub(crate) fn world(&self) -> World {
        self.world_with_bug(|_| ())
    }

    /// Builds the machine of the run. A planted bug changes its configuration.
    pub(crate) fn world_with_bug(&self, change: impl FnOnce(&mut MachineConfig)) -> World {
        let (platform, seen) = (self.platform, Seen::new(self.left_out()));
        let machine = Machine::builder(platform)
            .reference_behind(self.config(change), |inner| Arc::new(Seam::new(self, inner, &seen)));
        let machine = Arc::new(machine.start().expect("the machine of a scenario starts"));
        let options = self.device_options();
        let mut device = machine.device(options.clone()).expect("a device");
        if platform.tracing() {
            device = device.with_lane(platform.lane(LaneKind::CpuThread, "app", "main"));
        }
        World { kept: RefCell::default(), device, machine, seen, options }
    }
}

/// Creates a copy queue on engine 0.
pub(crate) fn queue_on(device: &Device, name: &str, submission: Submission) -> Queue {
    queue_of(device, name, Priority::Normal, submission, 0)
}

/// Creates a copy queue of any priority on engine `node`.
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
        ..QueueDesc::new(CommandListType::Copy).submission(submission)
    };
    device.create_queue(desc).expect("a queue")
}

/// Returns a recorded list of copies.
pub(crate) fn list_of(
    device: &Device,
    record: impl FnOnce(&mut CommandList) -> Result<(), Error>,
) -> ClosedList {
    let mut list = device.create_command_list(CommandListType::Copy);
    record(&mut list).expect("a command");
    list.close().expect("a list")
}

impl World {
    /// Keeps a handle until the world is dropped.
    pub(crate) fn keep<T: Clone + 'static>(&self, made: T) -> T {
        self.kept.borrow_mut().push(Box::new(made.clone()));
        made
    }

    /// Creates a queue of the world's device on engine 0.
    pub(crate) fn queue(&self, name: &str, submission: Submission) -> Queue {
        self.keep(queue_on(&self.device, name, submission))
    }

    /// Creates a user-mode queue on engine `node`.
    pub(crate) fn queue_at(&self, node: u32, name: &str) -> Queue {
        self.keep(queue_of(&self.device, name, Priority::Normal, Submission::User, node))
    }

    /// Creates a hardware queue on engine `node`.
    pub(crate) fn hw_queue_at(&self, node: u32, name: &str) -> Queue {
        self.keep(queue_of(&self.device, name, Priority::Normal, Submission::Hardware, node))
    }

    /// Creates a queue for high-priority packets.
    pub(crate) fn urgent_queue(&self, name: &str) -> Queue {
        self.keep(queue_of(&self.device, name, Priority::High, Submission::Packet, 0))
    }

    /// Creates a device in another process.
    pub(crate) fn another_device(&self) -> Device {
        self.keep(self.machine.device(self.options.clone()).expect("another process"))
    }

    /// Creates a process at the kernel's call surface.
    pub(crate) fn client(&self, name: &str) -> Client {
        self.client_of(self.machine.open(name).expect("a process"))
    }

    /// Creates a process of a kind.
    pub(crate) fn client_of_kind(&self, name: &str, kind: ProcessKind) -> Client {
        self.client_of(self.machine.process_of_kind(0, name, kind).expect("a process"))
    }

    /// Creates a process that may raise priorities.
    pub(crate) fn privileged_client(&self, name: &str) -> Client {
        self.client_of(self.machine.privileged_process(name).expect("a process"))
    }

    fn client_of(&self, kernel: Arc<dyn Kernel>) -> Client {
        let device = kernel.create_device().expect("a device");
        self.keep(Client::of(self.machine.platform(), kernel, device))
    }

    /// Returns the number of completed packets of `queues`, without the kernel's own packets.
    pub(crate) fn packets_of(&self, queues: &[&Queue]) -> u64 {
        let numbers: Vec<_> = queues.iter().flat_map(|queue| queue.numbers()).collect();
        self.packets_of_numbers(&numbers)
    }

    /// Returns the number of completed packets of the queues with these numbers.
    pub(crate) fn packets_of_numbers(&self, numbers: &[QueueNumber]) -> u64 {
        self.machine.gpu().stats().of(numbers).packets
    }

    /// Returns an event that is set when the kernel samples an engine after this time.
    pub(crate) fn sampled_after(&self, after: CpuTime) -> Event {
        let event = self.keep(self.machine.platform().event(true));
        self.note_samples(event.clone(), after);
        event
    }

    /// Creates a fence with value 0.
    pub(crate) fn fence(&self, name: &str) -> Fence {
        self.keep(self.device.create_fence(name, 0).expect("a fence"))
    }

    /// Returns an empty list, which is submitted for its completion.
    pub(crate) fn empty_list(&self) -> ClosedList {
        self.keep(list_of(&self.device, |list| list.label("nothing")))
    }

    /// Runs `main` until no agent is runnable, then checks with `check` and with [`sound`].
    pub(crate) fn race(
        self,
        main: impl FnOnce(&Platform) + Send + 'static,
        check: impl FnOnce(&World, &mut Verdict<'_>) + 'static,
    ) -> Prepared {
        let quiet = |platform: &Platform| {
            main(platform);
            sleep_until_idle(platform);
        };
        self.race_without_pause(quiet, check)
    }

    /// Same as [`World::race`], without a pause after `main`.
    pub(crate) fn race_without_pause(
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

/// Checks every adapter for broken contracts. The timer agent releases a missed waiter and reports
/// the driver for it, which is also a failure.
pub(crate) fn sound(machine: &Machine, end: &mut Verdict<'_>) {
    for index in 0..machine.adapter_count() {
        let (driver, kernel) = (machine.driver_at(index), machine.adapter_at(index));
        end.always("the driver keeps its contract", driver.violations().is_empty());
        end.always("the kernel sees no broken contract", kernel.bug_checks().is_empty());
        let faults = kernel.driver_faults();
        end.always("the kernel reports no fault of the driver", faults.is_empty());
    }
}

/// Sleeps until no other agent is runnable, which is when virtual time advances under exploration.
pub(crate) fn sleep_until_idle(platform: &Platform) {
    platform.sleep_until(platform.now().after(1));
}

/// Asserts the success of a call in the run. A call cancelled by a stopped machine is ignored,
/// because the blocked agent is reported as the failure.
pub(crate) fn assert_ok(call: Result<(), Error>) {
    match call {
        Ok(()) | Err(Error::Stopped) => {}
        Err(error) => panic!("{error}"),
    }
}
