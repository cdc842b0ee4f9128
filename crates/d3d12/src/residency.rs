//! Residency that the application manages: references that keep resources in local memory,
//! priorities of resources without references, and the budget.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::resource::Resource;
use crate::umd::failure::Why;
use crate::umd::paging_signals::PagingSignals;
use tidegate_calls::{Handle, ResidencyPriority, SegmentGroup, VideoMemoryInfo};

const SEVERAL: &str = "several resources";

impl Device {
    /// Adds a residency reference to each resource in the default heap, and blocks until all of
    /// them are in local memory. They stay there until [`Device::evict`] has removed all
    /// references.
    ///
    /// # Errors
    /// [`Error::OverBudget`], without any change; [`Error::Foreign`]; as [`Fence::wait`].
    #[doc(alias = "MakeResident")]
    pub fn make_resident<'a, R: Into<Resource<'a>> + Copy>(&self, buffers: &[R]) -> Result<()> {
        self.with_movable(buffers, |allocations| {
            let made = self.shared.umd.make_resident(allocations);
            made.map_err(|failure| self.residency_error(*failure))
        })
    }

    /// Adds references as [`Device::make_resident`] does, and returns at once. `fence` is signalled
    /// with `value` when all resources are in local memory. Work that uses them must wait for that
    /// value, because earlier use faults. Calls are carried out in order.
    ///
    /// # Errors
    /// As [`Device::make_resident`]; [`Error::Foreign`] for a fence of another device.
    #[doc(alias = "EnqueueMakeResident")]
    pub fn enqueue_make_resident<'a, R: Into<Resource<'a>> + Copy>(
        &self,
        buffers: &[R],
        fence: &Fence,
        value: u64,
    ) -> Result<()> {
        let shared = &self.shared;
        shared.check_owner(fence.object.device(), || format!("fence '{}'", fence.name()))?;
        let allocations = self.movable(buffers)?;
        if allocations.is_empty() {
            return fence.signal(value);
        }
        let mut signals = shared.paging_signals.lock_device();
        let made = match &mut *signals {
            Some(made) => Ok(made),
            none => PagingSignals::new(&shared.umd).map(|made| none.insert(made)),
        };
        let umd = &shared.umd;
        let queued = made.and_then(|made| made.enqueue(umd, &allocations, &fence.object, value));
        drop(signals);
        queued.map_err(|failure| self.residency_error(*failure))
    }

    fn residency_error(&self, why: Why) -> Error {
        match why {
            Why::OverBudget(bytes) => {
                Error::OverBudget { what: "making resources resident".to_owned(), bytes }
            }
            Why::Refused(call, status) => self.shared.error(call, SEVERAL, status),
            other => self.shared.queue_error("paging", other),
        }
    }

    /// Sets the order in which buffers of the default heap without references are evicted: the
    /// lowest priority first. A new buffer has [`ResidencyPriority::NORMAL`].
    ///
    /// # Errors
    /// [`Error::Foreign`]; what the kernel refuses.
    #[doc(alias = "SetResidencyPriority")]
    pub fn set_residency_priority<'a, R: Into<Resource<'a>> + Copy>(
        &self,
        buffers: &[R],
        priority: ResidencyPriority,
    ) -> Result<()> {
        self.with_movable(buffers, |allocations| {
            let umd = &self.shared.umd;
            let set = umd.enter().set_allocation_priority(umd.handle(), allocations, priority);
            set.map_err(|s| self.shared.error("D3DKMTSetAllocationPriority", SEVERAL, s))
        })
    }

    /// Returns the allocations of the buffers that move between local and system memory.
    fn movable<'a, R: Into<Resource<'a>> + Copy>(&self, resources: &[R]) -> Result<Vec<Handle>> {
        let mut movable = Vec::with_capacity(resources.len());
        for resource in resources {
            let resource: Resource<'_> = (*resource).into();
            self.shared.check_owner(resource.memory().device(), || resource.what())?;
            movable.extend(resource.memory().movable());
        }
        Ok(movable)
    }

    /// Calls `act` with the allocations of those resources that move, if there are any.
    fn with_movable<'a, R: Into<Resource<'a>> + Copy>(
        &self,
        resources: &[R],
        act: impl FnOnce(&[Handle]) -> Result<()>,
    ) -> Result<()> {
        let movable = self.movable(resources)?;
        if movable.is_empty() { Ok(()) } else { act(&movable) }
    }

    /// Removes a residency reference from each buffer in the default heap. A buffer without
    /// references may be evicted once all work that is queued now is complete.
    ///
    /// # Errors
    /// What the kernel refuses: a buffer that has no reference; [`Error::Foreign`].
    #[doc(alias = "Evict")]
    pub fn evict<'a, R: Into<Resource<'a>> + Copy>(&self, buffers: &[R]) -> Result<()> {
        self.with_movable(buffers, |allocations| {
            let umd = &self.shared.umd;
            let done = umd.enter().evict(umd.handle(), allocations);
            done.map_err(|s| self.shared.error("D3DKMTEvict", SEVERAL, s))
        })
    }

    /// Returns the budget and the use of the adapter's local memory.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[doc(alias = "QueryVideoMemoryInfo")]
    pub fn video_memory(&self) -> Result<VideoMemoryInfo> {
        let queried = self.shared.umd.enter().query_video_memory_info(SegmentGroup::Local);
        queried.map_err(|s| self.shared.error("D3DKMTQueryVideoMemoryInfo", "local memory", s))
    }
}
