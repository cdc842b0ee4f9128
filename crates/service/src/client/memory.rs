//! Memory of the service that this process has mapped.

use super::channel::Channel;
use crate::server::MOVING_PIECE_BYTES;
use crate::transport::{Attachment, Number};
use crate::wire::{FenceView, MemoryView, OwnMessage, PageView, WordView};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{
    AllocationMemory, CurrentValueView, FenceInstance, Handle, MovingBytes, ReadOnly, Status,
};
use tidegate_platform::{Mutex, OutOfBounds, Page, Platform, Word};

/// The pages that are mapped, by the numbers of their files: fences of a process share a page.
pub(super) struct Mapped {
    platform: Platform,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    of: BTreeMap<Number, Page>,
    /// How many of them are looked through for unused ones.
    collect_at: usize,
}

/// Fewest pages that are looked through.
const COLLECT_FIRST: usize = 64;

impl Mapped {
    pub(super) fn new(platform: &Platform) -> Mapped {
        let pages = platform.mutex("pages of a service", Pages::default());
        Mapped { platform: platform.clone(), pages }
    }

    /// Maps a page of an answer.
    ///
    /// # Errors
    /// NO_MEMORY for what the system, or the form of the memory, does not let this process map.
    pub(super) fn page(&self, view: PageView, files: &[Attachment]) -> Result<Page, Status> {
        let (file, words) = (files.get(usize::from(view.file)), view.words as usize);
        let file = file.ok_or(Status::NO_MEMORY)?;
        let number = file.number().map_err(|_| Status::NO_MEMORY)?;
        let mut pages = self.pages.lock();
        // A file that is mapped keeps its number.
        if let Some(known) = pages.of.get(&number).filter(|known| known.len() == words) {
            return Ok(known.clone());
        }
        let made = file.map_page(&self.platform, words, view.access);
        let made = made.map_err(|_| Status::NO_MEMORY)?;
        if pages.of.len() >= pages.collect_at {
            pages.of.retain(|_, page| !page.is_only_reference());
            pages.collect_at = COLLECT_FIRST.max(2 * pages.of.len());
        }
        pages.of.insert(number, made.clone());
        Ok(made)
    }

    pub(super) fn word(&self, view: WordView, files: &[Attachment]) -> Result<Word, Status> {
        if view.index >= view.page.words {
            return Err(Status::NO_MEMORY);
        }
        Ok(self.page(view.page, files)?.word(view.index as usize))
    }

    pub(super) fn read_only(
        &self,
        view: WordView,
        files: &[Attachment],
    ) -> Result<ReadOnly, Status> {
        self.word(view, files).map(ReadOnly::new)
    }

    /// Returns the memory of an allocation. `channel` reaches what the kernel moves.
    pub(super) fn allocation(
        &self,
        (channel, device, allocation): (&Arc<Channel>, Handle, Handle),
        (view, bytes): (MemoryView, u64),
        files: &[Attachment],
    ) -> Result<AllocationMemory, Status> {
        Ok(match view {
            MemoryView::Bulk { file, bytes } => {
                let file = files.get(usize::from(file)).ok_or(Status::NO_MEMORY)?;
                let bulk = file.map_bulk(&self.platform, bytes as usize);
                AllocationMemory::Bulk(bulk.map_err(|_| Status::NO_MEMORY)?)
            }
            MemoryView::Protocol(page) => AllocationMemory::Protocol(self.page(page, files)?),
            MemoryView::Moving => {
                let channel = channel.clone();
                AllocationMemory::ByCalls(Arc::new(Moving { channel, device, allocation, bytes }))
            }
        })
    }

    pub(super) fn fence(
        &self,
        view: FenceView,
        files: &[Attachment],
    ) -> Result<FenceInstance, Status> {
        let value = view.value.map(|value| self.read_only(value, files)).transpose()?;
        Ok(FenceInstance {
            handle: view.handle,
            value: value.map_or(CurrentValueView::OutOfReach, CurrentValueView::ReadOnly),
            epoch: view.epoch.map(|epoch| self.read_only(epoch, files)).transpose()?,
            value_cpu_va: view.value_cpu_va,
            cache_type: view.cache_type,
            current_value_gpu_va: view.current_value_gpu_va,
            monitored_value_gpu_va: view.monitored_value_gpu_va,
            native: view.native,
            private_data: view.private_data.try_into().map_err(|_| Status::DEVICE_REMOVED)?,
            trace_fence: 0,
            number: view.number,
        })
    }
}

/// Bytes that the kernel moves, so that each access is a call.
struct Moving {
    channel: Arc<Channel>,
    device: Handle,
    allocation: Handle,
    bytes: u64,
}

impl fmt::Debug for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moving({:?}, {} bytes)", self.allocation, self.bytes)
    }
}

impl Moving {
    fn check(&self, offset: u64, len: usize) -> Result<(), OutOfBounds> {
        let (len, size) = (len as u64, self.bytes);
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(OutOfBounds { offset, len, size }),
        }
    }
}

impl MovingBytes for Moving {
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(offset, out.len())?;
        let (device, allocation) = (self.device, self.allocation);
        let mut offset = offset;
        for piece in out.chunks_mut(MOVING_PIECE_BYTES) {
            let bytes = piece.len() as u32;
            let call = OwnMessage::ReadAllocation { device, allocation, offset, bytes };
            let read: Result<Vec<u8>, Status> = self.channel.call(call);
            match read {
                Ok(data) if data.len() == piece.len() => piece.copy_from_slice(&data),
                _ => piece.fill(0),
            }
            offset += u64::from(bytes);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        self.check(offset, data.len())?;
        let (device, allocation) = (self.device, self.allocation);
        let mut offset = offset;
        for piece in data.chunks(MOVING_PIECE_BYTES) {
            let data = piece.to_vec();
            let call = OwnMessage::WriteAllocation { device, allocation, offset, data };
            // A kernel that is gone has no memory to write to.
            let _: Result<(), Status> = self.channel.call(call);
            offset += piece.len() as u64;
        }
        Ok(())
    }
}
