//! Owns where fence cells stand: packed pages per process for fences that cannot be shared, CurrentValue and MonitoredValue in
//! pages of their own kind at the same index.
//!
//! CurrentValue pages are mapped read/write for engines, MonitoredValue pages read-only: an engine's store there faults. The
//! stride is the driver's. A slot is used again only after its fence died, which is after the driver destroyed it.

use crate::adapter::Adapter;
use crate::memory::{Access, AddressSpace};
use std::sync::{Arc, Weak};
use tidegate_calls::Status;
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{PAGE_WORDS, VALUE_BYTES, VALUE_WORDS};
use tidegate_platform::{Mutex, Page, PhysicalAddress, Word};

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
    pub(crate) current: FenceCell,
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
            current: self.cell(page, index * stride),
            monitored: page.monitored.word(index * stride),
            current_va: page.current_va + offset,
            monitored_va: page.monitored_va + offset,
            current_at: PhysicalAddress(page.at[0].0 + offset),
        })
    }

    fn cell(&self, page: &FencePage, number: usize) -> FenceCell {
        let word = page.current.word(number);
        if self.adapter.caps.fence_history {
            FenceCell::in_fence_page(word, 0)
        } else {
            FenceCell::plain(word)
        }
    }

    /// Bytes of a page that one fence has.
    pub(crate) fn stride_bytes(&self) -> u64 {
        self.stride_words() as u64 * WORD_BYTES
    }

    fn new_page(&self) -> Result<FencePage, Status> {
        // spec: NF-032, NF-035, NF-038
        let memory = &self.adapter.system_memory;
        let history = self.adapter.caps.fence_history;
        let (current_at, current) = memory.protocol(if history { PAGE_WORDS } else { VALUE_WORDS });
        let (monitored_at, monitored) = memory.protocol(VALUE_WORDS);
        let access = if history { Access::FenceValues } else { Access::ReadWrite };
        // The histories are not mapped: nobody but the hardware and the kernel reaches them.
        // spec: NF-012, MF-011, MF-012, ME-037
        let current_va = self.space.map(current_at, VALUE_BYTES, access)?;
        // spec: NF-018
        let monitored_va = self.space.map(monitored_at, VALUE_BYTES, Access::Read)?;
        let free = (0..VALUE_WORDS / self.stride_words()).rev().collect();
        Ok(FencePage { current, monitored, current_va, monitored_va, at: [current_at, monitored_at], free })
    }
}

impl Drop for FencePool {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut *self.pages.lock());
        for page in pages {
            self.space.unmap(page.current_va, VALUE_BYTES);
            self.space.unmap(page.monitored_va, VALUE_BYTES);
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
