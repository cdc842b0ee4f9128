//! The driver's records of the kernel's objects. Policy state: one lock, held for look-ups and
//! changes only, never over a register access, a callback or a ring.

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
    /// The number of live contexts and fence instances.
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
    /// The suspension in flight: its fence value, and the hardware queues that are still on the
    /// run list.
    pub(crate) suspending: Option<(u64, Vec<QueueId>)>,
    pub(crate) scheduling: SchedulingProperties,
    pub(crate) queues: Vec<DriverHandle>,
    /// The area for the state of preempted packets. Its address is 0 on nodes that do not preempt
    /// in the middle of a packet.
    pub(crate) save_area: SaveArea,
}

impl Context {
    /// Returns whether its suspension in flight waits for this queue.
    pub(crate) fn is_suspending(&self, queue: QueueId) -> bool {
        self.suspending.as_ref().is_some_and(|(_, left)| left.contains(&queue))
    }
}

/// The save area of a context.
#[derive(Clone, Copy, Default)]
pub(crate) struct SaveArea {
    /// The kernel's handle, if there is an area.
    pub(crate) os_handle: Option<OsHandle>,
    /// The address in the system process's address space.
    pub(crate) system_va: GpuVa,
}

/// The location of a fence log, as passed to the hardware.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct LogPlace {
    pub(crate) kind: LogType,
    pub(crate) header: PhysicalAddress,
    pub(crate) payload: PhysicalAddress,
    pub(crate) entries: u32,
    pub(crate) notify_every: u32,
}

/// A hardware queue as the kernel created it. The hardware's own queue exists while `hardware` is
/// set: from the start for a kernel-mode queue, with the doorbell (which brings the ring) for a
/// user-mode queue.
pub(crate) struct HwQueue {
    pub(crate) os_handle: OsHandle,
    pub(crate) context: DriverHandle,
    pub(crate) engine: EngineId,
    pub(crate) address_space: AddressSpaceId,
    pub(crate) user_mode: bool,
    /// The progress fence, if it is a native fence.
    pub(crate) progress_fence: Option<DriverHandle>,
    pub(crate) progress_current: GpuVa,
    pub(crate) progress_monitored: GpuVa,
    pub(crate) hardware: Option<QueueId>,
    pub(crate) doorbell: Option<DriverHandle>,
    pub(crate) ring: Option<Arc<KernelRing>>,
    /// The logs of waits, signals and commands.
    pub(crate) logs: [Option<LogPlace>; LogType::ALL.len()],
}

/// One address of a fence's CurrentValue, and the matching address of its MonitoredValue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) address_space: AddressSpaceId,
    pub(crate) current_value: GpuVa,
    pub(crate) monitored_value: GpuVa,
    /// The number of opened instances and progress fences at this address. Devices of one process
    /// share it.
    pub(crate) opens: usize,
}

/// A native fence on the adapter.
pub(crate) struct Fence {
    pub(crate) os_handle: OsHandle,
    pub(crate) always_signaled: bool,
    /// Whether the fence is INTRA_GPU. No CPU reaches its values, so the CMP makes the driver's
    /// changes to them.
    pub(crate) intra_gpu: bool,
    /// CurrentValue in the system process's address space.
    pub(crate) system_current_value: Option<GpuVa>,
    /// CurrentValue on the bus, if the kernel has asked for the fence's waiting word.
    pub(crate) bus_address: Option<PhysicalAddress>,
    /// CurrentValue and MonitoredValue on the bus, if the fence is in local memory.
    pub(crate) stands_at: Option<[PhysicalAddress; 2]>,
    pub(crate) instances: Vec<Instance>,
    /// The numbers of the adapters to which the hardware forwards signals.
    pub(crate) peers: Vec<u32>,
}

/// An opened instance of a native fence.
pub(crate) struct LocalFence {
    pub(crate) global: DriverHandle,
    pub(crate) device: DriverHandle,
    pub(crate) address_space: AddressSpaceId,
    pub(crate) current_value: GpuVa,
}

/// Memory of a process, as the driver's object.
pub(crate) struct Allocation {
    pub(crate) bytes: u64,
    /// The number of devices that have it open.
    pub(crate) opens: usize,
}

/// An allocation that a device has open.
pub(crate) struct OpenedAllocation {
    pub(crate) device: DriverHandle,
    pub(crate) allocation: DriverHandle,
}

/// A doorbell object, with or without hardware.
pub(crate) struct Doorbell {
    pub(crate) os_handle: OsHandle,
    pub(crate) hw_queue: DriverHandle,
    pub(crate) os_queue: OsHandle,
    /// `None` once the queue is destroyed.
    pub(crate) hardware: Option<QueueId>,
    pub(crate) connected: bool,
    /// Whether a resize replaced this doorbell.
    pub(crate) superseded: bool,
}

/// What the kernel passed at start.
pub(crate) struct Started {
    pub(crate) callbacks: Arc<dyn Callbacks>,
    pub(crate) system_memory: PhysicalMemory,
    pub(crate) caps: AdapterCaps,
    pub(crate) negotiated: Negotiated,
    /// Whether engines compare with a shadow of MonitoredValue, so that the CMP is sent fences and
    /// every change.
    pub(crate) monitored_shadow: bool,
    pub(crate) packets: EngineMap<EnginePackets>,
}

/// The packet state of an engine.
pub(crate) struct EnginePackets {
    pub(crate) ring: Arc<NodeRing>,
    /// The last submitted packet, 0 before the first.
    pub(crate) submitted: u32,
}

/// All objects of the driver.
pub(crate) struct Objects {
    pub(crate) started: Option<Started>,
    /// Address spaces with a root page table, per physical GPU.
    pub(crate) rooted: BTreeSet<(AddressSpaceId, u32)>,
    pub(crate) devices: Table<DeviceObject>,
    pub(crate) contexts: Table<Context>,
    pub(crate) hw_queues: Table<HwQueue>,
    pub(crate) fences: Table<Fence>,
    pub(crate) local_fences: Table<LocalFence>,
    pub(crate) doorbells: Table<Doorbell>,
    pub(crate) allocations: Table<Allocation>,
    pub(crate) opened_allocations: Table<OpenedAllocation>,
    pub(crate) seats: Seats,
    /// Engines that were reset for hardware queues and are not yet resumed.
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
            allocations: Table::new(Kind::Allocation),
            opened_allocations: Table::new(Kind::OpenedAllocation),
            seats: Seats::new(config.doorbells),
            reset_engines: BTreeSet::new(),
        }
    }

    pub(crate) fn started(&self) -> Result<&Started, KmdError> {
        self.started.as_ref().ok_or(KmdError::NotStarted)
    }

    /// Returns whether the CMP keeps shadows of MonitoredValue.
    pub(crate) fn monitored_shadow(&self) -> bool {
        self.started.as_ref().is_some_and(|s| s.monitored_shadow)
    }

    /// Removes a queue that left the run list from the suspension in flight. Returns the suspend
    /// fence if it was the last queue.
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

    /// Returns the number of objects of each kind, address spaces last.
    pub(crate) fn census(&self) -> [usize; 9] {
        [
            self.devices.len(),
            self.contexts.len(),
            self.hw_queues.len(),
            self.fences.len(),
            self.local_fences.len(),
            self.doorbells.len(),
            self.allocations.len(),
            self.opened_allocations.len(),
            self.rooted.len(),
        ]
    }

    /// Returns the kinds of which objects are alive, with their numbers. A stop must find none.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = (Kind, usize)> {
        [
            (Kind::Doorbell, self.doorbells.len()),
            (Kind::OpenedAllocation, self.opened_allocations.len()),
            (Kind::Allocation, self.allocations.len()),
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
