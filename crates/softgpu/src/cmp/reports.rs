//! Owns what the interrupt routine fetches: the list of signalled fences and the list of faults. Both are bounded.

use std::collections::VecDeque;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{AddressSpaceId, Cause, GpuVa, QueueId, Register};

/// Fences that were signalled above their MonitoredValue: what [`Register::SIGNALED_QUEUE`] says, and where CurrentValue stands.
pub(crate) struct SignaledList {
    entries: VecDeque<(u64, GpuVa)>,
    capacity: usize,
    /// The address that goes with the queue number read last.
    address: u64,
}

impl SignaledList {
    pub(crate) fn new(capacity: usize) -> SignaledList {
        SignaledList { entries: VecDeque::with_capacity(capacity), capacity, address: 0 }
    }

    /// Adds a fence that a queue signalled; returns the cause to raise, which tells whether it found room.
    pub(crate) fn add(&mut self, queue: QueueId, current_value: GpuVa) -> Cause {
        self.push(u64::from(queue.0) + 1, current_value)
    }

    /// The same for one that the CMP found above a new MonitoredValue: it knows no queue.
    pub(crate) fn add_of_cmp(&mut self, address_space: AddressSpaceId, current_value: GpuVa) -> Cause {
        self.push(Register::SIGNALED_BY_CMP | u64::from(address_space.0), current_value)
    }

    fn push(&mut self, by: u64, current_value: GpuVa) -> Cause {
        if self.entries.len() >= self.capacity {
            return Cause::FENCE_COLLAPSED;
        }
        self.entries.push_back((by, current_value));
        Cause::FENCE_SIGNALED
    }

    /// Takes the next entry: who signalled it, 0 when there is none.
    pub(crate) fn take(&mut self) -> u64 {
        let next = self.entries.pop_front();
        self.address = next.map_or(0, |(_, at)| at.0);
        next.map_or(0, |(by, _)| by)
    }

    /// The address of the entry that was taken last.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRecord {
    pub(crate) queue: QueueId,
    pub(crate) va: GpuVa,
    /// Slot number, or submission fence id.
    pub(crate) position: u64,
    pub(crate) kind: FaultKind,
}

/// Most fault records that wait to be read; what does not fit is only counted, and the queue's state still says it.
const FAULT_RECORDS: usize = 64;

#[derive(Default)]
pub(crate) struct FaultList {
    records: VecDeque<FaultRecord>,
}

impl FaultList {
    pub(crate) fn add(&mut self, record: FaultRecord) {
        if self.records.len() < FAULT_RECORDS {
            self.records.push_back(record);
        }
    }

    pub(crate) fn first(&self) -> Option<&FaultRecord> {
        self.records.front()
    }

    /// Takes the first record.
    pub(crate) fn take(&mut self) -> Option<FaultRecord> {
        self.records.pop_front()
    }
}
