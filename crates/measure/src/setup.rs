//! The machine under measurement: built anew for each measurement, its service threads on one
//! processor, the client on the other.

use crate::measure::{CLIENT_CPU, Count, CpuMeter, Found, Measured, SERVICE_CPU, Samples, pin};
use std::hint::spin_loop;
use std::ops::AddAssign;
use tidegate::d3d12::{
    CommandListType, Counters, Device, DeviceOptions, Fence, Priority, Queue, QueueDesc,
};
use tidegate::dxgkrnl::KernelStats;
use tidegate::kmd::DoorbellModel;
use tidegate::platform::ParkingCounts;
use tidegate::softgpu::Stats;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// The name of [`Happened::turn_ends`] in reports.
pub const WATCHED: &str = "wake-ups of the watch for hangs";

/// A machine on the host with a device.
pub struct Setup {
    /// The host.
    pub platform: Platform,
    /// One adapter with the reference driver.
    pub machine: Machine,
    /// A device of the process `bench`.
    pub device: Device,
}

/// Parameters of a setup.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Slots of the ring of a user-mode queue.
    pub ring_slots: u64,
    /// Whether queues have fence logs, as the contract demands; without them the rest of a signal
    /// is measured.
    pub fence_logs: bool,
    /// Entries of a queue's fence log; `None` for the default.
    pub log_entries: Option<u32>,
    /// Threads that the engines share.
    pub service_threads: usize,
    /// The processor of the only service thread.
    pub engines_cpu: usize,
    /// How the GPU gives out doorbells; `None` for the default.
    pub doorbells: Option<DoorbellModel>,
    /// Whether the platform records a timeline.
    pub tracing: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            ring_slots: 1024,
            fence_logs: false,
            log_entries: None,
            service_threads: 1,
            engines_cpu: SERVICE_CPU,
            doorbells: None,
            tracing: false,
        }
    }
}

/// Everything that is counted, at one moment.
pub struct Counted {
    gpu: Stats,
    kernel: KernelStats,
    device: Counters,
    /// Before and after the other counts, since these wait for the ends of turns.
    parking_before: Parking,
    parking: Parking,
}

/// Sleeps and wake-ups of threads.
struct Parking {
    all: ParkingCounts,
    /// Wake-ups of the driver at the end of a turn.
    turn_ends: u64,
}

/// What happened between two moments.
#[derive(Default)]
pub struct Happened {
    /// Interrupts that the GPU raised.
    pub interrupts: u64,
    /// Signals whose interrupt the MonitoredValue spared.
    pub suppressed: u64,
    /// Calls of the device to the kernel.
    pub kernel_calls: u64,
    /// Threads that parked.
    pub parks: u64,
    /// System calls that woke a thread, without those that `turn_ends` counts.
    pub wake_calls: u64,
    /// Wake-ups of the driver at the end of a turn: the kernel watches an engine with work for
    /// hangs.
    pub turn_ends: u64,
    /// Waits of the CPU that were satisfied.
    pub events_set: u64,
    /// Doorbells that were connected.
    pub connects: u64,
}

impl Setup {
    /// A machine whose services are bound to their processor when there is one of them, and the
    /// calling thread to the client's.
    ///
    /// # Errors
    /// A processor is missing, or the machine cannot be built.
    pub fn new(shape: Shape) -> Found<Setup> {
        Setup::bound(shape, shape.service_threads == 1)
    }

    /// A machine whose threads the system places.
    ///
    /// # Errors
    /// The machine cannot be built.
    pub fn unbound(shape: Shape) -> Found<Setup> {
        Setup::bound(shape, false)
    }

    fn bound(shape: Shape, alone: bool) -> Found<Setup> {
        if alone {
            // Threads start where the thread that makes them is bound.
            pin(shape.engines_cpu)?;
        }
        let platform = Platform::closed_host();
        if shape.tracing {
            platform.enable_tracing();
        }
        let mut config = MachineConfig::standard(&platform);
        config.gpu.service_threads = shape.service_threads;
        if let Some(doorbells) = shape.doorbells {
            config.driver.doorbells = doorbells;
        }
        if !shape.fence_logs {
            // Outside of the contract, under which logging is always on.
            config.kernel.log_entries = 0;
        } else if let Some(entries) = shape.log_entries {
            config.kernel.log_entries = entries;
        }
        let machine = Machine::new(&platform, config)?;
        let options = DeviceOptions {
            process_name: "bench".to_owned(),
            ring_slots: shape.ring_slots,
            ..DeviceOptions::default()
        };
        let device = machine.device(options)?;
        if alone {
            pin(CLIENT_CPU)?;
        }
        Ok(Setup { platform, machine, device })
    }

    /// A user-mode queue.
    ///
    /// # Errors
    /// The queue cannot be created; the same for the next two.
    pub fn queue(&self, list_type: CommandListType) -> Found<Queue> {
        self.queue_of(list_type, Priority::Normal)
    }

    /// A user-mode queue of this priority.
    pub fn queue_of(&self, list_type: CommandListType, priority: Priority) -> Found<Queue> {
        let desc = QueueDesc {
            name: list_type.name().to_owned(),
            priority,
            ..QueueDesc::new(list_type).submission(Submission::User)
        };
        Ok(self.device.create_queue(desc)?)
    }

    /// A user-mode queue and a fence that begins at 0.
    pub fn queue_and_fence(&self) -> Found<(Queue, Fence)> {
        Ok((self.queue(CommandListType::Compute)?, self.device.create_fence("seen", 0)?))
    }

    /// The platform's time.
    pub fn now_ns(&self) -> u64 {
        self.platform.now().0
    }

    /// Everything that is counted, now.
    pub fn counted(&self) -> Counted {
        let parking_before = self.parking();
        Counted {
            gpu: self.machine.gpu().stats(),
            kernel: self.machine.adapter().stats(),
            device: self.device.counters(),
            parking_before,
            parking: self.parking(),
        }
    }

    fn parking(&self) -> Parking {
        let turn_ends = self.machine.gpu().turn_ends_awaited();
        Parking { all: self.platform.parking_counts(), turn_ends }
    }
}

impl Counted {
    /// What happened since an earlier moment.
    pub fn since(&self, earlier: &Counted) -> Happened {
        let turn_ends = self.parking_before.turn_ends - earlier.parking.turn_ends;
        Happened {
            interrupts: self.gpu.interrupts_raised - earlier.gpu.interrupts_raised,
            suppressed: self.gpu.interrupts_suppressed - earlier.gpu.interrupts_suppressed,
            kernel_calls: self.device.since(&earlier.device).kernel_calls,
            parks: self.parking_before.all.sleeps - earlier.parking.all.sleeps,
            // A wake-up may lie between the readings of the two counts.
            wake_calls: (self.parking_before.all.wakes - earlier.parking.all.wakes)
                .saturating_sub(turn_ends),
            turn_ends,
            events_set: self.kernel.cpu_wakes - earlier.kernel.cpu_wakes,
            connects: self.kernel.doorbell_connects - earlier.kernel.doorbell_connects,
        }
    }
}

impl AddAssign for Happened {
    fn add_assign(&mut self, more: Happened) {
        self.interrupts += more.interrupts;
        self.suppressed += more.suppressed;
        self.kernel_calls += more.kernel_calls;
        self.parks += more.parks;
        self.wake_calls += more.wake_calls;
        self.turn_ends += more.turn_ends;
        self.events_set += more.events_set;
        self.connects += more.connects;
    }
}

impl Happened {
    /// What may happen while a client polls that signals by a call of the kernel: no interrupt.
    pub fn of_a_run(&self) -> Vec<Count> {
        vec![
            Count::exactly("interrupts", self.interrupts, 0),
            Count::of("system calls to wake", self.wake_calls),
            Count::of(WATCHED, self.turn_ends),
            Count::of(PARKS, self.parks),
        ]
    }

    /// What may not happen at all. A service that has run out of work, or was kept from its
    /// processor for its whole spin window, parks: that is a cost of no operation.
    pub fn nothing(&self) -> Vec<Count> {
        vec![
            Count::exactly("interrupts", self.interrupts, 0),
            Count::exactly("kernel calls", self.kernel_calls, 0),
            Count::exactly("system calls to wake", self.wake_calls, 0),
            Count::of(WATCHED, self.turn_ends),
            Count::of(PARKS, self.parks),
        ]
    }
}

/// The name of [`Happened::parks`] in reports.
pub const PARKS: &str = "parks of an idle service";

/// Times the operations of a machine, and counts what happens from the end of the warm-up on.
pub struct Meter<'s> {
    setup: &'s Setup,
    samples: Samples,
    operations: u64,
    cpu: CpuMeter,
    before: Counted,
}

impl<'s> Meter<'s> {
    /// Starts.
    pub fn start(setup: &'s Setup) -> Meter<'s> {
        let (samples, cpu) = (Samples::default(), CpuMeter::start());
        Meter { setup, samples, operations: 0, cpu, before: setup.counted() }
    }

    /// Times `body`, which does `operations` operations.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn time<T, E>(
        &mut self,
        operations: u64,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let start = self.setup.now_ns();
        let done = body()?;
        self.add(self.setup.now_ns() - start, operations);
        Ok(done)
    }

    /// Times `body` as often as there are numbers in `1..=warm_up + count`, with the number. The
    /// first `warm_up` times do not count.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn times<E>(
        &mut self,
        warm_up: u64,
        count: u64,
        operations: u64,
        mut body: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for number in 1..=warm_up + count {
            if number == warm_up + 1 {
                *self = Meter::start(self.setup);
            }
            self.time(operations, || body(number))?;
        }
        Ok(())
    }

    /// Adds a batch of `operations` that took `ns` together.
    pub fn add(&mut self, ns: u64, operations: u64) {
        self.samples.push_batch(ns, operations);
        self.operations += operations;
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.samples.count()
    }

    /// Ends the measurement with counts of what happened.
    pub fn end(self, counts: impl FnOnce(&Happened) -> Vec<Count>) -> Measured {
        let cpu_ns = self.cpu.per(self.operations);
        let happened = self.setup.counted().since(&self.before);
        Measured { counts: counts(&happened), ..Measured::of(self.samples, cpu_ns) }
    }
}

/// Polls until a fence has reached `value`.
pub fn see(fence: &Fence, value: u64) {
    while fence.completed_value() < value {
        spin_loop();
    }
}

/// Signals a fence by a queue and polls until the value is seen.
///
/// # Errors
/// The queue refuses the signal.
pub fn signal_and_see(queue: &Queue, fence: &Fence, value: u64) -> Found<()> {
    queue.signal(fence, value)?;
    see(fence, value);
    Ok(())
}
