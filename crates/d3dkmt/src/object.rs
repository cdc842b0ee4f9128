//! The objects of the kernel that handles of C name. Each knows its device, and its handle in the
//! kernel.

use crate::event::{LastingEvent, PendingWaits};
use std::ops::Deref;
use std::sync::Arc;
use tidegate_calls::{
    AllocationMemory, CurrentValueView, FenceInstance, Handle, Kernel, ReadOnly, ResidencyPriority,
};
use tidegate_d3dukmdt::ring_watch::WatchedRing;
use tidegate_platform::{Mapping, Mutex, Platform, Word};

/// A connection and an index: the number of an adapter among all that the process ever opens.
pub(crate) type AdapterNumber = (u64, usize);

/// An adapter of the kernel, as this process has opened it once.
pub(crate) struct Adapter {
    /// Its index, which stays when the process connects anew.
    pub(crate) index: usize,
    /// That of the connection. No two connections have the same.
    pub(crate) connection: u64,
    /// The calls of this process.
    pub(crate) kernel: Arc<dyn Kernel>,
}

impl Adapter {
    /// Returns whether objects of both are of one kernel, and of one of its adapters.
    pub(crate) fn is(&self, other: &Adapter) -> bool {
        self.number() == other.number()
    }

    /// Returns the number of this adapter.
    pub(crate) fn number(&self) -> AdapterNumber {
        (self.connection, self.index)
    }
}

/// A device.
pub(crate) struct Device {
    pub(crate) adapter: Arc<Adapter>,
    /// In the kernel.
    pub(crate) handle: Handle,
    /// Waits that will set an event.
    pub(crate) waits: PendingWaits,
}

impl Device {
    pub(crate) fn kernel(&self) -> &dyn Kernel {
        &*self.adapter.kernel
    }
}

/// How a context was created, which decides what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextKind {
    /// By CreateContextVirtual, for packets.
    ForPackets,
    /// By CreateContextVirtual with HwQueueSupported. In the kernel it is a hardware context.
    ForHwQueues {
        /// DisableGpuTimeout, for each of its hardware queues.
        disables_timeout: bool,
    },
    /// By CreateHwContext.
    Hw,
}

/// A context for packets, or a hardware context.
pub(crate) struct Context {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    pub(crate) kind: ContextKind,
    /// The priority that was set, and the one inside the process.
    pub(crate) priority: Mutex<(i32, i32)>,
}

/// A hardware queue.
pub(crate) struct HwQueue {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    /// The library's handle of its progress fence.
    pub(crate) progress_fence: Handle,
}

/// An instance of a monitored or native fence.
pub(crate) struct Fence {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    /// Whether the caller destroys it. A progress fence or paging fence ends with its queue.
    pub(crate) is_own: bool,
    /// Keeps the address of the value valid.
    pub(crate) _value: CurrentValueView,
}

/// An instance of a mutex, a semaphore or a fence of WDDM 1.x, or a CPU notification.
pub(crate) struct Legacy {
    pub(crate) adapter: Arc<Adapter>,
    /// `None` for an instance that was opened by a call without a device.
    pub(crate) device: Option<Arc<Device>>,
    pub(crate) object: LegacyObject,
}

/// Where an object is that is older than monitored fences.
pub(crate) enum LegacyObject {
    /// In the kernel.
    OfKernel(Handle),
    /// A CPU notification. Contexts set its event.
    Notification(Arc<LastingEvent>),
}

impl Legacy {
    /// The kernel's handle; `None` for a CPU notification.
    pub(crate) fn handle(&self) -> Option<Handle> {
        match self.object {
            LegacyObject::OfKernel(handle) => Some(handle),
            LegacyObject::Notification(_) => None,
        }
    }
}

/// An allocation.
pub(crate) struct Allocation {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: AllocationMemory,
    /// Whether a shared resource ends it.
    pub(crate) of_shared: bool,
    /// The priority that was set last.
    pub(crate) priority: Mutex<ResidencyPriority>,
    /// Locks without an unlock.
    pub(crate) locks: Mutex<u32>,
    /// Address of the caller's pages that are its memory; 0 for none.
    pub(crate) system_memory: u64,
}

impl Allocation {
    /// An allocation as the kernel has made it, with the first priority.
    pub(crate) fn new(
        platform: &Platform,
        device: &Arc<Device>,
        made: tidegate_calls::Allocation,
        of_shared: bool,
    ) -> Allocation {
        let tidegate_calls::Allocation { handle, gpu_va, bytes, memory } = made;
        let priority = platform.mutex("priority of an allocation", ResidencyPriority::default());
        let (device, locks) = (device.clone(), platform.mutex("locks of an allocation", 0));
        let system_memory = 0;
        Allocation {
            device,
            handle,
            gpu_va,
            bytes,
            memory,
            of_shared,
            priority,
            locks,
            system_memory,
        }
    }
}

/// A device of the library itself. It ends with its last user.
pub(crate) struct OwnDevice(pub(crate) Arc<Device>);

impl Deref for OwnDevice {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        let _ended = self.0.kernel().destroy_device(self.0.handle);
    }
}

/// An instance of a keyed mutex.
pub(crate) struct KeyedMutex {
    /// The device of the fence.
    pub(crate) device: Arc<OwnDevice>,
    /// In the kernel.
    pub(crate) handle: Handle,
    /// The fence of its changes.
    pub(crate) changes: FenceInstance,
}

impl KeyedMutex {
    pub(crate) fn kernel(&self) -> &dyn Kernel {
        self.device.kernel()
    }

    /// Ends an instance without a handle.
    pub(crate) fn end(&self) {
        let _ended = self.kernel().destroy_keyed_mutex(self.handle);
        let _ended = self.kernel().destroy_synchronization_object(self.changes.handle);
    }
}

/// Allocations that end together.
pub(crate) struct Resource {
    pub(crate) device: Arc<Device>,
    /// In the kernel, which knows only shared resources.
    pub(crate) shared: Option<Handle>,
    /// The library's handles of its allocations.
    pub(crate) allocations: Mutex<Vec<Handle>>,
}

/// A paging queue.
pub(crate) struct PagingQueue {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    /// The library's handle of its fence.
    pub(crate) fence: Handle,
}

/// A window, and the address where the caller stores.
pub(crate) type Placed = (Mapping, u64);

/// A doorbell.
pub(crate) struct Doorbell {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    /// The doorbell and its secondary one.
    pub(crate) windows: Vec<Placed>,
    pub(crate) status: ReadOnly,
    /// Keeps the address of the last queued value valid.
    pub(crate) _last_queued: Word,
    /// Ring and control area. Their addresses stay valid if the caller destroys them first.
    pub(crate) _memory: [Arc<Allocation>; 2],
    /// The present connection, whose rings are watched. The lock orders connects.
    pub(crate) watched: Mutex<Option<WatchedRing>>,
}
