//! Owns the structures of the doorbell calls.

use super::handle;
use crate::{Handle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    DOORBELL_PRIVATE_DATA_BYTES, Raw, is_private_data, reserved_is_zero,
};

layout! {
    // spec: UMS-023
    /// Makes a doorbell.
    CreateDoorbell = "D3DKMT_CREATE_DOORBELL", 72 bytes {
        /// A queue made for user-mode submission. In.
        0 "hHwQueue" hw_queue: u32,
        /// The ring's slots, an allocation. In.
        4 "hRingBuffer" ring_buffer: u32,
        /// The control area, an allocation; 0 for none. In.
        8 "hRingBufferControl" ring_buffer_control: u32,
        /// See [`CreateDoorbellFlags`]. In.
        12 "Flags" flags: u32,
        /// Bytes of private driver data, at most 16. In.
        16 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Where it stands. In, and what stands there out.
        24 "PrivateDriverData" private_driver_data: u64,
        /// What is rung, process CPU address. Out.
        32 "DoorbellCPUVirtualAddress" doorbell_cpu_va: u64,
        /// A second one, process CPU address; 0 for none. Out.
        40 "DoorbellSecondaryCPUVirtualAddress" doorbell_secondary_cpu_va: u64,
        /// The status word, process CPU address, read-only. Out.
        48 "DoorbellStatusCPUVirtualAddress" doorbell_status_cpu_va: u64,
        /// Where the process stores its latest queued progress value, process CPU address. Out.
        56 "HwQueueProgressFenceLastQueuedValueCPUVirtualAddress" last_queued_value_cpu_va: u64,
        /// Its handle. Out.
        64 "hDoorbell" doorbell: u32,
    }

    // spec: UMS-024
    /// Gives a doorbell hardware.
    ConnectDoorbell = "D3DKMT_CONNECT_DOORBELL", 8 bytes {
        /// The doorbell.
        0 "hDoorbell" doorbell: u32,
        /// Reserved.
        4 "Flags" flags: u32,
    }

    /// Ends a doorbell.
    DestroyDoorbell = "D3DKMT_DESTROY_DOORBELL", 4 bytes {
        /// The doorbell.
        0 "hDoorbell" doorbell: u32,
    }

    /// Tells the driver, after a ring, of new work.
    NotifyWorkSubmission = "D3DKMT_NOTIFY_WORK_SUBMISSION", 8 bytes {
        /// The doorbell.
        0 "hDoorbell" doorbell: u32,
        /// Reserved.
        4 "Flags" flags: u32,
    }
}

bitflags::bitflags! {
    /// Flags of a new doorbell; the others are reserved.
    #[doc(alias = "D3DKMT_CREATE_DOORBELL_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateDoorbellFlags: u32 {
        /// A second address is needed.
        #[doc(alias = "RequireSecondaryCpuVA")]
        const REQUIRE_SECONDARY_CPU_VA = 1;
        /// A hint: the queue's doorbell is made again because its ring grows.
        #[doc(alias = "ResizeRingBufferOperation")]
        const RESIZE_RING_BUFFER_OPERATION = 1 << 1;
    }
}

/// Where a process finds a doorbell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorbellAddresses {
    /// What is rung.
    pub doorbell: u64,
    /// A second one; 0 for none.
    pub secondary: u64,
    /// The status word.
    pub status: u64,
    /// The cell of the latest queued progress value.
    pub last_queued: u64,
}

impl CreateDoorbell {
    /// Flags and bytes of private driver data to fetch.
    ///
    /// Errors: INVALID_PARAMETER for a zero queue or ring, reserved flags, and private driver data
    /// that is too much or stands nowhere.
    pub fn checked(&self) -> Result<(CreateDoorbellFlags, usize), Status> {
        handle(self.hw_queue)?;
        handle(self.ring_buffer)?;
        let flags = CreateDoorbellFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let (address, bytes) = (self.private_driver_data, self.private_driver_data_size);
        Ok((flags, is_private_data(address, bytes, DOORBELL_PRIVATE_DATA_BYTES)?))
    }

    /// The call, with the private driver data that was fetched. A queue without a control area
    /// names none, as handle 0.
    ///
    /// Errors: those of [`Self::checked`].
    pub fn to_call(&self, private_data: Vec<u8>) -> Result<crate::CreateDoorbell, Status> {
        let (flags, _) = self.checked()?;
        let (ring, control) = (Handle(self.ring_buffer), Handle(self.ring_buffer_control));
        Ok(crate::CreateDoorbell {
            hw_queue: Handle(self.hw_queue),
            ring,
            control,
            flags,
            private_data,
        })
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, doorbell: Handle, addresses: DoorbellAddresses) {
        self.doorbell_cpu_va = addresses.doorbell;
        self.doorbell_secondary_cpu_va = addresses.secondary;
        self.doorbell_status_cpu_va = addresses.status;
        self.last_queued_value_cpu_va = addresses.last_queued;
        self.doorbell = doorbell.0;
    }
}

impl ConnectDoorbell {
    /// Names a doorbell.
    pub fn new(doorbell: Handle) -> Self {
        Self { doorbell: doorbell.0, ..Self::ZERO }
    }

    /// The doorbell. INVALID_PARAMETER for 0 and for reserved flags.
    pub fn to_call(&self) -> Result<Handle, Status> {
        reserved_is_zero(self.flags)?;
        handle(self.doorbell)
    }
}

impl DestroyDoorbell {
    /// Names a doorbell.
    pub fn new(doorbell: Handle) -> Self {
        Self { doorbell: doorbell.0 }
    }

    /// The doorbell. INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<Handle, Status> {
        handle(self.doorbell)
    }
}

impl NotifyWorkSubmission {
    /// Names a doorbell.
    pub fn new(doorbell: Handle) -> Self {
        Self { doorbell: doorbell.0, ..Self::ZERO }
    }

    /// The doorbell. INVALID_PARAMETER for 0 and for reserved flags.
    pub fn to_call(&self) -> Result<Handle, Status> {
        reserved_is_zero(self.flags)?;
        handle(self.doorbell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;

    fn create() -> CreateDoorbell {
        CreateDoorbell {
            hw_queue: 0x11,
            ring_buffer: 0x22,
            ring_buffer_control: 0x33,
            flags: 2,
            private_driver_data_size: 16,
            private_driver_data: 0x44,
            ..Raw::ZERO
        }
    }

    // spec: UMS-023
    #[test]
    fn creation_carries_queue_ring_and_control() {
        let mut args = create();
        assert_eq!(args.checked(), Ok((CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION, 16)));
        let call = args.to_call(Vec::new()).unwrap();
        assert_eq!(
            (call.hw_queue, call.ring, call.control),
            (Handle(0x11), Handle(0x22), Handle(0x33))
        );
        let addresses =
            DoorbellAddresses { doorbell: 0x55, secondary: 0x66, status: 0x77, last_queued: 0x88 };
        args.answer(Handle(0x99), addresses);
        let set = [
            (0, 0x11),
            (4, 0x22),
            (8, 0x33),
            (12, 2),
            (16, 16),
            (24, 0x44),
            (32, 0x55),
            (40, 0x66),
            (48, 0x77),
            (56, 0x88),
            (64, 0x99),
        ];
        assert_bytes(&args.to_bytes(), 72, &set);
    }

    // spec: UMS-032
    #[test]
    fn creation_that_makes_no_sense_is_refused() {
        let bad = [
            CreateDoorbell { hw_queue: 0, ..create() },
            CreateDoorbell { ring_buffer: 0, ..create() },
            CreateDoorbell { flags: 4, ..create() },
            CreateDoorbell { private_driver_data_size: 17, ..create() },
            CreateDoorbell { private_driver_data: 0, ..create() },
        ];
        for args in bad {
            assert_eq!(
                args.to_call(Vec::new()).unwrap_err(),
                Status::INVALID_PARAMETER,
                "{args:?}"
            );
        }
        let both = CreateDoorbell { flags: 3, ..create() }.to_call(Vec::new()).unwrap();
        assert_eq!(both.flags, CreateDoorbellFlags::all());
    }

    // spec: UMS-024
    #[test]
    fn the_other_calls_name_a_doorbell_first() {
        let doorbell = Handle(0x11);
        assert_bytes(&ConnectDoorbell::new(doorbell).to_bytes(), 8, &[(0, 0x11)]);
        assert_bytes(&DestroyDoorbell::new(doorbell).to_bytes(), 4, &[(0, 0x11)]);
        assert_bytes(&NotifyWorkSubmission::new(doorbell).to_bytes(), 8, &[(0, 0x11)]);
        assert_eq!(ConnectDoorbell::new(doorbell).to_call(), Ok(doorbell));
        assert_eq!(DestroyDoorbell::new(doorbell).to_call(), Ok(doorbell));
        assert_eq!(NotifyWorkSubmission::new(doorbell).to_call(), Ok(doorbell));
        let refused = Err(Status::INVALID_PARAMETER);
        assert_eq!(ConnectDoorbell { doorbell: 1, flags: 1 }.to_call(), refused);
        assert_eq!(NotifyWorkSubmission { doorbell: 1, flags: 1 << 31 }.to_call(), refused);
        assert_eq!(ConnectDoorbell::ZERO.to_call(), refused);
        assert_eq!(DestroyDoorbell::ZERO.to_call(), refused);
        assert_eq!(NotifyWorkSubmission::ZERO.to_call(), refused);
    }
}
