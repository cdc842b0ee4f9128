//! Programs at the queue API: a machine of one adapter with a device, and the calls that programs
//! of tests make by a device.

use std::ops::Deref;
use std::sync::Arc;
use tidegate::d3d12::{
    Buffer, BufferDesc, ClosedList, CommandList, CommandListType, Device, DeviceOptions, Fence,
    Heap, Queue, QueueDesc, Result,
};
use tidegate::platform::{RunReport, StepCosts};
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// A machine of one adapter, and a device of one process. It derefs to the device.
pub struct App {
    /// The device.
    pub device: Device,
    /// The machine. It is dropped after the device, because it stops when its last process ends.
    pub machine: Machine,
    case: String,
}

impl Deref for App {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl App {
    /// The standard machine with changes, on virtual time where steps are free.
    pub fn new(options: DeviceOptions, change: impl FnOnce(&mut MachineConfig)) -> App {
        App::on(&Platform::virtual_time(StepCosts::free()), options, change)
    }

    /// The same on any platform.
    pub fn on(
        platform: &Platform,
        options: DeviceOptions,
        change: impl FnOnce(&mut MachineConfig),
    ) -> App {
        let mut config = MachineConfig::standard(platform);
        change(&mut config);
        let machine = Machine::new(platform, config).unwrap();
        App { device: machine.device(options).unwrap(), machine, case: String::new() }
    }

    /// Names the case that the application is, for failures of [`App::run`].
    pub fn case(self, case: impl ToString) -> App {
        App { case: case.to_string(), ..self }
    }

    /// The platform.
    pub fn platform(&self) -> &Platform {
        self.machine.platform()
    }

    /// Modelled time.
    pub fn now(&self) -> u64 {
        self.platform().now().0
    }

    /// Sleeps for `ns` of modelled time.
    pub fn pass(&self, ns: u64) {
        self.platform().sleep_until(self.platform().now().after(ns));
    }

    /// Runs `main` as the application to its end. Asserts that no agent panicked or stayed blocked,
    /// and that no contract was broken.
    pub fn run(self, main: impl FnOnce(&App) + Send + 'static) -> Arc<App> {
        let (app, report) = self.run_to_report(main);
        assert!(report.completed(), "{}: {report:?}", app.case);
        assert_eq!(app.machine.adapter().bug_checks(), [], "{}", app.case);
        assert_eq!(app.machine.driver().violations(), [], "{}", app.case);
        app
    }

    /// Runs `main` as the application.
    pub fn run_to_report(self, main: impl FnOnce(&App) + Send + 'static) -> (Arc<App>, RunReport) {
        let app = Arc::new(self);
        let own = app.clone();
        let report = app.machine.run(move || main(&own));
        (app, report)
    }
}

/// Calls of a device that must succeed.
pub trait QueueApi {
    /// A queue that is named for its type.
    fn queue(&self, list_type: CommandListType, submission: Submission) -> Queue;

    /// A fence named "fence".
    fn fence(&self, initial: u64) -> Fence;

    /// A buffer that the CPU reads.
    fn readback(&self, bytes: u64) -> Buffer;

    /// A closed list of what `record` records.
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
        self.create_queue(QueueDesc::new(list_type, submission)).unwrap()
    }

    fn fence(&self, initial: u64) -> Fence {
        self.create_fence("fence", initial).unwrap()
    }

    fn readback(&self, bytes: u64) -> Buffer {
        let desc = BufferDesc { name: "buffer".to_owned(), bytes, heap: Heap::Readback };
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

/// The first four bytes of a buffer, as a number.
pub fn first_word(buffer: &Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}
