//! A program on a machine in virtual time. The calls of its device to the kernel are recorded.

use std::ops::Deref;
use tidegate_d3d12::*;
use tidegate_testbed::prelude::*;
use tidegate_trace::{Kind, Trace};

/// A device and its recorded calls. It derefs to the machine.
pub struct Bench<'a> {
    pub device: Device,
    pub kernel: Arc<RecordedKernel>,
    world: &'a World,
}

impl Deref for Bench<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world
    }
}

/// Runs `body` as the application of a standard machine, and returns the timeline. The device
/// checks resource states, and lives until the end.
pub fn bench(body: impl FnOnce(Bench<'_>) + Send + 'static) -> Trace {
    let options = DeviceOptions { validation: Validation::STATES, ..DeviceOptions::default() };
    bench_with(options, body)
}

/// The same with a device of any options.
pub fn bench_with(options: DeviceOptions, body: impl FnOnce(Bench<'_>) + Send + 'static) -> Trace {
    bench_on(&Platform::virtual_time(StepCosts::free()), setup(|_| ()), options, body)
}

/// The same on any platform and machine.
pub fn bench_on(
    platform: &Platform,
    setup: Setup<'_>,
    options: DeviceOptions,
    body: impl FnOnce(Bench<'_>) + Send + 'static,
) -> Trace {
    platform.enable_tracing();
    bench_untraced_on(platform, setup, options, body);
    platform.take_trace("a test")
}

/// The same without a timeline, as most programs run.
pub fn bench_untraced(body: impl FnOnce(Bench<'_>) + Send + 'static) {
    let platform = Platform::virtual_time(StepCosts::free());
    bench_untraced_on(&platform, setup(|_| ()), DeviceOptions::default(), body);
}

fn bench_untraced_on(
    platform: &Platform,
    setup: Setup<'_>,
    options: DeviceOptions,
    body: impl FnOnce(Bench<'_>) + Send + 'static,
) {
    setup.on(platform.clone()).start().run(move |world| {
        // A record's time of 0 says that nothing was queued.
        world.pass(1);
        let validation = options.validation;
        let bench = Bench::of(world, options);
        let checked = validation.contains(Validation::STATES).then(|| bench.device.clone());
        body(bench);
        // A test that breaks the rules of states takes what was found.
        assert_eq!(checked.map_or_else(Vec::new, |device| device.state_violations()), []);
    });
}

/// Name and duration of each command buffer that ran.
pub fn executed(trace: &Trace) -> impl Iterator<Item = (&str, u64)> {
    let executed = trace.records.iter().filter(|record| record.kind == Kind::Execute);
    executed.map(|record| (trace.name_of(record), record.end_ns - record.start_ns))
}

/// The durations of those that took any time.
pub fn ran(trace: &Trace) -> Vec<u64> {
    executed(trace).map(|(_, ns)| ns).filter(|ns| *ns > 0).collect()
}

pub fn desc(list_type: CommandListType, submission: Submission) -> QueueDesc {
    QueueDesc { name: "upload".to_owned(), ..QueueDesc::new(list_type).submission(submission) }
}

impl<'a> Bench<'a> {
    fn of(world: &'a World, options: DeviceOptions) -> Bench<'a> {
        let process = world.machine.open("program").unwrap();
        let kernel = RecordedKernel::new(&world.platform, process);
        let device = Device::new(&world.platform, kernel.clone(), options).unwrap();
        Bench { device, kernel, world }
    }

    /// Another process on the same machine.
    pub fn another(&self) -> Bench<'a> {
        Bench::of(self.world, DeviceOptions::default())
    }

    pub fn queue(&self, submission: Submission) -> Queue {
        self.device.create_queue(desc(CommandListType::Copy, submission)).unwrap()
    }

    pub fn buffer(&self, bytes: u64) -> Buffer {
        self.device.create_buffer(BufferDesc::gpu_upload("b", bytes)).unwrap()
    }

    /// A closed copy list that takes `ns`.
    pub fn list(&self, ns: u64) -> ClosedList {
        self.device.list(CommandListType::Copy, |list| list.timed(ns))
    }

    /// A queue whose work waits for `gate` to reach 1.
    pub fn gated(&self, submission: Submission) -> (Queue, Fence) {
        let (queue, gate) = (self.queue(submission), self.device.create_fence("gate", 0).unwrap());
        queue.wait(&gate, 1).unwrap();
        (queue, gate)
    }

    /// Lets the engines work until nothing can run.
    pub fn work(&self) {
        self.pass(10_000_000);
    }

    /// The write pointer of the user-mode queue made last.
    pub fn written(&self) -> u64 {
        self.kernel.ring().1.word(CONTROL_WRITE_WORD).load()
    }

    /// The packets of that queue. Its ring has not wrapped.
    pub fn packets(&self) -> Vec<RingPacket> {
        let packet = |slot| {
            let mut bytes = [0; SLOT_BYTES as usize];
            self.kernel.ring().0.read(slot * SLOT_BYTES, &mut bytes).unwrap();
            RingPacket::decode(&bytes).expect("a packet in every published slot")
        };
        (0..self.written()).map(packet).collect()
    }
}
