//! Owns the structures of signals, by the CPU and by contexts. The arrays are fetched by whoever
//! carries the call; which flag goes with which call beyond the shape of its structure is decided
//! by the call.

use super::{FenceArrays, handle, nt_handle};
use crate::{Handle, SignalFlags, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_SIGNALED, Union64, is_an_array,
};

layout! {
    // spec: MF-084
    /// The CPU signals.
    SignalSynchronizationObjectFromCpu = "D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU", 32 bytes {
        /// The device.
        0 "hDevice" device: u32,
        /// How many fences.
        4 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        8 "ObjectHandleArray" object_handle_array: u64,
        /// Where the new values stand.
        16 "FenceValueArray" fence_value_array: u64,
        /// See [`SignalFlags`].
        24 "Flags" flags: u32,
    }

    // spec: MF-085
    /// A context signals, behind everything that was submitted to it before.
    SignalSynchronizationObjectFromGpu = "D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU", 80 bytes {
        /// The context.
        0 "hContext" context: u32,
        /// How many fences.
        4 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        8 "ObjectHandleArray" object_handle_array: u64,
        /// Its first word says where the new values stand.
        16 "MonitoredFenceValueArray" arm: Union64,
    }

    // spec: MF-086
    /// One or several contexts signal, or have an event set, once all of them got there.
    SignalSynchronizationObjectFromGpu2 = "D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2", 96 bytes {
        /// How many fences; 0 with EnqueueCpuEvent.
        0 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        8 "ObjectHandleArray" object_handle_array: u64,
        /// See [`SignalFlags`].
        16 "Flags" flags: u32,
        /// How many contexts.
        20 "BroadcastContextCount" broadcast_context_count: u32,
        /// Where their handles stand.
        24 "BroadcastContextArray" broadcast_context_array: u64,
        /// Its first word says where the new values stand, or, with EnqueueCpuEvent, is the event.
        32 "MonitoredFenceValueArray" arm: Union64,
    }
}

/// What a queued signal does when its contexts get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuSignalTarget {
    /// Signals fences.
    Fences(FenceArrays),
    /// Sets an event and touches no fence.
    CpuEvent {
        /// The event; never 0.
        event: u64,
    },
}

/// A checked signal of several contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSignal {
    /// How many contexts: 1 to 64.
    pub context_count: usize,
    /// Where their handles stand.
    pub contexts_address: u64,
    /// What is done.
    pub target: GpuSignalTarget,
    /// Which kind of signal it is.
    pub flags: SignalFlags,
}

pub(super) fn signal_flags(bits: u32) -> Result<SignalFlags, Status> {
    SignalFlags::from_bits(bits).ok_or(Status::INVALID_PARAMETER)
}

impl SignalSynchronizationObjectFromCpu {
    /// Device, fences and flags. INVALID_PARAMETER for a zero device, reserved flags, an event
    /// (which has no place in this structure), no arrays, and none or more than 32 fences.
    pub fn checked(&self) -> Result<(Handle, FenceArrays, SignalFlags), Status> {
        let device = handle(self.device)?;
        let flags = signal_flags(self.flags)?;
        if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
            return Err(Status::INVALID_PARAMETER);
        }
        let (handles, values) = (self.object_handle_array, self.fence_value_array);
        let fences =
            FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_SIGNALED)?;
        Ok((device, fences, flags))
    }
}

impl SignalSynchronizationObjectFromGpu {
    /// Context and fences. INVALID_PARAMETER for a zero context, no arrays, and none or more than
    /// 32 fences.
    pub fn checked(&self) -> Result<(Handle, FenceArrays), Status> {
        let (handles, values) = (self.object_handle_array, self.arm.words[0]);
        let fences =
            FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_SIGNALED)?;
        Ok((handle(self.context)?, fences))
    }
}

impl SignalSynchronizationObjectFromGpu2 {
    /// What is asked for. INVALID_PARAMETER for reserved flags, no arrays, none or more than 64
    /// contexts, none or more than 32 fences, and an event together with fences; INVALID_HANDLE for
    /// a NULL event.
    pub fn checked(&self) -> Result<GpuSignal, Status> {
        let flags = signal_flags(self.flags)?;
        let contexts_address = self.broadcast_context_array;
        let contexts = self.broadcast_context_count;
        let context_count = is_an_array(contexts_address, contexts, MAX_BROADCAST_CONTEXTS)?;
        let target = if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
            if self.object_count != 0 {
                return Err(Status::INVALID_PARAMETER);
            }
            GpuSignalTarget::CpuEvent { event: nt_handle(self.arm.words[0])? }
        } else {
            let (handles, values) = (self.object_handle_array, self.arm.words[0]);
            let fences =
                FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_SIGNALED)?;
            GpuSignalTarget::Fences(fences)
        };
        Ok(GpuSignal { context_count, contexts_address, target, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    // spec: MF-084
    #[test]
    fn a_cpu_signal_names_at_most_32_fences() {
        let args = SignalSynchronizationObjectFromCpu {
            device: 0x11,
            object_count: 32,
            object_handle_array: 0x22,
            fence_value_array: 0x33,
            flags: 4,
        };
        assert_bytes(&args.to_bytes(), 32, &[(0, 0x11), (4, 32), (8, 0x22), (16, 0x33), (24, 4)]);
        let arrays = FenceArrays { count: 32, handles_address: 0x22, values_address: 0x33 };
        assert_eq!(args.checked(), Ok((Handle(0x11), arrays, SignalFlags::ALLOW_FENCE_REWIND)));
        let bad = [
            SignalSynchronizationObjectFromCpu { device: 0, ..args },
            SignalSynchronizationObjectFromCpu { object_count: 0, ..args },
            SignalSynchronizationObjectFromCpu { object_count: 33, ..args },
            SignalSynchronizationObjectFromCpu { flags: 2, ..args },
            SignalSynchronizationObjectFromCpu { flags: 8, ..args },
            SignalSynchronizationObjectFromCpu { flags: 1 << 31, ..args },
        ];
        for args in bad {
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER), "{args:?}");
        }
    }

    // spec: MF-085
    #[test]
    fn a_context_signals_what_the_arrays_name() {
        let args = SignalSynchronizationObjectFromGpu {
            context: 0x11,
            object_count: 1,
            object_handle_array: 0x22,
            arm: Union64::of(0x33_u64),
        };
        assert_bytes(&args.to_bytes(), 80, &[(0, 0x11), (4, 1), (8, 0x22), (16, 0x33)]);
        let arrays = FenceArrays { count: 1, handles_address: 0x22, values_address: 0x33 };
        assert_eq!(args.checked(), Ok((Handle(0x11), arrays)));
        let nobody = SignalSynchronizationObjectFromGpu { context: 0, ..args };
        assert_eq!(nobody.checked(), Err(Status::INVALID_PARAMETER));
    }

    fn broadcast() -> SignalSynchronizationObjectFromGpu2 {
        SignalSynchronizationObjectFromGpu2 {
            object_count: 3,
            object_handle_array: 0x22,
            flags: 1,
            broadcast_context_count: 64,
            broadcast_context_array: 0x44,
            arm: Union64::of(0x33_u64),
        }
    }

    // spec: MF-086
    #[test]
    fn up_to_64_contexts_signal_together() {
        let set = [(0, 3), (8, 0x22), (16, 1), (20, 64), (24, 0x44), (32, 0x33)];
        assert_bytes(&broadcast().to_bytes(), 96, &set);
        let arrays = FenceArrays { count: 3, handles_address: 0x22, values_address: 0x33 };
        assert_eq!(
            broadcast().checked(),
            Ok(GpuSignal {
                context_count: 64,
                contexts_address: 0x44,
                target: GpuSignalTarget::Fences(arrays),
                flags: SignalFlags::SIGNAL_AT_SUBMISSION,
            })
        );
        let bad = [
            SignalSynchronizationObjectFromGpu2 { broadcast_context_count: 65, ..broadcast() },
            SignalSynchronizationObjectFromGpu2 { broadcast_context_count: 0, ..broadcast() },
            SignalSynchronizationObjectFromGpu2 { broadcast_context_array: 0, ..broadcast() },
            SignalSynchronizationObjectFromGpu2 { object_count: 0, ..broadcast() },
            SignalSynchronizationObjectFromGpu2 { flags: 8, ..broadcast() },
        ];
        for args in bad {
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER), "{args:?}");
        }
    }

    #[test]
    fn an_event_goes_alone() {
        let event =
            SignalSynchronizationObjectFromGpu2 { object_count: 0, flags: 2, ..broadcast() };
        assert_eq!(event.checked().unwrap().target, GpuSignalTarget::CpuEvent { event: 0x33 });
        let with_fences = SignalSynchronizationObjectFromGpu2 { flags: 2, ..broadcast() };
        assert_eq!(with_fences.checked(), Err(Status::INVALID_PARAMETER));
        let no_event = SignalSynchronizationObjectFromGpu2 { arm: Raw::ZERO, ..event };
        assert_eq!(no_event.checked(), Err(Status::INVALID_HANDLE));
    }
}
