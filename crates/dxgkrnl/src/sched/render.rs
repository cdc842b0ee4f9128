//! Owns packets with physical addresses: a process gives commands and lists the allocations that
//! they may use, the driver makes a DMA buffer and a patch list of them, and the kernel runs it, in
//! parts where local memory is too small for all of it.
//!
//! The order that matters:
//! 1. commands are copied out of the process's reach; 2. the driver translates and checks them
//!    (DxgkDdiRender), and the kernel checks the list (`patch_list`);
//! 3. for each part: what it needs is paged in and held; the part is queued on each of the
//!    contexts, a packet like any other; what it held is let go, with a mark of what is queued now,
//!    so that nothing leaves before the packet is complete;
//! 4. when VidSch gives a part to an engine, the driver patches in where its allocations stand
//!    (DxgkDdiPatch), and is given the packet (DxgkDdiSubmitCommand). A part that linked adapters
//!    run as well, or that comes back from a preemption, is patched again only when something
//!    stands elsewhere by now: its contents do not change under an engine.
//!
//! Packets of other contexts and of the memory manager run between two parts as they do between two
//! packets; only those of the memory manager where the driver is not preemption aware (`vidsch`).
//! The caller waits for memory, and never for the GPU.

use super::patch_list::{self, BadList, Bindings, Part};
use super::{CommandKind, submit_command};
use crate::adapter::Adapter;
use crate::context::Context;
use crate::memory::{AllocationObject, UseMark};
use crate::recovery::device_loss;
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

/// How much larger than its commands a DMA buffer is made: for what a driver puts around each of
/// them.
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

/// Whether engines may still run a part.
enum Use {
    /// It is on its way into the queues.
    Queueing,
    /// Until this is over; `None` is over.
    Until(Option<Arc<UseMark>>),
}

/// A part of one, as it is queued.
pub(crate) struct QueuedPart {
    buffer: Arc<DmaBuffer>,
    part: Part,
    use_: Mutex<Use>,
    /// Where its allocations stood when it was patched last.
    patched: Mutex<Option<Vec<Option<PhysicalAddress>>>>,
}

impl QueuedPart {
    /// Whether no engine runs it any more, nor will.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&*self.use_.lock(), Use::Until(mark) if mark.as_ref().is_none_or(|mark| mark.is_over()))
    }

    fn places(&self) -> Vec<Option<PhysicalAddress>> {
        let all = self.buffer.allocations.iter().zip(0u32..);
        all.map(|(a, index)| self.part.needs.contains(&index).then(|| a.at())).collect()
    }
}

/// D3DKMTRender: commands for contexts of one device, one of them on each physical adapter that is
/// to run them.
pub(crate) fn render(
    contexts: &[Arc<Context>],
    commands: &[u8],
    listed: &[(Arc<AllocationObject>, bool)],
    queued_ns: u64,
) -> Result<(), Status> {
    let Some(first) = contexts.first() else { return Err(Status::INVALID_PARAMETER) };
    let adapter = &first.device.adapter;
    // 1, 2.
    let buffer = Arc::new(translate(first, commands, listed)?);
    let bytes = buffer.bytes.len() as u32;
    // spec: PRE-036
    let verifies = adapter.config.verify_split_buffers
        && !adapter.caps.scheduling.contains(VidSchCaps::NO_DMA_PATCHING);
    // Nothing of it has run: the call fails, and nothing else.
    patch_list::rehearse(&buffer.list, bytes, verifies, buffer.fits()).map_err(
        |bad| match bad {
            BadList::NoRoom(_) => Status::NO_MEMORY,
            _ => Status::INVALID_PARAMETER,
        },
    )?;
    let (mut start, mut bound) = (0, Bindings::new());
    while start < bytes {
        // 3.
        let part = match next_part(adapter, &buffer, (start, &bound)) {
            Ok(part) => part,
            // Others have taken references since, of so much that it does not fit any more.
            Err(what) => {
                device_loss::split_refused(adapter, first, start, what);
                return Err(Status::DEVICE_REMOVED);
            }
        };
        adapter.stats.add(Count::split_parts, u64::from(start > 0));
        (start, bound) = (part.bytes.end, part.leaves.clone());
        queue_part(contexts, &buffer, part, queued_ns)?;
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
    let held = adapter.memory.hold(adapter, &buffer.objects(&part.needs));
    held.map(|()| part)
        .map_err(|status| format!("what a part of a buffer needs could not be paged in: {status}"))
}

// spec: PRE-037
fn queue_part(
    contexts: &[Arc<Context>],
    buffer: &Arc<DmaBuffer>,
    part: Part,
    queued_ns: u64,
) -> Result<(), Status> {
    let Some(first) = contexts.first() else { return Ok(()) };
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
        submit_command(context, CommandKind::Patched { last }, (id, bytes), queued_ns)?;
    }
    let mark = adapter.memory.let_go_after(&first.device, &needs);
    *queued.use_.lock() = Use::Until(mark);
    Ok(())
}

/// Gives a part to the driver: its packet comes next on the engine.
pub(super) fn submit(
    adapter: &Arc<Adapter>,
    context: &Context,
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
            context: context.driver,
            dma_buffer: &buffer.bytes,
            start_offset: part.bytes.start,
            end_offset: part.bytes.end,
            locations: &buffer.list,
            allocations: &places,
        };
        adapter.driver().patch(&Passive::enter(), patch)?;
        *queued.patched.lock() = Some(places);
    }
    let (start_offset, end_offset) = (part.bytes.start, part.bytes.end);
    let packet =
        SubmitCommandPhysical { dma_buffer: buffer.at, start_offset, end_offset, ..packet };
    adapter.driver().submit_command(&tidegate_ddi::Dispatch::enter(), packet)
}
