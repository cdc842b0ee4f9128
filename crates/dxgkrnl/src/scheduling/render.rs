//! Packets with physical addresses. A process supplies commands and the list of their allocations.
//! The driver builds a DMA buffer with a patch list. The kernel runs it, in parts if local memory
//! is too small for the whole.
//!
//! Order: 1. commands are copied out of the process's reach; 2. the driver translates and checks
//! them (DxgkDdiRender), and the kernel checks the list; 3. for each part, its allocations are
//! paged in and held, the part is queued on each context, and the allocations are released with a
//! mark of the queued work; 4. when VidSch submits a part, the driver patches its addresses
//! (DxgkDdiPatch) unless nothing has moved since the last patch, because its contents must not
//! change under an engine. Between two parts the memory manager's packets may run, and other
//! packets where the driver can preempt. The caller waits for memory, never for the GPU.

use super::dma_buffer::{DmaBuffer, QueuedPart};
use super::port::PacketContext;
use super::scheduler::Scheduling;
use crate::memory::{AllocationObject, Memory};
use crate::stats::Count;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::memory::PagingBuffer;
use tidegate_ddi::patch::{Render, RenderAllocation};
use tidegate_ddi::{Passive, VidSchCaps};
use tidegate_platform::Queued;
use tidegate_vidsch::patch_list::{self, BadList, Bindings, Part};
use tidegate_vidsch::{CommandKind, CommandRange};

/// DMA buffer bytes per command byte, to allow for what the driver adds: split points before and
/// after a command, one for each of its addresses.
const BUFFER_BYTES_PER_BYTE: usize = 5;

/// Why a DMA buffer was not queued as a whole.
pub(crate) enum RenderError {
    /// No part was queued.
    Refused(Status),
    /// Some of its parts were queued, and the one at `offset` could not be.
    Split { offset: u32, reason: String },
}

impl From<Status> for RenderError {
    fn from(status: Status) -> RenderError {
        RenderError::Refused(status)
    }
}

impl Scheduling {
    /// Queues commands on contexts of one device, one context per physical adapter (D3DKMTRender).
    pub(crate) fn render(
        &self,
        level: &Passive,
        contexts: &[Arc<dyn PacketContext>],
        commands: &[u8],
        listed: &[(Arc<AllocationObject>, bool)],
    ) -> Result<(), RenderError> {
        let Some(first) = contexts.first() else { return Err(Status::INVALID_PARAMETER.into()) };
        let (port, queued) = (&self.port, self.queued(first.os_handle()));
        // 1, 2.
        let buffer = Arc::new(self.translate(level, &**first, commands, listed)?);
        let fits = |needs: &BTreeSet<u32>| self.memory.can_hold(&buffer.objects(needs));
        let bytes = buffer.bytes.len() as u32;
        // spec: PRE-036
        let verifies = port.config.verify_split_buffers
            && !port.declared.caps.scheduling.contains(VidSchCaps::NO_DMA_PATCHING);
        // No part is queued yet, so a failure has no side effects.
        patch_list::check_parts(&buffer.list, bytes, verifies, fits).map_err(|bad| match bad {
            BadList::NoRoom(_) => Status::NO_MEMORY,
            _ => Status::INVALID_PARAMETER,
        })?;
        let (mut start, mut bound) = (0, Bindings::new());
        while start < bytes {
            // 3. Other references may have taken the memory since the check.
            let part = hold_next_part(level, &self.memory, &buffer, start, &bound);
            let part = part.map_err(|reason| RenderError::Split { offset: start, reason })?;
            port.stats.add(Count::split_parts, u64::from(start > 0));
            (start, bound) = (part.bytes.end, part.leaves.clone());
            self.queue_part(level, contexts, &buffer, part, queued);
        }
        Ok(())
    }

    fn translate(
        &self,
        level: &Passive,
        context: &dyn PacketContext,
        commands: &[u8],
        listed: &[(Arc<AllocationObject>, bool)],
    ) -> Result<DmaBuffer, Status> {
        let port = &self.port;
        let scratch = port.platform.bulk(commands.len() * BUFFER_BYTES_PER_BYTE);
        let dma_buffer = PagingBuffer::new(scratch.clone());
        let allocations: Vec<RenderAllocation> = listed
            .iter()
            .map(|(a, write)| RenderAllocation {
                gpu_va: a.gpu_va,
                bytes: a.bytes,
                write: *write,
                opened: a.opened(),
            })
            .collect();
        let private_data = RefCell::new(None);
        let args = Render {
            context: context.driver_handle(),
            commands,
            allocations: &allocations,
            dma_buffer: &dma_buffer,
            private_data: &private_data,
        };
        let list = port.driver(level).render(level, args)?;
        let used = dma_buffer.used();
        patch_list::check(
            &list,
            used,
            listed.len(),
            port.declared.caps.max_allocation_list_slot_id,
        )
        .map_err(|_| Status::INVALID_PARAMETER)?;
        let (at, bytes) = port.system_memory.bulk(used as usize);
        let mut whole = vec![0; used as usize];
        let copied = scratch.read(0, &mut whole).and_then(|()| bytes.write(0, &whole));
        let allocations = listed.iter().map(|(a, _)| a.clone()).collect();
        let private_data = private_data.take();
        let buffer = DmaBuffer { port: port.clone(), at, bytes, private_data, list, allocations };
        copied.map(|()| buffer).map_err(|_| Status::INVALID_PARAMETER)
    }

    // spec: PRE-037
    fn queue_part(
        &self,
        level: &Passive,
        contexts: &[Arc<dyn PacketContext>],
        buffer: &Arc<DmaBuffer>,
        part: Part,
        queued: Queued,
    ) {
        let Some(first) = contexts.first() else { return };
        let needs = buffer.objects(&part.needs);
        let bytes = part.bytes.end - part.bytes.start;
        let last = part.bytes.end == buffer.bytes.len() as u32;
        let part = Arc::new(QueuedPart::new(buffer, part));
        for context in contexts {
            let id = self.port.new_handle().0;
            context.keep_part(id, part.clone());
            let commands = CommandRange { gpu_va: id, bytes };
            let kind = CommandKind::Patched { last };
            self.submit_command(level, context.os_handle(), kind, commands, queued);
        }
        part.note_queued(self.memory.release_after_use(level, first.device_handle(), &needs));
    }
}

/// Returns the next part, with its allocations paged in and held.
fn hold_next_part(
    level: &Passive,
    memory: &Arc<Memory>,
    buffer: &DmaBuffer,
    start: u32,
    bound: &Bindings,
) -> Result<Part, String> {
    let bytes = buffer.bytes.len() as u32;
    let fits = |needs: &BTreeSet<u32>| memory.can_hold(&buffer.objects(needs));
    let part = patch_list::next_part(&buffer.list, bytes, start, bound, fits);
    let part = part.map_err(|bad| bad.to_string())?;
    let held = memory.page_in_and_hold(level, &buffer.objects(&part.needs));
    held.map(|()| part).map_err(|status| {
        format!("the allocations of a buffer part could not be paged in: {status}")
    })
}
