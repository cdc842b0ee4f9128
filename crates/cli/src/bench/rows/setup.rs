//! The machine under measurement: built anew for each measurement, its service threads on one
//! processor, the client on the other.

use crate::bench::measure::{CLIENT_CPU, Count, SERVICE_CPU, Trouble, pin};
use std::ops::AddAssign;
use tidegate::d3d12::{
    ClosedList, CommandListType, Counters, Device, DeviceOptions, Priority, Queue, QueueDesc,
};
use tidegate::dxgkrnl::KernelStats;
use tidegate::kmd::DoorbellModel;
use tidegate::platform::ParkingCounts;
use tidegate::softgpu::Stats;
use tidegate::{Machine, MachineConfig, Platform, Submission};

/// The name of [`Happened::turn_ends`] in reports.
pub(super) const WATCHED: &str = "wake-ups of the watch for hangs";

/// A machine on the host with a device.
pub(crate) struct Setup {
    pub(crate) platform: Platform,
    pub(crate) machine: Machine,
    pub(crate) device: Device,
}

/// Parameters of a setup.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) ring_slots: u64,
    /// Whether queues have fence logs, as the contract demands; without them the rest of a signal
    /// is measured.
    pub(super) fence_logs: bool,
    /// Entries of a queue's fence log; `None` for the default.
    pub(super) log_entries: Option<u32>,
    /// Threads that the engines share.
    pub(super) service_threads: usize,
    /// The processor of the only service thread.
    pub(super) engines_cpu: usize,
    /// How the GPU gives out doorbells; `None` for the default.
    pub(super) doorbells: Option<DoorbellModel>,
    pub(super) tracing: bool,
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
pub(super) struct Counted {
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
pub(super) struct Happened {
    pub(super) interrupts: u64,
    pub(super) suppressed: u64,
    pub(super) kernel_calls: u64,
    pub(super) parks: u64,
    /// Without those that `turn_ends` counts.
    pub(super) wake_calls: u64,
    /// Wake-ups of the driver at the end of a turn: the kernel watches an engine with work for
    /// hangs.
    pub(super) turn_ends: u64,
    pub(super) events_set: u64,
    pub(super) connects: u64,
}

impl Setup {
    /// A machine whose services are bound to their processor when there is one of them, and the
    /// calling thread to the client's.
    pub(super) fn new(shape: Shape) -> Result<Setup, Trouble> {
        Setup::bound(shape, shape.service_threads == 1)
    }

    /// A machine whose threads the system places.
    pub(super) fn unbound(shape: Shape) -> Result<Setup, Trouble> {
        Setup::bound(shape, false)
    }

    fn bound(shape: Shape, alone: bool) -> Result<Setup, Trouble> {
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
        let machine = Machine::new(&platform, config).map_err(|e| e.to_string())?;
        let options = DeviceOptions {
            process_name: "bench".to_owned(),
            ring_slots: shape.ring_slots,
            ..DeviceOptions::default()
        };
        let device = machine.device(options).map_err(|e| e.to_string())?;
        if alone {
            pin(CLIENT_CPU)?;
        }
        Ok(Setup { platform, machine, device })
    }

    /// A user-mode queue.
    pub(crate) fn queue(&self, list_type: CommandListType) -> Result<Queue, Trouble> {
        self.queue_of(list_type, Priority::Normal)
    }

    /// A user-mode queue of this priority.
    pub(super) fn queue_of(
        &self,
        list_type: CommandListType,
        priority: Priority,
    ) -> Result<Queue, Trouble> {
        let desc = QueueDesc {
            name: list_type.name().to_owned(),
            priority,
            ..QueueDesc::new(list_type).submission(Submission::User)
        };
        self.device.create_queue(desc).map_err(|e| e.to_string())
    }

    /// A closed list with nothing in it.
    pub(super) fn empty_list(&self, list_type: CommandListType) -> Result<ClosedList, Trouble> {
        self.device.create_command_list(list_type).close().map_err(|e| e.to_string())
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.platform.now().0
    }

    pub(super) fn counted(&self) -> Counted {
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
    pub(super) fn since(&self, earlier: &Counted) -> Happened {
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
    /// What may not have happened while a client polled. It signals by a call of the kernel.
    pub(super) fn of_a_run(&self) -> Vec<Count> {
        vec![
            Count::exactly("interrupts", self.interrupts, 0),
            Count::of("system calls to wake", self.wake_calls),
            Count::of(WATCHED, self.turn_ends),
            Count::of("parks of an idle service", self.parks),
        ]
    }

    /// What may not have happened, and the one thing that may: a service that has run out of work,
    /// or was kept from its processor for its whole spin window, parks, which is no cost of any
    /// operation.
    pub(super) fn nothing(&self) -> Vec<Count> {
        vec![
            Count::exactly("interrupts", self.interrupts, 0),
            Count::exactly("kernel calls", self.kernel_calls, 0),
            Count::exactly("system calls to wake", self.wake_calls, 0),
            Count::of(WATCHED, self.turn_ends),
            Count::of("parks of an idle service", self.parks),
        ]
    }
}
