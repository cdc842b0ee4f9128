//! Log of what a run handed to each queue, for messages: the line that submitted faulting work, the
//! signal that a waiter misses, the recorded items that a submission replays.
//!
//! Only the latest entries are kept. They include what faults or hangs, because a queue holds far
//! fewer submissions than the log.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::lists::RecordedList;
use tidegate_workload::model::{FenceId, Span};

/// Entries kept for one queue.
const KEPT: usize = 1 << 20;

/// One call on a queue.
#[derive(Debug)]
pub(crate) enum Entry {
    Submit {
        list: Arc<RecordedList>,
        /// Where the submission is written.
        span: Span,
        /// The first recorded item that it replays; its other work follows in order.
        first_item: Option<u32>,
        /// Which submission of the queue it is, from 1.
        number: u64,
    },
    Wait {
        fence: FenceId,
        value: u64,
        span: Span,
    },
    Signal {
        fence: FenceId,
        value: u64,
        span: Span,
    },
}

/// The calls on one queue, oldest first.
#[derive(Debug, Default)]
pub(crate) struct QueueLog {
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) submissions: u64,
    /// Submissions that a thread has begun to make.
    pub(crate) begun: u64,
    /// Which of them are to hang, from 1; those that were begun are gone.
    pub(crate) hangs: BTreeSet<u64>,
}

impl QueueLog {
    /// A queue whose submissions of these numbers are to hang.
    pub(crate) fn hanging_at(hangs: BTreeSet<u64>) -> QueueLog {
        QueueLog { hangs, ..QueueLog::default() }
    }

    /// A thread begins to make a submission. Returns whether it is to hang.
    pub(crate) fn begin_submission(&mut self) -> bool {
        self.begun += 1;
        self.hangs.remove(&self.begun)
    }

    pub(crate) fn submit(&mut self, list: &Arc<RecordedList>, span: Span, first_item: Option<u32>) {
        self.submissions += 1;
        let (list, number) = (Arc::clone(list), self.submissions);
        self.push(Entry::Submit { list, span, first_item, number });
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}
