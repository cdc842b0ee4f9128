//! Owns the structures that make hardware contexts and queues and that submit to queues. Priority,
//! tag and lane of a queue are private driver data, which whoever carries the call fetches and
//! hands in.

use super::signal::signal_flags;
use super::{FenceArrays, handle};
use crate::{Handle, Priority, SignalFlags, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    CreateHwQueueFlags, MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_SIGNALED, MAX_OBJECTS_WAITED_ON,
    MAX_WRITTEN_PRIMARIES, is_an_array, reserved_is_zero,
};

layout! {
    /// Makes a hardware context.
    CreateHwContext = "D3DKMT_CREATEHWCONTEXT", 40 bytes {
        /// The device. In.
        0 "hDevice" device: u32,
        /// Which engine. In.
        4 "NodeOrdinal" node_ordinal: u32,
        /// Which physical adapter, as a bit. In.
        8 "EngineAffinity" engine_affinity: u32,
        /// Reserved. In.
        12 "Flags" flags: u32,
        /// Bytes of private driver data. In.
        16 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Where it stands. In, and what stands there out.
        24 "pPrivateDriverData" private_driver_data: u64,
        /// Its handle. Out.
        32 "hHwContext" hw_context: u32,
    }

    /// Ends a hardware context.
    DestroyHwContext = "D3DKMT_DESTROYHWCONTEXT", 4 bytes {
        /// The context.
        0 "hHwContext" hw_context: u32,
    }

    // spec: UMS-130
    /// Makes a hardware queue.
    CreateHwQueue = "D3DKMT_CREATEHWQUEUE", 48 bytes {
        /// The hardware context. In.
        0 "hHwContext" hw_context: u32,
        /// See [`CreateHwQueueFlags`]. In, and NativeProgressFence out.
        4 "Flags" flags: u32,
        /// Bytes of private driver data. In.
        8 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Where it stands. In, and what stands there out.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// Its handle. Out.
        24 "hHwQueue" hw_queue: u32,
        /// The handle of its progress fence. Out.
        28 "hHwQueueProgressFence" progress_fence: u32,
        /// The progress fence's value, process CPU address, read-only. Out.
        32 "HwQueueProgressFenceCPUVirtualAddress" progress_fence_cpu_va: u64,
        /// The progress fence's value, process GPU address. Out.
        40 "HwQueueProgressFenceGPUVirtualAddress" progress_fence_gpu_va: u64,
    }

    /// Ends a hardware queue.
    DestroyHwQueue = "D3DKMT_DESTROYHWQUEUE", 4 bytes {
        /// The queue.
        0 "hHwQueue" hw_queue: u32,
    }

    // spec: UMS-131
    /// Submits a command buffer to a kernel-mode hardware queue.
    SubmitCommandToHwQueue = "D3DKMT_SUBMITCOMMANDTOHWQUEUE", 56 bytes {
        /// The queue.
        0 "hHwQueue" hw_queue: u32,
        /// The progress value that says it is done.
        8 "HwQueueProgressFenceId" progress_fence_id: u64,
        /// Where the commands stand, process GPU address.
        16 "CommandBuffer" command_buffer: u64,
        /// How many bytes.
        24 "CommandLength" command_length: u32,
        /// Bytes of private driver data.
        28 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Where it stands.
        32 "pPrivateDriverData" private_driver_data: u64,
        /// How many primaries are written; at most 16.
        40 "NumPrimaries" num_primaries: u32,
        /// Where their handles stand.
        48 "WrittenPrimaries" written_primaries: u64,
    }

    // spec: UMS-132
    /// Queues a wait on a kernel-mode hardware queue.
    SubmitWaitForSyncObjectsToHwQueue = "D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE", 24 bytes {
        /// The queue.
        0 "hHwQueue" hw_queue: u32,
        /// How many fences.
        4 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        8 "ObjectHandleArray" object_handle_array: u64,
        /// Where the values stand that are waited for.
        16 "FenceValueArray" fence_value_array: u64,
    }

    // spec: UMS-133
    /// Queues a signal on one or several kernel-mode hardware queues.
    SubmitSignalSyncObjectsToHwQueue = "D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE", 40 bytes {
        /// See [`SignalFlags`].
        0 "Flags" flags: u32,
        /// How many queues.
        4 "BroadcastHwQueueCount" broadcast_hw_queue_count: u32,
        /// Where their handles stand.
        8 "BroadcastHwQueueArray" broadcast_hw_queue_array: u64,
        /// How many fences.
        16 "ObjectCount" object_count: u32,
        /// Where their handles stand.
        24 "ObjectHandleArray" object_handle_array: u64,
        /// Where the new values stand.
        32 "FenceValueArray" fence_value_array: u64,
    }
}

impl CreateHwContext {
    /// The call.
    ///
    /// Errors: INVALID_PARAMETER for a zero device and reserved flags.
    pub fn to_call(&self) -> Result<crate::CreateHwContext, Status> {
        reserved_is_zero(self.flags)?;
        let device = handle(self.device)?;
        let (node_ordinal, engine_affinity) = (self.node_ordinal, self.engine_affinity);
        Ok(crate::CreateHwContext { device, node_ordinal, engine_affinity })
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, hw_context: Handle) {
        self.hw_context = hw_context.0;
    }
}

impl DestroyHwContext {
    /// The context. INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<Handle, Status> {
        handle(self.hw_context)
    }
}

impl CreateHwQueue {
    /// The call. NativeProgressFence is the kernel's to set: what the caller put there is not
    /// looked at.
    ///
    /// Errors: INVALID_PARAMETER for a zero context and reserved flags, NOT_SUPPORTED for a flag
    /// that nobody would act on.
    pub fn to_call(
        &self,
        priority: Priority,
        tag: u32,
        lane: u32,
    ) -> Result<crate::CreateHwQueue, Status> {
        let hw_context = handle(self.hw_context)?;
        let flags = CreateHwQueueFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let acted_on =
            CreateHwQueueFlags::USER_MODE_SUBMISSION | CreateHwQueueFlags::NATIVE_PROGRESS_FENCE;
        if !acted_on.contains(flags) {
            return Err(Status::NOT_SUPPORTED);
        }
        let user_mode_submission = flags.contains(CreateHwQueueFlags::USER_MODE_SUBMISSION);
        Ok(crate::CreateHwQueue { hw_context, user_mode_submission, priority, tag, lane })
    }

    /// Puts in what came out of the call.
    pub fn answer(
        &mut self,
        hw_queue: Handle,
        progress_fence: Handle,
        cpu_va: u64,
        gpu_va: u64,
        native: bool,
    ) {
        let mut flags = CreateHwQueueFlags::from_bits_retain(self.flags);
        flags.set(CreateHwQueueFlags::NATIVE_PROGRESS_FENCE, native);
        self.flags = flags.bits();
        self.hw_queue = hw_queue.0;
        self.progress_fence = progress_fence.0;
        self.progress_fence_cpu_va = cpu_va;
        self.progress_fence_gpu_va = gpu_va;
    }
}

impl DestroyHwQueue {
    /// The queue. INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<Handle, Status> {
        handle(self.hw_queue)
    }
}

impl SubmitCommandToHwQueue {
    /// The call; `queued_ns` is the stamp of the submission, CPU ns.
    ///
    /// Errors: INVALID_PARAMETER for a zero queue and for too many primaries or primaries that
    /// stand nowhere.
    pub fn to_call(&self, queued_ns: u64) -> Result<crate::SubmitCommandToHwQueue, Status> {
        if self.num_primaries != 0 {
            is_an_array(self.written_primaries, self.num_primaries, MAX_WRITTEN_PRIMARIES)?;
        }
        Ok(crate::SubmitCommandToHwQueue {
            hw_queue: handle(self.hw_queue)?,
            progress_fence_id: self.progress_fence_id,
            commands_gpu_va: self.command_buffer,
            command_bytes: self.command_length,
            queued_ns,
        })
    }
}

impl SubmitWaitForSyncObjectsToHwQueue {
    /// The queue and what it waits for: all of them. INVALID_PARAMETER for a zero queue, no arrays,
    /// and none or more than 32 fences.
    pub fn checked(&self) -> Result<(Handle, FenceArrays), Status> {
        let (handles, values) = (self.object_handle_array, self.fence_value_array);
        let fences =
            FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_WAITED_ON)?;
        Ok((handle(self.hw_queue)?, fences))
    }
}

/// A checked signal of several hardware queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HwQueueSignal {
    /// How many queues: 1 to 64.
    pub hw_queue_count: usize,
    /// Where their handles stand.
    pub hw_queues_address: u64,
    /// What is signalled.
    pub fences: FenceArrays,
    /// Which kind of signal it is.
    pub flags: SignalFlags,
}

impl SubmitSignalSyncObjectsToHwQueue {
    /// What is asked for. INVALID_PARAMETER for reserved flags, an event (which has no place in
    /// this structure), no arrays, none or more than 64 queues, and none or more than 32 fences.
    pub fn checked(&self) -> Result<HwQueueSignal, Status> {
        let flags = signal_flags(self.flags)?;
        if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
            return Err(Status::INVALID_PARAMETER);
        }
        let hw_queues_address = self.broadcast_hw_queue_array;
        let count = self.broadcast_hw_queue_count;
        let hw_queue_count = is_an_array(hw_queues_address, count, MAX_BROADCAST_CONTEXTS)?;
        let (handles, values) = (self.object_handle_array, self.fence_value_array);
        let fences =
            FenceArrays::checked(self.object_count, handles, values, MAX_OBJECTS_SIGNALED)?;
        Ok(HwQueueSignal { hw_queue_count, hw_queues_address, fences, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    // spec: UMS-130
    #[test]
    fn a_queue_comes_with_its_progress_fence() {
        let mut args = CreateHwQueue {
            hw_context: 0x11,
            flags: 0x10,
            private_driver_data_size: 0x12,
            private_driver_data: 0x13,
            ..Raw::ZERO
        };
        let call = args.to_call(Priority::High, 7, 8).unwrap();
        assert_eq!((call.hw_context, call.user_mode_submission), (Handle(0x11), true));
        assert_eq!((call.priority, call.tag, call.lane), (Priority::High, 7, 8));
        args.answer(Handle(0x22), Handle(0x33), 0x44, 0x55, true);
        let asked = [(0, 0x11), (4, 0x30), (8, 0x12), (16, 0x13)];
        let answered = [(24, 0x22), (28, 0x33), (32, 0x44), (40, 0x55)];
        assert_bytes(&args.to_bytes(), 48, &[asked, answered].concat());
        assert!(args.to_call(Priority::High, 7, 8).is_ok(), "the kernel's flag is not looked at");
        args.answer(Handle(0x22), Handle(0x33), 0x44, 0x55, false);
        assert_eq!(args.flags, 0x10);
    }

    #[test]
    fn a_queue_that_makes_no_sense_is_refused() {
        let of = |hw_context, flags| {
            let args = CreateHwQueue { hw_context, flags, ..Raw::ZERO };
            args.to_call(Priority::Normal, 0, 0).err()
        };
        assert_eq!(of(0, 0), Some(Status::INVALID_PARAMETER));
        assert_eq!(of(1, 0x80), Some(Status::INVALID_PARAMETER));
        assert_eq!(of(1, 0x1), Some(Status::NOT_SUPPORTED));
        assert_eq!(of(1, 0), None);
    }

    #[test]
    fn a_hardware_context_names_its_engine() {
        let mut args =
            CreateHwContext { device: 0x11, node_ordinal: 2, engine_affinity: 4, ..Raw::ZERO };
        let call = args.to_call().unwrap();
        assert_eq!((call.device, call.node_ordinal, call.engine_affinity), (Handle(0x11), 2, 4));
        args.answer(Handle(0x33));
        assert_bytes(&args.to_bytes(), 40, &[(0, 0x11), (4, 2), (8, 4), (32, 0x33)]);
        let refused = |args: CreateHwContext| args.to_call().unwrap_err();
        assert_eq!(refused(CreateHwContext { device: 0, ..args }), Status::INVALID_PARAMETER);
        assert_eq!(refused(CreateHwContext { flags: 1, ..args }), Status::INVALID_PARAMETER);
        assert_eq!(DestroyHwContext { hw_context: 0 }.to_call(), Err(Status::INVALID_PARAMETER));
        assert_eq!(DestroyHwQueue { hw_queue: 0 }.to_call(), Err(Status::INVALID_PARAMETER));
        assert_eq!(DestroyHwQueue { hw_queue: 4 }.to_call(), Ok(Handle(4)));
    }

    // spec: UMS-131
    #[test]
    fn a_submission_names_buffer_and_progress_value() {
        let args = SubmitCommandToHwQueue {
            hw_queue: 0x11,
            progress_fence_id: 0x22,
            command_buffer: 0x33,
            command_length: 0x44,
            private_driver_data_size: 0x55,
            private_driver_data: 0x66,
            num_primaries: 16,
            written_primaries: 0x77,
        };
        let set = [
            (0, 0x11),
            (8, 0x22),
            (16, 0x33),
            (24, 0x44),
            (28, 0x55),
            (32, 0x66),
            (40, 16),
            (48, 0x77),
        ];
        assert_bytes(&args.to_bytes(), 56, &set);
        let call = args.to_call(9).unwrap();
        assert_eq!(
            (call.hw_queue, call.progress_fence_id, call.queued_ns),
            (Handle(0x11), 0x22, 9)
        );
        assert_eq!((call.commands_gpu_va, call.command_bytes), (0x33, 0x44));
        let bad = [
            SubmitCommandToHwQueue { hw_queue: 0, ..args },
            SubmitCommandToHwQueue { num_primaries: 17, ..args },
            SubmitCommandToHwQueue { written_primaries: 0, ..args },
        ];
        for args in bad {
            assert_eq!(args.to_call(9).unwrap_err(), Status::INVALID_PARAMETER, "{args:?}");
        }
    }

    // spec: UMS-132
    #[test]
    fn a_queue_waits_for_at_most_32_fences() {
        let args = SubmitWaitForSyncObjectsToHwQueue {
            hw_queue: 0x11,
            object_count: 32,
            object_handle_array: 0x22,
            fence_value_array: 0x33,
        };
        assert_bytes(&args.to_bytes(), 24, &[(0, 0x11), (4, 32), (8, 0x22), (16, 0x33)]);
        let arrays = FenceArrays { count: 32, handles_address: 0x22, values_address: 0x33 };
        assert_eq!(args.checked(), Ok((Handle(0x11), arrays)));
        let many = SubmitWaitForSyncObjectsToHwQueue { object_count: 33, ..args };
        assert_eq!(many.checked(), Err(Status::INVALID_PARAMETER));
    }

    // spec: UMS-133
    #[test]
    fn up_to_64_queues_signal_together() {
        let args = SubmitSignalSyncObjectsToHwQueue {
            flags: 4,
            broadcast_hw_queue_count: 64,
            broadcast_hw_queue_array: 0x11,
            object_count: 2,
            object_handle_array: 0x22,
            fence_value_array: 0x33,
        };
        let set = [(0, 4), (4, 64), (8, 0x11), (16, 2), (24, 0x22), (32, 0x33)];
        assert_bytes(&args.to_bytes(), 40, &set);
        let signal = args.checked().unwrap();
        assert_eq!((signal.hw_queue_count, signal.hw_queues_address), (64, 0x11));
        let arrays = FenceArrays { count: 2, handles_address: 0x22, values_address: 0x33 };
        assert_eq!((signal.fences, signal.flags), (arrays, SignalFlags::ALLOW_FENCE_REWIND));
        let bad = [
            SubmitSignalSyncObjectsToHwQueue { flags: 2, ..args },
            SubmitSignalSyncObjectsToHwQueue { flags: 8, ..args },
            SubmitSignalSyncObjectsToHwQueue { broadcast_hw_queue_count: 65, ..args },
            SubmitSignalSyncObjectsToHwQueue { broadcast_hw_queue_count: 0, ..args },
            SubmitSignalSyncObjectsToHwQueue { object_count: 33, ..args },
        ];
        for args in bad {
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER), "{args:?}");
        }
    }
}
