//! Processes: handles, one address space, and the call surface (`calls`).
//!
//! Invariant: a call resolves its handles and validates under the table's lock, and drops the lock
//! before it calls the room that does the work. `teardown` ends a process; its later calls fail
//! with DEVICE_REMOVED.

mod allocations;
mod answers;
mod awaited_work;
mod calls;
mod cpu_waits;
mod flips;
mod keyed_mutexes;
mod older;
mod queue_room;
mod queued;
mod render;
mod teardown;
mod tiles;

use crate::fence::cpu_wait::SpareWaits;
use crate::fence::names::ShareKind;
use crate::fence::signal::{self, check_rewinds};
use crate::fence::storage::FencePool;
use crate::fence::{CreateFence, FenceTarget, sharing};
use crate::memory::{AddressSpace, Affinity, AllocationObject, cpu_va};
use crate::object::FenceObject;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::doorbell::Doorbell;
use crate::object::hw_queue::HwQueue;
use crate::object::keyed_mutex::KeyedMutexInstance;
use crate::object::object_table::{Object, ObjectTable};
use crate::object::objects::Objects;
use crate::object::older::OlderInstance;
use crate::object::paging_queue::PagingQueueObject;
use crate::object::port::OpenProcess;
use crate::object::resource::ResourceInstance;
use awaited_work::AwaitedWork;
use queue_room::QueueRoom;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{
    ClientKind, CurrentValueView, DeviceState, FenceInstance, FenceValue, Grant, Handle, NtHandle,
    OpenSyncObject, ReadOnly, SignalFlags, Status, SyncObjectAccess, SyncObjectFlags,
};
use tidegate_d3dukmdt::{MAX_OBJECTS_SIGNALED, MAX_OBJECTS_WAITED_ON};
use tidegate_ddi::Passive;
use tidegate_platform::planted;
use tidegate_platform::{CacheType, Mutex, once};

/// A condition of a CPU wait.
type InstanceTarget = (Arc<FenceObject>, u64);

/// The targets of a call: mostly one, which takes no memory.
type InstanceTargets = SmallVec<[InstanceTarget; 1]>;

type Table = Mutex<ObjectTable>;

/// The process memory that all its objects use.
struct ProcessMemory {
    fence_pool: Arc<FencePool>,
    space: Arc<AddressSpace>,
}

/// The device states that a process reads once it has ended.
struct FinalStates {
    /// The state of devices that were not already lost.
    reason: DeviceState,
    /// Devices that were already lost, with their own reasons.
    lost_before: Vec<(Handle, DeviceState)>,
}

impl FinalStates {
    fn of(&self, device: Handle) -> DeviceState {
        let before = self.lost_before.iter().find(|(handle, _)| *handle == device);
        before.map_or(&self.reason, |(_, state)| state).clone()
    }
}

/// A process that has opened the adapter. It ends by [`Process::close`] or [`Process::terminate`].
/// Dropping it earlier terminates it without waiting for the GPU.
pub struct Process {
    objects: Arc<Objects>,
    /// Keeps the adapter alive while the process has it open.
    _adapter: Arc<dyn Send + Sync>,
    name: String,
    /// `None` once the process has ended.
    memory: Mutex<Option<ProcessMemory>>,
    handles: Arc<Table>,
    /// The device states once the process has ended. Set before its waits are released, so those
    /// waits return the reason.
    final_states: OnceLock<FinalStates>,
    kind: ProcessKind,
    /// What the process may still queue before its queues are counted, if it has a limit.
    queue_room: Mutex<QueueRoom>,
    spare_waits: SpareWaits,
    awaited_work: AwaitedWork,
}

/// What the kernel knows of a process when it opens the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessKind {
    /// It has the privilege to raise priorities (SE_INC_BASE_PRIORITY): its contexts may use the
    /// FOCUS and REALTIME bands.
    pub may_raise_priority: bool,
    /// It knows only the published contract: it stores write pointers to its doorbells, without the
    /// base that a connect returns. A doorbell whose base is not 0 reads CONNECTED_NOTIFY and shows
    /// no hardware, because such a store would be another queue's.
    pub only_stores: bool,
    /// It is older than user-mode submission: the adapter shows it no node that offers user-mode
    /// queues, and creating one returns NOT_SUPPORTED. A doorbell needs such a queue.
    pub kernel_queues_only: bool,
    /// It maps the pages of its doorbells itself, after the call that connects them. The status
    /// reads CONNECTED when the process has said that it has (`ConnectAnnouncement`).
    pub maps_doorbells: bool,
    /// What it may have queued with the kernel at a time, on its contexts and kernel-mode hardware
    /// queues; `None` for no limit. A command counts 1, a wait or signal 1 for each fence and
    /// queue, and copied commands (Render) 1 more for each 256 bytes.
    pub queued: Option<u32>,
}

/// A client of a service, which maps its doorbells itself.
impl From<(ClientKind, Grant)> for ProcessKind {
    fn from((client, grant): (ClientKind, Grant)) -> ProcessKind {
        let ClientKind { only_stores, kernel_queues_only } = client;
        let Grant { queued, may_raise_priority } = grant;
        ProcessKind {
            may_raise_priority,
            only_stores,
            kernel_queues_only,
            maps_doorbells: true,
            queued: Some(queued),
        }
    }
}

macro_rules! lookup {
    ($name:ident, $kind:ident, $type:ty) => {
        fn $name(&self, handle: Handle) -> Result<Arc<$type>, Status> {
            let objects = self.handles.lock();
            match objects.get(handle) {
                // The process has ended: `teardown` ends the objects in the table.
                _ if objects.is_closed() => Err(Status::DEVICE_REMOVED),
                Some(Object::$kind(object)) => Ok(object),
                _ => Err(Status::INVALID_PARAMETER),
            }
        }
    };
}

impl Process {
    pub(crate) fn new(
        level: &Passive,
        objects: &Arc<Objects>,
        adapter: Arc<dyn Send + Sync>,
        name: &str,
        kind: ProcessKind,
    ) -> Result<Arc<Process>, Status> {
        let port = &objects.port;
        // spec: PRE-120
        port.check()?;
        let space = Arc::new(AddressSpace::new(level, port)?);
        let fence_pool = FencePool::new(&objects.memory, &space);
        let memory = Some(ProcessMemory { fence_pool, space });
        let process = Arc::new(Process {
            objects: objects.clone(),
            _adapter: adapter,
            name: name.to_owned(),
            handles: Arc::new(port.platform.mutex("handle table", ObjectTable::new())),
            memory: port.platform.mutex("memory of a process", memory),
            final_states: OnceLock::new(),
            kind,
            queue_room: port.platform.mutex("room for queued work", QueueRoom::default()),
            spare_waits: SpareWaits::new(&port.platform),
            awaited_work: AwaitedWork::new(&port.platform),
        });
        objects.enter_process(Arc::downgrade(&process) as Weak<dyn OpenProcess>);
        // A removal that raced with this call ended only the processes already in the list.
        port.condition.check_present()?;
        Ok(process)
    }

    /// Returns the number of the process, which is also its address space's; `None` once it has
    /// ended.
    pub fn number(&self) -> Option<u32> {
        self.memory.lock().as_ref().map(|memory| memory.space.number)
    }

    /// Returns the process name.
    pub fn name(&self) -> &str {
        &self.name
    }

    lookup!(device, Device, Device);
    lookup!(allocation, Allocation, AllocationObject);
    lookup!(context, Context, Context);
    lookup!(hw_context, HwContext, Context);
    lookup!(hw_queue, HwQueue, HwQueue);
    lookup!(fence, Fence, FenceObject);
    lookup!(older, Older, OlderInstance);
    lookup!(doorbell, Doorbell, Doorbell);
    lookup!(paging_queue, PagingQueue, PagingQueueObject);
    lookup!(resource, Resource, ResourceInstance);
    lookup!(keyed_mutex, KeyedMutex, KeyedMutexInstance);

    fn insert(&self, level: &Passive, object: Object) -> Result<Handle, Status> {
        let (inserted, refusal) = {
            let mut objects = self.handles.lock();
            let devices = self.objects.devices.lock();
            // The fault is the mistake that the scenario create-against-device-end must find.
            let has_device = object.device().is_none_or(|device| devices.is_live(device))
                || planted!(self.objects.port.platform, NoLookAtTheDeviceOfANewObject);
            drop(devices);
            let refusal = match has_device {
                _ if objects.is_closed() => Status::DEVICE_REMOVED,
                false => Status::INVALID_PARAMETER,
                true => Status::INSUFFICIENT_RESOURCES,
            };
            (if has_device { objects.insert(object) } else { Err(object) }, refusal)
        };
        // A refused object ends here, outside the table's lock.
        inserted.map_err(|object| {
            object.end(level, &self.objects.hw_queues);
            refusal
        })
    }

    /// Removes an object of the expected kind from the table and ends it.
    fn destroy(
        &self,
        level: &Passive,
        handle: Handle,
        is_kind: impl Fn(&Object) -> bool,
    ) -> Result<(), Status> {
        self.remove(handle, is_kind).map(|object| object.end(level, &self.objects.hw_queues))
    }

    /// Removes an object of the expected kind from the table. The caller drops it outside the
    /// table's lock.
    fn remove(&self, handle: Handle, is_kind: impl Fn(&Object) -> bool) -> Result<Object, Status> {
        let mut objects = self.handles.lock();
        match objects.get(handle) {
            _ if objects.is_closed() => Err(Status::DEVICE_REMOVED),
            Some(object) if is_kind(&object) => {
                objects.remove(handle).ok_or(Status::INVALID_PARAMETER)
            }
            _ => Err(Status::INVALID_PARAMETER),
        }
    }

    fn live_device(&self, handle: Handle) -> Result<Arc<Device>, Status> {
        let device = self.device(handle)?;
        device.check()?;
        Ok(device)
    }

    /// Resolves the 1 to `most` instances of a wait or signal. An instance with the flag `refused`
    /// is denied.
    fn instances(
        &self,
        fences: &[FenceValue],
        most: usize,
        refused: SyncObjectFlags,
    ) -> Result<InstanceTargets, Status> {
        if fences.is_empty() || fences.len() > most {
            return Err(Status::INVALID_PARAMETER);
        }
        let find = |wanted: &FenceValue| {
            let instance = self.fence(wanted.fence)?;
            // spec: MF-044
            // spec: NF-102
            if instance.flags.contains(refused) {
                return Err(Status::ACCESS_DENIED);
            }
            // spec: NF-040
            let Some(current) = &instance.fence.current else { return Err(Status::NOT_SUPPORTED) };
            instance.device.check()?;
            // spec: MF-019, MF-020
            if !current.admits(wanted.value) {
                return Err(Status::INVALID_PARAMETER);
            }
            Ok((instance, wanted.value))
        };
        match fences {
            [one] => Ok(InstanceTargets::from_buf([find(one)?])),
            _ => fences.iter().map(find).collect(),
        }
    }

    /// Resolves the fences of a wait or signal that belongs to the fence, not to an instance.
    fn targets(
        &self,
        fences: &[FenceValue],
        most: usize,
        refused: SyncObjectFlags,
    ) -> Result<Vec<FenceTarget>, Status> {
        let instances = self.instances(fences, most, refused)?.into_iter();
        Ok(instances
            .map(|(instance, value)| FenceTarget { fence: instance.fence.clone(), value })
            .collect())
    }

    /// Resolves the targets of a queued wait.
    // spec: MF-096
    fn wait_targets(&self, fences: &[FenceValue]) -> Result<Vec<FenceTarget>, Status> {
        self.targets(fences, MAX_OBJECTS_WAITED_ON, SyncObjectFlags::NO_WAIT)
    }

    /// Signals a fence from the CPU by a store. Returns `false`, and stores nothing, if the call is
    /// refused or needs more than a store; [`signal_targets`](Process::signal_targets) decides.
    ///
    /// The value is stored under the table's lock, so the instance is open, and the call needs no
    /// reference to it. The lock is dropped before a waiter is released.
    fn signal_directly(&self, level: &Passive, target: FenceValue) -> bool {
        let (fence, stored) = {
            let objects = self.handles.lock();
            let Some(instance) = objects.fence(target.fence) else { return false };
            let is_refused = objects.is_closed()
                || instance.flags.contains(SyncObjectFlags::NO_SIGNAL)
                || instance.device.check().is_err();
            if is_refused {
                return false;
            }
            match signal::store_directly(&instance.fence, target.value) {
                None => return false,
                Some(stored) if stored.is_done() => return true,
                Some(stored) => (instance.fence.clone(), stored),
            }
        };
        signal::complete(level.into(), &fence, stored);
        true
    }

    /// Resolves the targets of a signal call. All are checked before any fence changes.
    fn signal_targets(
        &self,
        fences: &[FenceValue],
        flags: SignalFlags,
    ) -> Result<Vec<FenceTarget>, Status> {
        // spec: MF-037
        let targets = self.targets(fences, MAX_OBJECTS_SIGNALED, SyncObjectFlags::NO_SIGNAL)?;
        check_rewinds(&self.objects.port, &targets, flags)?;
        Ok(targets)
    }

    // spec: MF-006
    fn create_fence(
        &self,
        level: &Passive,
        device: Handle,
        args: &CreateFence<'_>,
    ) -> Result<FenceInstance, Status> {
        let device = self.live_device(device)?;
        // spec: MF-062
        if !SyncObjectFlags::all().contains(args.flags) {
            return Err(Status::INVALID_PARAMETER);
        }
        self.enter_fence(level, Arc::new(FenceObject::create(level, &device, args)?))
    }

    /// Creates an NT handle of a fence, an older object or a resource, with a name if one is given.
    fn share(
        &self,
        fence: Handle,
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status> {
        let share = if let Ok(resource) = self.resource(fence) {
            resource.share(access)?
        } else if let Ok(older) = self.older(fence) {
            older.share(access)?
        } else {
            sharing::share(&**self.fence(fence)?, access)?
        };
        self.objects.names.share(share, name)
    }

    /// Returns an NT handle of the object with this name.
    fn open_name(
        &self,
        name: &str,
        kind: ShareKind,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        if self.handles.lock().is_closed() {
            return Err(Status::DEVICE_REMOVED);
        }
        self.objects.names.open(name, kind, access)
    }

    fn open_fence(
        &self,
        level: &Passive,
        args: &OpenSyncObject<'_>,
        native: bool,
    ) -> Result<FenceInstance, Status> {
        let device = self.live_device(args.device)?;
        let affinity = self.affinity(args.engine_affinity)?;
        self.enter_fence(
            level,
            Arc::new(FenceObject::open(
                level,
                &device,
                args.nt_handle,
                args.flags,
                native,
                affinity,
            )?),
        )
    }

    fn affinity(&self, engine_affinity: u32) -> Result<Affinity, Status> {
        let affinity =
            Affinity::of_call(engine_affinity, self.objects.port.declared.caps.physical_adapters);
        affinity.ok_or(Status::INVALID_PARAMETER)
    }

    /// Gives an instance its handle. The instance stores the handle, so no table walk is needed to
    /// find it.
    fn insert_fence(&self, level: &Passive, instance: &Arc<FenceObject>) -> Result<Handle, Status> {
        let handle = self.insert(level, Object::Fence(instance.clone()))?;
        Ok(*once::make_alone(&instance.handle, || handle))
    }

    /// Gives an instance its handle, and returns the process's view of it.
    fn enter_fence(
        &self,
        level: &Passive,
        instance: Arc<FenceObject>,
    ) -> Result<FenceInstance, Status> {
        let handle = self.insert_fence(level, &instance)?;
        let fence = &instance.fence;
        let no_gpu = fence.flags.contains(SyncObjectFlags::NO_GPU_ACCESS);
        let (current_at, cpu_reaches) = (fence.storage.current_at(), fence.current.is_some());
        Ok(FenceInstance {
            handle,
            // spec: MF-007
            value: match &fence.current {
                Some(value) => {
                    CurrentValueView::ReadOnly(ReadOnly::new(value.cell().word().clone()))
                }
                None => CurrentValueView::OutOfReach,
            },
            epoch: fence
                .current
                .as_ref()
                .and_then(|value| value.cell().epoch_word())
                .map(ReadOnly::new),
            value_cpu_va: if cpu_reaches { cpu_va(current_at) } else { 0 },
            cache_type: self
                .objects
                .port
                .system_memory
                .cache_type(current_at)
                .unwrap_or(CacheType::Uncached),
            // spec: MF-021
            current_value_gpu_va: match no_gpu {
                true => 0,
                false if self.objects.port.declared.caps.io_mmu && cpu_reaches => {
                    instance.device.space.unmapped_va()
                }
                false => instance.mapping.current_va,
            },
            monitored_value_gpu_va: if fence.native.is_some() && !no_gpu {
                instance.mapping.monitored_va
            } else {
                0
            },
            private_data: fence.private_data,
            native: fence.native.is_some(),
            trace_fence: fence.trace().0 + 1,
            number: fence.number(),
        })
    }
}
