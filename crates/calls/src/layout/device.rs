//! Owns the structures of devices: making one, its state, and the lock of an allocation.

use super::handle;
use crate::{DeviceState, Handle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::Raw;

layout! {
    // spec: MF-090
    /// Makes a device. The lists serve the packets of WDDM 1.x and stay empty.
    CreateDevice = "D3DKMT_CREATEDEVICE", 64 bytes {
        /// The adapter's handle, in the low half of a union with a kernel pointer. In.
        0 "hAdapter" adapter: u64,
        /// Bits of D3DKMT_CREATEDEVICEFLAGS. In.
        8 "Flags" flags: u32,
        /// Its handle. Out.
        12 "hDevice" device: u32,
        /// A command buffer. Out.
        16 "pCommandBuffer" command_buffer: u64,
        /// Its bytes. Out.
        24 "CommandBufferSize" command_buffer_size: u32,
        /// An allocation list. Out.
        32 "pAllocationList" allocation_list: u64,
        /// Its elements. Out.
        40 "AllocationListSize" allocation_list_size: u32,
        /// A patch location list. Out.
        48 "pPatchLocationList" patch_location_list: u64,
        /// Its elements. Out.
        56 "PatchLocationListSize" patch_location_list_size: u32,
    }

    // spec: MF-091
    /// Makes an allocation's memory visible to the process.
    Lock2 = "D3DKMT_LOCK2", 24 bytes {
        /// The device. In.
        0 "hDevice" device: u32,
        /// The allocation. In.
        4 "hAllocation" allocation: u32,
        /// Reserved. In.
        8 "Flags" flags: u32,
        /// Where it stands. Out.
        16 "pData" data: u64,
    }

    // spec: MF-092
    /// Asks how a device stands.
    GetDeviceState = "D3DKMT_GETDEVICESTATE", 56 bytes {
        /// The device. In.
        0 "hDevice" device: u32,
        /// See [`DeviceStateType`]. In.
        4 "StateType" state_type: u32,
        /// A union. For EXECUTION its low half is a number of D3DKMT_DEVICEEXECUTION_STATE, for
        /// PAGE_FAULT it is a [`DevicePageFaultState`]. Out.
        8 "Anonymous" state: [u64; 6],
    }

    /// What page fault a device was lost to.
    DevicePageFaultState = "D3DKMT_DEVICEPAGEFAULT_STATE", 32 bytes {
        /// Which primitive, counted by the API; 0 when unknown.
        0 "FaultedPrimitiveAPISequenceNumber" faulted_primitive_api_sequence_number: u64,
        /// Which stage of the pipeline; see [`crate::RenderPipelineStage`].
        8 "FaultedPipelineStage" faulted_pipeline_stage: u32,
        /// Which entry of the bind table; 0 when unknown.
        12 "FaultedBindTableEntry" faulted_bind_table_entry: u32,
        /// See [`crate::PageFaultFlags`].
        16 "PageFaultFlags" page_fault_flags: u32,
        /// The driver's code; see [`crate::FaultErrorCode`].
        20 "FaultErrorCode" fault_error_code: u32,
        /// The address that was used, process GPU address.
        24 "FaultedVirtualAddress" faulted_virtual_address: u64,
    }
}

/// What is asked about a device.
#[doc(alias = "D3DKMT_DEVICESTATE_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DeviceStateType {
    /// Whether it works.
    Execution = 1,
    /// How its presents stand.
    Present = 2,
    /// Whether it was reset.
    Reset = 3,
    /// How the compositor's presents stand.
    PresentDwm = 4,
    /// What page fault it was lost to.
    PageFault = 5,
    /// How its present queue stands.
    PresentQueue = 6,
}

impl TryFrom<u32> for DeviceStateType {
    type Error = Status;

    /// The type of that number; INVALID_PARAMETER for any other.
    fn try_from(number: u32) -> Result<DeviceStateType, Status> {
        Ok(match number {
            1 => DeviceStateType::Execution,
            2 => DeviceStateType::Present,
            3 => DeviceStateType::Reset,
            4 => DeviceStateType::PresentDwm,
            5 => DeviceStateType::PageFault,
            6 => DeviceStateType::PresentQueue,
            _ => return Err(Status::INVALID_PARAMETER),
        })
    }
}

/// Number of D3DKMT_DEVICEEXECUTION_STATE; 5 ERROR_OUTOFMEMORY and 6 ERROR_DMAFAULT are the others.
fn execution_state(state: &DeviceState) -> u32 {
    match state {
        DeviceState::Active => 1,
        DeviceState::Reset(_) => 2,
        DeviceState::Hung(_) => 3,
        // The published numbers have none of its own for a removal or the end of a process.
        DeviceState::Stopped | DeviceState::Removed | DeviceState::ProcessEnded => 4,
        DeviceState::Faulted(_) => 7,
    }
}

// spec: HS-020
fn page_fault(state: &DeviceState) -> DevicePageFaultState {
    match state {
        DeviceState::Faulted(report) => DevicePageFaultState {
            faulted_primitive_api_sequence_number: report.primitive_api_sequence_number,
            faulted_pipeline_stage: report.pipeline_stage as u32,
            faulted_bind_table_entry: report.bind_table_entry,
            page_fault_flags: report.flags.bits(),
            fault_error_code: report.error_code.0,
            faulted_virtual_address: report.gpu_va,
        },
        _ => Raw::ZERO,
    }
}

impl GetDeviceState {
    /// The device and what is asked. INVALID_PARAMETER for a zero device and a type that does not
    /// exist.
    pub fn checked(&self) -> Result<(Handle, DeviceStateType), Status> {
        Ok((handle(self.device)?, DeviceStateType::try_from(self.state_type)?))
    }

    /// Puts in how the device stands. NOT_SUPPORTED for what has to do with presents and resets,
    /// which devices here do not keep.
    pub fn answer(&mut self, state: &DeviceState) -> Result<(), Status> {
        let (_, asked) = self.checked()?;
        let mut bytes = [0; 48];
        match asked {
            DeviceStateType::Execution => execution_state(state).write(&mut bytes),
            DeviceStateType::PageFault => page_fault(state).write(&mut bytes),
            _ => return Err(Status::NOT_SUPPORTED),
        }
        self.state = Raw::read(&bytes);
        Ok(())
    }
}

impl CreateDevice {
    /// The adapter's handle. INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<Handle, Status> {
        handle(self.adapter as u32)
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self, device: Handle) {
        self.device = device.0;
    }
}

impl Lock2 {
    /// Device and allocation. INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<(Handle, Handle), Status> {
        Ok((handle(self.device)?, handle(self.allocation)?))
    }

    /// Puts in where the memory stands, process CPU address.
    pub fn answer(&mut self, data: u64) {
        self.data = data;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use crate::{FaultErrorCode, FaultReport, PageFaultFlags, RenderPipelineStage};

    // spec: MF-090, MF-091
    #[test]
    fn devices_and_locks_stand_where_the_header_has_them() {
        let mut device = CreateDevice {
            adapter: 0x11,
            flags: 0x22,
            command_buffer: 0x33,
            command_buffer_size: 0x44,
            allocation_list: 0x55,
            allocation_list_size: 0x66,
            patch_location_list: 0x77,
            patch_location_list_size: 0x78,
            ..Raw::ZERO
        };
        assert_eq!(device.to_call(), Ok(Handle(0x11)));
        device.answer(Handle(0x79));
        let set = [
            (0, 0x11),
            (8, 0x22),
            (12, 0x79),
            (16, 0x33),
            (24, 0x44),
            (32, 0x55),
            (40, 0x66),
            (48, 0x77),
            (56, 0x78),
        ];
        assert_bytes(&device.to_bytes(), 64, &set);
        assert_eq!(CreateDevice::ZERO.to_call(), Err(Status::INVALID_PARAMETER));

        let mut lock = Lock2 { device: 0x11, allocation: 0x22, ..Raw::ZERO };
        assert_eq!(lock.to_call(), Ok((Handle(0x11), Handle(0x22))));
        lock.answer(0x33);
        assert_bytes(&lock.to_bytes(), 24, &[(0, 0x11), (4, 0x22), (16, 0x33)]);
        assert_eq!(Lock2 { allocation: 0, ..lock }.to_call(), Err(Status::INVALID_PARAMETER));
    }

    // spec: MF-092, HS-020
    #[test]
    fn a_lost_device_says_so_and_by_what() {
        let report = FaultReport {
            gpu_va: 0x66,
            flags: PageFaultFlags::WRITE | PageFaultFlags::IOMMU,
            primitive_api_sequence_number: 0x22,
            pipeline_stage: RenderPipelineStage::PixelShader,
            bind_table_entry: 0x33,
            error_code: FaultErrorCode::device_specific(0x22),
            ..FaultReport::default()
        };
        let lost = DeviceState::Faulted(report);
        let mut args = GetDeviceState { device: 0x11, state_type: 1, state: [9; 6] };
        args.answer(&lost).unwrap();
        assert_bytes(&args.to_bytes(), 56, &[(0, 0x11), (4, 1), (8, 7)]);
        args.answer(&DeviceState::Stopped).unwrap();
        assert_eq!(args.state, [4, 0, 0, 0, 0, 0]);
        args.answer(&DeviceState::Active).unwrap();
        assert_eq!(args.state, [1, 0, 0, 0, 0, 0]);
        args.state_type = 5;
        args.answer(&lost).unwrap();
        assert_bytes(
            &args.to_bytes(),
            56,
            &[
                (0, 0x11),
                (4, 5),
                (8, 0x22),
                (16, 6),
                (20, 0x33),
                (24, 0x21),
                (28, 0x45),
                (32, 0x66),
            ],
        );
        args.answer(&DeviceState::Active).unwrap();
        assert_eq!(args.state, [0; 6]);
    }

    #[test]
    fn only_what_a_device_keeps_is_answered() {
        for (state_type, status) in [
            (0, Status::INVALID_PARAMETER),
            (2, Status::NOT_SUPPORTED),
            (3, Status::NOT_SUPPORTED),
            (6, Status::NOT_SUPPORTED),
            (7, Status::INVALID_PARAMETER),
        ] {
            let mut args = GetDeviceState { device: 1, state_type, state: [9; 6] };
            assert_eq!(args.answer(&DeviceState::Active), Err(status));
            assert_eq!(args.state, [9; 6], "left as it was");
        }
        assert_eq!(GetDeviceState::ZERO.checked(), Err(Status::INVALID_PARAMETER));
    }
}
