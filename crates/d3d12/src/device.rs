//! Owns devices: where queues, buffers, fences and lists are made, what removed a device, and
//! blocking CPU waits.
//!
//! A [`Device`] is a cheap handle on one kernel device; everything made with it holds it, and it
//! ends with the last of them. Locks: the list of queues is guarded by a lock of its own, never
//! held over a kernel call or another lock.

use crate::counters::{Counters, QueueStats};
use crate::device_loss::{Fault, RemovedReason};
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::list::{CommandList, CommandMemory};
use crate::model::{
    BufferDesc, CommandListType, DeviceOptions, FenceChoice, FenceFlags, QueueDesc, QueueOptions,
    ResidencyChoice, Submission,
};
use crate::queue::{Queue, QueueInner};
use crate::resource::Buffer;
use crate::teardown::TeardownReport;
use crate::umd::arena::Arena;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::residency::Pager;
use crate::umd::thunk::Thunk;
use crate::umd::{Failure, QueueIdentity, ring};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use tidegate_calls::MAX_OBJECTS_PER_CPU_WAIT;
use tidegate_calls::{
    AdapterInfo, CreatePagingQueue, DeviceState, FaultReport, FenceValue, Handle, Kernel,
    MakeResident, NtHandle, PagingPriority, Priority, ReadOnly, Residency, SegmentGroup, Status,
    VideoMemoryInfo, WaitMode,
};
use tidegate_gpu_abi::{Command, CommandWriter};
use tidegate_platform::{Event, Mutex, Platform, Step};
use tidegate_trace::{Kind, LaneId, NameId, Record};

/// A device of one process on one adapter.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<DeviceInner>,
    lane: Option<LaneId>,
}

pub(crate) struct DeviceInner {
    pub(crate) platform: Platform,
    pub(crate) thunk: Arc<Thunk>,
    pub(crate) options: DeviceOptions,
    pub(crate) native_fences: bool,
    pub(crate) names: CallNames,
    pub(crate) info: AdapterInfo,
    queues: Mutex<Queues>,
    marker: Arc<CommandMemory>,
    pub(crate) arena: Arc<Arena>,
    /// Held while a submission has its buffers resident and is being made.
    pub(crate) residency: Mutex<()>,
    /// The paging queue of calls that wait for it, and its fence; made with the first of them.
    paging: Mutex<Option<(Owned, Handle)>>,
    /// Last: everything else of the device ends before it.
    handle: Owned,
}

/// Names of queued fence operations on the timeline.
pub(crate) struct CallNames {
    pub(crate) wait: NameId,
    pub(crate) signal: NameId,
}

struct Queues {
    /// By tag, which is the order of their making.
    live: BTreeMap<u32, Weak<QueueInner>>,
    /// What ended queues did.
    ended: QueueStats,
    /// Queue names by tag, kept for reports on queues that are gone.
    names: BTreeMap<u32, String>,
    /// The default queues that exist, by list type and submission model.
    defaults: Vec<((CommandListType, Submission), Weak<QueueInner>)>,
}

impl Queues {
    fn default_queue(&self, key: (CommandListType, Submission)) -> Option<Arc<QueueInner>> {
        self.defaults.iter().find(|(of, _)| *of == key).and_then(|(_, queue)| queue.upgrade())
    }
}

impl Device {
    // spec: ME-050
    /// A device on the adapter behind `kernel`.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a ring size out of range, [`Error::NotSupported`] for native fences
    /// on an adapter that has none, and what the kernel refuses.
    pub fn new(
        platform: &Platform,
        kernel: Arc<dyn Kernel>,
        options: DeviceOptions,
    ) -> Result<Device> {
        if !ring::slots_are_valid(options.ring_slots) {
            let what = format!("ring_slots = {}", options.ring_slots);
            return Err(Error::BadValue {
                what,
                why: "a ring has a power of two of slots, from 8 to 1048576",
            });
        }
        let thunk = Arc::new(Thunk::new(platform, kernel));
        let info = thunk.enter().query_adapter_info();
        let native_fences = match options.fences {
            FenceChoice::Auto => info.native_gpu_fence_supported,
            FenceChoice::Monitored => false,
            FenceChoice::Native if info.native_gpu_fence_supported => true,
            FenceChoice::Native => {
                let what = format!("native fences on '{}'", info.description);
                return Err(Error::NotSupported {
                    what,
                    why: "the adapter has none; choose auto or monitored fences",
                });
            }
        };
        let refused = |call| {
            let object = format!("process '{}'", options.process_name);
            move |status| without_device(call, object, status)
        };
        let handle = thunk.enter().create_device().map_err(refused("D3DKMTCreateDevice"))?;
        let handle = Owned::new(&thunk, Object::Device, handle);
        let arena = Arc::new(Arena::new(platform, &thunk, handle.handle()));
        let mut nothing = CommandWriter::new();
        nothing.push(&Command::Label { name: 0 });
        let marker = CommandMemory::upload(&arena, &nothing.to_bytes());
        let marker = Arc::new(marker.map_err(refused("D3DKMTCreateAllocation2"))?);
        let queues = Queues {
            live: BTreeMap::new(),
            ended: QueueStats::default(),
            names: BTreeMap::new(),
            defaults: Vec::new(),
        };
        let inner = DeviceInner {
            platform: platform.clone(),
            thunk,
            native_fences,
            names: CallNames {
                wait: platform.trace_name("wait"),
                signal: platform.trace_name("signal"),
            },
            info,
            queues: platform.mutex("queues of a device", queues),
            residency: platform.mutex("residency of submissions", ()),
            paging: platform.mutex("paging queue of a device", None),
            marker,
            arena,
            handle,
            options,
        };
        Ok(Device { inner: Arc::new(inner), lane: None })
    }

    /// The same device for a CPU thread that is drawn on `lane`: calls through it, and through what
    /// is made with it, are recorded there.
    pub fn with_lane(&self, lane: LaneId) -> Device {
        Device { inner: Arc::clone(&self.inner), lane: Some(lane) }
    }

    /// What the adapter offers.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.inner.info
    }

    /// Whether [`Device::create_fence`] makes native fences.
    pub fn makes_native_fences(&self) -> bool {
        self.inner.native_fences
    }

    /// How many physical GPUs are linked into the adapter (a node mask has a bit for each).
    #[doc(alias = "GetNodeCount")]
    pub fn physical_gpus(&self) -> u32 {
        self.inner.info.physical_adapters
    }

    /// The nodes made for lists of this type, by ordinal; the nodes that can also run them where
    /// there is none.
    pub fn nodes_for(&self, list_type: CommandListType) -> Vec<u32> {
        let of_type = |engine_type: u32| -> Vec<u32> {
            let nodes = self.inner.info.nodes.iter().zip(0u32..);
            nodes
                .filter(|(node, _)| node.engine_type == engine_type)
                .map(|(_, ordinal)| ordinal)
                .collect()
        };
        let kinds = list_type.engine_types().iter().map(|engine_type| of_type(*engine_type));
        kinds.into_iter().find(|nodes| !nodes.is_empty()).unwrap_or_default()
    }

    // spec: ME-015, ME-003
    /// A queue.
    ///
    /// # Errors
    /// [`Error::NotSupported`] when no node, or not this one, can run it; what the kernel refuses,
    /// a priority that cannot be had among it: it is never lowered.
    pub fn create_queue(&self, desc: QueueDesc) -> Result<Queue> {
        self.create_queue_with(desc, QueueOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Device::create_queue`].
    pub fn create_queue_with(&self, desc: QueueDesc, options: QueueOptions) -> Result<Queue> {
        let queue = Queue::new(self, desc, options, self.lane)?;
        let mut queues = self.inner.queues.lock();
        queues.names.insert(queue.tag(), queue.name().to_owned());
        queues.live.insert(queue.tag(), Arc::downgrade(&queue.inner));
        Ok(queue)
    }

    // spec: ME-080
    /// Returns the queue of normal priority that the components of an application share. Each call
    /// with this type and submission model returns the same queue while a handle of it is held. The
    /// first call creates it.
    ///
    /// # Errors
    /// As [`Device::create_queue`].
    pub fn default_queue(
        &self,
        list_type: CommandListType,
        submission: Submission,
    ) -> Result<Queue> {
        let key = (list_type, submission);
        if let Some(inner) = self.inner.queues.lock().default_queue(key) {
            return Ok(Queue::of(inner, self.lane));
        }
        let name = format!("default {list_type} ({submission})");
        let priority = Priority::Normal;
        let made = self.create_queue(QueueDesc {
            name,
            list_type,
            priority,
            submission,
            node: None,
            node_mask: 0,
        })?;
        // A call on another thread may have created the queue since: then that queue is the
        // default, and this one ends.
        let mut queues = self.inner.queues.lock();
        let first = queues.default_queue(key);
        if first.is_none() {
            queues.defaults.retain(|(other, _)| *other != key);
            queues.defaults.push((key, Arc::downgrade(&made.inner)));
        }
        drop(queues);
        Ok(first.map_or(made, |inner| Queue::of(inner, self.lane)))
    }

    /// A buffer, zeroed.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length of 0; what the kernel refuses.
    pub fn create_buffer(&self, desc: BufferDesc) -> Result<Buffer> {
        Buffer::new(&self.inner, desc, self.lane)
    }

    /// Gives each buffer in the default heap a reference, and blocks until all of them are in local
    /// memory. They stay there until as many references were taken back by [`Device::evict`].
    ///
    /// # Errors
    /// [`Error::OverBudget`], and nothing was done; [`Error::Foreign`]; as [`Fence::wait`].
    #[doc(alias = "MakeResident")]
    pub fn make_resident(&self, buffers: &[&Buffer]) -> Result<()> {
        let allocations = self.inner.moving(buffers)?;
        if allocations.is_empty() { Ok(()) } else { self.inner.make_resident(&allocations) }
    }

    /// Takes a reference of each buffer in the default heap away. One without references may leave
    /// local memory when its room is needed, and not before what is queued by now is complete.
    ///
    /// # Errors
    /// What the kernel refuses: a buffer that has no reference; [`Error::Foreign`].
    #[doc(alias = "Evict")]
    pub fn evict(&self, buffers: &[&Buffer]) -> Result<()> {
        let allocations = self.inner.moving(buffers)?;
        if allocations.is_empty() {
            return Ok(());
        }
        let done = self.inner.thunk.enter().evict(self.inner.handle(), &allocations);
        done.map_err(|s| self.inner.error("D3DKMTEvict", "several buffers", s))
    }

    /// What the process may count on of the adapter's local memory, and what it has there.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[doc(alias = "QueryVideoMemoryInfo")]
    pub fn video_memory(&self) -> Result<VideoMemoryInfo> {
        let asked = self.inner.thunk.enter().query_video_memory_info(SegmentGroup::Local);
        asked.map_err(|s| self.inner.error("D3DKMTQueryVideoMemoryInfo", "local memory", s))
    }

    /// A fence whose value is `initial` when the call returns; native or monitored as the device
    /// was told.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn create_fence(&self, name: &str, initial: u64) -> Result<Fence> {
        self.create_fence_with(name, initial, FenceFlags::NONE)
    }

    /// A fence that can be shared, or that queues alone use.
    ///
    /// # Errors
    /// [`Error::BadValue`] for SHARED_CROSS_ADAPTER without SHARED; what the kernel refuses.
    #[doc(alias = "CreateFence")]
    pub fn create_fence_with(&self, name: &str, initial: u64, flags: FenceFlags) -> Result<Fence> {
        Fence::new(&self.inner, name, initial, flags, self.lane)
    }

    /// A handle of a fence that was made SHARED. It keeps the fence, and each clone is one more
    /// handle.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a fence of another device; what the kernel refuses.
    #[doc(alias = "CreateSharedHandle")]
    pub fn create_shared_handle(&self, fence: &Fence) -> Result<NtHandle> {
        self.inner.owns(&fence.inner.device, || format!("fence '{}'", fence.name()))?;
        fence.share()
    }

    /// The fence behind a handle, opened on this device; `name` is what reports of this device call
    /// it. On another adapter than its creator's it must have been made SHARED_CROSS_ADAPTER. It is
    /// native where the adapter has native fences.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[doc(alias = "OpenSharedHandle")]
    pub fn open_shared_handle(&self, name: &str, handle: &NtHandle) -> Result<Fence> {
        Fence::open(&self.inner, name, handle, self.lane)
    }

    /// An open list that takes what a queue of this type takes.
    pub fn create_command_list(&self, list_type: CommandListType) -> CommandList {
        CommandList::new(&self.inner, list_type)
    }

    /// An event for [`Fence::set_event_on_completion`], which is not set. A manual-reset event
    /// stays set until it is reset; an auto-reset event is reset by the wait that it releases.
    pub fn create_event(&self, manual_reset: bool) -> Event {
        self.create_event_with(manual_reset, false)
    }

    // spec: ME-079
    /// As [`Device::create_event`], with the event set from the start if `initially_set`.
    /// [`Event::wait_any`] waits for any of several events.
    #[doc(alias = "CreateEvent")]
    pub fn create_event_with(&self, manual_reset: bool, initially_set: bool) -> Event {
        let event = self.inner.platform.event(manual_reset);
        if initially_set {
            event.set(Step::ThreadWake);
        }
        event
    }

    // spec: ME-045
    /// Waits for all or any of several fences: blocks, or, given an event, returns at once and has
    /// it set then.
    ///
    /// # Errors
    /// As [`Fence::wait`]; [`Error::BadValue`] for no fences at all, and for more than 4,096.
    pub fn wait_multiple(
        &self,
        fences: &[(&Fence, u64)],
        mode: WaitMode,
        event: Option<Event>,
    ) -> Result<()> {
        if fences.is_empty() {
            let what = "a wait for several fences".to_owned();
            return Err(Error::BadValue { what, why: "it names no fence; name at least one" });
        }
        if fences.len() > MAX_OBJECTS_PER_CPU_WAIT {
            let what = format!("a wait for {} fences", fences.len());
            return Err(Error::BadValue {
                what,
                why: "one wait names at most 4096 fences; divide it",
            });
        }
        for (fence, _) in fences {
            self.inner.owns(&fence.inner.device, || format!("fence '{}'", fence.name()))?;
        }
        let values: Vec<FenceValue> =
            fences.iter().map(|(fence, value)| fence.inner.at(*value)).collect();
        if event.is_some() {
            let asked = self.inner.thunk.enter().wait_from_cpu(&values, mode, event);
            return asked.map_err(|s| self.inner.error(WAIT_CALL, "several fences", s));
        }
        let reached = || {
            let mut states = fences.iter().map(|(fence, value)| fence.completed_value() >= *value);
            match mode {
                WaitMode::All => states.all(|s| s),
                WaitMode::Any => states.any(|s| s),
            }
        };
        let lost = || fences.iter().any(|(fence, _)| fence.completed_value() == u64::MAX);
        let start = self.inner.stamp(self.lane);
        let result = self.inner.block(&values, mode, || "several fences".to_owned(), reached, lost);
        for (fence, value) in fences {
            self.inner.record_call(start, Kind::CpuWait, NameId::NONE, |r| {
                r.on(fence.inner.on_timeline(*value))
            });
        }
        result
    }

    /// The destroy calls of this device, its queues and its resources that the kernel refused. It
    /// outlives the device.
    pub fn teardown_report(&self) -> TeardownReport {
        self.inner.thunk.teardown().clone()
    }

    /// Blocks until the last work submitted to every queue of the device is complete.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::DeviceRemoved`].
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.live_queues().iter().try_for_each(|queue| queue.wait_idle())
    }

    /// Why the device was lost; `None` while it works.
    #[doc(alias = "GetDeviceRemovedReason")]
    pub fn removed_reason(&self) -> Option<RemovedReason> {
        self.inner.removed_reason()
    }

    /// What the device and its queues did so far.
    pub fn counters(&self) -> Counters {
        let mut sum = self.inner.queues.lock().ended;
        for queue in self.inner.live_queues() {
            sum += queue.stats();
        }
        let [kernel_calls, cpu_waits, cpu_wakes] = self.inner.thunk.counts();
        Counters {
            kernel_calls,
            cpu_waits,
            cpu_wakes,
            submissions: sum.submissions,
            doorbell_rings: sum.doorbell_rings,
            connects: sum.connects,
            retries: sum.retries,
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({:?})", self.inner.options.process_name)
    }
}

pub(crate) const WAIT_CALL: &str = "D3DKMTWaitForSynchronizationObjectFromCpu";

/// The error of a call that failed before there was a device.
fn without_device(call: &'static str, object: String, status: Status) -> Error {
    match status {
        Status::CANCELLED => Error::Stopped,
        Status::DEVICE_REMOVED => Error::DeviceRemoved(RemovedReason::AdapterStopped),
        status => Error::Call { call, object, status },
    }
}

impl DeviceInner {
    pub(crate) fn handle(&self) -> Handle {
        self.handle.handle()
    }

    /// An empty command buffer.
    pub(crate) fn marker(&self) -> &Arc<CommandMemory> {
        &self.marker
    }

    /// The node that shall run lists of a type.
    pub(crate) fn node(&self, desc: &QueueDesc) -> Result<u32> {
        let refused =
            |why| Err(Error::NotSupported { what: format!("queue '{}'", desc.name), why });
        let kinds = desc.list_type.engine_types();
        let nodes = &self.info.nodes;
        let first = |kind: &u32| nodes.iter().position(|node| node.engine_type == *kind);
        let Some(ordinal) = desc.node.or_else(|| kinds.iter().find_map(first).map(|at| at as u32))
        else {
            return refused("no node of the adapter runs such lists; choose another list type");
        };
        match nodes.get(ordinal as usize) {
            Some(node) if kinds.contains(&node.engine_type) => Ok(ordinal),
            Some(_) => {
                refused("its node does not run such lists; leave the node out or choose another")
            }
            None => refused(
                "the adapter has no node of this ordinal; leave the node out or choose another",
            ),
        }
    }

    /// What looks after the residency of a queue's submissions, if that is wanted.
    pub(crate) fn pager(
        &self,
        id: &QueueIdentity,
        priority: Priority,
    ) -> std::result::Result<Option<Pager>, Failure> {
        match self.options.residency {
            ResidencyChoice::Explicit => Ok(None),
            ResidencyChoice::Automatic => Pager::new(id, priority).map(Some),
        }
    }

    /// The allocations of those buffers that move.
    fn moving(&self, buffers: &[&Buffer]) -> Result<Vec<Handle>> {
        let mut allocations = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            if !std::ptr::eq(self, &*buffer.inner.device) {
                return Err(Error::Foreign { what: format!("buffer '{}'", buffer.name()) });
            }
            if buffer.inner.moves() {
                allocations.push(buffer.inner.allocation());
            }
        }
        Ok(allocations)
    }

    fn make_resident(&self, allocations: &[Handle]) -> Result<()> {
        let refused = |call| move |status| self.error(call, "several buffers", status);
        let (paging_queue, fence) =
            self.paging_queue().map_err(refused("D3DKMTCreatePagingQueue"))?;
        let asked = self.thunk.enter().make_resident(MakeResident { paging_queue, allocations });
        match asked.map_err(refused("D3DKMTMakeResident"))? {
            Residency::Resident => Ok(()),
            Residency::Pending { paging_fence_value: value } => {
                let waited = self.thunk.enter().wait_from_cpu(
                    &[FenceValue { fence, value }],
                    WaitMode::All,
                    None,
                );
                waited.map_err(refused(WAIT_CALL))
            }
            Residency::OverBudget { bytes_to_trim: bytes } => {
                Err(Error::OverBudget { what: "making buffers resident".to_owned(), bytes })
            }
        }
    }

    /// The paging queue and its fence. Two threads that both find none make two, and one of them is
    /// kept.
    fn paging_queue(&self) -> std::result::Result<(Handle, Handle), Status> {
        if let Some((queue, fence)) = &*self.paging.lock() {
            return Ok((queue.handle(), *fence));
        }
        let args = CreatePagingQueue { device: self.handle(), priority: PagingPriority::Normal };
        let made = self.thunk.enter().create_paging_queue(args)?;
        let mut made =
            Some((Owned::new(&self.thunk, Object::PagingQueue, made.handle), made.fence.handle));
        let mut paging = self.paging.lock();
        let (queue, fence) = paging.get_or_insert_with(|| made.take().expect("it was just made"));
        let kept = (queue.handle(), *fence);
        drop(paging);
        drop(made);
        Ok(kept)
    }

    /// Refuses a node mask that names more than one physical GPU, or one that is not there.
    pub(crate) fn check_node_mask(&self, desc: &QueueDesc) -> Result<()> {
        let mask = desc.node_mask;
        let there = mask.checked_shr(self.info.physical_adapters).unwrap_or(0) == 0;
        if mask.count_ones() > 1 || !there {
            return Err(Error::BadValue {
                what: format!("node_mask = {mask:#b} of queue '{}'", desc.name),
                why: "a queue runs on one physical GPU: the bit of one that is there, or 0 for the first",
            });
        }
        Ok(())
    }

    /// Refuses an object of another device.
    pub(crate) fn owns(
        &self,
        device: &Arc<DeviceInner>,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        match std::ptr::eq(self, &**device) {
            true => Ok(()),
            false => Err(Error::Foreign { what: what() }),
        }
    }

    fn live_queues(&self) -> Vec<Arc<QueueInner>> {
        self.queues.lock().live.values().filter_map(Weak::upgrade).collect()
    }

    /// Keeps what an ending queue did.
    pub(crate) fn queue_ended(&self, tag: u32, stats: QueueStats) {
        let mut queues = self.queues.lock();
        queues.ended += stats;
        queues.live.remove(&tag);
    }

    /// The error of a refused call. Ask without holding a queue's submitter lock: the reason of a
    /// removal names what the queue was running.
    pub(crate) fn error(&self, call: &'static str, object: &str, status: Status) -> Error {
        match status {
            Status::CANCELLED => Error::Stopped,
            Status::DEVICE_REMOVED | Status::DEVICE_HUNG => {
                let refused = || RemovedReason::Refused { call, object: object.to_owned(), status };
                Error::DeviceRemoved(self.removed_reason().unwrap_or_else(refused))
            }
            status => Error::Call { call, object: object.to_owned(), status },
        }
    }

    pub(crate) fn removed_reason(&self) -> Option<RemovedReason> {
        match self.thunk.enter().device_state(self.handle()) {
            Ok(DeviceState::Active) => None,
            Ok(DeviceState::Faulted(report)) => {
                Some(RemovedReason::Faulted(Box::new(self.fault(report))))
            }
            Ok(DeviceState::Hung(what)) => Some(RemovedReason::Hung(what)),
            Ok(DeviceState::Reset(what)) => Some(RemovedReason::Reset(what)),
            Ok(DeviceState::Stopped) => Some(RemovedReason::AdapterStopped),
            Ok(DeviceState::Removed) => Some(RemovedReason::AdapterRemoved),
            Ok(DeviceState::ProcessEnded) => Some(RemovedReason::ProcessEnded),
            Err(Status::CANCELLED) => None,
            Err(status) => {
                let object = format!("process '{}'", self.options.process_name);
                Some(RemovedReason::Refused { call: "D3DKMTGetDeviceState", object, status })
            }
        }
    }

    /// The report with the names of queue and list.
    fn fault(&self, report: FaultReport) -> Fault {
        let queue = self.live_queues().into_iter().find(|queue| queue.id.tag == report.tag);
        let list = queue.and_then(|queue| queue.label_at(report.position));
        let queues = self.queues.lock();
        let queue = queues.names.get(&report.tag).cloned();
        Fault { queue, list, of_linked_adapter: self.info.physical_adapters > 1, report }
    }

    // spec: ME-036, ME-044
    /// Blocks until `reached`. What user mode can see by itself needs no kernel call; `lost` says
    /// that a value was seen which a removed device's fences have.
    pub(crate) fn block(
        &self,
        fences: &[FenceValue],
        mode: WaitMode,
        what: impl Fn() -> String,
        reached: impl Fn() -> bool,
        lost: impl Fn() -> bool,
    ) -> Result<()> {
        self.thunk.cpu_wait_made();
        if !reached() {
            self.thunk
                .enter()
                .wait_from_cpu(fences, mode, None)
                .map_err(|s| self.error(WAIT_CALL, &what(), s))?;
            self.thunk.cpu_wait_woken();
        }
        self.still_there(lost)
    }

    fn still_there(&self, lost: impl Fn() -> bool) -> Result<()> {
        match if lost() { self.removed_reason() } else { None } {
            Some(reason) => Err(Error::DeviceRemoved(reason)),
            None => Ok(()),
        }
    }

    /// Blocks until a queue's progress has reached `value`. No wait of the application, so it is
    /// not counted as one.
    pub(crate) fn wait_for_progress(
        &self,
        id: &QueueIdentity,
        fence: Handle,
        progress: &FenceReader,
        value: u64,
    ) -> Result<()> {
        if progress.load() < value {
            let wait = self.thunk.enter().wait_from_cpu(
                &[FenceValue { fence, value }],
                WaitMode::All,
                None,
            );
            // A queue that was made anew meanwhile has signalled its old progress fence, and may
            // have ended it by now.
            if let Err(status) = wait
                && progress.load() < value
            {
                return Err(self.error(
                    WAIT_CALL,
                    &format!("progress of queue '{}'", id.name),
                    status,
                ));
            }
        }
        self.still_there(|| progress.load() == u64::MAX)
    }

    /// Reads a fence's value, which is `initial_value` now.
    pub(crate) fn reader(&self, value: ReadOnly, initial_value: u64) -> FenceReader {
        FenceReader::new(&self.platform, value, initial_value, self.info.no_64bit_atomics)
    }

    /// The time of a call that is to be recorded on `lane`; `None` when it is not.
    #[inline]
    pub(crate) fn stamp(&self, lane: Option<LaneId>) -> Option<(LaneId, u64)> {
        let lane = lane?;
        self.platform.tracing().then(|| (lane, self.platform.stamp_ns()))
    }

    /// Records a call that began at `start` and ends now; `more` adds what is particular about it.
    pub(crate) fn record_call(
        &self,
        start: Option<(LaneId, u64)>,
        kind: Kind,
        name: NameId,
        more: impl FnOnce(Record) -> Record,
    ) {
        let Some((lane, start_ns)) = start else { return };
        self.platform.record(more(Record::span(
            lane,
            kind,
            name,
            start_ns,
            self.platform.stamp_ns(),
        )));
    }
}
