//! Applications at the queue API: a machine with one adapter and one device, and checked calls.

use std::ops::Deref;
use std::sync::Arc;
use tidegate::d3d12::error::Result;
use tidegate::d3d12::{
    Buffer, BufferDesc, ClosedList, CommandList, CommandListType, Device, DeviceOptions, Fence,
    Queue, QueueDesc, Validation,
};
use tidegate::platform::{RunReport, StepCosts};
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// A machine with one adapter, and a device of one process. Dereferences to the device. The hazard
/// check is on: [`App::run`] asserts that it finds nothing.
pub struct App {
    /// The device.
    pub device: Device,
    /// The machine. Dropped after the device, because it stops when its last process ends.
    pub machine: Machine,
    case: String,
    races: bool,
}

impl Deref for App {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl App {
    /// Creates the standard machine with changes, on virtual time with free steps.
    pub fn new(options: DeviceOptions, change: impl FnOnce(&mut MachineConfig)) -> App {
        App::on(&Platform::virtual_time(StepCosts::free()), options, change)
    }

    /// Creates the standard machine with changes on any platform.
    pub fn on(
        platform: &Platform,
        options: DeviceOptions,
        change: impl FnOnce(&mut MachineConfig),
    ) -> App {
        let mut config = MachineConfig::standard(platform);
        change(&mut config);
        App::of(platform, options, config)
    }

    fn of(platform: &Platform, options: DeviceOptions, config: MachineConfig) -> App {
        let machine = Machine::new(platform, config).unwrap();
        let validation = options.validation | Validation::HAZARDS;
        let device = machine.device(options.validation(validation)).unwrap();
        App { device, machine, case: String::new(), races: false }
    }

    /// Accepts what the hazard check finds: the program leaves accesses without an order.
    pub fn racing(self) -> App {
        App { races: true, ..self }
    }

    /// Names the test case, for failures of [`App::run`].
    pub fn case(self, case: impl ToString) -> App {
        App { case: case.to_string(), ..self }
    }

    /// Returns the platform.
    pub fn platform(&self) -> &Platform {
        self.machine.platform()
    }

    /// Returns the virtual time.
    pub fn now(&self) -> u64 {
        self.platform().now().0
    }

    /// Sleeps for `ns` nanoseconds of virtual time.
    pub fn pass(&self, ns: u64) {
        self.platform().sleep_until(self.platform().now().after(ns));
    }

    /// Runs `main` as the application. Asserts that no agent panicked or stayed blocked, that no
    /// contract was broken, and that all conflicting accesses have an order.
    pub fn run(self, main: impl FnOnce(&App) + Send + 'static) -> Arc<App> {
        self.run_whole(Box::new(main))
    }

    fn run_whole(self, main: Application) -> Arc<App> {
        let (app, report) = self.run_boxed(main);
        assert!(report.completed(), "{}: {report:?}", app.case);
        assert_eq!(app.machine.adapter().bug_checks(), [], "{}", app.case);
        assert_eq!(app.machine.driver().violations(), [], "{}", app.case);
        if !app.races {
            let hazards = app.device.hazards().expect("the check is on");
            assert!(hazards.hazards.is_empty(), "{}:\n{hazards}", app.case);
        }
        app
    }

    /// Runs `main` as the application.
    pub fn run_to_report(self, main: impl FnOnce(&App) + Send + 'static) -> (Arc<App>, RunReport) {
        self.run_boxed(Box::new(main))
    }

    fn run_boxed(self, main: Application) -> (Arc<App>, RunReport) {
        let app = Arc::new(self);
        let own = app.clone();
        let (_, report) = app.machine.run_to_report(move || main(&own));
        (app, report)
    }
}

/// The application of a run. Boxed, so that a run is compiled once and not for each test.
type Application = Box<dyn FnOnce(&App) + Send>;

/// Device calls that must succeed.
pub trait QueueApi {
    /// Creates a queue named after its type.
    fn queue(&self, list_type: CommandListType, submission: Submission) -> Queue;

    /// Creates a fence named "fence".
    fn fence(&self, initial: u64) -> Fence;

    /// Creates a buffer that the CPU can read.
    fn readback(&self, bytes: u64) -> Buffer;

    /// Returns a closed list with the commands that `record` records.
    fn list(
        &self,
        list_type: CommandListType,
        record: impl FnOnce(&mut CommandList) -> Result<()>,
    ) -> ClosedList;

    /// Executes a list on a queue.
    fn execute(&self, queue: &Queue, record: impl FnOnce(&mut CommandList) -> Result<()>) {
        queue.execute(&[&self.list(queue.list_type(), record)]).unwrap();
    }
}

impl QueueApi for Device {
    fn queue(&self, list_type: CommandListType, submission: Submission) -> Queue {
        self.create_queue(QueueDesc::new(list_type).submission(submission)).unwrap()
    }

    fn fence(&self, initial: u64) -> Fence {
        self.create_fence("fence", initial).unwrap()
    }

    fn readback(&self, bytes: u64) -> Buffer {
        let desc = BufferDesc::readback("buffer", bytes);
        self.create_buffer(desc).unwrap()
    }

    fn list(
        &self,
        list_type: CommandListType,
        record: impl FnOnce(&mut CommandList) -> Result<()>,
    ) -> ClosedList {
        let mut list = self.create_command_list(list_type);
        record(&mut list).unwrap();
        list.close().unwrap()
    }
}

/// A queue's signal at the end of its work.
pub trait SignalAndWait {
    /// Signals a fence from the queue, and blocks until it has reached `value`.
    fn signal_and_wait(&self, fence: &Fence, value: u64);
}

impl SignalAndWait for Queue {
    fn signal_and_wait(&self, fence: &Fence, value: u64) {
        self.signal(fence, value).unwrap();
        fence.wait(value).unwrap();
    }
}

/// Returns the first four bytes of a buffer as a number.
pub fn first_word(buffer: &Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}
