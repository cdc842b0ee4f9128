//! The GPU's clock: nanoseconds since the adapter started. CPU time has another origin and another
//! type.

use tidegate_gpu_abi::GpuTime;
use tidegate_platform::{CpuTime, Platform};

pub(crate) struct Clock {
    platform: Platform,
    start: CpuTime,
}

impl Clock {
    pub(crate) fn new(platform: &Platform) -> Clock {
        Clock { platform: platform.clone(), start: platform.now() }
    }

    /// Returns the time, which never goes backwards, so the times of a fence log never do either.
    // spec: NF-210
    pub(crate) fn now(&self) -> GpuTime {
        GpuTime(self.platform.now().since(self.start))
    }
}
