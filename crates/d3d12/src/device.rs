//! Devices, which create queues, resources, fences and lists.
//!
//! A [`Device`] is a cheap handle of one kernel device. Each object that it creates holds the
//! kernel device, which ends with the last of them.

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
use crate::umd::failure::Why;
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
    /// Creates a device on the adapter behind `kernel`.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a ring size out of range, [`Error::NotSupported`] for native fences
    /// on an adapter that has none, and what the kernel refuses.
    #[track_caller]
    pub fn new(
        platform: &Platform,
        kernel: Arc<dyn Kernel>,
        options: DeviceOptions,
    ) -> Result<Device> {
        let _call = platform.enter_call("Device::new");
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
            .map_err(|failure| without_device(&process, *failure))?;
        Ok(Device { shared: Arc::new(SharedDevice::new(umd, native_fences)), lane: None })
    }

    /// Returns a handle of the device for a CPU thread with the timeline lane `lane`. Calls through
    /// it and through objects that it creates are recorded there.
    pub fn with_lane(&self, lane: LaneId) -> Device {
        Device { lane: Some(lane), ..self.clone() }
    }

    /// Returns the options that it was created with.
    pub fn options(&self) -> &DeviceOptions {
        &self.shared.umd.options
    }

    /// Returns the adapter's capabilities.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.shared.umd.info
    }

    /// Returns whether [`Device::create_fence`] creates native fences.
    pub fn makes_native_fences(&self) -> bool {
        self.shared.native_fences
    }

    /// Returns the number of physical GPUs that are linked into the adapter. A node mask has a bit
    /// for each.
    #[doc(alias = "GetNodeCount")]
    pub fn physical_gpus(&self) -> u32 {
        self.shared.umd.info.physical_adapters
    }

    /// Returns the ordinals of the nodes for lists of this type. If there are none, it returns
    /// other nodes that can run such lists.
    pub fn nodes_for(&self, list_type: CommandListType) -> Vec<u32> {
        let of_type = |engine_type: u32| -> Vec<u32> {
            let nodes = self.shared.umd.info.nodes.iter().zip(0u32..);
            nodes
                .filter(|(node, _)| node.engine_type == engine_type)
                .map(|(_, ordinal)| ordinal)
                .collect()
        };
        list_type.engine_types().map(of_type).find(|nodes| !nodes.is_empty()).unwrap_or_default()
    }

    // spec: ME-015, ME-003
    /// Creates a queue.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if the named node, or every node, cannot run such lists; what the
    /// kernel refuses. A priority that the process may not use is refused, not lowered.
    #[doc(alias = "CreateCommandQueue")]
    #[track_caller]
    pub fn create_queue(&self, desc: QueueDesc) -> Result<Queue> {
        let _call = self.shared.umd.platform.enter_call("Device::create_queue");
        self.create_queue_with(desc, QueueOptions::default())
    }

    /// Creates a queue with options.
    ///
    /// # Errors
    /// As [`Device::create_queue`].
    #[track_caller]
    pub fn create_queue_with(&self, desc: QueueDesc, options: QueueOptions) -> Result<Queue> {
        let _call = self.shared.umd.platform.enter_call("Device::create_queue_with");
        self.shared.retired.collect();
        Queue::new(&self.shared, desc, options, self.lane)
    }

    /// Returns the queue of normal priority that the components of an application share. Each call
    /// with this type and submission model returns the same queue while a handle of it is held. The
    /// first call creates it. `None` takes the model that [`QueueDesc::submission`] describes.
    ///
    /// # Errors
    /// As [`Device::create_queue`].
    #[track_caller]
    pub fn default_queue(
        &self,
        list_type: CommandListType,
        submission: impl Into<Option<Submission>>,
    ) -> Result<Queue> {
        let _call = self.shared.umd.platform.enter_call("Device::default_queue");
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
    #[track_caller]
    pub fn create_query_heap(&self, name: &str, queries: u32) -> Result<QueryHeap> {
        let _call = self.shared.umd.platform.enter_call("Device::create_query_heap");
        check_queries(name, queries)?;
        let results = self.create_buffer(BufferDesc::new(name, QueryHeap::bytes_for(queries)))?;
        Ok(QueryHeap::new(results, queries))
    }

    /// Creates a buffer, zeroed.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length of 0; what the kernel refuses.
    #[doc(alias = "CreateCommittedResource")]
    #[track_caller]
    pub fn create_buffer(&self, desc: BufferDesc) -> Result<Buffer> {
        let _call = self.shared.umd.platform.enter_call("Device::create_buffer");
        self.shared.retired.collect();
        Buffer::new(&self.shared, desc, self.lane)
    }

    /// Creates a buffer without memory: queues map heaps behind its tiles of 64 KiB, see
    /// [`Queue::update_tile_mappings`]. Its length is rounded up to whole tiles. Using a tile
    /// without memory is a page fault, which removes the device.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length of 0 and for another heap than the default one; what the
    /// kernel refuses.
    #[doc(alias = "CreateReservedResource")]
    pub fn create_reserved_buffer(&self, desc: BufferDesc) -> Result<Buffer> {
        Buffer::reserved(&self.shared, desc, self.lane)
    }

    /// Creates a texture with memory of its own, zeroed.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a size, a number of mips or slices out of range; what the kernel
    /// refuses.
    #[doc(alias = "CreateCommittedResource")]
    #[track_caller]
    pub fn create_texture(&self, desc: TextureDesc) -> Result<Texture> {
        let _call = self.shared.umd.platform.enter_call("Device::create_texture");
        self.shared.retired.collect();
        Texture::new(&self.shared, desc)
    }

    /// Creates a heap, zeroed, for placed resources.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a length of 0; what the kernel refuses.
    #[doc(alias = "CreateHeap")]
    #[track_caller]
    pub fn create_heap(&self, desc: HeapDesc) -> Result<ResourceHeap> {
        let _call = self.shared.umd.platform.enter_call("Device::create_heap");
        self.shared.retired.collect();
        ResourceHeap::new(&self.shared, desc)
    }

    /// Creates a buffer in a heap, from `offset` on, with the bytes that are there. Several
    /// resources may share bytes. An aliasing barrier activates one of them.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an offset that is not a multiple of 64 KiB, a buffer that ends
    /// outside of the heap, and a heap of another type; [`Error::Foreign`].
    #[doc(alias = "CreatePlacedResource")]
    #[track_caller]
    pub fn create_placed_buffer(
        &self,
        heap: &ResourceHeap,
        offset: u64,
        desc: BufferDesc,
    ) -> Result<Buffer> {
        let _call = self.shared.umd.platform.enter_call("Device::create_placed_buffer");
        self.shared.check_owner(heap.device(), || format!("heap '{}'", heap.name()))?;
        Buffer::placed(&self.shared, heap, offset, desc, self.lane)
    }

    /// Creates a texture in a heap, as [`Device::create_placed_buffer`] does a buffer.
    ///
    /// # Errors
    /// As [`Device::create_texture`] and [`Device::create_placed_buffer`].
    #[doc(alias = "CreatePlacedResource")]
    #[track_caller]
    pub fn create_placed_texture(
        &self,
        heap: &ResourceHeap,
        offset: u64,
        desc: TextureDesc,
    ) -> Result<Texture> {
        let _call = self.shared.umd.platform.enter_call("Device::create_placed_texture");
        self.shared.check_owner(heap.device(), || format!("heap '{}'", heap.name()))?;
        Texture::placed(heap, offset, desc)
    }

    /// Creates a fence with the value `initial`. The options of the device decide whether it is
    /// native or monitored.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[track_caller]
    pub fn create_fence(&self, name: &str, initial: u64) -> Result<Fence> {
        let _call = self.shared.umd.platform.enter_call("Device::create_fence");
        self.create_fence_with(FenceDesc::new(name).initial_value(initial))
    }

    /// Creates a fence as described: shared, or for queues only.
    ///
    /// # Errors
    /// [`Error::BadValue`] for SHARED_CROSS_ADAPTER without SHARED; what the kernel refuses.
    #[doc(alias = "CreateFence")]
    #[track_caller]
    pub fn create_fence_with(&self, desc: FenceDesc) -> Result<Fence> {
        let _call = self.shared.umd.platform.enter_call("Device::create_fence_with");
        self.shared.retired.collect();
        Fence::new(&self.shared, desc, self.lane)
    }

    /// Returns an NT handle of a SHARED fence. The handle and each of its clones keep the fence.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a fence of another device; what the kernel refuses.
    #[doc(alias = "CreateSharedHandle")]
    #[track_caller]
    pub fn create_shared_handle(&self, fence: &Fence) -> Result<NtHandle> {
        let _call = self.shared.umd.platform.enter_call("Device::create_shared_handle");
        self.shared.check_owner(fence.object.device(), || format!("fence '{}'", fence.name()))?;
        fence.share(None)
    }

    /// As [`Device::create_shared_handle`], under a name by which every process of the machine
    /// opens it. The name is taken as long as a handle exists that was created with it or opened by
    /// it. The prefixes `Global\` and `Local\` have no effect.
    ///
    /// # Errors
    /// [`Error::NameTaken`]; [`Error::BadValue`] for an empty name, or one with a backslash; as
    /// [`Device::create_shared_handle`].
    #[doc(alias = "CreateSharedHandle")]
    #[track_caller]
    pub fn create_named_shared_handle(&self, fence: &Fence, name: &str) -> Result<NtHandle> {
        let _call = self.shared.umd.platform.enter_call("Device::create_named_shared_handle");
        self.shared.check_owner(fence.object.device(), || format!("fence '{}'", fence.name()))?;
        fence.share(Some(name))
    }

    /// Returns another handle of the fence that was shared under this name. Open it with
    /// [`Device::open_shared_handle`].
    ///
    /// # Errors
    /// [`Error::NameNotFound`]; [`Error::BadValue`] for an empty name, or one with a backslash.
    #[doc(alias = "OpenSharedHandleByName")]
    #[track_caller]
    pub fn open_shared_handle_by_name(&self, name: &str) -> Result<NtHandle> {
        let _call = self.shared.umd.platform.enter_call("Device::open_shared_handle_by_name");
        Fence::handle_from_name(&self.shared, name)
    }

    /// Opens the fence of a handle on this device; reports of this device call it `name`. A fence
    /// of another adapter must be SHARED_CROSS_ADAPTER. The opened fence is native if this adapter
    /// has native fences.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[doc(alias = "OpenSharedHandle")]
    #[track_caller]
    pub fn open_shared_handle(&self, name: &str, handle: &NtHandle) -> Result<Fence> {
        let _call = self.shared.umd.platform.enter_call("Device::open_shared_handle");
        Fence::open(&self.shared, name, handle, self.lane)
    }

    /// Creates an allocator for lists of this type.
    #[doc(alias = "CreateCommandAllocator")]
    #[track_caller]
    pub fn create_command_allocator(
        &self,
        name: &str,
        list_type: CommandListType,
    ) -> CommandAllocator {
        let _call = self.shared.umd.platform.enter_call("Device::create_command_allocator");
        CommandAllocator::new(&self.shared, name, list_type)
    }

    /// Creates an open list for queues of this type, with command memory of its own.
    #[doc(alias = "CreateCommandList")]
    #[track_caller]
    pub fn create_command_list(&self, list_type: CommandListType) -> CommandList {
        let _call = self.shared.umd.platform.enter_call("Device::create_command_list");
        CommandList::new(&self.shared, list_type, None)
    }

    /// Creates an open list of the allocator's type, which records from it.
    ///
    /// # Errors
    /// [`Error::AllocatorRecords`] while another list records from it, [`Error::Foreign`].
    #[doc(alias = "CreateCommandList")]
    #[track_caller]
    pub fn create_command_list_from(&self, allocator: &CommandAllocator) -> Result<CommandList> {
        let _call = self.shared.umd.platform.enter_call("Device::create_command_list_from");
        if !allocator.is_of(&self.shared) {
            return Err(Error::Foreign { what: format!("allocator '{}'", allocator.name()) });
        }
        allocator.record()
    }

    /// Returns what the hazard check has found so far about this device: its memory, its queues and
    /// the fences that it uses. `None` while the check is off ([`Validation::HAZARDS`]). A circle
    /// of waits is in the report once its last call was submitted. It may include other devices
    /// that exist.
    ///
    /// Any thread may call it at any time.
    pub fn hazards(&self) -> Option<Report> {
        let umd = &self.shared.umd;
        umd.platform.hazard_report_of(umd.kernel.space)
    }

    /// Returns the list of destroy calls of this device, its queues and its resources that the
    /// kernel refused. The list outlives the device.
    pub fn teardown_report(&self) -> TeardownReport {
        self.shared.umd.kernel.thunk().teardown().clone()
    }

    /// Blocks until the last work submitted to every queue of the device is complete, also to those
    /// whose last handle was dropped.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::DeviceRemoved`].
    #[track_caller]
    pub fn wait_idle(&self) -> Result<()> {
        let _call = self.shared.umd.platform.enter_call("Device::wait_idle");
        let idle = self.shared.live_queues().iter().try_for_each(|q| self.shared.wait_idle(q));
        self.shared.retired.collect();
        idle
    }

    /// Removes the device: its queued work is dropped, its fences read `u64::MAX`, and each later
    /// call fails with [`RemovedReason::ByApplication`]. A device that was removed before keeps its
    /// first reason.
    #[doc(alias = "RemoveDevice")]
    #[track_caller]
    pub fn remove(&self) {
        let _call = self.shared.umd.platform.enter_call("Device::remove");
        self.shared.remove(RemovedReason::ByApplication);
    }

    /// Takes the violations of resource states since the last call, in the order of detection. A
    /// list is checked when it is closed; lists and queues are checked against each other when the
    /// work can run. At most 1,024 violations are kept. Empty without
    /// [`crate::Validation::STATES`].
    #[doc(alias = "ID3D12InfoQueue")]
    pub fn state_violations(&self) -> Vec<StateViolation> {
        self.shared.states.as_ref().map_or_else(Vec::new, |states| states.take().0)
    }

    /// Returns the reason of the device's removal; `None` for a device that works.
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

/// Returns the error of a call that failed before the device existed.
fn without_device(process: &str, why: Why) -> Error {
    let Why::Refused(call, status) = why else { return Error::Stopped };
    match status {
        Status::CANCELLED => Error::Stopped,
        Status::DEVICE_REMOVED => Error::DeviceRemoved(RemovedReason::AdapterStopped),
        status => Error::Call { call, object: format!("process '{process}'"), status },
    }
}
