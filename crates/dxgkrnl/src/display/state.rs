//! The display of one adapter: queued flips, the picture shown, and vertical sync waiters.

use crate::fence::FenceTarget;
use crate::memory::Pinned;
use crate::object::Objects;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{DisplayStats, Surface};
use tidegate_ddi::{DisplayCaps, OsHandle};
use tidegate_platform::{CpuTime, Event, Mutex, Step, once};
use tidegate_trace::{LaneId, LaneKind, Record};
use tidegate_vidsch::{FlipQueue, LatchedFlip};

/// A flip and its pinned surface.
pub(super) struct Flip {
    pub(super) device: OsHandle,
    pub(super) allocation: Pinned,
    pub(super) surface: Surface,
    pub(super) sync_interval: u32,
    pub(super) shown: Option<FenceTarget>,
    pub(super) queued: CpuTime,
    pub(super) queued_ns: u64,
}

impl Flip {
    pub(super) fn address(&self) -> u64 {
        self.allocation.at().0
    }
}

pub(super) struct State {
    pub(super) flips: FlipQueue<Arc<Flip>>,
    /// The waiters for the next vertical sync.
    pub(super) waiters: Vec<Event>,
    /// Time of the first reported vertical sync, from which refreshes are counted.
    first_vsync: Option<CpuTime>,
    /// Number of the last reported refresh.
    pub(super) refresh: u64,
    pub(super) stats: DisplayStats,
}

/// The display of an adapter.
pub(crate) struct Display {
    pub(super) objects: Arc<Objects>,
    caps: DisplayCaps,
    pub(super) state: Mutex<State>,
    lane: OnceLock<LaneId>,
}

impl Display {
    /// Creates the display; `None` for a render-only adapter.
    pub(crate) fn new(objects: &Arc<Objects>) -> Option<Arc<Display>> {
        let caps = objects.port.declared.caps.display?;
        let state = State {
            flips: FlipQueue::default(),
            waiters: Vec::new(),
            first_vsync: None,
            refresh: 0,
            stats: DisplayStats::default(),
        };
        Some(Arc::new(Display {
            caps,
            state: objects.port.platform.mutex("display of an adapter", state),
            lane: OnceLock::new(),
            objects: objects.clone(),
        }))
    }

    /// Drops all flips and waiters, because the adapter stops.
    pub(crate) fn forget(&self) {
        let (flips, waiters) = {
            let mut state = self.state.lock();
            (state.flips.forget(), std::mem::take(&mut state.waiters))
        };
        drop(flips);
        waiters.iter().for_each(|event| event.set(Step::ThreadWake));
    }

    /// Returns whether a picture is shown or about to be.
    pub(crate) fn is_on(&self) -> bool {
        self.state.lock().flips.is_on()
    }

    /// Returns the number of the last vertical sync before a time. The first reported one is
    /// number 1.
    pub(super) fn refresh_at(&self, state: &State, at: CpuTime) -> u64 {
        let since = state.first_vsync.filter(|first| *first <= at);
        since.map_or(0, |first| at.since(first) / self.caps.refresh_period_ns + 1)
    }

    /// Returns the number of the vertical sync reported now. Report latency varies, but stays below
    /// half a refresh.
    pub(super) fn refresh_reported(&self, state: &mut State, now: CpuTime) -> u64 {
        let period = self.caps.refresh_period_ns;
        let first = *state.first_vsync.get_or_insert(now);
        state.refresh = (now.since(first) + period / 2) / period + 1;
        state.refresh
    }

    /// Returns the presentation statistics.
    pub(crate) fn stats(&self) -> DisplayStats {
        self.state.lock().stats
    }

    /// Counts a latched flip.
    pub(super) fn count(
        &self,
        state: &mut State,
        latched: &LatchedFlip<Arc<Flip>>,
        refresh: u64,
        now: CpuTime,
    ) {
        let latency_ns = now.since(latched.flip.queued);
        let first_chance = self.refresh_at(state, latched.flip.queued) + 1;
        let stats = &mut state.stats;
        stats.shown += 1;
        stats.latency_ns += latency_ns;
        stats.latency_max_ns = stats.latency_max_ns.max(latency_ns);
        // A device's first picture replaces none.
        if latched.replaced.is_some() {
            stats.missed_vsyncs += refresh.saturating_sub(latched.due.max(first_chance));
        }
    }

    pub(super) fn record(&self, record: impl FnOnce(LaneId, u64) -> Record) {
        let port = &self.objects.port;
        let platform = &port.platform;
        if platform.tracing() {
            let new = || port.lanes.lane(LaneKind::Display, "display");
            platform.record(record(*once::make_alone(&self.lane, new), platform.stamp_ns()));
        }
    }
}
