//! The interrupt line and its cause register.
//!
//! Order: the data of a cause (list entry, completed id, fault record) is stored before a locked
//! operation sets the cause. The line is raised if no cause was set before. Reading takes all
//! causes and lowers the line, so the next cause raises it again.
//!
//! The engines that wrote monitored fences, are idle, or were preempted are bitmaps, set before the
//! cause and taken by reading.
//!
//! Only engines raise causes, in their turns. No lock is held over the sink.

use std::sync::Arc;
use tidegate_gpu_abi::{Cause, InterruptSink};
use tidegate_platform::{Mutex, Platform, Word, current};

/// A bitmap of the engines that a cause refers to.
pub(crate) struct EngineBits(Word);

impl EngineBits {
    /// Adds an engine. The caller sets the cause afterwards.
    pub(crate) fn note(&self, engine: usize) {
        self.0.fetch_or(1 << engine);
    }

    /// Removes an engine.
    pub(crate) fn forget(&self, engine: usize) {
        self.0.fetch_and(!(1 << engine));
    }

    /// Takes the recorded engines.
    pub(crate) fn take(&self) -> u64 {
        self.0.exchange(0)
    }
}

pub(crate) struct InterruptLine {
    cause: Word,
    raised: Word,
    /// Engines that wrote to a monitored fence.
    pub(crate) monitored: EngineBits,
    /// Engines that were idle for the time that the driver set.
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

    /// Sets `cause`. Returns whether this raised the line.
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

    /// Reports that the raising engine's turn has ended.
    pub(crate) fn turn_ended(&self) {
        let sink = self.sink();
        current::assert_no_guards("the end of an interrupting turn");
        if let Some(sink) = sink {
            sink.turn_ended();
        }
    }

    /// Returns the number of times the line was raised.
    pub(crate) fn times_raised(&self) -> u64 {
        self.raised.load()
    }

    /// Takes the pending causes and lowers the line.
    pub(crate) fn take(&self) -> u64 {
        self.cause.exchange(0)
    }
}
