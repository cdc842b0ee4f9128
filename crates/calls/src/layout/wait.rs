//! Owns the structures of waits, by the CPU and by a context. The arrays are fetched by whoever
//! carries the call.

use super::{FenceArrays, handle};
use crate::{Handle, Status, WaitMode};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{MAX_OBJECTS_WAITED_ON, Union64};

layout! {
    // spec: MF-082
    /// A CPU thread waits, or has an event set.
    WaitForSynchronizationObjectFromCpu = "D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU", 40 bytes {
        /// The device.
        0 "hDevice" device: u32,
        /// How many fences.
        4 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        8 "ObjectHandleArray" object_handle_array: u64,
        /// Where the values stand that are waited for.
        16 "FenceValueArray" fence_value_array: u64,
        /// NULL to block; else the event that is set.
        24 "hAsyncEvent" async_event: u64,
        /// See [`WaitFromCpuFlags`].
        32 "Flags" flags: u32,
    }

    // spec: MF-083
    /// A context waits before anything that is submitted to it later.
    WaitForSynchronizationObjectFromGpu = "D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU", 80 bytes {
        /// The context.
        0 "hContext" context: u32,
        /// How many fences.
        4 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        8 "ObjectHandleArray" object_handle_array: u64,
        /// Its first word says where the values stand; for the fences of WDDM 1.x, which nobody
        /// makes here, it is the value.
        16 "MonitoredFenceValueArray" arm: Union64,
    }
}

bitflags::bitflags! {
    /// Flags of a CPU wait; the others are reserved.
    #[doc(alias = "D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WaitFromCpuFlags: u32 {
        /// One fence is enough.
        const WAIT_ANY = 1;
    }
}

/// Fences that one CPU wait names at most. Ours: no header has a number for this call.
pub const MAX_OBJECTS_PER_CPU_WAIT: usize = 4096;

/// A checked CPU wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuWait {
    /// The device.
    pub device: Handle,
    /// Fences and values.
    pub fences: FenceArrays,
    /// All or any.
    pub mode: WaitMode,
    /// The event that is set; `None` to block.
    pub async_event: Option<u64>,
}

impl WaitForSynchronizationObjectFromCpu {
    /// What is asked for. INVALID_PARAMETER for a zero device, reserved flags, no arrays, and none
    /// or too many fences.
    pub fn checked(&self) -> Result<CpuWait, Status> {
        let device = handle(self.device)?;
        let flags = WaitFromCpuFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let (handles, values) = (self.object_handle_array, self.fence_value_array);
        let fences =
            FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_PER_CPU_WAIT)?;
        let mode =
            if flags.contains(WaitFromCpuFlags::WAIT_ANY) { WaitMode::Any } else { WaitMode::All };
        let async_event = (self.async_event != 0).then_some(self.async_event);
        Ok(CpuWait { device, fences, mode, async_event })
    }
}

impl WaitForSynchronizationObjectFromGpu {
    /// The context and what it waits for: all of them. INVALID_PARAMETER for a zero context, no
    /// arrays, and none or too many fences.
    pub fn checked(&self) -> Result<(Handle, FenceArrays), Status> {
        let values = self.arm.words[0];
        let handles = self.object_handle_array;
        let fences =
            FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_WAITED_ON)?;
        Ok((handle(self.context)?, fences))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    fn cpu() -> WaitForSynchronizationObjectFromCpu {
        WaitForSynchronizationObjectFromCpu {
            device: 0x11,
            object_count: 2,
            object_handle_array: 0x22,
            fence_value_array: 0x33,
            async_event: 0x44,
            flags: 1,
        }
    }

    // spec: MF-082
    #[test]
    fn a_cpu_wait_blocks_or_sets_an_event_for_all_or_any() {
        let set = [(0, 0x11), (4, 2), (8, 0x22), (16, 0x33), (24, 0x44), (32, 1)];
        assert_bytes(&cpu().to_bytes(), 40, &set);
        let any = cpu().checked().unwrap();
        assert_eq!(
            (any.device, any.mode, any.async_event),
            (Handle(0x11), WaitMode::Any, Some(0x44))
        );
        assert_eq!(
            any.fences,
            FenceArrays { count: 2, handles_address: 0x22, values_address: 0x33 }
        );
        let all = WaitForSynchronizationObjectFromCpu { flags: 0, async_event: 0, ..cpu() };
        let all = all.checked().unwrap();
        assert_eq!((all.mode, all.async_event), (WaitMode::All, None));
    }

    #[test]
    fn a_cpu_wait_that_makes_no_sense_is_refused() {
        let bad = [
            WaitForSynchronizationObjectFromCpu { device: 0, ..cpu() },
            WaitForSynchronizationObjectFromCpu { object_count: 0, ..cpu() },
            WaitForSynchronizationObjectFromCpu { object_count: 4097, ..cpu() },
            WaitForSynchronizationObjectFromCpu { object_handle_array: 0, ..cpu() },
            WaitForSynchronizationObjectFromCpu { fence_value_array: 0, ..cpu() },
            WaitForSynchronizationObjectFromCpu { flags: 2, ..cpu() },
        ];
        for args in bad {
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER), "{args:?}");
        }
    }

    // spec: MF-083
    #[test]
    fn a_gpu_wait_names_a_context_and_at_most_32_fences() {
        let args = WaitForSynchronizationObjectFromGpu {
            context: 0x11,
            object_count: 32,
            object_handle_array: 0x22,
            arm: Union64::of(0x33_u64),
        };
        assert_bytes(&args.to_bytes(), 80, &[(0, 0x11), (4, 32), (8, 0x22), (16, 0x33)]);
        let arrays = FenceArrays { count: 32, handles_address: 0x22, values_address: 0x33 };
        assert_eq!(args.checked(), Ok((Handle(0x11), arrays)));
        let bad = [
            WaitForSynchronizationObjectFromGpu { context: 0, ..args },
            WaitForSynchronizationObjectFromGpu { object_count: 33, ..args },
            WaitForSynchronizationObjectFromGpu { arm: Raw::ZERO, ..args },
        ];
        for args in bad {
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER), "{args:?}");
        }
    }
}
