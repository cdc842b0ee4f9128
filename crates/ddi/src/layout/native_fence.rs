//! Owns the structures of the DDIs that make, open, close and destroy native fences.

use crate::{DriverHandle, NativeFenceType, OsHandle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::{NATIVE_FENCE_PRIVATE_DATA_BYTES, Raw, reserved_is_zero};

layout! {
    // spec: NF-080
    /// Makes a native fence on an adapter.
    CreateNativeFence = "DXGKARG_CREATENATIVEFENCE", 136 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hGlobalNativeFence" global_native_fence: u64,
        /// See [`NativeFenceType`]. In.
        8 "Type" fence_type: u32,
        /// CurrentValue in the system process's GPU address space; 0 unless the caps ask for it.
        /// In.
        16 "CurrentValueSystemProcessGpuVa" current_value_system_process_gpu_va: u64,
        /// MonitoredValue in the system process's GPU address space; 0 unless the caps ask for it.
        /// In.
        24 "MonitoredValueSystemProcessGpuVa" monitored_value_system_process_gpu_va: u64,
        /// Private driver data, in spite of its name the bytes themselves. In and out.
        32 "pPrivateDriverData" private_driver_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
        /// Reserved.
        96 "Flags" flags: u32,
        /// Zero.
        100 "Reserved" reserved: [u8; 32],
    }

    // spec: NF-081
    /// Opens an instance of a native fence for a device.
    OpenNativeFence = "DXGKARG_OPENNATIVEFENCE", 80 bytes {
        /// The driver's handle of the fence. In.
        0 "hGlobalNativeFence" global_native_fence: u64,
        /// In: the kernel's handle of the instance. Out: the driver's.
        8 "hLocalNativeFence" local_native_fence: u64,
        /// The driver's handle of the device. In.
        16 "hDevice" device: u64,
        /// CurrentValue, process GPU address. In.
        24 "CurrentValueGpuVa" current_value_gpu_va: u64,
        /// MonitoredValue, process GPU address. In.
        32 "MonitoredValueGpuVa" monitored_value_gpu_va: u64,
        /// Reserved.
        40 "Flags" flags: u32,
        /// Zero.
        44 "Reserved" reserved: [u8; 32],
    }

    // spec: NF-082
    /// Closes an instance.
    CloseNativeFence = "DXGKARG_CLOSENATIVEFENCE", 48 bytes {
        /// The driver's handle of the instance.
        0 "hLocalNativeFence" local_native_fence: u64,
        /// Reserved.
        8 "Flags" flags: u32,
        /// Zero.
        12 "Reserved" reserved: [u8; 32],
    }

    /// Destroys a fence, after its last instance was closed.
    DestroyNativeFence = "DXGKARG_DESTROYNATIVEFENCE", 48 bytes {
        /// The driver's handle of the fence.
        0 "hGlobalNativeFence" global_native_fence: u64,
        /// Reserved.
        8 "Flags" flags: u32,
        /// Zero.
        12 "Reserved" reserved: [u8; 32],
    }
}

impl From<&crate::fence::CreateNativeFence> for CreateNativeFence {
    fn from(args: &crate::fence::CreateNativeFence) -> Self {
        let (current, monitored) = args.system_process_va.unwrap_or((0, 0));
        Self {
            global_native_fence: args.os_handle.0,
            fence_type: args.fence_type as u32,
            current_value_system_process_gpu_va: current,
            monitored_value_system_process_gpu_va: monitored,
            private_driver_data: args.private_data,
            ..Self::ZERO
        }
    }
}

impl CreateNativeFence {
    /// The call. INVALID_PARAMETER for a type that does not exist, reserved bits and bytes, and one
    /// system-process address without the other.
    pub fn to_call(&self) -> Result<crate::fence::CreateNativeFence, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        let addresses =
            (self.current_value_system_process_gpu_va, self.monitored_value_system_process_gpu_va);
        let system_process_va = match addresses {
            (0, 0) => None,
            (0, _) | (_, 0) => return Err(Status::INVALID_PARAMETER),
            both => Some(both),
        };
        Ok(crate::fence::CreateNativeFence {
            os_handle: OsHandle(self.global_native_fence),
            fence_type: NativeFenceType::try_from(self.fence_type)?,
            system_process_va,
            private_data: self.private_driver_data,
        })
    }

    /// Puts in what the driver gives back.
    pub fn answer(
        &mut self,
        global: DriverHandle,
        private_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
    ) {
        self.global_native_fence = global.0;
        self.private_driver_data = private_data;
    }

    /// What the driver gave back.
    pub fn answered(&self) -> (DriverHandle, [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES]) {
        (DriverHandle(self.global_native_fence), self.private_driver_data)
    }
}

impl From<&crate::fence::OpenNativeFence> for OpenNativeFence {
    fn from(args: &crate::fence::OpenNativeFence) -> Self {
        Self {
            global_native_fence: args.global.0,
            local_native_fence: args.os_handle.0,
            device: args.device.0,
            current_value_gpu_va: args.current_value_gpu_va,
            monitored_value_gpu_va: args.monitored_value_gpu_va,
            ..Self::ZERO
        }
    }
}

impl OpenNativeFence {
    /// The call. INVALID_PARAMETER for reserved bits and bytes.
    pub fn to_call(&self) -> Result<crate::fence::OpenNativeFence, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        Ok(crate::fence::OpenNativeFence {
            global: DriverHandle(self.global_native_fence),
            os_handle: OsHandle(self.local_native_fence),
            device: DriverHandle(self.device),
            current_value_gpu_va: self.current_value_gpu_va,
            monitored_value_gpu_va: self.monitored_value_gpu_va,
        })
    }

    /// Puts in what the driver gives back.
    pub fn answer(&mut self, local: DriverHandle) {
        self.local_native_fence = local.0;
    }
}

impl CloseNativeFence {
    /// Names an instance.
    pub fn new(local: DriverHandle) -> Self {
        Self { local_native_fence: local.0, ..Self::ZERO }
    }

    /// The instance. INVALID_PARAMETER for reserved bits and bytes.
    pub fn to_call(&self) -> Result<DriverHandle, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        Ok(DriverHandle(self.local_native_fence))
    }
}

impl DestroyNativeFence {
    /// Names a fence.
    pub fn new(global: DriverHandle) -> Self {
        Self { global_native_fence: global.0, ..Self::ZERO }
    }

    /// The fence. INVALID_PARAMETER for reserved bits and bytes.
    pub fn to_call(&self) -> Result<DriverHandle, Status> {
        reserved_is_zero(self.flags)?;
        reserved_is_zero(self.reserved)?;
        Ok(DriverHandle(self.global_native_fence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;

    fn private_data(first: u8, last: u8) -> [u8; 64] {
        let mut data = [0; 64];
        (data[0], data[63]) = (first, last);
        data
    }

    // spec: NF-080
    #[test]
    fn creation_swaps_the_kernels_handle_for_the_drivers() {
        let call = crate::fence::CreateNativeFence {
            os_handle: OsHandle(0x11),
            fence_type: NativeFenceType::IntraGpu,
            system_process_va: Some((0x22, 0x33)),
            private_data: private_data(0x44, 0x55),
        };
        let mut args = CreateNativeFence::from(&call);
        let set = [(0, 0x11), (8, 1), (16, 0x22), (24, 0x33), (32, 0x44), (95, 0x55)];
        assert_bytes(&args.to_bytes(), 136, &set);
        let back = args.to_call().unwrap();
        assert_eq!((back.os_handle, back.fence_type), (call.os_handle, call.fence_type));
        assert_eq!(
            (back.system_process_va, back.private_data),
            (call.system_process_va, call.private_data)
        );
        args.answer(DriverHandle(0x66), private_data(0x77, 0x78));
        assert_eq!(args.answered(), (DriverHandle(0x66), private_data(0x77, 0x78)));
        let set = [(0, 0x66), (8, 1), (16, 0x22), (24, 0x33), (32, 0x77), (95, 0x78)];
        assert_bytes(&args.to_bytes(), 136, &set);
    }

    #[test]
    fn creation_that_makes_no_sense_is_refused() {
        let good = CreateNativeFence { global_native_fence: 1, ..Raw::ZERO };
        assert_eq!(good.to_call().unwrap().system_process_va, None);
        let bad = [
            CreateNativeFence { fence_type: 2, ..good },
            CreateNativeFence { flags: 1, ..good },
            CreateNativeFence { reserved: [1; 32], ..good },
            CreateNativeFence { current_value_system_process_gpu_va: 1, ..good },
        ];
        for args in bad {
            assert_eq!(args.to_call().unwrap_err(), Status::INVALID_PARAMETER);
        }
    }

    // spec: NF-081
    #[test]
    fn opening_names_fence_device_and_addresses() {
        let call = crate::fence::OpenNativeFence {
            global: DriverHandle(0x11),
            os_handle: OsHandle(0x22),
            device: DriverHandle(0x33),
            current_value_gpu_va: 0x44,
            monitored_value_gpu_va: 0x55,
        };
        let mut args = OpenNativeFence::from(&call);
        assert_bytes(
            &args.to_bytes(),
            80,
            &[(0, 0x11), (8, 0x22), (16, 0x33), (24, 0x44), (32, 0x55)],
        );
        let back = args.to_call().unwrap();
        assert_eq!(
            (back.global, back.os_handle, back.device),
            (call.global, call.os_handle, call.device)
        );
        args.answer(DriverHandle(0x66));
        assert_bytes(
            &args.to_bytes(),
            80,
            &[(0, 0x11), (8, 0x66), (16, 0x33), (24, 0x44), (32, 0x55)],
        );
        let flags = OpenNativeFence { flags: 1, ..args };
        assert_eq!(flags.to_call().unwrap_err(), Status::INVALID_PARAMETER);
    }

    // spec: NF-082
    #[test]
    fn closing_and_destroying_name_their_handle_first() {
        let handle = DriverHandle(0x11);
        assert_bytes(&CloseNativeFence::new(handle).to_bytes(), 48, &[(0, 0x11)]);
        assert_bytes(&DestroyNativeFence::new(handle).to_bytes(), 48, &[(0, 0x11)]);
        assert_eq!(CloseNativeFence::new(handle).to_call(), Ok(handle));
        assert_eq!(DestroyNativeFence::new(handle).to_call(), Ok(handle));
        let refused = Err(Status::INVALID_PARAMETER);
        assert_eq!(
            CloseNativeFence { flags: 1, ..CloseNativeFence::new(handle) }.to_call(),
            refused
        );
        assert_eq!(
            DestroyNativeFence { flags: 1, ..DestroyNativeFence::new(handle) }.to_call(),
            refused
        );
    }
}
