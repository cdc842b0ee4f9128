//! Notifies the driver of the location of native fences (NOTIFY_FENCE_RESIDENCY), when a fence is
//! created in local memory and when its page is evicted. The caller prevents the page from moving.

use super::object::{Fence, Fences, NativeParts};
use crate::driver::DriverPort;
use crate::memory::{FenceValuePage, FencesInPages};
use std::any::Any;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_d3dukmdt::FenceCell;
use tidegate_ddi::memory::{FenceResidency, PagingOperation};
use tidegate_ddi::{DriverHandle, Passive};
use tidegate_platform::{PhysicalAddress, Word};

impl FencesInPages for Fences {
    fn notify_residency(
        &self,
        level: &Passive,
        page: &Arc<FenceValuePage>,
    ) -> (Result<(), Status>, Box<dyn Any>) {
        let exists = |f: &Fence| f.native.as_ref().is_some_and(NativeParts::exists);
        let is_in_page = |f: &Fence| exists(f) && f.storage.is_in(page);
        let fences = self.matching(is_in_page);
        (notify_residency(level, &self.port, &fences), Box::new(fences))
    }
}

/// Notifies the driver of the location of these fences.
#[doc(alias = "NOTIFY_FENCE_RESIDENCY")]
pub(super) fn notify_residency(
    level: &Passive,
    driver: &DriverPort,
    fences: &[Arc<Fence>],
) -> Result<(), Status> {
    let places: Vec<Places> = fences.iter().filter_map(|fence| Places::of(fence)).collect();
    let residencies: Vec<FenceResidency<'_>> = places.iter().map(Places::residency).collect();
    let operation = PagingOperation::NotifyFenceResidency(&residencies);
    driver.driver(level).build_paging_buffer(level, operation)
}

/// The addresses of one fence's values.
struct Places {
    fence: DriverHandle,
    at: [PhysicalAddress; 2],
    current: Option<FenceCell>,
    monitored: Option<Word>,
}

impl Places {
    fn of(fence: &Fence) -> Option<Places> {
        let native = fence.native.as_ref()?;
        Some(Places {
            fence: native.driver_global,
            at: [fence.storage.current_at(), fence.storage.monitored_at()],
            current: fence.current.as_ref().map(|value| value.cell().clone()),
            monitored: native.monitored.word(),
        })
    }

    fn residency(&self) -> FenceResidency<'_> {
        FenceResidency {
            fence: self.fence,
            current_value: self.at[0],
            monitored_value: self.at[1],
            current_value_cpu: self.current.as_ref(),
            monitored_value_cpu: self.monitored.as_ref(),
        }
    }
}
