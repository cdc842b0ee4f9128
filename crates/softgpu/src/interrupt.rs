//! The interrupt line and its cause register.
//!
//! The order that matters: what a cause reports (list entry, completed id, fault record) is stored
//! first, then the cause is set by a locked operation, then the line goes up if no cause stood
//! before. Reading takes all causes and the line falls, so the next cause raises it again:
//! no cause is left behind.
//!
//! Engines that wrote monitored fences, that are idle, and that were preempted are words of bits:
//! set before the cause, taken by reading.
//!
//! Only engines raise, in their turns; no lock is held over the sink.

use std::sync::Arc;
use tidegate_gpu_abi::{Cause, InterruptSink};
use tidegate_platform::{Mutex, Platform, Word, current};

pub(crate) struct InterruptLine {
    cause: Word,
    raised: Word,
    monitored_nodes: Word,
    idle_nodes: Word,
    preempted_nodes: Word,
    sink: Mutex<Option<Arc<dyn InterruptSink>>>,
}

impl InterruptLine {
    pub(crate) fn new(platform: &Platform) -> InterruptLine {
        let page = platform.page(16);
        InterruptLine {
            cause: page.word(0).named("the cause of the interrupt"),
            raised: page.word(8).named("the interrupt line"),
            monitored_nodes: page.word(1),
            idle_nodes: page.word(2),
            preempted_nodes: page.word(3),
            sink: platform.mutex("interrupt sink", None),
        }
    }

    pub(crate) fn connect(&self, sink: Arc<dyn InterruptSink>) {
        *self.sink.lock() = Some(sink);
    }

    fn sink(&self) -> Option<Arc<dyn InterruptSink>> {
        self.sink.lock().clone()
    }

    /// Sets `cause`; returns whether the line went up for it.
    pub(crate) fn set(&self, cause: Cause) -> bool {
        if self.cause.fetch_or(cause.0) != 0 {
            return false;
        }
        self.raised.fetch_add(1);
        let sink = self.sink();
        current::assert_no_guards("an interrupt");
        if let Some(sink) = sink {
            sink.raise();
        }
        true
    }

    /// Notes that engine `node` wrote to a monitored fence; the cause is set after.
    pub(crate) fn note_monitored(&self, node: usize) {
        self.monitored_nodes.fetch_or(1 << node);
    }

    /// Takes the engines that were noted.
    pub(crate) fn take_monitored(&self) -> u64 {
        self.monitored_nodes.exchange(0)
    }

    /// Notes that engine `node` is idle; the cause is set after.
    pub(crate) fn note_idle(&self, node: usize) {
        self.idle_nodes.fetch_or(1 << node);
    }

    /// Takes the idle engines that were noted.
    pub(crate) fn take_idle(&self) -> u64 {
        self.idle_nodes.exchange(0)
    }

    /// Notes that engine `node` has answered a preemption; the cause is set after.
    pub(crate) fn note_preempted(&self, node: usize) {
        self.preempted_nodes.fetch_or(1 << node);
    }

    /// Takes the engines that were noted.
    pub(crate) fn take_preempted(&self) -> u64 {
        self.preempted_nodes.exchange(0)
    }

    /// The raising engine's turn is over.
    pub(crate) fn turn_ended(&self) {
        let sink = self.sink();
        current::assert_no_guards("the end of an interrupting turn");
        if let Some(sink) = sink {
            sink.turn_ended();
        }
    }

    /// How often the line went up.
    pub(crate) fn times_raised(&self) -> u64 {
        self.raised.load()
    }

    /// Takes the pending causes; the line falls.
    pub(crate) fn take(&self) -> u64 {
        self.cause.exchange(0)
    }
}
