//! Command memory: chunks of bulk allocations in system memory, suballocated in powers of two of at
//! least 64 bytes. Closing a list makes no kernel call unless a new chunk is needed.
//!
//! Freed blocks go to the free list of their size and are reused. Chunks live as long as the
//! device. The arena's lock is not held across the kernel call that creates a chunk, so two threads
//! that both find the arena full create two chunks.

use crate::umd::kernel_object::{KernelDevice, Object, Owned};
use std::sync::Arc;
use tidegate_calls::{AllocationKind, AllocationMemory, CreateAllocation, Placement, Status};
use tidegate_gpu_abi::GpuVa;
use tidegate_platform::{Bulk, Mutex, Platform};

/// Smallest block size and the alignment of all blocks, in bytes. Block sizes are powers of two.
const SMALLEST: u64 = 64;
const SMALLEST_LOG2: u32 = SMALLEST.trailing_zeros();
/// Number of size classes, from 64 bytes to 16 MiB.
const CLASSES: usize = 19;
/// Size of the first chunk. Chunks start small, because mapped pages cost page table entries, and
/// double up to the largest size.
const FIRST_CHUNK: u64 = 64 << 10;
const LARGEST_CHUNK: u64 = 1 << 20;

/// A block of command memory.
pub(crate) struct Block {
    class: usize,
    chunk: usize,
    offset: u64,
    memory: Bulk,
    /// Its GPU address.
    pub(crate) gpu_va: GpuVa,
}

impl Block {
    /// Copies `data` to offset `at`. The range must be inside the requested size.
    pub(crate) fn write(&self, at: u64, data: &[u8]) {
        self.memory.write(self.offset + at, data).expect("a block lies inside its chunk");
    }

    /// Copies bytes from the start of the block to `out`.
    pub(crate) fn read(&self, out: &mut [u8]) {
        self.memory.read(self.offset, out).expect("a block lies inside its chunk");
    }
}

struct Chunk {
    _allocation: Owned,
    gpu_va: u64,
    memory: Bulk,
    bytes: u64,
    used: u64,
}

struct State {
    chunks: Vec<Chunk>,
    /// Free blocks (chunk, offset) by size class.
    free: [Vec<(usize, u64)>; CLASSES],
    next_chunk: u64,
}

pub(crate) struct Arena {
    device: Arc<KernelDevice>,
    state: Mutex<State>,
}

fn class_of(bytes: u64) -> usize {
    (bytes.max(SMALLEST).next_power_of_two().trailing_zeros() - SMALLEST_LOG2) as usize
}

impl Arena {
    pub(crate) fn new(platform: &Platform, device: &Arc<KernelDevice>) -> Arena {
        let state = State {
            chunks: Vec::new(),
            free: [const { Vec::new() }; CLASSES],
            next_chunk: FIRST_CHUNK,
        };
        Arena { device: Arc::clone(device), state: platform.mutex("command memory", state) }
    }

    /// Returns a block of at least `bytes` bytes. The maximum is 16 MiB.
    pub(crate) fn take(&self, bytes: u64) -> Result<Block, Status> {
        let class = class_of(bytes);
        loop {
            let wanted = {
                let mut state = self.state.lock();
                match state.take(class) {
                    Some(block) => return Ok(block),
                    None => state.next_chunk.max(SMALLEST << class),
                }
            };
            let chunk = self.new_chunk(wanted)?;
            let mut state = self.state.lock();
            state.chunks.push(chunk);
            state.next_chunk = (state.next_chunk * 2).min(LARGEST_CHUNK);
        }
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        &self.device
    }

    pub(crate) fn give_back(&self, block: &Block) {
        self.state.lock().free[block.class].push((block.chunk, block.offset));
    }

    fn new_chunk(&self, bytes: u64) -> Result<Chunk, Status> {
        let (kind, placement) = (AllocationKind::Bulk, Placement::System);
        let args = CreateAllocation { device: self.device.handle(), bytes, kind, placement };
        let allocation = self.device.enter().create_allocation(args)?;
        let owned = Owned::new(&self.device, Object::Allocation, allocation.handle);
        let AllocationMemory::Bulk(memory) = allocation.memory else {
            return Err(Status::INVALID_PARAMETER);
        };
        Ok(Chunk { _allocation: owned, gpu_va: allocation.gpu_va, memory, bytes, used: 0 })
    }
}

impl State {
    fn take(&mut self, class: usize) -> Option<Block> {
        let size = SMALLEST << class;
        let (chunk, offset) = match self.free[class].pop() {
            Some(place) => place,
            None => {
                let index = self.chunks.len().checked_sub(1)?;
                let last = &mut self.chunks[index];
                if last.bytes - last.used < size {
                    return None;
                }
                last.used += size;
                (index, last.used - size)
            }
        };
        let from = &self.chunks[chunk];
        Some(Block {
            class,
            chunk,
            offset,
            memory: from.memory.clone(),
            gpu_va: GpuVa(from.gpu_va + offset),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_powers_of_two() {
        assert_eq!([0, 1, 64, 65, 128, 129].map(class_of), [0, 0, 0, 1, 1, 2]);
        assert_eq!(class_of(16 << 20), CLASSES - 1);
    }
}
