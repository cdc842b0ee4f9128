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

/// Engines that a cause is about, bit by bit.
pub(crate) struct EngineBits(Word);

impl EngineBits {
    /// Notes an engine; the cause is set after.
    pub(crate) fn note(&self, engine: usize) {
        self.0.fetch_or(1 << engine);
    }

    /// Takes the engines that were noted.
    pub(crate) fn take(&self) -> u64 {
        self.0.exchange(0)
    }
}

pub(crate) struct InterruptLine {
    cause: Word,
    raised: Word,
    /// Engines that wrote to a monitored fence.
    pub(crate) monitored: EngineBits,
    /// Engines that were idle for as long as the driver set.
    pub(crate) idle: EngineBits,
    /// Engines that answered a preemption.
    pub(crate) preempted: EngineBits,
    sink: Mutex<Option<Arc<dyn InterruptSink>>>,
}

impl InterruptLine {
    pub(crate) fn new(platform: &Platform) -> InterruptLine {
        let page = platform.page(16);
        InterruptLine {
            cause: page.word(0).named("the cause of the interrupt"),
            raised: page.word(8).named("the interrupt line"),
            monitored: EngineBits(page.word(1)),
            idle: EngineBits(page.word(2)),
            preempted: EngineBits(page.word(3)),
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
