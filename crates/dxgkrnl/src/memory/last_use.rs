//! Owns the answer to "is it still in use?": a mark stands for all that a device had queued at one
//! moment, and is over when all of it is complete.
//!
//! What a queue has queued: a packet context says by a software signal behind it; a hardware queue
//! by its progress fence, a user-mode one up to the value that its process says it queued last. A
//! process that says too much keeps its memory in use for as long as its queue lives, and one that
//! says too little faults.

use crate::adapter::Adapter;
use crate::device::Device;
use crate::fence::{EventSet, WaitOwner, Waiter, monitor};
use crate::scheduling::{Signal, SignalAction};
use std::sync::Arc;
use tidegate_platform::{Event, Mutex, Step, Word};

/// All that was queued at one moment.
pub(crate) struct UseMark {
    left: Word,
    /// Set when it is over.
    news: Event,
}

impl UseMark {
    pub(crate) fn is_over(&self) -> bool {
        self.left.load() == 0
    }
}

/// One queue's part in a mark: dropped when what it had queued is complete, or will never run.
pub(crate) struct InUse(Arc<UseMark>);

impl InUse {
    fn new(mark: &Arc<UseMark>) -> InUse {
        mark.left.fetch_add(1);
        InUse(mark.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.0.left.fetch_add(1u64.wrapping_neg()) == 1 {
            self.0.news.set(Step::ThreadWake);
        }
    }
}

impl SignalAction for InUse {
    fn carry_out(self: Box<Self>) {}
}

/// Waits on a progress fence on behalf of a mark. A fence that ends drops it.
struct AwaitProgress(Mutex<Option<InUse>>);

impl Waiter for AwaitProgress {
    fn wake(&self, _ticket: u64, _events: &mut EventSet) {
        let over = self.0.lock().take();
        drop(over);
    }
}

// spec: RES-006
/// Marks all that the device has queued by now; `None` when all of it is complete. `news` is set
/// when the mark is over.
pub(crate) fn mark(device: &Arc<Device>, news: &Event) -> Option<Arc<UseMark>> {
    let adapter = &device.adapter;
    let mark = Arc::new(UseMark { left: adapter.platform.page(1).word(0), news: news.clone() });
    // Held to the end, so that the mark is not over before every queue was asked.
    let whole = InUse::new(&mark);
    for queue in adapter.hw_queues_of(|q| q.device.os_handle == device.os_handle) {
        let queued = match queue.user_mode_submission {
            true => {
                let doorbells = adapter.doorbells_of_queue(queue.os_handle);
                doorbells.iter().map(|d| d.last_queued.load_once()).max().unwrap_or(0)
            }
            false => queue.announced(),
        };
        if queued > queue.progress.fence.value() {
            let wakee = Arc::new(AwaitProgress(
                adapter.platform.mutex("a last use", Some(InUse::new(&mark))),
            ));
            // Met by now: dropping it says so.
            let _ = monitor::wait(&queue.progress.fence, queued, wakee, 0, WaitOwner::Kernel);
        }
    }
    mark_packets(adapter, device, &mark);
    drop(whole);
    (!mark.is_over()).then_some(mark)
}

fn mark_packets(adapter: &Arc<Adapter>, device: &Arc<Device>, mark: &Arc<UseMark>) {
    for context in adapter.contexts_of(|c| c.device.os_handle == device.os_handle) {
        if adapter.sched.is_idle(context.os_handle) {
            continue;
        }
        let end_use = Signal::action(Box::new(InUse::new(mark)));
        adapter.sched.signal(&[context.scheduled()], end_use);
    }
}
