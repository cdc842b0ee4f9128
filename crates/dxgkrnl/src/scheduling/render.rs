//! Packets with physical addresses: a process gives commands and lists the allocations that they may
//! use, the driver makes a DMA buffer with a patch list, and the kernel runs it, in parts where local
//! memory is too small for all of it.
//!
//! Order: 1. commands are copied out of the process's reach; 2. the driver translates and checks
//! them (DxgkDdiRender), and the kernel checks the list; 3. for each part: its allocations are paged
//! in and held, it is queued on each context, and its allocations are released with a mark of what
//! is queued now; 4. when VidSch submits a part, the driver patches its addresses (DxgkDdiPatch)
//! unless nothing has moved since the last patch, because its contents must not change under an
//! engine. Between two parts the memory manager's packets may run, and other packets where the
//! driver can preempt. The caller waits for memory, never for the GPU.

use super::patch_list::{self, BadList, Bindings, Part};
use super::{CommandKind, PacketContext};
use crate::adapter::Adapter;
use crate::context::Context;
use crate::driver::DriverPort;
use crate::memory::{AllocationObject, UseMark};
use crate::stats::Count;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::memory::PagingBuffer;
use tidegate_ddi::patch::{Patch, PatchLocation, Render, RenderAllocation, SubmitCommandPhysical};
use tidegate_ddi::{Passive, VidSchCaps};
use tidegate_platform::{Bulk, Mutex, PhysicalAddress};

/// Most bytes of commands in one call.
pub(crate) const MAX_COMMAND_BYTES: usize = 1 << 20;

/// How much larger than its commands a DMA buffer is made, for what a driver adds to each command.
const BUFFER_BYTES_PER_BYTE: usize = 3;

/// A DMA buffer, on the bus.
struct DmaBuffer {
    adapter: Arc<Adapter>,
    at: PhysicalAddress,
    bytes: Bulk,
    list: Vec<PatchLocation>,
    allocations: Vec<Arc<AllocationObject>>,
}

impl DmaBuffer {
    fn objects(&self, needs: &BTreeSet<u32>) -> Vec<Arc<AllocationObject>> {
        needs.iter().map(|index| self.allocations[*index as usize].clone()).collect()
    }

    /// Whether allocations can be paged in together.
    fn fits(&self) -> impl Fn(&BTreeSet<u32>) -> bool {
        |needs| self.adapter.memory.can_hold(&self.objects(needs))
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        self.adapter.system_memory.remove(self.at);
    }
}

/// Whether engines may run a part.
enum Use {
    /// It is being queued.
    Queueing,
    /// Until this mark is over; `None`: it is over.
    Until(Option<UseMark>),
}

/// A part of a DMA buffer in a queue.
pub(crate) struct QueuedPart {
    buffer: Arc<DmaBuffer>,
    part: Part,
    use_: Mutex<Use>,
    /// Where its allocations were when it was patched last.
    patched: Mutex<Option<Vec<Option<PhysicalAddress>>>>,
}

impl QueuedPart {
    /// Whether no engine runs it, now or later.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&*self.use_.lock(), Use::Until(mark) if mark.as_ref().is_none_or(|mark| mark.is_over()))
    }

    fn places(&self) -> Vec<Option<PhysicalAddress>> {
        let all = self.buffer.allocations.iter().zip(0u32..);
        all.map(|(a, index)| self.part.needs.contains(&index).then(|| a.at())).collect()
    }
}

/// Why a DMA buffer was not queued as a whole.
pub(crate) enum RenderError {
    /// Nothing of it was queued.
    Refused(Status),
    /// Some of its parts were queued, and the one at `offset` could not be.
    Split { offset: u32, reason: String },
}

impl From<Status> for RenderError {
    fn from(status: Status) -> RenderError {
        RenderError::Refused(status)
    }
}

/// D3DKMTRender: commands for contexts of one device, one on each physical adapter that runs them.
pub(crate) fn render(
    contexts: &[Arc<Context>],
    commands: &[u8],
    listed: &[(Arc<AllocationObject>, bool)],
    queued_ns: u64,
) -> Result<(), RenderError> {
    let Some(first) = contexts.first() else { return Err(Status::INVALID_PARAMETER.into()) };
    let adapter = &first.device.adapter;
    // 1, 2.
    let buffer = Arc::new(translate(first, commands, listed)?);
    let bytes = buffer.bytes.len() as u32;
    // spec: PRE-036
    let verifies = adapter.config.verify_split_buffers
        && !adapter.caps.scheduling.contains(VidSchCaps::NO_DMA_PATCHING);
    // Nothing was queued yet, so a refusal has no other consequence.
    patch_list::rehearse(&buffer.list, bytes, verifies, buffer.fits()).map_err(
        |bad| match bad {
            BadList::NoRoom(_) => Status::NO_MEMORY,
            _ => Status::INVALID_PARAMETER,
        },
    )?;
    let (mut start, mut bound) = (0, Bindings::new());
    while start < bytes {
        // 3.
        // Since the rehearsal other references may have been taken on too much memory.
        let part = next_part(adapter, &buffer, (start, &bound));
        let part = part.map_err(|reason| RenderError::Split { offset: start, reason })?;
        adapter.stats.add(Count::split_parts, u64::from(start > 0));
        (start, bound) = (part.bytes.end, part.leaves.clone());
        queue_part(contexts, &buffer, part, queued_ns);
    }
    Ok(())
}

fn translate(
    context: &Arc<Context>,
    commands: &[u8],
    listed: &[(Arc<AllocationObject>, bool)],
) -> Result<DmaBuffer, Status> {
    let adapter = &context.device.adapter;
    let scratch = adapter.platform.bulk(commands.len() * BUFFER_BYTES_PER_BYTE);
    let dma_buffer = PagingBuffer::new(scratch.clone());
    let allocations: Vec<RenderAllocation> = listed
        .iter()
        .map(|(a, write)| RenderAllocation { gpu_va: a.gpu_va, bytes: a.bytes, write: *write })
        .collect();
    let args = Render {
        context: context.driver,
        commands,
        allocations: &allocations,
        dma_buffer: &dma_buffer,
    };
    let list = adapter.driver().render(&Passive::enter(), args)?;
    let used = dma_buffer.used();
    patch_list::check(&list, used, listed.len(), adapter.caps.max_allocation_list_slot_id)
        .map_err(|_| Status::INVALID_PARAMETER)?;
    let (at, bytes) = adapter.system_memory.bulk(used as usize);
    let mut whole = vec![0; used as usize];
    let copied = scratch.read(0, &mut whole).and_then(|()| bytes.write(0, &whole));
    let allocations = listed.iter().map(|(a, _)| a.clone()).collect();
    let buffer = DmaBuffer { adapter: adapter.clone(), at, bytes, list, allocations };
    copied.map(|()| buffer).map_err(|_| Status::INVALID_PARAMETER)
}

/// The next part, with what it needs paged in and held.
fn next_part(
    adapter: &Arc<Adapter>,
    buffer: &DmaBuffer,
    (start, bound): (u32, &Bindings),
) -> Result<Part, String> {
    let bytes = buffer.bytes.len() as u32;
    let part = patch_list::next_part(&buffer.list, bytes, (start, bound), buffer.fits());
    let part = part.map_err(|bad| bad.to_string())?;
    let held = adapter.memory.page_in_and_hold(&buffer.objects(&part.needs));
    held.map(|()| part)
        .map_err(|status| format!("what a part of a buffer needs could not be paged in: {status}"))
}

// spec: PRE-037
fn queue_part(contexts: &[Arc<Context>], buffer: &Arc<DmaBuffer>, part: Part, queued_ns: u64) {
    let Some(first) = contexts.first() else { return };
    let adapter = &first.device.adapter;
    let needs = buffer.objects(&part.needs);
    let bytes = part.bytes.end - part.bytes.start;
    let last = part.bytes.end == buffer.bytes.len() as u32;
    let queued = Arc::new(QueuedPart {
        buffer: buffer.clone(),
        part,
        use_: adapter.platform.mutex("a part in use", Use::Queueing),
        patched: adapter.platform.mutex("a patched part", None),
    });
    for context in contexts {
        let id = adapter.new_handle().0;
        context.keep_part(id, queued.clone());
        let kind = CommandKind::Patched { last };
        adapter.sched.submit_command(context.os_handle, kind, (id, bytes), queued_ns);
    }
    let mark = adapter.memory.release_after_use(first.device.os_handle, &needs);
    *queued.use_.lock() = Use::Until(mark);
}

/// Submits a part, patched for where its allocations are now.
pub(super) fn submit(
    port: &DriverPort,
    context: &dyn PacketContext,
    part: u64,
    packet: SubmitCommandPhysical,
) -> Result<(), Status> {
    // 4.
    let queued = context.part(part).ok_or(Status::INVALID_PARAMETER)?;
    let QueuedPart { buffer, part, .. } = &*queued;
    let places = queued.places();
    let is_new = *queued.patched.lock() != Some(places.clone());
    if is_new {
        let patch = Patch {
            context: context.driver_handle(),
            dma_buffer: &buffer.bytes,
            start_offset: part.bytes.start,
            end_offset: part.bytes.end,
            locations: &buffer.list,
            allocations: &places,
        };
        port.driver().patch(&Passive::enter(), patch)?;
        *queued.patched.lock() = Some(places);
    }
    let (start_offset, end_offset) = (part.bytes.start, part.bytes.end);
    let packet =
        SubmitCommandPhysical { dma_buffer: buffer.at, start_offset, end_offset, ..packet };
    port.driver().submit_command(&tidegate_ddi::Dispatch::enter(), packet)
}
