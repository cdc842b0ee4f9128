//! Owns the argument structures of the D3DKMT calls as they stand in a caller's memory, and their
//! translation.
//!
//! The order that matters, for each call: 1. the C ABI copies the structure in; 2. it is checked
//! and turned into the arguments of [`crate::Kernel`] (`to_call`, or `checked` where arrays or
//! events have to be fetched first); 3. the arrays are copied in, as many elements as were allowed
//! in step 2; 4. the call is made; 5. what came out is put into the structure (`answer`), which is
//! copied out. A structure is left as it was when the call fails.
//!
//! Statuses here are those of a structure that makes no sense: INVALID_PARAMETER for zero handles,
//! reserved bits, counts out of their limits and NULL arrays; INVALID_HANDLE for a NULL event or NT
//! handle; NOT_SUPPORTED for what the interface has and this call surface cannot carry. Whether a
//! handle names anything is found out by the call. Memory is not followed here.

mod adapter;
mod context;
mod device;
mod doorbell;
mod hw_queue;
mod native_fence;
mod paging;
mod share;
mod signal;
mod sync_object;
mod wait;

pub use adapter::{IsFeatureEnabled, QueryAdapterInfo, Wddm31Caps, Wddm31CapsFlags};
pub use context::{
    CreateContextVirtual, SetContextInProcessSchedulingPriority, SetContextSchedulingPriority,
    SubmitCommand, SubmitCommandFlags,
};
pub use device::{CreateDevice, DevicePageFaultState, DeviceStateType, GetDeviceState, Lock2};
pub use doorbell::{
    ConnectDoorbell, CreateDoorbell, CreateDoorbellFlags, DestroyDoorbell, DoorbellAddresses,
    NotifyWorkSubmission,
};
pub use hw_queue::{
    CreateHwContext, CreateHwQueue, DestroyHwContext, DestroyHwQueue, HwQueueSignal,
    SubmitCommandToHwQueue, SubmitSignalSyncObjectsToHwQueue, SubmitWaitForSyncObjectsToHwQueue,
};
pub use native_fence::{CreateNativeFence, GetNativeFenceLogDetail, OpenNativeFenceFromNtHandle};
pub use paging::{
    CreatePagingQueue, DestroyPagingQueue, Evict, EvictFlags, MakeResident, MakeResidentFlags,
    QueryVideoMemoryInfo,
};
pub use share::share_objects;
pub use signal::{
    GpuSignal, GpuSignalTarget, SignalSynchronizationObjectFromCpu,
    SignalSynchronizationObjectFromGpu, SignalSynchronizationObjectFromGpu2,
};
pub use sync_object::{
    CreateSynchronizationObject2, DestroySynchronizationObject, OpenInstance,
    OpenSyncObjectFromNtHandle2, OpenedFenceArm,
};
pub use wait::{
    CpuWait, MAX_OBJECTS_PER_CPU_WAIT, WaitForSynchronizationObjectFromCpu,
    WaitForSynchronizationObjectFromGpu, WaitFromCpuFlags,
};

use crate::{FenceValue, Handle, Status};
use tidegate_d3dukmdt::layout::{is_a_handle, is_an_array};

/// The two arrays that name fences and values: where they stand in the caller's memory and how long
/// both are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceArrays {
    /// Elements of each.
    pub count: usize,
    /// Where the handles stand.
    pub handles_address: u64,
    /// Where the values stand.
    pub values_address: u64,
}

impl FenceArrays {
    fn checked(count: u32, handles: u64, values: u64, most: usize) -> Result<FenceArrays, Status> {
        let count = is_an_array(handles, count, most)?;
        is_an_array(values, count as u32, most)?;
        Ok(FenceArrays { count, handles_address: handles, values_address: values })
    }

    /// The fences, once both arrays were copied in; INVALID_PARAMETER when either is not as long as
    /// was said.
    pub fn fences(&self, handles: &[u32], values: &[u64]) -> Result<Vec<FenceValue>, Status> {
        if handles.len() != self.count || values.len() != self.count {
            return Err(Status::INVALID_PARAMETER);
        }
        let pairs = handles.iter().zip(values);
        Ok(pairs
            .map(|(handle, value)| FenceValue { fence: Handle(*handle), value: *value })
            .collect())
    }
}

/// A handle that may name something.
fn handle(number: u32) -> Result<Handle, Status> {
    is_a_handle(number).map(Handle)
}

/// An NT handle or event that may name something; INVALID_HANDLE for NULL.
fn nt_handle(number: u64) -> Result<u64, Status> {
    if number == 0 { Err(Status::INVALID_HANDLE) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that each (offset, byte) is set in `bytes` and nothing else is.
    pub fn assert_bytes(bytes: &[u8], length: usize, set: &[(usize, u8)]) {
        assert_eq!(bytes.len(), length);
        for (at, byte) in set {
            assert_eq!(bytes[*at], *byte, "byte {at}");
        }
        assert_eq!(bytes.iter().filter(|b| **b != 0).count(), set.len(), "nothing else is set");
    }

    #[test]
    fn arrays_must_be_as_long_as_was_said() {
        let arrays = FenceArrays::checked(2, 8, 16, 32).unwrap();
        let fences = arrays.fences(&[1, 2], &[3, 4]).unwrap();
        assert_eq!(fences[1], FenceValue { fence: Handle(2), value: 4 });
        assert_eq!(arrays.fences(&[1], &[3, 4]), Err(Status::INVALID_PARAMETER));
        assert_eq!(arrays.fences(&[1, 2], &[3]), Err(Status::INVALID_PARAMETER));
        for (count, handles, values) in [(0, 8, 16), (33, 8, 16), (1, 0, 16), (1, 8, 0)] {
            assert_eq!(
                FenceArrays::checked(count, handles, values, 32),
                Err(Status::INVALID_PARAMETER)
            );
        }
    }
}
