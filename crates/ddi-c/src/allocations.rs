//! Allocations as objects of the driver: DxgkDdiCreateAllocation, DxgkDdiOpenAllocation and their
//! ends.
//!
//! The private data tell the allocations apart: a word with the bytes for memory of a process, two
//! words with the address and the bytes for a ring, two words for a surface (its description). A
//! ring and a surface are not opened.

use crate::CDriver;
use crate::address::{address_of, address_of_first};
use crate::handle_data::DriverHandles;
use crate::rule::Rule;
use tidegate_ddi::allocation::{CloseAllocation, CreateAllocation, OpenAllocation};
use tidegate_ddi::{AllocationDdi, DriverHandle, Passive, Status};
use tidegate_wddm_abi::miniport::{self, AllocationInfo, DestroyAllocation, OpenAllocationInfo};

/// DXGK_OPENALLOCATIONFLAGS: Create.
const CREATE: u32 = 1;

impl CDriver {
    /// Creates an allocation of the driver with two words of private data, for a ring or a surface.
    /// Returns its handle.
    pub(crate) fn add_words(&self, first: u64, second: u64) -> Result<u64, Status> {
        self.add(&mut [first, second]).map(|info| info.allocation)
    }

    fn add(&self, private_data: &mut [u64]) -> Result<AllocationInfo, Status> {
        let mut info = AllocationInfo {
            private_driver_data: address_of_first(private_data),
            private_driver_data_size: size_of_val(private_data) as u32,
            ..AllocationInfo::ZERO
        };
        let mut c = miniport::CreateAllocation {
            allocations: 1,
            allocation_info: address_of(&mut info),
            ..miniport::CreateAllocation::ZERO
        };
        self.call("DxgkDdiCreateAllocation", |e| e.create_allocation(self.adapter, &mut c))?;
        Ok(info)
    }

    pub(crate) fn remove_allocations(&self, allocations: &[u64]) {
        let mut list = allocations.to_vec();
        let mut c = DestroyAllocation {
            allocations: list.len() as u32,
            allocation_list: address_of_first(&mut list),
            ..DestroyAllocation::ZERO
        };
        self.must("DxgkDdiDestroyAllocation", |e| e.destroy_allocation(self.adapter, &mut c));
    }

    fn open(&self, args: OpenAllocation, number: u32) -> Result<DriverHandle, Status> {
        let mut private_data = [args.bytes];
        let mut info = OpenAllocationInfo {
            allocation: number,
            private_driver_data: address_of(&mut private_data),
            private_driver_data_size: size_of_val(&private_data) as u32,
            device_specific_allocation: 0,
        };
        let mut c = miniport::OpenAllocation {
            allocations: 1,
            open_allocation: address_of(&mut info),
            flags: if args.create { CREATE } else { 0 },
            ..miniport::OpenAllocation::ZERO
        };
        self.call("DxgkDdiOpenAllocation", |e| e.open_allocation(args.device.0, &mut c))?;
        Ok(DriverHandle(info.device_specific_allocation))
    }
}

impl AllocationDdi for CDriver {
    fn create_allocation(
        &self,
        _level: &Passive,
        args: CreateAllocation,
    ) -> Result<DriverHandle, Status> {
        let info = self.add(&mut [args.bytes])?;
        // A driver that leaves the size to the kernel states none.
        if info.size != 0 && info.size < args.bytes {
            let (size, bytes) = (info.size, args.bytes);
            let what =
                format!("DxgkDdiCreateAllocation gave Size {size}: {bytes} bytes are wanted");
            self.host().violation(Rule::Allocation, what);
        }
        Ok(DriverHandle(info.allocation))
    }

    fn open_allocation(
        &self,
        _level: &Passive,
        args: OpenAllocation,
    ) -> Result<DriverHandle, Status> {
        let number = args.os_handle.0 as u32;
        let handles = DriverHandles { allocation: args.allocation.0, opened: 0 };
        self.host().handle_data.lock().set(number, handles);
        let opened = self.open(args, number);
        let mut handle_data = self.host().handle_data.lock();
        match &opened {
            Ok(opened) => handle_data.set(number, DriverHandles { opened: opened.0, ..handles }),
            Err(_) => handle_data.remove(number),
        }
        opened
    }

    fn close_allocation(&self, _level: &Passive, args: CloseAllocation) {
        let mut list = [args.opened.0];
        let mut c = miniport::CloseAllocation {
            allocations: 1,
            open_handle_list: address_of_first(&mut list),
        };
        self.must("DxgkDdiCloseAllocation", |e| e.close_allocation(args.device.0, &mut c));
        self.host().handle_data.lock().remove(args.os_handle.0 as u32);
    }

    fn destroy_allocation(&self, _level: &Passive, allocation: DriverHandle) {
        self.remove_allocations(&[allocation.0]);
    }
}
