//! Owns the structures by which the kernel makes hardware queues and submits to them.

use crate::queue::ProgressFence;
use crate::{DriverHandle, OsHandle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{CreateHwQueueFlags, Raw, reserved_is_zero};

layout! {
    // spec: UMS-135
    /// Makes a hardware queue.
    CreateHwQueue = "DXGKARG_CREATEHWQUEUE", 48 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hHwQueue" hw_queue: u64,
        /// See [`CreateHwQueueFlags`]. In.
        8 "Flags" flags: u32,
        /// Bytes of private driver data. In.
        12 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Where it stands. In.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// The progress fence: with NativeProgressFence the driver's handle of a native fence, else
        /// the kernel's. In.
        24 "hHwQueueProgressFence" progress_fence: u64,
        /// The progress fence's value, kernel CPU address. In.
        32 "HwQueueProgressFenceCPUVirtualAddress" progress_fence_cpu_va: u64,
        /// The progress fence's value, process GPU address. In.
        40 "HwQueueProgressFenceGPUVirtualAddress" progress_fence_gpu_va: u64,
    }

    // spec: UMS-136
    /// Submits a command buffer to a kernel-mode hardware queue.
    SubmitCommandToHwQueue = "DXGKARG_SUBMITCOMMANDTOHWQUEUE", 64 bytes {
        /// The driver's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// The progress value that says it is done.
        8 "HwQueueProgressFenceId" progress_fence_id: u64,
        /// Where the commands stand, process GPU address.
        16 "DmaBufferVirtualAddress" dma_buffer_gpu_va: u64,
        /// How many bytes.
        24 "DmaBufferSize" dma_buffer_size: u32,
        /// Bytes of private driver data.
        28 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// Where it stands; valid during the call alone.
        32 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Reserved.
        40 "Flags" flags: u32,
        /// The progress fence's value, process GPU address.
        48 "HwQueueProgressFenceGpuVa" progress_fence_gpu_va: u64,
        /// The progress fence's value, kernel CPU address.
        56 "HwQueueProgressFenceCpuVa" progress_fence_cpu_va: u64,
    }
}

impl CreateHwQueue {
    /// What is handed down, but for private driver data. `progress_fence_cpu_va` is the kernel CPU
    /// address of the progress fence's value, and 0 where the driver does not need it.
    pub fn new(args: &crate::queue::CreateHwQueue, progress_fence_cpu_va: u64) -> Self {
        let mut flags = CreateHwQueueFlags::empty();
        flags.set(CreateHwQueueFlags::USER_MODE_SUBMISSION, args.user_mode_submission);
        let progress_fence = match args.progress_fence {
            ProgressFence::Native(handle) => {
                flags |= CreateHwQueueFlags::NATIVE_PROGRESS_FENCE;
                handle.0
            }
            ProgressFence::Monitored { .. } => 0,
        };
        Self {
            hw_queue: args.os_handle.0,
            flags: flags.bits(),
            progress_fence,
            progress_fence_cpu_va,
            progress_fence_gpu_va: args.progress_current_gpu_va,
            ..Self::ZERO
        }
    }

    /// The kernel's handle, whether work comes by doorbell, and the progress fence.
    /// INVALID_PARAMETER for reserved flags.
    pub fn checked(&self) -> Result<(OsHandle, bool, ProgressFence), Status> {
        let flags = CreateHwQueueFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let progress_fence = if flags.contains(CreateHwQueueFlags::NATIVE_PROGRESS_FENCE) {
            ProgressFence::Native(DriverHandle(self.progress_fence))
        } else {
            ProgressFence::Monitored { gpu_va: self.progress_fence_gpu_va }
        };
        let user_mode_submission = flags.contains(CreateHwQueueFlags::USER_MODE_SUBMISSION);
        Ok((OsHandle(self.hw_queue), user_mode_submission, progress_fence))
    }

    /// Puts in what the driver gives back.
    pub fn answer(&mut self, hw_queue: DriverHandle) {
        self.hw_queue = hw_queue.0;
    }
}

impl SubmitCommandToHwQueue {
    /// What is handed down, with both addresses of the progress fence's value.
    pub fn new(
        args: &crate::queue::SubmitCommandToHwQueue,
        progress_fence_gpu_va: u64,
        progress_fence_cpu_va: u64,
    ) -> Self {
        Self {
            hw_queue: args.hw_queue.0,
            progress_fence_id: args.progress_fence_id,
            dma_buffer_gpu_va: args.dma_buffer_gpu_va,
            dma_buffer_size: args.dma_buffer_bytes,
            progress_fence_gpu_va,
            progress_fence_cpu_va,
            ..Self::ZERO
        }
    }

    /// The call; `queued_ns` is the stamp of the submission, CPU ns. INVALID_PARAMETER for reserved
    /// flags.
    pub fn to_call(&self, queued_ns: u64) -> Result<crate::queue::SubmitCommandToHwQueue, Status> {
        reserved_is_zero(self.flags)?;
        Ok(crate::queue::SubmitCommandToHwQueue {
            hw_queue: DriverHandle(self.hw_queue),
            progress_fence_id: self.progress_fence_id,
            dma_buffer_gpu_va: self.dma_buffer_gpu_va,
            dma_buffer_bytes: self.dma_buffer_size,
            queued_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use crate::queue::QueuePrivateData;

    fn call(progress_fence: ProgressFence) -> crate::queue::CreateHwQueue {
        crate::queue::CreateHwQueue {
            context: DriverHandle(1),
            os_handle: OsHandle(0x11),
            user_mode_submission: true,
            progress_fence,
            progress_current_gpu_va: 0x33,
            progress_monitored_gpu_va: 0,
            private_data: QueuePrivateData::default(),
        }
    }

    // spec: UMS-135
    #[test]
    fn a_queue_is_made_with_its_progress_fence() {
        let native = ProgressFence::Native(DriverHandle(0x22));
        let mut args = CreateHwQueue::new(&call(native), 0x44);
        let set = [(0, 0x11), (8, 0x30), (24, 0x22), (32, 0x44), (40, 0x33)];
        assert_bytes(&args.to_bytes(), 48, &set);
        assert_eq!(args.checked(), Ok((OsHandle(0x11), true, native)));
        args.answer(DriverHandle(0x55));
        args.private_driver_data_size = 0x66;
        args.private_driver_data = 0x77;
        let bytes = args.to_bytes();
        assert_eq!((bytes[0], bytes[12], bytes[16]), (0x55, 0x66, 0x77));
        let monitored = ProgressFence::Monitored { gpu_va: 0x33 };
        let args = CreateHwQueue::new(&call(monitored), 0);
        assert_eq!(args.checked(), Ok((OsHandle(0x11), true, monitored)));
        let reserved = CreateHwQueue { flags: 0x80, ..args };
        assert_eq!(reserved.checked(), Err(Status::INVALID_PARAMETER));
    }

    // spec: UMS-136
    #[test]
    fn a_submission_carries_both_addresses_of_the_progress_fence() {
        let call = crate::queue::SubmitCommandToHwQueue {
            hw_queue: DriverHandle(0x11),
            progress_fence_id: 0x22,
            dma_buffer_gpu_va: 0x33,
            dma_buffer_bytes: 0x44,
            queued_ns: 9,
        };
        let mut args = SubmitCommandToHwQueue::new(&call, 0x55, 0x66);
        let back = args.to_call(9).unwrap();
        assert_eq!((back.hw_queue, back.progress_fence_id), (call.hw_queue, 0x22));
        assert_eq!(
            (back.dma_buffer_gpu_va, back.dma_buffer_bytes, back.queued_ns),
            (0x33, 0x44, 9)
        );
        args.dma_buffer_private_data_size = 0x77;
        args.dma_buffer_private_data = 0x78;
        let set = [
            (0, 0x11),
            (8, 0x22),
            (16, 0x33),
            (24, 0x44),
            (28, 0x77),
            (32, 0x78),
            (48, 0x55),
            (56, 0x66),
        ];
        assert_bytes(&args.to_bytes(), 64, &set);
        args.flags = 1;
        assert_eq!(args.to_bytes()[40], 1);
        assert_eq!(args.to_call(9).unwrap_err(), Status::INVALID_PARAMETER);
    }
}
