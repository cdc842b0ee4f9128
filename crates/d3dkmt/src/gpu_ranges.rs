//! The GPU addresses that this process has reserved, by adapter and first address.

use crate::object::{Adapter, AdapterNumber, Device};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{Handle, Status};
use tidegate_platform::{Mutex, Platform};

/// Reserved addresses.
#[derive(Clone)]
pub(crate) struct ReservedRange {
    pub(crate) device: Arc<Device>,
    /// In the kernel.
    pub(crate) handle: Handle,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
}

/// All reserved addresses of the process.
pub(crate) struct GpuRanges(Mutex<BTreeMap<(AdapterNumber, u64), ReservedRange>>);

impl GpuRanges {
    pub(crate) fn new(platform: &Platform) -> GpuRanges {
        GpuRanges(platform.mutex("reserved GPU addresses", BTreeMap::new()))
    }

    pub(crate) fn insert(&self, range: ReservedRange) {
        let key = (range.device.adapter.number(), range.gpu_va);
        // The kernel gives no address twice, but a range of a device that has ended may be left.
        let _of_ended_device = self.0.lock_device().insert(key, range);
    }

    /// Returns the range that begins here and has this size.
    pub(crate) fn exactly(
        &self,
        adapter: &Adapter,
        gpu_va: u64,
        bytes: u64,
    ) -> Option<ReservedRange> {
        let found = self.0.lock_device().get(&(adapter.number(), gpu_va)).cloned();
        found.filter(|range| range.bytes == bytes)
    }

    /// Returns the range that contains all of these addresses.
    ///
    /// # Errors
    /// INVALID_PARAMETER if there is none.
    pub(crate) fn around(
        &self,
        adapter: &Adapter,
        gpu_va: u64,
        bytes: u64,
    ) -> Result<ReservedRange, Status> {
        let before = (adapter.number(), 0)..=(adapter.number(), gpu_va);
        let found = self.0.lock_device().range(before).next_back().map(|(_, range)| range.clone());
        let is_inside = |range: &ReservedRange| {
            let end = gpu_va.checked_add(bytes);
            end.is_some_and(|end| end <= range.gpu_va + range.bytes)
        };
        found.filter(is_inside).ok_or(Status::INVALID_PARAMETER)
    }

    pub(crate) fn remove(&self, adapter: &Adapter, gpu_va: u64) {
        let removed = self.0.lock_device().remove(&(adapter.number(), gpu_va));
        drop(removed);
    }

    /// Forgets the ranges of a device.
    pub(crate) fn remove_device(&self, device: &Arc<Device>) {
        let mut ranges = self.0.lock_device();
        ranges.retain(|_, range| !Arc::ptr_eq(&range.device, device));
    }
}
