//! The objects shared by a device's queues: the kernel device, command memory, the residency lock,
//! and the paging queue of blocking calls.
//!
//! Locks: a queue's submitter lock, then the residency lock, then the arena's lock.

use crate::counters::QueueStats;
use crate::model::DeviceOptions;
use crate::umd::arena::Arena;
use crate::umd::command_memory::CommandMemory;
use crate::umd::failure::{Failure, Why};
use crate::umd::kernel_object::{KernelDevice, Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::thunk::{CPU_WAIT_CALL, Thunk};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{
    AdapterInfo, CreatePagingQueue, DeviceState, FenceValue, Handle, Kernel, MakeResident,
    PagingPriority, ReadOnly, Residency, Status, WaitMode,
};
use tidegate_gpu_abi::{Command, CommandWriter};
use tidegate_platform::{Mutex, Platform, QueueNumber};

pub(crate) struct UmdDevice {
    pub(crate) platform: Platform,
    pub(crate) options: DeviceOptions,
    pub(crate) info: AdapterInfo,
    /// An empty command buffer.
    pub(crate) marker: Arc<CommandMemory>,
    pub(crate) arena: Arc<Arena>,
    /// Held while a submission's buffers are made resident and the submission is made.
    pub(crate) residency: Mutex<()>,
    /// The paging queue of blocking calls and its fence, created by the first such call.
    paging: Mutex<Option<(Owned, Handle)>>,
    /// Statistics of destroyed queues.
    pub(crate) ended: Mutex<QueueStats>,
    /// Names of queues that ended before their work was complete, for reports of their device's
    /// loss.
    pub(crate) unfinished: Mutex<BTreeMap<QueueNumber, String>>,
    pub(crate) kernel: Arc<KernelDevice>,
}

impl UmdDevice {
    pub(crate) fn create(
        platform: &Platform,
        thunk: &Arc<Thunk>,
        info: AdapterInfo,
        options: DeviceOptions,
    ) -> Result<UmdDevice, Failure> {
        let kernel = KernelDevice::create(thunk).map_err(Why::of("D3DKMTCreateDevice"))?;
        let kernel = Arc::new(kernel);
        let arena = Arc::new(Arena::new(platform, &kernel));
        let mut nothing = CommandWriter::new();
        nothing.push(&Command::Label { name: 0 });
        let marker = CommandMemory::upload(&arena, nothing.as_bytes())
            .map_err(Why::of("D3DKMTCreateAllocation2"))?;
        Ok(UmdDevice {
            platform: platform.clone(),
            options,
            info,
            marker: Arc::new(marker),
            arena,
            residency: platform.mutex("residency of submissions", ()),
            paging: platform.mutex("paging queue of a device", None),
            ended: platform.mutex("statistics of ended queues", QueueStats::default()),
            unfinished: platform.mutex("names of unfinished queues", BTreeMap::new()),
            kernel,
        })
    }

    /// Enters the kernel for one call.
    pub(crate) fn enter(&self) -> &dyn Kernel {
        self.kernel.enter()
    }

    pub(crate) fn handle(&self) -> Handle {
        self.kernel.handle()
    }

    pub(crate) fn state(&self) -> Result<DeviceState, Status> {
        self.enter().device_state(self.handle())
    }

    /// Returns a reader of a fence's value, which is now `initial_value`.
    pub(crate) fn reader(&self, value: ReadOnly, initial_value: u64) -> FenceReader {
        FenceReader::new(&self.platform, value, initial_value, self.info.no_64bit_atomics)
    }

    /// Adds a residency reference to each allocation and blocks until all are in local memory.
    pub(crate) fn make_resident(&self, allocations: &[Handle]) -> Result<(), Failure> {
        let (paging_queue, fence) =
            self.paging_queue().map_err(Why::of("D3DKMTCreatePagingQueue"))?;
        let Some(value) = self.add_references(paging_queue, allocations)? else { return Ok(()) };
        let fences = [FenceValue { fence, value }];
        let waited = self.enter().wait_from_cpu(&fences, WaitMode::All, None);
        waited.map_err(Why::of(CPU_WAIT_CALL))
    }

    /// Adds a residency reference to each allocation. Returns the value of the paging queue's fence
    /// at which all are in local memory; `None` if they already are.
    pub(crate) fn add_references(
        &self,
        paging_queue: Handle,
        allocations: &[Handle],
    ) -> Result<Option<u64>, Failure> {
        let residency = self.enter().make_resident(MakeResident { paging_queue, allocations });
        match residency.map_err(Why::of("D3DKMTMakeResident"))? {
            Residency::Resident => Ok(None),
            Residency::Pending { paging_fence_value } => Ok(Some(paging_fence_value)),
            Residency::OverBudget { bytes_to_trim } => Err(Why::OverBudget(bytes_to_trim).into()),
        }
    }

    /// Returns the paging queue and its fence. Two threads that both find none create two, of which
    /// one is kept.
    pub(crate) fn paging_queue(&self) -> Result<(Handle, Handle), Status> {
        if let Some((queue, fence)) = &*self.paging.lock() {
            return Ok((queue.handle(), *fence));
        }
        let args = CreatePagingQueue { device: self.handle(), priority: PagingPriority::Normal };
        let made = self.enter().create_paging_queue(args)?;
        let owned = Owned::new(&self.kernel, Object::PagingQueue, made.handle);
        let mut made = Some((owned, made.fence.handle));
        let mut paging = self.paging.lock();
        let (queue, fence) = paging.get_or_insert_with(|| made.take().expect("it was just made"));
        let kept = (queue.handle(), *fence);
        drop(paging);
        drop(made);
        Ok(kept)
    }
}
