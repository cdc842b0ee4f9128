//! Owns what the driver keeps about the kernel's objects. Policy state: one lock, held for look-ups
//! and changes only, never over a register, a callback or a ring.

use crate::caps::Negotiated;
use crate::handle::Table;
use crate::kernel_ring::{KernelRing, NodeRing};
use crate::kind::Kind;
use crate::seats::Seats;
use crate::{Config, KmdError};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_ddi::scheduling::SchedulingProperties;
use tidegate_ddi::{AdapterCaps, Callbacks, DriverHandle, EngineId, EngineMap, OsHandle};
use tidegate_gpu_abi::log::LogType;
use tidegate_gpu_abi::{AddressSpaceId, GpuVa, QueueId};
use tidegate_platform::{PhysicalAddress, PhysicalMemory};

/// A process on the adapter.
pub(crate) struct DeviceObject {
    pub(crate) address_space: AddressSpaceId,
    /// Contexts and fence instances that hang on it.
    pub(crate) children: usize,
}

/// A context of a device on an engine.
pub(crate) struct Context {
    pub(crate) os_handle: OsHandle,
    pub(crate) device: DriverHandle,
    pub(crate) engine: EngineId,
    pub(crate) address_space: AddressSpaceId,
    pub(crate) hardware_scheduled: bool,
    pub(crate) suspended: bool,
    /// The suspension that is not complete: its fence, and the hardware's queues that are still on
    /// the run list.
    pub(crate) suspending: Option<(u64, Vec<QueueId>)>,
    pub(crate) scheduling: SchedulingProperties,
    pub(crate) queues: Vec<DriverHandle>,
    /// Where the state of its packets stands while it is not on an engine; 0 where nothing is
    /// stopped in the middle.
    pub(crate) save_area: SaveArea,
}

/// The save area of a context.
#[derive(Clone, Copy, Default)]
pub(crate) struct SaveArea {
    /// The kernel's handle, if there is one.
    pub(crate) os_handle: Option<OsHandle>,
    /// In the system process's address space.
    pub(crate) system_va: GpuVa,
}

/// The place of a fence log, as the hardware gets it.
#[derive(Clone, Copy)]
pub(crate) struct LogPlace {
    pub(crate) kind: LogType,
    pub(crate) header: PhysicalAddress,
    pub(crate) payload: PhysicalAddress,
    pub(crate) entries: u32,
    pub(crate) notify_every: u32,
}

/// A hardware queue as the kernel made it. The hardware's own queue exists when `hardware` does:
/// from the start for a kernel-mode queue, with the doorbell (which brings the ring) for a
/// user-mode one.
pub(crate) struct HwQueue {
    pub(crate) os_handle: OsHandle,
    pub(crate) context: DriverHandle,
    pub(crate) engine: EngineId,
    pub(crate) address_space: AddressSpaceId,
    pub(crate) user_mode: bool,
    /// The native progress fence, if it is one.
    pub(crate) progress_fence: Option<DriverHandle>,
    pub(crate) progress_current: GpuVa,
    pub(crate) progress_monitored: GpuVa,
    pub(crate) hardware: Option<QueueId>,
    pub(crate) doorbell: Option<DriverHandle>,
    pub(crate) ring: Option<Arc<KernelRing>>,
    /// Waits, signals, commands.
    pub(crate) logs: [Option<LogPlace>; LogType::ALL.len()],
}

/// One address at which a fence's CurrentValue stands, and that of its MonitoredValue there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) address_space: AddressSpaceId,
    pub(crate) current_value: GpuVa,
    pub(crate) monitored_value: GpuVa,
    /// Opened instances and progress fences there: several devices of one process share the
    /// address.
    pub(crate) opens: usize,
}

/// A native fence on the adapter.
pub(crate) struct Fence {
    pub(crate) os_handle: OsHandle,
    pub(crate) always_signaled: bool,
    /// INTRA_GPU: no CPU reaches its values, so what the driver does to them it has the CMP do.
    pub(crate) intra_gpu: bool,
    /// CurrentValue in the system process's address space.
    pub(crate) system_current_value: Option<GpuVa>,
    /// CurrentValue and MonitoredValue on the bus, for a fence in local memory.
    pub(crate) stands_at: Option<[PhysicalAddress; 2]>,
    pub(crate) instances: Vec<Instance>,
    /// Other adapters that the hardware tells of its signals, by number.
    pub(crate) peers: Vec<u32>,
}

/// An opened instance of a native fence.
pub(crate) struct LocalFence {
    pub(crate) global: DriverHandle,
    pub(crate) device: DriverHandle,
    pub(crate) address_space: AddressSpaceId,
    pub(crate) current_value: GpuVa,
}

/// A doorbell object, with or without hardware behind it.
pub(crate) struct Doorbell {
    pub(crate) os_handle: OsHandle,
    pub(crate) hw_queue: DriverHandle,
    pub(crate) os_queue: OsHandle,
    /// Gone when the queue was destroyed first.
    pub(crate) hardware: Option<QueueId>,
    pub(crate) connected: bool,
    /// A resize made another doorbell for the queue.
    pub(crate) superseded: bool,
}

/// What the kernel gave at start.
pub(crate) struct Started {
    pub(crate) callbacks: Arc<dyn Callbacks>,
    pub(crate) system_memory: PhysicalMemory,
    pub(crate) caps: AdapterCaps,
    pub(crate) negotiated: Negotiated,
    /// Engines compare with a shadow of MonitoredValue: the CMP gets fences and every
    /// change.
    pub(crate) monitored_shadow: bool,
    pub(crate) packets: EngineMap<EnginePackets>,
}

/// The packets of an engine.
pub(crate) struct EnginePackets {
    pub(crate) ring: Arc<NodeRing>,
    /// The packet that was put there last, 0 before the first.
    pub(crate) submitted: u32,
}

/// All of it.
pub(crate) struct Objects {
    pub(crate) started: Option<Started>,
    /// Address spaces that have a root page table, and on which physical GPU.
    pub(crate) rooted: BTreeSet<(AddressSpaceId, u32)>,
    pub(crate) devices: Table<DeviceObject>,
    pub(crate) contexts: Table<Context>,
    pub(crate) hw_queues: Table<HwQueue>,
    pub(crate) fences: Table<Fence>,
    pub(crate) local_fences: Table<LocalFence>,
    pub(crate) doorbells: Table<Doorbell>,
    pub(crate) seats: Seats,
    /// Engines that were reset for their queues and are not resumed.
    pub(crate) reset_engines: BTreeSet<EngineId>,
}

impl Objects {
    pub(crate) fn new(config: &Config) -> Objects {
        Objects {
            started: None,
            rooted: BTreeSet::new(),
            devices: Table::new(Kind::Device),
            contexts: Table::new(Kind::Context),
            hw_queues: Table::new(Kind::HwQueue),
            fences: Table::new(Kind::Fence),
            local_fences: Table::new(Kind::LocalFence),
            doorbells: Table::new(Kind::Doorbell),
            seats: Seats::new(config.doorbells),
            reset_engines: BTreeSet::new(),
        }
    }

    pub(crate) fn started(&self) -> Result<&Started, KmdError> {
        self.started.as_ref().ok_or(KmdError::NotStarted)
    }

    /// Whether the CMP keeps shadows of MonitoredValue.
    pub(crate) fn monitored_shadow(&self) -> bool {
        self.started.as_ref().is_some_and(|s| s.monitored_shadow)
    }

    /// A queue of the context is off the run list. The suspend fence, when it was the last one that
    /// was waited for.
    pub(crate) fn queue_left(&mut self, context: DriverHandle, queue: QueueId) -> Option<u64> {
        let found = self.contexts.get_mut(context).ok()?;
        let (fence, left) = found.suspending.as_mut()?;
        left.retain(|other| *other != queue);
        let fence = left.is_empty().then_some(*fence);
        if fence.is_some() {
            found.suspending = None;
        }
        fence
    }

    /// How many there are of each kind, address spaces last.
    pub(crate) fn census(&self) -> [usize; 7] {
        [
            self.devices.len(),
            self.contexts.len(),
            self.hw_queues.len(),
            self.fences.len(),
            self.local_fences.len(),
            self.doorbells.len(),
            self.rooted.len(),
        ]
    }

    /// Kinds of which objects are alive, and how many; what a stop must not find.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = (Kind, usize)> {
        [
            (Kind::Doorbell, self.doorbells.len()),
            (Kind::HwQueue, self.hw_queues.len()),
            (Kind::Context, self.contexts.len()),
            (Kind::LocalFence, self.local_fences.len()),
            (Kind::Fence, self.fences.len()),
            (Kind::Device, self.devices.len()),
        ]
        .into_iter()
        .filter(|(_, alive)| *alive > 0)
    }
}
