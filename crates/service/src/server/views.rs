//! Memory of the kernel's answers as views: what a client needs to map it.

use crate::transport::{Attachment, Link, Mailbox};
use crate::wire::{BitsView, FenceView, LogView, MemoryView, PageView, WordView};
use std::sync::Arc;
use tidegate_calls::{AllocationMemory, FenceInstance, LogDetail, ReadOnly, RingBits, Status};
use tidegate_platform::{Page, Word};

/// The files of a message and of its answer, or what takes their place.
#[derive(Default)]
pub(super) struct Files {
    /// With the message.
    pub(super) came_with: Vec<Attachment>,
    /// With the answer.
    pub(super) all: Vec<Attachment>,
    /// Whether one of them is an NT handle.
    pub(super) nt_handle: bool,
    /// Where memory for a guest lies.
    pub(super) mailbox: Option<Arc<Mailbox>>,
}

impl Files {
    /// Returns what came with a message over this link.
    pub(super) fn of_message(link: &Link, came_with: Vec<Attachment>) -> Files {
        Files { came_with, mailbox: link.mailbox().cloned(), ..Files::default() }
    }

    /// Adds a file. Returns its place.
    fn add(&mut self, file: Attachment) -> u8 {
        self.all.push(file);
        self.all.len() as u8 - 1
    }

    /// Returns whether a client can be handed the page.
    pub(super) fn holds(page: &Page) -> bool {
        page.can_be_handed() || page.client_access().is_some()
    }

    /// Adds a page.
    ///
    /// # Errors
    /// NO_MEMORY for memory that lies in no file, because the system had none left, and for memory
    /// that does not fit the room of a guest.
    pub(super) fn page(&mut self, page: &Page) -> Result<PageView, Status> {
        let (file, access) = match &self.mailbox {
            Some(mailbox) => mailbox.place_page(page)?,
            None => Attachment::of_page(page).ok_or(Status::NO_MEMORY)?,
        };
        Ok(PageView { file: self.add(file), words: page.len() as u32, access })
    }

    fn at(&mut self, (page, index): (Page, usize)) -> Result<WordView, Status> {
        Ok(WordView { page: self.page(&page)?, index: index as u32 })
    }

    pub(super) fn read_only(&mut self, word: &ReadOnly) -> Result<WordView, Status> {
        self.at(word.place())
    }

    pub(super) fn word(&mut self, word: &Word) -> Result<WordView, Status> {
        self.at((word.page(), word.index()))
    }

    pub(super) fn memory(&mut self, memory: &AllocationMemory) -> Result<MemoryView, Status> {
        Ok(match memory {
            AllocationMemory::Bulk(bulk) => {
                let file = match &self.mailbox {
                    Some(mailbox) => mailbox.place_bulk(bulk)?,
                    None => Attachment::of_bulk(bulk).ok_or(Status::NO_MEMORY)?,
                };
                MemoryView::Bulk { file: self.add(file), bytes: bulk.len() }
            }
            AllocationMemory::Protocol(page) => MemoryView::Protocol(self.page(page)?),
            AllocationMemory::Window(_) | AllocationMemory::ByCalls(_) => MemoryView::Moving,
        })
    }

    pub(super) fn fence(&mut self, made: &FenceInstance) -> Result<FenceView, Status> {
        let value = made.value.read_only().map(|word| self.read_only(word)).transpose()?;
        // Both are words of one page.
        let epoch = made.epoch.as_ref().map(|epoch| {
            let (page, index) = epoch.place();
            match value {
                Some(value) if made.value.read_only().is_some_and(|v| v.place().0.same(&page)) => {
                    Ok(WordView { index: index as u32, ..value })
                }
                _ => self.at((page, index)),
            }
        });
        Ok(FenceView {
            handle: made.handle,
            value,
            epoch: epoch.transpose()?,
            value_cpu_va: made.value_cpu_va,
            cache_type: made.cache_type,
            current_value_gpu_va: made.current_value_gpu_va,
            monitored_value_gpu_va: made.monitored_value_gpu_va,
            native: made.native,
            private_data: made.private_data.to_vec(),
            number: made.number,
        })
    }

    /// Returns how an engine finds a ring; `None` where the client has to notify the driver.
    pub(super) fn bits(&mut self, ring: &RingBits) -> Result<BitsView, Status> {
        // Without a leaf both views are of the root, and the second step finds the bit set.
        let (leaf, in_leaf) = ring.leaf.as_ref().unwrap_or(&ring.root);
        let (root, in_root) = &ring.root;
        let leaf_view = self.word(leaf)?;
        let root_view = match root.page().same(&leaf.page()) {
            true => WordView { index: root.index() as u32, ..leaf_view },
            false => self.word(root)?,
        };
        let bits = [(leaf_view, *in_leaf), (root_view, *in_root)];
        Ok(BitsView { bits, sleeper: self.word(&ring.sleeper)? })
    }

    pub(super) fn log(&mut self, detail: &LogDetail) -> Result<LogView, Status> {
        Ok(LogView {
            wait_entries: detail.wait_entries,
            signal_entries: detail.signal_entries,
            wait_log_gpu_va: detail.wait_log_gpu_va,
            signal_log_gpu_va: detail.signal_log_gpu_va,
            numbers: detail.numbers,
            verbose: detail.verbose.as_ref().map(|word| self.read_only(word)).transpose()?,
        })
    }
}
