//! The clocks that an application reads from a queue.

use crate::error::Result;
use crate::queue::Queue;
use tidegate_calls::ClockCalibration;

impl Queue {
    /// Reads the clocks of the queue's engine and of the CPU together.
    ///
    /// # Errors
    /// [`crate::Error::DeviceRemoved`]; what the kernel refuses.
    #[doc(alias = "GetClockCalibration")]
    pub fn clock_calibration(&self) -> Result<ClockCalibration> {
        let id = &self.inner.id;
        // The bit of the physical GPU; no bit is the first one.
        let engine_ordinal = id.engine_affinity.checked_ilog2().unwrap_or(0);
        let umd = &self.device.umd;
        let read = umd.enter().query_clock_calibration(id.node_ordinal, engine_ordinal);
        let what = || format!("the clock of queue '{}'", self.name());
        read.map_err(|s| self.device.error("D3DKMTQueryClockCalibration", &what(), s))
    }

    /// Returns the frequency of the queue's timestamps in ticks per second.
    ///
    /// # Errors
    /// As [`Queue::clock_calibration`].
    #[doc(alias = "GetTimestampFrequency")]
    pub fn timestamp_frequency(&self) -> Result<u64> {
        Ok(self.clock_calibration()?.gpu_frequency)
    }
}
