//! Owns devices: where queues, buffers, fences and lists are created, and waits for several fences.
//!
//! A [`Device`] is a cheap handle on one kernel device. Everything created with it holds it, and it
//! ends with the last of them.

use crate::counters::Counters;
use crate::device_loss::RemovedReason;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::list::{CommandAllocator, CommandList, DescriptorHeap, QueryHeap, check_queries};
use crate::model::{
    BufferDesc, CommandListType, DeviceOptions, FenceChoice, FenceDesc, QueueDesc, QueueOptions,
    Submission, Validation,
};
use crate::queue::Queue;
use crate::resource::{Buffer, HeapDesc, ResourceHeap, Texture, TextureDesc};
use crate::shared_device::SharedDevice;
use crate::states::violation::StateViolation;
use crate::teardown::TeardownReport;
use crate::umd::device::UmdDevice;
use crate::umd::failure::Failure;
use crate::umd::ring;
use crate::umd::thunk::Thunk;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{AdapterInfo, Kernel, NtHandle, Status};
use tidegate_platform::Platform;
use tidegate_platform::hazard::Report;
use tidegate_trace::LaneId;

/// A device of one process on one adapter.
#[doc(alias = "ID3D12Device")]
#[derive(Clone)]
pub struct Device {
    pub(crate) shared: Arc<SharedDevice>,
    pub(crate) lane: Option<LaneId>,
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
        if options.validation.contains(Validation::HAZARDS) {
            platform.enable_hazard_check();
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
        let process = options.process_name.clone();
        let umd = UmdDevice::create(platform, &thunk, info, options)
            .map_err(|failure| without_device(&process, failure))?;
        Ok(Device { shared: Arc::new(SharedDevice::new(umd, native_fences)), lane: None })
    }

    /// The same device for a CPU thread that is drawn on `lane`: calls through it, and through what
    /// is made with it, are recorded there.
    pub fn with_lane(&self, lane: LaneId) -> Device {
        Device { lane: Some(lane), ..self.clone() }
    }

    /// The adapter's capabilities.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.shared.umd.info
    }

    /// Whether [`Device::create_fence`] makes native fences.
    pub fn makes_native_fences(&self) -> bool {
        self.shared.native_fences
    }

    /// How many physical GPUs are linked into the adapter (a node mask has a bit for each).
    #[doc(alias = "GetNodeCount")]
    pub fn physical_gpus(&self) -> u32 {
        self.shared.umd.info.physical_adapters
    }

    /// The nodes for lists of this type, by ordinal; if there are none, other nodes that can run
    /// them.
    pub fn nodes_for(&self, list_type: CommandListType) -> Vec<u32> {
        let of_type = |engine_type: u32| -> Vec<u32> {
            let nodes = self.shared.umd.info.nodes.iter().zip(0u32..);
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
    #[doc(alias = "CreateCommandQueue")]
    pub fn create_queue(&self, desc: QueueDesc) -> Result<Queue> {
        self.create_queue_with(desc, QueueOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Device::create_queue`].
    pub fn create_queue_with(&self, desc: QueueDesc, options: QueueOptions) -> Result<Queue> {
        let queue = Queue::new(&self.shared, desc, options, self.lane)?;
        self.shared.add_queue(&queue.inner);
        Ok(queue)
    }

    /// Returns the queue of normal priority that the components of an application share. Each call
    /// with this type and submission model returns the same queue while a handle of it is held. The
    /// first call creates it. `None` takes the model that [`QueueDesc::submission`] describes.
    ///
    /// # Errors
    /// As [`Device::create_queue`].
    pub fn default_queue(
        &self,
        list_type: CommandListType,
        submission: impl Into<Option<Submission>>,
    ) -> Result<Queue> {
        let desc = QueueDesc::new(list_type).submission(submission);
        let submission = Queue::submission_for(&self.shared, &desc)?;
        let key = (list_type, submission);
        let inner = match self.shared.default_queue(key) {
            Some(queue) => queue,
            None => {
                let name = format!("default {list_type} ({submission})");
                let desc = desc.name(name).submission(submission);
                self.shared.set_default_queue(key, self.create_queue(desc)?.inner)
            }
        };
        Ok(Queue::of(inner, &self.shared, self.lane))
    }

    /// Creates a heap of `descriptors` views of buffers, which are not set.
    #[doc(alias = "CreateDescriptorHeap")]
    pub fn create_descriptor_heap(&self, name: &str, descriptors: usize) -> DescriptorHeap {
        DescriptorHeap::new(name, descriptors)
    }

    /// Creates a heap of `queries` timestamp queries.
    ///
    /// # Errors
    /// [`Error::BadValue`] for no queries; what the kernel refuses.
    #[doc(alias = "CreateQueryHeap")]
    pub fn create_query_heap(&self, name: &str, queries: u32) -> Result<QueryHeap> {
        check_queries(name, queries)?;
        let results = self.create_buffer(BufferDesc::new(name, QueryHeap::bytes_for(queries)))?;
        Ok(QueryHeap::new(results, queries))
    }

    /// A buffer, zeroed.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length of 0; what the kernel refuses.
    #[doc(alias = "CreateCommittedResource")]
    pub fn create_buffer(&self, desc: BufferDesc) -> Result<Buffer> {
        Buffer::new(&self.shared, desc, self.lane)
    }

    /// Creates a texture with memory of its own, zeroed.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a size, a number of mips or slices out of range; what the kernel
    /// refuses.
    #[doc(alias = "CreateCommittedResource")]
    pub fn create_texture(&self, desc: TextureDesc) -> Result<Texture> {
        Texture::new(&self.shared, desc)
    }

    /// Creates a heap, zeroed, for placed resources.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length of 0; what the kernel refuses.
    #[doc(alias = "CreateHeap")]
    pub fn create_heap(&self, desc: HeapDesc) -> Result<ResourceHeap> {
        ResourceHeap::new(&self.shared, desc)
    }

    /// Creates a buffer in a heap, from `offset` on. It has the bytes that are there. Several
    /// resources may lie over the same bytes; an aliasing barrier says which one has them.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an offset that is no multiple of 64 KiB, a buffer that leaves the
    /// heap, and a heap of another type; [`Error::Foreign`].
    #[doc(alias = "CreatePlacedResource")]
    pub fn create_placed_buffer(
        &self,
        heap: &ResourceHeap,
        offset: u64,
        desc: BufferDesc,
    ) -> Result<Buffer> {
        self.shared.check_owner(heap.device(), || format!("heap '{}'", heap.name()))?;
        Buffer::placed(&self.shared, heap, offset, desc, self.lane)
    }

    /// Creates a texture in a heap, as [`Device::create_placed_buffer`] does a buffer.
    ///
    /// # Errors
    /// As [`Device::create_texture`] and [`Device::create_placed_buffer`].
    #[doc(alias = "CreatePlacedResource")]
    pub fn create_placed_texture(
        &self,
        heap: &ResourceHeap,
        offset: u64,
        desc: TextureDesc,
    ) -> Result<Texture> {
        self.shared.check_owner(heap.device(), || format!("heap '{}'", heap.name()))?;
        Texture::placed(heap, offset, desc)
    }

    /// Creates a fence whose value is `initial` when the call returns; native or monitored by the
    /// options of the device.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn create_fence(&self, name: &str, initial: u64) -> Result<Fence> {
        self.create_fence_with(FenceDesc::new(name).initial_value(initial))
    }

    /// Creates a fence as described: shared, or for queues only.
    ///
    /// # Errors
    /// [`Error::BadValue`] for SHARED_CROSS_ADAPTER without SHARED; what the kernel refuses.
    #[doc(alias = "CreateFence")]
    pub fn create_fence_with(&self, desc: FenceDesc) -> Result<Fence> {
        Fence::new(&self.shared, desc, self.lane)
    }

    /// A handle of a fence that was made SHARED. It keeps the fence, and each clone is one more
    /// handle.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a fence of another device; what the kernel refuses.
    #[doc(alias = "CreateSharedHandle")]
    pub fn create_shared_handle(&self, fence: &Fence) -> Result<NtHandle> {
        self.shared.check_owner(fence.object.device(), || format!("fence '{}'", fence.name()))?;
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
        Fence::open(&self.shared, name, handle, self.lane)
    }

    /// Creates an allocator for lists of this type.
    #[doc(alias = "CreateCommandAllocator")]
    pub fn create_command_allocator(
        &self,
        name: &str,
        list_type: CommandListType,
    ) -> CommandAllocator {
        CommandAllocator::new(&self.shared, name, list_type)
    }

    /// Creates an open list for queues of this type, with command memory of its own.
    #[doc(alias = "CreateCommandList")]
    pub fn create_command_list(&self, list_type: CommandListType) -> CommandList {
        CommandList::new(&self.shared, list_type, None)
    }

    /// Creates an open list of the allocator's type, which records from it.
    ///
    /// # Errors
    /// [`Error::AllocatorRecords`] while another list records from it, [`Error::Foreign`].
    #[doc(alias = "CreateCommandList")]
    pub fn create_command_list_from(&self, allocator: &CommandAllocator) -> Result<CommandList> {
        if !allocator.is_of(&self.shared) {
            return Err(Error::Foreign { what: format!("allocator '{}'", allocator.name()) });
        }
        allocator.record()
    }

    /// Returns what the hazard check of the machine has found so far; `None` while it is off
    /// ([`Validation::HAZARDS`]).
    pub fn hazards(&self) -> Option<Report> {
        self.shared.umd.platform.hazard_report()
    }

    /// The destroy calls of this device, its queues and its resources that the kernel refused. It
    /// outlives the device.
    pub fn teardown_report(&self) -> TeardownReport {
        self.shared.umd.kernel.thunk().teardown().clone()
    }

    /// Blocks until the last work submitted to every queue of the device is complete.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::DeviceRemoved`].
    pub fn wait_idle(&self) -> Result<()> {
        self.shared.live_queues().iter().try_for_each(|queue| self.shared.wait_idle(queue))
    }

    /// Removes the device, as its application asks: its queued work is given up, its fences read
    /// `u64::MAX`, and every later call answers [`RemovedReason::ByApplication`]. A device that was
    /// lost before keeps its first reason.
    #[doc(alias = "RemoveDevice")]
    pub fn remove(&self) {
        self.shared.remove(RemovedReason::ByApplication);
    }

    /// Takes the violations of the rules of resource states that were found since the last call, in
    /// the order in which they were found: those of a list when it is closed, those between lists
    /// and queues when the work can run. Empty without [`crate::Validation::STATES`]. Of a long row
    /// without a call between, the first 1,024 are kept.
    #[doc(alias = "ID3D12InfoQueue")]
    pub fn state_violations(&self) -> Vec<StateViolation> {
        self.shared.states.as_ref().map_or_else(Vec::new, |states| states.take().0)
    }

    /// Returns the reason of the device's loss; `None` while it works.
    #[doc(alias = "GetDeviceRemovedReason")]
    pub fn removed_reason(&self) -> Option<RemovedReason> {
        self.shared.removed_reason()
    }

    /// Returns the statistics of the device and its queues.
    pub fn counters(&self) -> Counters {
        let mut sum = *self.shared.umd.ended.lock();
        for queue in self.shared.live_queues() {
            sum += queue.stats();
        }
        let [kernel_calls, cpu_waits, cpu_wakes] = self.shared.umd.kernel.thunk().counts();
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
        write!(f, "Device({:?})", self.shared.umd.options.process_name)
    }
}

/// The error of a call that failed before there was a device.
fn without_device(process: &str, failure: Failure) -> Error {
    let Failure::Refused(call, status) = failure else { return Error::Stopped };
    match status {
        Status::CANCELLED => Error::Stopped,
        Status::DEVICE_REMOVED => Error::DeviceRemoved(RemovedReason::AdapterStopped),
        status => Error::Call { call, object: format!("process '{process}'"), status },
    }
}
