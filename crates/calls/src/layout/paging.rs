//! Owns the structures of the residency calls. Where the allocations of a call stand is fetched
//! between `checked` and the call.

use super::handle;
use crate::paging::{PagingPriority, Residency, SegmentGroup, VideoMemoryInfo};
use crate::{Handle, Status};
use tidegate_d3dukmdt::layout;
use tidegate_d3dukmdt::layout::is_an_array;

/// Most allocations in one call; ours, since a caller's array is copied in.
const MAX_ALLOCATIONS: usize = 4096;

layout! {
    // spec: RES-011
    /// Makes a paging queue.
    CreatePagingQueue = "D3DKMT_CREATEPAGINGQUEUE", 32 bytes {
        /// The device. In.
        0 "hDevice" device: u32,
        /// -1, 0 or 1. In.
        4 "Priority" priority: u32,
        /// Its handle. Out.
        8 "hPagingQueue" paging_queue: u32,
        /// Its fence. Out.
        12 "hSyncObject" sync_object: u32,
        /// Where the fence's value stands, process CPU address, read-only. Out.
        16 "FenceValueCPUVirtualAddress" fence_value_cpu_va: u64,
        /// Which physical adapter. In.
        24 "PhysicalAdapterIndex" physical_adapter_index: u32,
    }

    /// Ends a paging queue.
    DestroyPagingQueue = "D3DDDI_DESTROYPAGINGQUEUE", 4 bytes {
        /// The paging queue.
        0 "hPagingQueue" paging_queue: u32,
    }

    // spec: RES-012
    /// Gives allocations references and brings them in.
    MakeResident = "D3DDDI_MAKERESIDENT", 48 bytes {
        /// The paging queue. In.
        0 "hPagingQueue" paging_queue: u32,
        /// How many allocations. In; out how many were done.
        4 "NumAllocations" num_allocations: u32,
        /// Where their handles stand. In.
        8 "AllocationList" allocation_list: u64,
        /// Where their priorities stand; 0 for none. In.
        16 "PriorityList" priority_list: u64,
        /// See [`MakeResidentFlags`]. In.
        24 "Flags" flags: u32,
        /// What the paging queue's fence reaches when they are resident. Out.
        32 "PagingFenceValue" paging_fence_value: u64,
        /// How much must lose its references first. Out.
        40 "NumBytesToTrim" num_bytes_to_trim: u64,
    }

    /// Takes references away.
    Evict = "D3DKMT_EVICT", 32 bytes {
        /// The device. In.
        0 "hDevice" device: u32,
        /// How many allocations. In.
        4 "NumAllocations" num_allocations: u32,
        /// Where their handles stand. In.
        8 "AllocationList" allocation_list: u64,
        /// See [`EvictFlags`]. In.
        16 "Flags" flags: u32,
        /// How much more must lose its references. Out.
        24 "NumBytesToTrim" num_bytes_to_trim: u64,
    }

    // spec: RES-013
    /// Asks what a process may count on.
    QueryVideoMemoryInfo = "D3DKMT_QUERYVIDEOMEMORYINFO", 56 bytes {
        /// Which process; 0 for the caller. In.
        0 "hProcess" process: u64,
        /// The adapter. In.
        8 "hAdapter" adapter: u32,
        /// Which memory: see [`SegmentGroup`]. In.
        12 "MemorySegmentGroup" memory_segment_group: u32,
        /// What it may hold at once, in bytes. Out.
        16 "Budget" budget: u64,
        /// What of it is there, in bytes. Out.
        24 "CurrentUsage" current_usage: u64,
        /// What it reserved, in bytes. Out.
        32 "CurrentReservation" current_reservation: u64,
        /// What it could reserve, in bytes. Out.
        40 "AvailableForReservation" available_for_reservation: u64,
        /// Which physical adapter. In.
        48 "PhysicalAdapterIndex" physical_adapter_index: u32,
    }
}

bitflags::bitflags! {
    /// Flags of MakeResident; the others are reserved.
    #[doc(alias = "D3DDDI_MAKERESIDENT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MakeResidentFlags: u32 {
        /// The caller has nothing that it could trim.
        const CANT_TRIM_FURTHER = 1;
        /// The caller is lost if it fails.
        const MUST_SUCCEED = 1 << 1;
    }

    /// Flags of Evict; the others are reserved.
    #[doc(alias = "D3DDDI_EVICT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EvictFlags: u32 {
        /// Only when the room is needed: what this kernel always does.
        const EVICT_ONLY_IF_NECESSARY = 1;
        /// They were not written since they came in. A hint.
        const NOT_WRITTEN_TO = 1 << 1;
    }
}

/// NOT_SUPPORTED for another physical adapter than the first.
fn first_adapter(index: u32) -> Result<(), Status> {
    if index == 0 { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
}

/// The handles, once they were copied in; INVALID_PARAMETER when they are not as many as was said.
fn allocations(handles: &[u32], count: u32) -> Result<Vec<Handle>, Status> {
    if handles.len() != count as usize {
        return Err(Status::INVALID_PARAMETER);
    }
    handles.iter().map(|number| handle(*number)).collect()
}

impl CreatePagingQueue {
    /// The call.
    ///
    /// Errors: INVALID_PARAMETER for a zero device and a priority that is none; NOT_SUPPORTED for
    /// another physical adapter.
    pub fn to_call(&self) -> Result<crate::CreatePagingQueue, Status> {
        let priority = match self.priority.cast_signed() {
            -1 => PagingPriority::BelowNormal,
            0 => PagingPriority::Normal,
            1 => PagingPriority::AboveNormal,
            _ => return Err(Status::INVALID_PARAMETER),
        };
        first_adapter(self.physical_adapter_index)?;
        Ok(crate::CreatePagingQueue { device: handle(self.device)?, priority })
    }

    /// Puts in what came out of the call; `value_cpu_va` is where the fence's value stands for the
    /// process.
    pub fn answer(&mut self, made: &crate::PagingQueue, value_cpu_va: u64) {
        self.paging_queue = made.handle.0;
        self.sync_object = made.fence.handle.0;
        self.fence_value_cpu_va = value_cpu_va;
    }
}

impl DestroyPagingQueue {
    /// The paging queue. INVALID_PARAMETER for 0.
    pub fn to_call(&self) -> Result<Handle, Status> {
        handle(self.paging_queue)
    }
}

impl MakeResident {
    /// How many handles to fetch.
    ///
    /// Errors: INVALID_PARAMETER for a zero paging queue, no allocations or too many, and reserved
    /// flags.
    pub fn checked(&self) -> Result<usize, Status> {
        handle(self.paging_queue)?;
        MakeResidentFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        is_an_array(self.allocation_list, self.num_allocations, MAX_ALLOCATIONS)
    }

    /// Paging queue and allocations, with the handles that were fetched.
    ///
    /// Errors: those of [`Self::checked`]; INVALID_PARAMETER for a zero handle.
    pub fn to_call(&self, handles: &[u32]) -> Result<(Handle, Vec<Handle>), Status> {
        self.checked()?;
        Ok((handle(self.paging_queue)?, allocations(handles, self.num_allocations)?))
    }

    /// Puts in what came out of the call, and returns the status that goes with it: SUCCESS,
    /// PENDING, or NO_MEMORY.
    // spec: RES-003
    pub fn answer(&mut self, residency: Residency) -> Status {
        (self.paging_fence_value, self.num_bytes_to_trim) = (0, 0);
        match residency {
            Residency::Resident => Status::SUCCESS,
            Residency::Pending { paging_fence_value } => {
                self.paging_fence_value = paging_fence_value;
                Status::PENDING
            }
            Residency::OverBudget { bytes_to_trim } => {
                self.num_bytes_to_trim = bytes_to_trim;
                Status::NO_MEMORY
            }
        }
    }
}

impl Evict {
    /// How many handles to fetch.
    ///
    /// Errors: INVALID_PARAMETER for a zero device, no allocations or too many, and reserved flags.
    pub fn checked(&self) -> Result<usize, Status> {
        handle(self.device)?;
        EvictFlags::from_bits(self.flags).ok_or(Status::INVALID_PARAMETER)?;
        is_an_array(self.allocation_list, self.num_allocations, MAX_ALLOCATIONS)
    }

    /// Device and allocations, with the handles that were fetched.
    ///
    /// Errors: those of [`Self::checked`]; INVALID_PARAMETER for a zero handle.
    pub fn to_call(&self, handles: &[u32]) -> Result<(Handle, Vec<Handle>), Status> {
        self.checked()?;
        Ok((handle(self.device)?, allocations(handles, self.num_allocations)?))
    }

    /// Puts in what came out of the call.
    pub fn answer(&mut self) {
        self.num_bytes_to_trim = 0;
    }
}

impl QueryVideoMemoryInfo {
    /// Which memory is asked about.
    ///
    /// Errors: INVALID_PARAMETER for a zero adapter and a group that is none; NOT_SUPPORTED for
    /// another process or physical adapter.
    pub fn to_call(&self) -> Result<SegmentGroup, Status> {
        handle(self.adapter)?;
        first_adapter(self.physical_adapter_index)?;
        if self.process != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        match self.memory_segment_group {
            0 => Ok(SegmentGroup::Local),
            1 => Ok(SegmentGroup::NonLocal),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }

    /// Puts in what came out of the call. Nothing can be reserved.
    pub fn answer(&mut self, info: VideoMemoryInfo) {
        (self.budget, self.current_usage) = (info.budget, info.current_usage);
        (self.current_reservation, self.available_for_reservation) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    // spec: RES-011, RES-012, RES-013, RES-003
    #[test]
    fn residency_calls_stand_where_the_header_has_them() {
        let queue = CreatePagingQueue { device: 0x11, priority: 1, ..Raw::ZERO };
        let call = queue.to_call().unwrap();
        assert_eq!((call.device, call.priority), (Handle(0x11), PagingPriority::AboveNormal));
        assert_bytes(&queue.to_bytes(), 32, &[(0, 0x11), (4, 1)]);
        let low = CreatePagingQueue { priority: u32::MAX, ..queue };
        assert_eq!(low.to_call().unwrap().priority, PagingPriority::BelowNormal);
        assert!(CreatePagingQueue { priority: 2, ..queue }.to_call().is_err());
        assert!(CreatePagingQueue { physical_adapter_index: 1, ..queue }.to_call().is_err());

        let mut resident = MakeResident {
            paging_queue: 0x11,
            num_allocations: 2,
            allocation_list: 0x22,
            flags: 2,
            ..Raw::ZERO
        };
        assert_eq!(resident.to_call(&[3, 4]), Ok((Handle(0x11), vec![Handle(3), Handle(4)])));
        assert!(resident.to_call(&[3]).is_err() && resident.to_call(&[3, 0]).is_err());
        assert_eq!(
            resident.answer(Residency::Pending { paging_fence_value: 0x33 }),
            Status::PENDING
        );
        assert_bytes(
            &resident.to_bytes(),
            48,
            &[(0, 0x11), (4, 2), (8, 0x22), (24, 2), (32, 0x33)],
        );
        assert_eq!(
            resident.answer(Residency::OverBudget { bytes_to_trim: 0x44 }),
            Status::NO_MEMORY
        );
        assert_bytes(
            &resident.to_bytes(),
            48,
            &[(0, 0x11), (4, 2), (8, 0x22), (24, 2), (40, 0x44)],
        );
        assert_eq!(resident.answer(Residency::Resident), Status::SUCCESS);
        assert!(MakeResident { flags: 4, ..resident }.checked().is_err());
        assert!(MakeResident { num_allocations: 4097, ..resident }.checked().is_err());

        let mut info = QueryVideoMemoryInfo { adapter: 0x11, memory_segment_group: 1, ..Raw::ZERO };
        assert_eq!(info.to_call(), Ok(SegmentGroup::NonLocal));
        info.answer(VideoMemoryInfo { budget: 0x22, current_usage: 0x33 });
        assert_bytes(&info.to_bytes(), 56, &[(8, 0x11), (12, 1), (16, 0x22), (24, 0x33)]);
        assert!(QueryVideoMemoryInfo { memory_segment_group: 2, ..info }.to_call().is_err());
    }

    #[test]
    fn an_eviction_names_a_device_and_its_allocations() {
        let evict = Evict {
            device: 0x11,
            num_allocations: 1,
            allocation_list: 0x22,
            flags: 1,
            ..Raw::ZERO
        };
        assert_eq!(evict.to_call(&[5]), Ok((Handle(0x11), vec![Handle(5)])));
        assert_bytes(&evict.to_bytes(), 32, &[(0, 0x11), (4, 1), (8, 0x22), (16, 1)]);
        assert!(Evict { flags: 8, ..evict }.checked().is_err());
        assert!(Evict { allocation_list: 0, ..evict }.checked().is_err());
        assert_eq!(DestroyPagingQueue { paging_queue: 7 }.to_call(), Ok(Handle(7)));
        assert!(DestroyPagingQueue::ZERO.to_call().is_err());
    }
}
