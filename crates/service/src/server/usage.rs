//! What each process holds, for a view from another thread. Counting is not a step of any protocol.

use super::ledger::Ledger;
use crate::rows::ProcessRow;
use crate::transport::Peer;
use tidegate_calls::snapshot::{NAME_BYTES, shortened};
use tidegate_platform::{Page as Words, Platform};

/// A process as its session shows it. The session alone stores.
pub(super) struct Usage {
    name: String,
    pub(super) adapter: u32,
    pub(super) process: Option<u32>,
    /// Calls, handles, bytes, queues.
    words: Words,
}

impl Usage {
    pub(super) fn new(
        platform: &Platform,
        adapter: u32,
        name: &str,
        process: Option<u32>,
    ) -> Usage {
        let name = shortened(name, NAME_BYTES);
        Usage { name, adapter, process, words: platform.page(4) }
    }

    /// Returns the name of the process.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns number and name of the process, if it is one of this adapter.
    pub(super) fn named(&self, adapter: u32) -> Option<(u32, String)> {
        let number = self.process.filter(|_| self.adapter == adapter)?;
        Some((number, self.name.clone()))
    }

    /// Counts an answered call, after which the process holds what `ledger` says.
    pub(super) fn answered(&self, ledger: &Ledger) {
        let (handles, bytes, queues) = ledger.held();
        let counts = [self.words.load(0) + 1, handles, bytes, queues];
        counts.into_iter().enumerate().for_each(|(word, count)| self.words.store(word, count));
    }

    /// Returns the row of a session.
    pub(super) fn row(&self, session: u64, peer: Peer, nt_handles: u64) -> ProcessRow {
        let Peer { pid, uid } = peer;
        let [calls, handles, memory_bytes, queues] = [0, 1, 2, 3].map(|word| self.words.load(word));
        ProcessRow {
            session,
            process: self.process,
            name: self.name.clone(),
            pid,
            uid,
            calls,
            handles,
            memory_bytes,
            queues,
            nt_handles,
        }
    }
}
