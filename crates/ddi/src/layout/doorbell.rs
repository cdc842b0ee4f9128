//! Owns the structures of the doorbell DDIs and of the driver's callback about doorbells.

use crate::{DisconnectReason, DoorbellStatus, DriverHandle, OsHandle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{
    DOORBELL_PRIVATE_DATA_BYTES, Raw, is_private_data, reserved_is_zero,
};

layout! {
    // spec: UMS-067
    /// Makes a doorbell object.
    CreateDoorbell = "DXGKARG_CREATEDOORBELL", 56 bytes {
        /// The driver's handle of the queue. In.
        0 "hHwQueue" hw_queue: u64,
        /// In: the kernel's handle. Out: the driver's.
        8 "hDoorbell" doorbell: u64,
        /// Bytes of private driver data, at most 16. In.
        16 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Where it stands. In, and what stands there out.
        24 "PrivateDriverData" private_driver_data: u64,
        /// The driver's handle of the ring's slots. In.
        32 "hRingBuffer" ring_buffer: u64,
        /// The driver's handle of the control area; 0 for none. In.
        40 "hRingBufferControl" ring_buffer_control: u64,
        /// See [`CreateDoorbellFlags`]. In.
        48 "Flags" flags: u32,
    }

    /// Gives a doorbell hardware.
    ConnectDoorbell = "DXGKARG_CONNECTDOORBELL", 40 bytes {
        /// The driver's handle. In.
        0 "hDoorbell" doorbell: u64,
        /// See [`ConnectDoorbellFlags`]. In.
        8 "Flags" flags: u32,
        /// The doorbell, kernel CPU address. Out.
        16 "KernelCpuVirtualAddress" kernel_cpu_va: u64,
        /// The secondary one; 0 for none. Out.
        24 "SecondaryKernelCpuVirtualAddress" secondary_kernel_cpu_va: u64,
        /// CONNECTED or CONNECTED_NOTIFY. Out.
        32 "Status" status: u32,
    }

    /// Takes the hardware away.
    DisconnectDoorbell = "DXGKARG_DISCONNECTDOORBELL", 16 bytes {
        /// The driver's handle.
        0 "hDoorbell" doorbell: u64,
        /// Reserved.
        8 "Flags" flags: u32,
    }

    /// Frees the object.
    DestroyDoorbell = "DXGKARG_DESTROYDOORBELL", 8 bytes {
        /// The driver's handle.
        0 "hDoorbell" doorbell: u64,
    }

    /// Tells of new work.
    NotifyWorkSubmission = "DXGKARG_NOTIFYWORKSUBMISSION", 16 bytes {
        /// The driver's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// Reserved.
        8 "Flags" flags: u32,
    }

    /// The driver takes a doorbell away from a queue.
    DisconnectDoorbellCallback = "DXGKARGCB_DISCONNECTDOORBELL", 24 bytes {
        /// The kernel's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// The kernel's handle of the doorbell.
        8 "hDoorbell" doorbell: u64,
        /// Reserved.
        16 "Flags" flags: u32,
        /// DISCONNECTED_RETRY or DISCONNECTED_ABORT.
        20 "DisconnectReason" disconnect_reason: u32,
    }
}

bitflags::bitflags! {
    /// Flags of a new doorbell; the others are reserved.
    #[doc(alias = "DXGK_CREATEDOORBELL_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateDoorbellFlags: u32 {
        /// The queue's doorbell is made again because its ring grows.
        #[doc(alias = "ResizeRingBufferOperation")]
        const RESIZE_RING_BUFFER_OPERATION = 1;
    }
}

bitflags::bitflags! {
    /// Flags of a connect; the others are reserved.
    #[doc(alias = "DXGK_CONNECTDOORBELL_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ConnectDoorbellFlags: u32 {
        /// A second address is needed.
        #[doc(alias = "RequireSecondaryAddress")]
        const REQUIRE_SECONDARY_ADDRESS = 1;
    }
}

impl CreateDoorbell {
    /// Flags and bytes of private driver data. INVALID_PARAMETER for reserved flags and for private
    /// driver data that is too much or stands nowhere.
    pub fn checked(&self) -> Result<(CreateDoorbellFlags, usize), Status> {
        let flags = CreateDoorbellFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        let (address, bytes) = (self.private_driver_data, self.private_driver_data_size);
        Ok((flags, is_private_data(address, bytes, DOORBELL_PRIVATE_DATA_BYTES)?))
    }

    /// Puts in what the driver gives back.
    pub fn answer(&mut self, doorbell: DriverHandle) {
        self.doorbell = doorbell.0;
    }
}

impl ConnectDoorbell {
    /// Names a doorbell, and says whether its secondary address is needed.
    pub fn new(doorbell: DriverHandle, flags: ConnectDoorbellFlags) -> Self {
        Self { doorbell: doorbell.0, flags: flags.bits(), ..Self::ZERO }
    }

    /// Puts in what the driver gives back; a secondary address of 0 is none.
    pub fn answer(
        &mut self,
        kernel_cpu_va: u64,
        secondary_kernel_cpu_va: u64,
        status: DoorbellStatus,
    ) {
        self.kernel_cpu_va = kernel_cpu_va;
        self.secondary_kernel_cpu_va = secondary_kernel_cpu_va;
        self.status = status as u32;
    }

    /// Address and status. INVALID_PARAMETER when the driver gives back no address, no secondary
    /// one that was asked for, or a status that is not one of the two connected ones: it has broken
    /// the contract.
    pub fn answered(&self) -> Result<(u64, DoorbellStatus), Status> {
        let status = DoorbellStatus::try_from(self.status)?;
        let second = self.flags & ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS.bits() != 0;
        if self.kernel_cpu_va == 0
            || (second && self.secondary_kernel_cpu_va == 0)
            || !status.is_connected()
        {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok((self.kernel_cpu_va, status))
    }
}

impl From<DisconnectReason> for DoorbellStatus {
    fn from(reason: DisconnectReason) -> DoorbellStatus {
        match reason {
            DisconnectReason::Retry => DoorbellStatus::DisconnectedRetry,
            DisconnectReason::Abort => DoorbellStatus::DisconnectedAbort,
        }
    }
}

impl DisconnectDoorbellCallback {
    /// Names queue, doorbell and reason.
    pub fn new(hw_queue: OsHandle, doorbell: OsHandle, reason: DisconnectReason) -> Self {
        Self {
            hw_queue: hw_queue.0,
            doorbell: doorbell.0,
            disconnect_reason: DoorbellStatus::from(reason) as u32,
            ..Self::ZERO
        }
    }

    /// Queue, doorbell and reason. INVALID_PARAMETER for reserved flags and for a reason that is
    /// not one of the two disconnected statuses.
    pub fn to_call(&self) -> Result<(OsHandle, OsHandle, DisconnectReason), Status> {
        reserved_is_zero(self.flags)?;
        let reason = match DoorbellStatus::try_from(self.disconnect_reason)? {
            DoorbellStatus::DisconnectedRetry => DisconnectReason::Retry,
            DoorbellStatus::DisconnectedAbort => DisconnectReason::Abort,
            DoorbellStatus::Connected | DoorbellStatus::ConnectedNotify => {
                return Err(Status::INVALID_PARAMETER);
            }
        };
        Ok((OsHandle(self.hw_queue), OsHandle(self.doorbell), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;

    // spec: UMS-067
    #[test]
    fn the_calls_stand_where_the_header_has_them() {
        let mut create = CreateDoorbell {
            hw_queue: 0x11,
            doorbell: 0x22,
            private_driver_data_size: 16,
            private_driver_data: 0x33,
            ring_buffer: 0x44,
            ring_buffer_control: 0x55,
            flags: 1,
        };
        create.answer(DriverHandle(0x66));
        let set = [(0, 0x11), (8, 0x66), (16, 16), (24, 0x33), (32, 0x44), (40, 0x55), (48, 1)];
        assert_bytes(&create.to_bytes(), 56, &set);
        assert_eq!(create.checked(), Ok((CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION, 16)));

        let second = ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS;
        let mut connect = ConnectDoorbell::new(DriverHandle(0x11), second);
        connect.answer(0x22, 0x33, DoorbellStatus::ConnectedNotify);
        assert_bytes(
            &connect.to_bytes(),
            40,
            &[(0, 0x11), (8, 1), (16, 0x22), (24, 0x33), (32, 1)],
        );

        let callback = DisconnectDoorbellCallback::new(
            OsHandle(0x11),
            OsHandle(0x22),
            DisconnectReason::Retry,
        );
        assert_bytes(&callback.to_bytes(), 24, &[(0, 0x11), (8, 0x22), (20, 2)]);
        let flags = DisconnectDoorbellCallback { flags: 0x77, ..callback };
        assert_eq!(flags.to_bytes()[16], 0x77);
    }

    #[test]
    fn creation_that_makes_no_sense_is_refused() {
        let good =
            CreateDoorbell { private_driver_data: 8, private_driver_data_size: 16, ..Raw::ZERO };
        assert!(good.checked().is_ok());
        let bad = [
            CreateDoorbell { private_driver_data_size: 17, ..good },
            CreateDoorbell { private_driver_data: 0, ..good },
            CreateDoorbell { flags: 2, ..good },
        ];
        for args in bad {
            assert_eq!(args.checked(), Err(Status::INVALID_PARAMETER));
        }
    }

    #[test]
    fn a_connect_answers_with_an_address_and_a_connected_status() {
        let answered = |kernel_cpu_va, status| {
            let asked = ConnectDoorbell::new(DriverHandle(1), ConnectDoorbellFlags::empty());
            ConnectDoorbell { kernel_cpu_va, status, ..asked }.answered()
        };
        assert_eq!(answered(8, 0), Ok((8, DoorbellStatus::Connected)));
        assert_eq!(answered(8, 1), Ok((8, DoorbellStatus::ConnectedNotify)));
        for (address, status) in [(0, 0), (8, 2), (8, 3), (8, 4)] {
            assert_eq!(answered(address, status), Err(Status::INVALID_PARAMETER));
        }
        let second = ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS;
        let mut asked = ConnectDoorbell::new(DriverHandle(1), second);
        asked.answer(8, 0, DoorbellStatus::Connected);
        assert_eq!(
            asked.answered(),
            Err(Status::INVALID_PARAMETER),
            "the secondary address is missing"
        );
        asked.answer(8, 16, DoorbellStatus::Connected);
        assert_eq!(asked.answered(), Ok((8, DoorbellStatus::Connected)));
    }

    #[test]
    fn the_callback_takes_the_two_disconnected_statuses() {
        let with = |flags, disconnect_reason| {
            DisconnectDoorbellCallback { flags, disconnect_reason, ..Raw::ZERO }.to_call()
        };
        assert_eq!(with(0, 2).unwrap().2, DisconnectReason::Retry);
        assert_eq!(with(0, 3).unwrap().2, DisconnectReason::Abort);
        for (flags, reason) in [(0, 0), (0, 1), (0, 4), (1, 2)] {
            assert_eq!(with(flags, reason), Err(Status::INVALID_PARAMETER));
        }
    }
}
