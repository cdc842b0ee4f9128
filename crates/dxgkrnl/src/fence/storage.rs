//! Owns where fence cells stand: packed pages per process for fences that cannot be shared, CurrentValue and MonitoredValue in
//! pages of their own kind at the same index.
//!
//! CurrentValue pages are mapped read/write for engines, MonitoredValue pages read-only: an engine's store there faults. The
//! stride is the driver's. A slot is used again only after its fence died, which is after the driver destroyed it.

use crate::adapter::Adapter;
use crate::memory::AddressSpace;
use std::sync::{Arc, Weak};
use tidegate_calls::Status;
use tidegate_platform::{Mutex, Page, PhysicalAddress, Word};

/// Words of a fence page.
const PAGE_WORDS: usize = 512;
const WORD_BYTES: u64 = 8;

// spec: NF-025
struct FencePage {
    current: Page,
    monitored: Page,
    current_va: u64,
    monitored_va: u64,
    at: [PhysicalAddress; 2],
    free: Vec<usize>,
}

/// The fence pages of one process.
pub(crate) struct FencePool {
    adapter: Arc<Adapter>,
    space: Arc<AddressSpace>,
    pages: Mutex<Vec<FencePage>>,
}

/// One fence's cells.
pub(crate) struct FenceSlot {
    pool: Weak<FencePool>,
    page: usize,
    index: usize,
    pub(crate) current: Word,
    pub(crate) monitored: Word,
    pub(crate) current_va: u64,
    pub(crate) monitored_va: u64,
    /// Where CurrentValue stands on the bus.
    pub(crate) current_at: PhysicalAddress,
}

impl FencePool {
    pub(crate) fn new(adapter: &Arc<Adapter>, space: &Arc<AddressSpace>) -> Arc<FencePool> {
        let pages = adapter.platform.mutex("fence pages", Vec::new());
        Arc::new(FencePool { adapter: adapter.clone(), space: space.clone(), pages })
    }

    fn stride_words(&self) -> usize {
        (self.adapter.caps.native_fence.monitored_value_stride as usize / WORD_BYTES as usize).max(1)
    }

    /// Takes a slot for a new fence.
    // spec: NF-026
    pub(crate) fn allocate(self: &Arc<FencePool>) -> Result<FenceSlot, Status> {
        loop {
            if let Some(slot) = self.take_free() {
                return Ok(slot);
            }
            let page = self.new_page()?;
            self.pages.lock().push(page);
        }
    }

    fn take_free(self: &Arc<FencePool>) -> Option<FenceSlot> {
        let stride = self.stride_words();
        let mut pages = self.pages.lock();
        let (number, page) = pages.iter_mut().enumerate().find(|(_, p)| !p.free.is_empty())?;
        let index = page.free.pop()?;
        // spec: NF-027
        let offset = (index * stride) as u64 * WORD_BYTES;
        Some(FenceSlot {
            pool: Arc::downgrade(self),
            page: number,
            index,
            current: page.current.word(index * stride),
            monitored: page.monitored.word(index * stride),
            current_va: page.current_va + offset,
            monitored_va: page.monitored_va + offset,
            current_at: PhysicalAddress(page.at[0].0 + offset),
        })
    }

    fn new_page(&self) -> Result<FencePage, Status> {
        // spec: NF-032, NF-035, NF-038
        let memory = &self.adapter.system_memory;
        let (current_at, current) = memory.protocol(PAGE_WORDS);
        let (monitored_at, monitored) = memory.protocol(PAGE_WORDS);
        let bytes = PAGE_WORDS as u64 * WORD_BYTES;
        // spec: NF-012, MF-011, MF-012, ME-037
        let current_va = self.space.map(current_at, bytes, true)?;
        // spec: NF-018
        let monitored_va = self.space.map(monitored_at, bytes, false)?;
        let free = (0..PAGE_WORDS / self.stride_words()).rev().collect();
        Ok(FencePage { current, monitored, current_va, monitored_va, at: [current_at, monitored_at], free })
    }
}

impl Drop for FencePool {
    fn drop(&mut self) {
        let bytes = PAGE_WORDS as u64 * WORD_BYTES;
        let pages = std::mem::take(&mut *self.pages.lock());
        for page in pages {
            self.space.unmap(page.current_va, bytes);
            self.space.unmap(page.monitored_va, bytes);
            for at in page.at {
                self.adapter.system_memory.remove(at);
            }
        }
    }
}

impl Drop for FenceSlot {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            // spec: NF-042
            pool.pages.lock()[self.page].free.push(self.index);
        }
    }
}
