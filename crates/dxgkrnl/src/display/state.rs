//! The display of one adapter: what is queued, what is shown, and the waiters for a vertical sync.

use crate::fence::FenceTarget;
use crate::memory::Pinned;
use crate::object::Objects;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{DisplayStats, Surface};
use tidegate_ddi::{DisplayCaps, OsHandle};
use tidegate_platform::{CpuTime, Event, Mutex, Step};
use tidegate_trace::{LaneId, LaneKind, Record};
use tidegate_vidsch::{FlipQueue, LatchedFlip};

/// A flip, and the surface that it keeps in its place.
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
    /// When the first vertical sync was reported: refreshes are counted from it.
    first_vsync: Option<CpuTime>,
    /// The last one that was reported.
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
    /// `None` for an adapter that only renders.
    pub(crate) fn new(objects: &Arc<Objects>) -> Option<Arc<Display>> {
        let caps = objects.port.caps.display?;
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

    /// Gives up everything: the adapter stops.
    pub(crate) fn forget(&self) {
        let (flips, waiters) = {
            let mut state = self.state.lock();
            (state.flips.forget(), std::mem::take(&mut state.waiters))
        };
        drop(flips);
        waiters.iter().for_each(|event| event.set(Step::ThreadWake));
    }

    /// Whether something is on the screen, or about to be.
    pub(crate) fn is_on(&self) -> bool {
        self.state.lock().flips.is_on()
    }

    /// The last vertical sync at a time, counted from the first one that was reported, which is
    /// number 1.
    pub(super) fn refresh_at(&self, state: &State, at: CpuTime) -> u64 {
        let since = state.first_vsync.filter(|first| *first <= at);
        since.map_or(0, |first| at.since(first) / self.caps.refresh_period_ns + 1)
    }

    /// The vertical sync that is reported now. Reports come somewhat late, one later than the
    /// other, but by less than half a refresh.
    pub(super) fn refresh_reported(&self, state: &mut State, now: CpuTime) -> u64 {
        let period = self.caps.refresh_period_ns;
        let first = *state.first_vsync.get_or_insert(now);
        state.refresh = (now.since(first) + period / 2) / period + 1;
        state.refresh
    }

    /// What became of what was presented.
    pub(crate) fn stats(&self) -> DisplayStats {
        self.state.lock().stats
    }

    /// Counts a flip that was latched.
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
        // The first picture of a device had none before it.
        if latched.replaced.is_some() {
            stats.missed_vsyncs += refresh.saturating_sub(latched.due.max(first_chance));
        }
    }

    pub(super) fn record(&self, record: impl FnOnce(LaneId, u64) -> Record) {
        let port = &self.objects.port;
        let platform = &port.platform;
        if platform.tracing() {
            let new = || platform.lane(LaneKind::Display, &port.lane_group(), "display");
            platform.record(record(*self.lane.get_or_init(new), platform.stamp_ns()));
        }
    }
}
