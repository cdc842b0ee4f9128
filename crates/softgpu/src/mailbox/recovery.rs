//! Removes work from an engine: ring preemption, engine reset, and the progress query.
//!
//! A preemption is only recorded here. The engine answers it (`engine::preemption`), immediately if
//! none of the ring's work runs. A reset runs between two turns: a hung engine is not in a turn and
//! takes no queues.
//!
//! Order of a reset: 1. the turn ends, and none begins; 2. find the work that is cut off; 3. stop
//! the process's queue that it belongs to, or save a packet that is not the culprit; 4. empty the
//! ring;
//! 5. clear the hang, the request, and the reports of the ring's packets; 6. recall the engine.

use crate::cmp::{Cmp, Entry};
use crate::hardware::Hardware;
use crate::mmu::Mmu;
use crate::queue::Packet;
use crate::save_area::{self, SYSTEM_PROCESS};
use std::sync::Arc;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE, EngineAnswer};
use tidegate_gpu_abi::{AdminError, CONTROL_WRITE_WORD, QueueId};
use tidegate_platform::{MutexGuard, PhysicalAddress, Target};

/// Records a request. One that is not answered yet is replaced: its packets are complete, and the
/// kernel has withdrawn it.
#[doc(alias = "DxgkDdiPreemptCommand")]
pub(super) fn preempt_node(gpu: &Hardware, engine: u32, preemption_fence_id: u32) -> AdminAnswer {
    let (mut cmp, index) = gpu.awake_engine(engine)?;
    let ring = cmp.ring_of(index).ok_or(AdminError::NoSuchQueue)?;
    let control = cmp.queue(ring).map(|entry| entry.shape.control);
    let control = control.and_then(|at| gpu.bus.resolve(PhysicalAddress(at.0)));
    let Some(Target::Protocol(page, start)) = control else { return Err(AdminError::BadAddress) };
    let written = page.word((start / 8) as usize + CONTROL_WRITE_WORD).load();
    let node = &mut cmp.nodes[index];
    node.preemption = Some(preemption_fence_id);
    node.preempted_until = written;
    node.ring_requested = Some(gpu.platform.now());
    cmp.stats.nodes[index].preemptions_requested += 1;
    gpu.recall(cmp, engine);
    DONE
}

#[doc(alias = "DxgkDdiQueryEngineStatus")]
pub(super) fn query_engine(mut cmp: MutexGuard<'_, Cmp>, engine: u32) -> AdminAnswer {
    let node = &cmp.nodes[engine as usize];
    let (hung, current, progress) = (node.hung, node.current, node.progress);
    let queue = hung.or_else(|| current.filter(|q| cmp.queue(*q).is_some_and(|e| is_amid(e))));
    let command = queue.and_then(|queue| cmp.queue(queue)?.command_number()).unwrap_or(0);
    Ok(EngineAnswer { responsive: hung.is_none(), queue, progress, command }.encode())
}

/// Returns whether the queue is in the middle of a command buffer and ready.
fn is_amid(entry: &Entry) -> bool {
    !entry.suspended && !entry.faulted && entry.is_in_commands()
}

#[doc(alias = "DxgkDdiResetEngine")]
pub(super) fn reset_engine(
    gpu: &Hardware,
    mut cmp: MutexGuard<'_, Cmp>,
    engine: u32,
) -> AdminAnswer {
    let index = engine as usize;
    // 2.
    let ring = cmp.ring_of(index);
    let current = cmp.nodes[index].hung.or(cmp.nodes[index].current);
    let culprit = current.filter(|queue| cmp.queue(*queue).is_none_or(|e| is_amid(e)));
    // 3.
    let stopped = culprit.filter(|queue| Some(*queue) != ring);
    if let Some(queue) = stopped {
        cmp.withdraw(&gpu.armed, queue);
        if let Some(entry) = cmp.queue(queue) {
            (entry.faulted, entry.suspending) = (true, false);
        }
    }
    // 4.
    let aborted = ring.and_then(|ring| reset_ring(gpu, &mut cmp, ring, culprit == Some(ring)));
    // 5.
    let node = &mut cmp.nodes[index];
    (node.hung, node.current, node.preemption) = (None, None, None);
    (node.ring_requested, node.requested) = (None, None);
    // Reports of the packets that ended in the reset are void.
    gpu.line.preempted.forget(index);
    if let Some(ring) = ring {
        cmp.faults.forget(ring);
    }
    let completed = gpu.nodes[index].completed.load() as u32;
    let is_later = |id: &u32| id.wrapping_sub(completed).cast_signed() > 0;
    // The kernel counts a packet whose fault was reported as complete.
    let skipped = cmp.nodes[index].skipped.take().filter(is_later);
    let last = aborted.or(skipped).unwrap_or(completed);
    // 6.
    gpu.recall(cmp, engine);
    Ok((u64::from(last), stopped.map_or(0, |queue| u64::from(queue.0) + 1)))
}

/// Empties a node's ring. Returns the submission fence id of the packet that is lost, if any.
fn reset_ring(gpu: &Hardware, cmp: &mut Cmp, ring: QueueId, is_culprit: bool) -> Option<u32> {
    cmp.withdraw(&gpu.armed, ring);
    let (now, engine) = (gpu.platform.now(), cmp.queue(ring)?.shape.engine as usize);
    let system = cmp.space(SYSTEM_PROCESS, gpu.config.physical_gpu_of(engine));
    let entry = cmp.queue(ring)?;
    (entry.faulted, entry.suspended, entry.suspending, entry.kicked) = (false, false, false, false);
    let run = entry.run.as_mut()?;
    run.pause(now);
    let lost = match &run.packet {
        Some(Packet::Execute(work)) if is_culprit => work.submission_fence_id(),
        // A bystander's state is saved as in a preemption. One without a save area has not begun.
        Some(Packet::Execute(work)) if work.is_begun() => {
            let mut mmu = Mmu::new(Arc::clone(&gpu.bus), &gpu.config);
            let stored = save_area::store(&mut mmu, system, work, gpu.timeline_ns());
            work.submission_fence_id().filter(|_| stored.is_err())
        }
        _ => None,
    };
    run.empty_ring(&gpu.bus);
    entry.taken = run.state.taken;
    lost
}
