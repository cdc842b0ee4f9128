//! Owns the structures that kernel and driver hand each other as they stand in memory, the numbers
//! of their enumerations, and their translation to the types of this crate.
//!
//! The order that matters: what a driver hands up was written by it, so the structure is copied in,
//! checked, its arrays copied in, and only then believed; what is handed down is built from values
//! that the kernel has checked. A handle is a raw number here because several structures carry the
//! kernel's handle in and the driver's handle out in the same place. Kernel CPU addresses are
//! numbers that nobody here follows: they are valid during the call alone. Called by a driver's
//! loader.

mod adapter;
mod doorbell;
mod feature;
mod fence_storage;
mod fence_value;
mod hw_queue;
mod interrupt;
mod log_buffer;
mod native_fence;

pub use adapter::{
    NativeFenceCaps, UserModeSubmissionCaps, UserModeSubmissionCapsFlags, node_metadata,
    vidsch_caps,
};
pub use doorbell::{
    ConnectDoorbell, ConnectDoorbellFlags, CreateDoorbell, CreateDoorbellFlags, DestroyDoorbell,
    DisconnectDoorbell, DisconnectDoorbellCallback, NotifyWorkSubmission,
};
pub use feature::FeatureCategory;
pub use fence_storage::{
    FENCE_STORAGE_ALLOCATION, FenceStorageSurfaceFields, FenceStorageValueType,
};
pub use fence_value::{
    UpdateCurrentValuesFlags, UpdateCurrentValuesFromCpu, UpdateMonitoredValues,
};
pub use hw_queue::{CreateHwQueue, SubmitCommandToHwQueue};
pub use interrupt::{
    EngineState, EngineStateChange, FaultErrorCode, HwQueuePageFaulted, InterruptType,
    MonitoredFenceSignaled, NativeFenceSignaled, NotifyInterruptFlags, PageFaultFlags,
    RenderPipelineStage, SuspendContextCompleted,
};
pub use log_buffer::{SetNativeFenceLogBuffer, UpdateNativeFenceLogs};
pub use native_fence::{CloseNativeFence, CreateNativeFence, DestroyNativeFence, OpenNativeFence};

#[cfg(test)]
mod tests {
    /// Asserts that each (offset, byte) is set in `bytes` and nothing else is.
    pub fn assert_bytes(bytes: &[u8], length: usize, set: &[(usize, u8)]) {
        assert_eq!(bytes.len(), length);
        for (at, byte) in set {
            assert_eq!(bytes[*at], *byte, "byte {at}");
        }
        assert_eq!(bytes.iter().filter(|b| **b != 0).count(), set.len(), "nothing else is set");
    }
}
