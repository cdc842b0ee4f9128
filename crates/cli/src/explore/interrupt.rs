//! Ctrl-C and SIGTERM during an exploration: the searches end, and what has ended is written.
//!
//! Invariant: a search that was cut is in no result, unless it had found a failure.

use crate::BadInput;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::cell::Cell;
use std::sync::OnceLock;
use tidegate::Platform;
use tidegate::platform::Mutex;

/// Time between two polls of the signals by one search.
const POLL_EVERY_NS: u64 = 50_000_000;

/// Whether the exploration is to end.
pub(super) struct Interrupt {
    signals: Mutex<Signals>,
    arrived: OnceLock<()>,
}

impl Interrupt {
    /// Takes the signals over from their default, which ends the process.
    pub(super) fn new() -> Result<Interrupt, BadInput> {
        let signals = Signals::new([SIGINT, SIGTERM]).map_err(|e| BadInput(e.to_string()))?;
        let signals = Platform::host().mutex("signals", signals);
        Ok(Interrupt { signals, arrived: OnceLock::new() })
    }

    /// Whether a signal has arrived, as far as any search has seen.
    pub(super) fn arrived(&self) -> bool {
        self.arrived.get().is_some()
    }

    /// Polls the signals if the last poll, at `polled_ns`, is long ago; returns whether one has
    /// arrived.
    pub(super) fn poll(&self, polled_ns: &Cell<u64>, now_ns: u64) -> bool {
        if now_ns.saturating_sub(polled_ns.get()) >= POLL_EVERY_NS {
            polled_ns.set(now_ns);
            if self.signals.lock().pending().next().is_some() {
                let _ = self.arrived.set(());
            }
        }
        self.arrived()
    }
}
