//! Log of the calls on each queue, for messages: the line that submitted faulting work, the missing
//! signal of a waiter, the recorded items that a submission replays.
//!
//! Only the latest entries are kept. They include work that faults or hangs, because a queue holds
//! far fewer submissions than the log.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::lists::RecordedList;
use tidegate_workload::model::{FenceId, Span};

/// Entries kept for one queue.
const KEPT: usize = 1 << 20;

/// A call on a queue.
#[derive(Debug)]
pub(crate) enum Entry {
    Submit {
        list: Arc<RecordedList>,
        /// Place of the submission in the file.
        span: Span,
        /// The first recorded item that it replays; the next ones follow in order.
        first_item: Option<u32>,
        /// Number of the submission of the queue, from 1.
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
    /// Numbers of the submissions that will hang, from 1, without those that were begun.
    pub(crate) hangs: BTreeSet<u64>,
}

impl QueueLog {
    /// Creates the log of a queue whose submissions of these numbers hang.
    pub(crate) fn hanging_at(hangs: BTreeSet<u64>) -> QueueLog {
        QueueLog { hangs, ..QueueLog::default() }
    }

    /// Begins a submission. Returns whether it hangs.
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
