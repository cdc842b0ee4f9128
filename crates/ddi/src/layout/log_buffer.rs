//! Owns the structures of the two DDIs about native fence logs. What stands in a log is
//! `d3dukmdt::layout::log`.

use crate::{DriverHandle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{Raw, reserved_is_zero};

layout! {
    // spec: NF-177
    /// Tells where one log of a hardware queue is from now on; its header says which of the two it
    /// is.
    SetNativeFenceLogBuffer = "DXGKARG_SETNATIVEFENCELOGBUFFER", 80 bytes {
        /// The driver's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// How many entries fit.
        8 "NumberOfEntries" number_of_entries: u32,
        /// The header, kernel CPU address.
        16 "LogBufferCpuVa" log_buffer_cpu_va: u64,
        /// The header, process GPU address.
        24 "LogBufferGpuVa" log_buffer_gpu_va: u64,
        /// The header, GPU address of the system process.
        32 "LogBufferSystemProcessGpuVa" log_buffer_system_process_gpu_va: u64,
        /// Reserved.
        40 "Flags" flags: u32,
        /// Zero.
        44 "Reserved" reserved: [u8; 32],
    }

    /// Makes the entries of all logs of the named queues readable.
    UpdateNativeFenceLogs = "DXGKARG_UPDATENATIVEFENCELOGS", 56 bytes {
        /// How many queues.
        0 "NumberOfQueues" number_of_queues: u32,
        /// Where the driver's handles of them stand.
        8 "hHWQueue" hw_queues: u64,
        /// Reserved.
        16 "Flags" flags: u32,
        /// Zero.
        20 "Reserved" reserved: [u8; 32],
    }
}

impl SetNativeFenceLogBuffer {
    /// The queue. INVALID_PARAMETER for reserved bits and bytes.
    pub fn checked(&self) -> Result<DriverHandle, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        Ok(DriverHandle(self.hw_queue))
    }
}

impl UpdateNativeFenceLogs {
    /// Names the queues.
    pub fn new(hw_queues: u64, number_of_queues: u32) -> Self {
        Self { number_of_queues, hw_queues, ..Self::ZERO }
    }

    /// How many queues. INVALID_PARAMETER for reserved bits and bytes, and for handles that stand
    /// nowhere.
    pub fn checked(&self) -> Result<usize, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        if self.number_of_queues > 0 && self.hw_queues == 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(self.number_of_queues as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;

    // spec: NF-177
    #[test]
    fn a_log_has_three_addresses() {
        let args = SetNativeFenceLogBuffer {
            hw_queue: 0x11,
            number_of_entries: 84,
            log_buffer_cpu_va: 0x22,
            log_buffer_gpu_va: 0x33,
            log_buffer_system_process_gpu_va: 0x44,
            ..Raw::ZERO
        };
        assert_bytes(
            &args.to_bytes(),
            80,
            &[(0, 0x11), (8, 84), (16, 0x22), (24, 0x33), (32, 0x44)],
        );
        assert_eq!(args.checked(), Ok(DriverHandle(0x11)));
        let bad = SetNativeFenceLogBuffer { flags: 1, ..args };
        assert_eq!(bad.checked(), Err(Status::INVALID_PARAMETER));
    }

    // spec: NF-218
    #[test]
    fn a_flush_names_queues_and_not_logs() {
        let args = UpdateNativeFenceLogs::new(0x11, 3);
        assert_bytes(&args.to_bytes(), 56, &[(0, 3), (8, 0x11)]);
        assert_eq!(args.checked(), Ok(3));
        assert_eq!(UpdateNativeFenceLogs::new(0, 1).checked(), Err(Status::INVALID_PARAMETER));
        let bad = UpdateNativeFenceLogs { reserved: [1; 32], ..args };
        assert_eq!(bad.checked(), Err(Status::INVALID_PARAMETER));
    }
}
