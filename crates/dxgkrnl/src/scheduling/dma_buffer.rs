//! DMA buffers with physical addresses, and their queued parts.
//!
//! Invariant: a part is patched again only when one of its allocations has moved since the last
//! patch, because its contents must not change under an engine.

use crate::driver::DriverPort;
use crate::memory::{AllocationObject, UseMark};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::Irql;
use tidegate_ddi::patch::{Patch, PatchLocation, SubmitCommandPhysical};
use tidegate_platform::{Bulk, Mutex, PhysicalAddress};
use tidegate_vidsch::patch_list::Part;

/// A DMA buffer, on the bus.
pub(super) struct DmaBuffer {
    pub(super) port: Arc<DriverPort>,
    pub(super) at: PhysicalAddress,
    pub(super) bytes: Bulk,
    pub(super) private_data: Option<Bulk>,
    pub(super) list: Vec<PatchLocation>,
    pub(super) allocations: Vec<Arc<AllocationObject>>,
}

impl DmaBuffer {
    pub(super) fn objects(&self, needs: &BTreeSet<u32>) -> Vec<Arc<AllocationObject>> {
        needs.iter().map(|index| self.allocations[*index as usize].clone()).collect()
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        self.port.system_memory.remove(self.at);
    }
}

/// Whether engines may run a part.
enum Use {
    /// Being queued.
    Queueing,
    /// In use until this mark is over; `None` once it is.
    Until(Option<UseMark>),
}

/// A part of a DMA buffer in a queue.
pub(crate) struct QueuedPart {
    buffer: Arc<DmaBuffer>,
    part: Part,
    use_: Mutex<Use>,
    /// Addresses of its allocations at the last patch.
    patched: Mutex<Option<Vec<Option<PhysicalAddress>>>>,
}

impl QueuedPart {
    /// Creates a part that is being queued.
    pub(super) fn new(buffer: &Arc<DmaBuffer>, part: Part) -> QueuedPart {
        let platform = &buffer.port.platform;
        QueuedPart {
            buffer: buffer.clone(),
            part,
            use_: platform.mutex("a part in use", Use::Queueing),
            patched: platform.mutex("a patched part", None),
        }
    }

    /// Records that the part is on all its queues. Engines may run it until the mark is over.
    pub(super) fn note_queued(&self, mark: Option<UseMark>) {
        *self.use_.lock() = Use::Until(mark);
    }

    /// Returns whether no engine will run the part any more.
    pub(crate) fn is_over(&self) -> bool {
        match &*self.use_.lock() {
            Use::Queueing => false,
            Use::Until(mark) => mark.as_ref().is_none_or(|mark| mark.is_over()),
        }
    }

    fn places(&self) -> Vec<Option<PhysicalAddress>> {
        let all = self.buffer.allocations.iter().zip(0u32..);
        all.map(|(a, index)| self.part.needs.contains(&index).then(|| a.at())).collect()
    }

    /// Returns whether the part must be patched before submission, which needs PASSIVE level.
    pub(super) fn needs_patch(&self) -> bool {
        *self.patched.lock() != Some(self.places())
    }

    /// Submits the part, patched for the current addresses. Returns `None`, without effect, if it
    /// needs a patch in a DPC. A failure has the name of the entry.
    pub(super) fn submit(
        &self,
        level: Irql<'_>,
        port: &DriverPort,
        packet: SubmitCommandPhysical,
    ) -> Option<Result<(), (&'static str, Status)>> {
        let QueuedPart { buffer, part, .. } = self;
        if self.needs_patch() {
            // A DPC leaves the patch to an agent that may block.
            let level = level.passive()?;
            let places = self.places();
            let opened: Vec<_> = buffer.allocations.iter().map(|a| a.opened()).collect();
            let patch = Patch {
                context: packet.context,
                dma_buffer: &buffer.bytes,
                dma_buffer_at: buffer.at,
                private_data: buffer.private_data.as_ref(),
                submission_fence_id: packet.submission_fence_id,
                start_offset: part.bytes.start,
                end_offset: part.bytes.end,
                locations: &buffer.list,
                allocations: &places,
                opened: &opened,
            };
            if let Err(status) = port.driver(level).patch(level, patch) {
                return Some(Err(("DxgkDdiPatch", status)));
            }
            *self.patched.lock() = Some(places);
        }
        let (start_offset, end_offset) = (part.bytes.start, part.bytes.end);
        let private_data_at =
            buffer.private_data.as_ref().and_then(Bulk::cpu_address).unwrap_or_default();
        let packet = SubmitCommandPhysical {
            dma_buffer: buffer.at,
            start_offset,
            end_offset,
            private_data_at,
            ..packet
        };
        let done = port.driver(level).submit_command(&level.raise(), packet);
        Some(done.map_err(|status| ("DxgkDdiSubmitCommand", status)))
    }
}
