//! Owns what is on the screen: flips from the call that queues them to the vertical sync that
//! latches them.
//!
//! A present, in order:
//! 1. the call pins the surface and queues the flip behind what its queue holds, as a software
//!    command;
//! 2. when everything before it is complete the flip is ready (`rendered`);
//! 3. when no other flip is under way and its interval is over, the driver is told (`run`): a
//!    memory-mapped flip;
//! 4. a vertical sync reports that it was latched (`vsync`): what was shown before is free, and the
//!    flip's fence says so.
//!
//! Preemption takes packets away from engines and touches neither a flip that waits behind them,
//! which is no packet, nor one that the display was told of, which is in its registers. So flips
//! are not lost, not overtaken, and not shown half.
//!
//! A surface keeps its place from 1 on: it is pinned, and held with its process's address space,
//! until another one is latched or the screen is dark. A device that is lost leaves its last
//! picture; one that ends leaves the dark.
//!
//! Decisions are `flips`' (pure). One agent at a time carries them out, with no lock held; others
//! leave their news and go, as with VidSch. `process`, `sched`, `hwqueue`, `interrupt`, `recovery`,
//! `teardown` and `power` call in; the driver is called.

use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::fence::{FenceTarget, signal};
use crate::memory::Pinned;
use crate::object::FlipDesc;
use crate::object::device::Device;
use crate::scheduling::SignalAction;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{SignalFlags, Status, Surface};
use tidegate_ddi::InterruptType;
use tidegate_ddi::display::{VID_PN_SOURCE, VID_PN_TARGET};
use tidegate_ddi::{
    Dirql, DisplayCaps, OsHandle, Passive, SetVidPnSourceAddress, SetVidPnSourceAddressFlags,
};
use tidegate_platform::{CpuTime, Event, Mutex, PhysicalAddress, Platform, Step, WaitEnd};
use tidegate_trace::{Kind, LaneId, LaneKind, NameId, Record};
use tidegate_vidsch::{FlipQueue, FlipStep, LatchedFlip, PoweredDisplay};

/// Most flips of a display that are queued and not shown yet.
const MAX_QUEUED_FLIPS: usize = 16;
/// Longest sync interval (D3DDDI_FLIPINTERVAL_FOUR).
const MAX_SYNC_INTERVAL: u32 = 4;

/// A flip, and the surface that it keeps in its place.
struct Flip {
    device: OsHandle,
    allocation: Pinned,
    surface: Surface,
    sync_interval: u32,
    shown: Option<FenceTarget>,
    queued: CpuTime,
    queued_ns: u64,
}

impl Flip {
    fn address(&self) -> u64 {
        self.allocation.at().0
    }
}

/// A flip in a queue. Dropping it before it was rendered gives it up.
pub(crate) struct QueuedFlip {
    adapter: Arc<Adapter>,
    device: OsHandle,
    flip: Mutex<Option<Arc<Flip>>>,
}

impl SignalAction for QueuedFlip {
    fn carry_out(self: Box<Self>) {
        rendered(&self);
    }
}

impl Drop for QueuedFlip {
    fn drop(&mut self) {
        let left = self.flip.lock().take();
        if left.is_some()
            && let Some(display) = &self.adapter.display
        {
            display.state.lock().flips.given_up(self.device);
        }
        drop(left);
    }
}

/// What became of the presents of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisplayStats {
    /// Flips that were queued.
    pub presents: u64,
    /// Those that a vertical sync has latched.
    pub shown: u64,
    /// Those that gave way to a newer one, or that went with their queue or device.
    pub discarded: u64,
    /// Vertical syncs that were reported.
    pub vsyncs: u64,
    /// Vertical syncs that showed an older picture, although a newer one was queued and its
    /// interval over.
    pub missed_vsyncs: u64,
    /// From the call to the vertical sync that latched the flip, of all that were shown, in
    /// nanoseconds.
    pub latency_ns: u64,
    /// The longest of these times.
    pub latency_max_ns: u64,
}

struct State {
    flips: FlipQueue<Arc<Flip>>,
    /// The waiters for the next vertical sync.
    waiters: Vec<Event>,
    /// When the first vertical sync was reported: refreshes are counted from it.
    first_vsync: Option<CpuTime>,
    /// The last one that was reported.
    refresh: u64,
    stats: DisplayStats,
}

/// The display of an adapter.
pub(crate) struct Display {
    caps: DisplayCaps,
    state: Mutex<State>,
    lane: OnceLock<LaneId>,
}

impl Display {
    pub(crate) fn new(platform: &Platform, caps: DisplayCaps) -> Display {
        let state = State {
            flips: FlipQueue::default(),
            waiters: Vec::new(),
            first_vsync: None,
            refresh: 0,
            stats: DisplayStats::default(),
        };
        Display {
            caps,
            state: platform.mutex("display of an adapter", state),
            lane: OnceLock::new(),
        }
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
    fn refresh_at(&self, state: &State, at: CpuTime) -> u64 {
        let since = state.first_vsync.filter(|first| *first <= at);
        since.map_or(0, |first| at.since(first) / self.caps.refresh_period_ns + 1)
    }

    /// The vertical sync that is reported now. Reports come somewhat late, one later than the
    /// other, but by less than half a refresh.
    fn refresh_reported(&self, state: &mut State, now: CpuTime) -> u64 {
        let period = self.caps.refresh_period_ns;
        let first = *state.first_vsync.get_or_insert(now);
        state.refresh = (now.since(first) + period / 2) / period + 1;
        state.refresh
    }
}

/// Queues a flip: what the caller puts into a queue, behind what is to be shown.
///
/// # Errors
/// NOT_SUPPORTED without a display; INVALID_PARAMETER for a source that is not there, an interval
/// above 4, a surface that makes no sense or does not fit its allocation, or an allocation that is
/// not resident or that a paging operation will move; GRAPHICS_VIDPN_SOURCE_IN_USE;
/// GRAPHICS_TRY_AGAIN_LATER when too many flips are queued.
pub(crate) fn begin(
    adapter: &Arc<Adapter>,
    device: &Arc<Device>,
    desc: FlipDesc,
) -> Result<Box<QueuedFlip>, Status> {
    let display = adapter.display.as_ref().ok_or(Status::NOT_SUPPORTED)?;
    let fits = desc.surface.bytes().is_some_and(|bytes| bytes <= desc.allocation.bytes);
    let of_device = desc.allocation.device.os_handle() == device.os_handle;
    if desc.vid_pn_source_id != VID_PN_SOURCE
        || desc.sync_interval > MAX_SYNC_INTERVAL
        || !fits
        || !of_device
        || desc.allocation.bulk().is_none()
    {
        return Err(Status::INVALID_PARAMETER);
    }
    // spec: PRE-082
    let allocation = adapter.memory.pin(&desc.allocation)?;
    let flip = Arc::new(Flip {
        device: device.os_handle,
        allocation,
        surface: desc.surface,
        sync_interval: desc.sync_interval,
        shown: desc.shown,
        queued: adapter.platform.now(),
        queued_ns: adapter.platform.stamp_ns(),
    });
    {
        let mut state = display.state.lock();
        if state.flips.queued() >= MAX_QUEUED_FLIPS {
            return Err(Status::GRAPHICS_TRY_AGAIN_LATER);
        }
        if !state.flips.begin(device.os_handle) {
            return Err(Status::GRAPHICS_VIDPN_SOURCE_IN_USE);
        }
        state.stats.presents += 1;
    }
    let flip = adapter.platform.mutex("a queued flip", Some(flip));
    Ok(Box::new(QueuedFlip { adapter: adapter.clone(), device: device.os_handle, flip }))
}

/// What was queued before a flip is complete.
// spec: PRE-081
fn rendered(queued: &QueuedFlip) {
    let adapter = &queued.adapter;
    let (flip, Some(display)) = (queued.flip.lock().take(), &adapter.display) else { return };
    let Some(flip) = flip else { return };
    let (device, interval) = (flip.device, flip.sync_interval);
    let gone = {
        let mut state = display.state.lock();
        let gone = state.flips.rendered(device, flip, interval);
        state.stats.discarded += gone.len() as u64;
        gone
    };
    drop(gone);
    run(adapter, display, None);
}

/// DXGK_INTERRUPT_CRTC_VSYNC: a vertical sync has latched the surface at `address`.
pub(crate) fn vsync(adapter: &Arc<Adapter>, target: u32, address: PhysicalAddress) {
    let Some(display) = adapter.display.as_ref().filter(|_| target == VID_PN_TARGET) else {
        return adapter.bug_check(BugCheck::UnknownVidPnTarget(target));
    };
    let now = adapter.platform.now();
    let (latched, waiters) = {
        let mut state = display.state.lock();
        let refresh = display.refresh_reported(&mut state, now);
        state.stats.vsyncs += 1;
        let latched = state.flips.latched(address.0, refresh, |flip| flip.sync_interval);
        if let Some(latched) = &latched {
            display.count(&mut state, latched, refresh, now);
        }
        state.flips.watch(false);
        (latched, std::mem::take(&mut state.waiters))
    };
    display
        .record(adapter, |lane, now_ns| Record::instant(lane, Kind::VSync, NameId::NONE, now_ns));
    if let Some(LatchedFlip { flip, replaced, .. }) = latched {
        let of =
            |lane, now_ns| Record::span(lane, Kind::Flip, NameId::NONE, flip.queued_ns, now_ns);
        display.record(adapter, of);
        // Free before it is said so.
        drop(replaced);
        if let Some(shown) = flip.shown.clone() {
            signal::signal(&[shown], SignalFlags::empty());
        }
    }
    waiters.iter().for_each(|event| event.set(Step::ThreadWake));
    run(adapter, display, None);
}

impl Display {
    fn count(
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

    fn record(&self, adapter: &Adapter, record: impl FnOnce(LaneId, u64) -> Record) {
        let platform = &adapter.platform;
        if platform.tracing() {
            let new = || platform.lane(LaneKind::Display, &adapter.lane_group(), "display");
            platform.record(record(*self.lane.get_or_init(new), platform.stamp_ns()));
        }
    }
}

/// Blocks until the next vertical sync.
///
/// # Errors
/// NOT_SUPPORTED without a display; CANCELLED when the machine stopped.
pub(crate) fn wait_for_vertical_blank(adapter: &Arc<Adapter>) -> Result<(), Status> {
    let display = adapter.display.as_ref().ok_or(Status::NOT_SUPPORTED)?;
    let event = adapter.platform.event(true);
    {
        let mut state = display.state.lock();
        state.waiters.push(event.clone());
        state.flips.watch(true);
    }
    // A removal releases the waiters that were there when it began.
    adapter.check()?;
    run(adapter, display, Some(&Passive::enter()));
    match event.wait_for(None, "a vertical sync") {
        WaitEnd::Stopped => Err(Status::CANCELLED),
        _ => adapter.check(),
    }
}

/// A device is lost: what it has queued is not shown, and its last picture stays.
pub(crate) fn lost(adapter: &Arc<Adapter>, level: &Passive, device: OsHandle) {
    take_back(adapter, level, |flips| flips.lose(device));
}

/// A device ends: the screen goes dark if it shows its pictures.
pub(crate) fn leave(adapter: &Arc<Adapter>, level: &Passive, device: OsHandle) {
    take_back(adapter, level, |flips| flips.leave(device));
}

/// The adapter was reset: its screen was turned off before, and what stood in its memory is lost.
/// The picture of a device that goes on is shown again; that of another is not there any more.
pub(crate) fn after_reset(adapter: &Arc<Adapter>, level: &Passive) {
    let Some(display) = &adapter.display else { return };
    let owner = display.state.lock().flips.owner();
    let device = owner.and_then(|owner| adapter.objects.devices.lock().get(owner));
    match device {
        Some(device) if device.check().is_err() => leave(adapter, level, device.os_handle),
        _ => adapter.screen_on(),
    }
}

fn take_back(
    adapter: &Arc<Adapter>,
    level: &Passive,
    what: impl FnOnce(&mut FlipQueue<Arc<Flip>>) -> Vec<Arc<Flip>>,
) {
    let Some(display) = &adapter.display else { return };
    let gone = {
        let mut state = display.state.lock();
        let gone = what(&mut state.flips);
        state.stats.discarded += gone.len() as u64;
        gone
    };
    drop(gone);
    run(adapter, display, Some(level));
}

/// Carries out steps until there are none, unless another agent does. Without a level that may
/// block, a work item takes over at the first step that needs one.
fn run(adapter: &Arc<Adapter>, display: &Display, level: Option<&Passive>) {
    if !display.state.lock().flips.begin_run() {
        return;
    }
    loop {
        let step = {
            let mut state = display.state.lock();
            let refresh = display.refresh_at(&state, adapter.platform.now()).max(state.refresh);
            if level.is_none() && state.flips.needs_blocking_step(refresh) {
                break;
            }
            state.flips.next_step(refresh, |flip| flip.address())
        };
        let (ddi, done) = match (step, level) {
            (Some(step), Some(level)) => carry_out(adapter, level, step),
            (Some(FlipStep::Flip { flip, .. }), None) => show(adapter, &flip),
            (Some(_), None) | (None, _) => return,
        };
        if let Err(status) = done {
            adapter.bug_check(BugCheck::DdiFailed { ddi, status });
        }
    }
    let (port, adapter) = (adapter.port.clone(), adapter.clone());
    port.timer.queue_work(Box::new(move |level| {
        if let Some(display) = &adapter.display {
            run(&adapter, display, Some(level));
        }
    }));
}

/// What a DDI call of a step returned.
type Done = (&'static str, Result<(), Status>);

fn carry_out(adapter: &Adapter, level: &Passive, step: FlipStep<Arc<Flip>>) -> Done {
    let driver = || adapter.driver();
    match step {
        FlipStep::Vsync(on) => (
            "DxgkDdiControlInterrupt",
            driver().control_interrupt(level, InterruptType::CrtcVsync, on),
        ),
        FlipStep::Flip { flip, first } => match first.then(|| set_visible(adapter, level, true)) {
            Some((ddi, Err(status))) => (ddi, Err(status)),
            _ => show(adapter, &flip),
        },
        FlipStep::Dark(leaving) => {
            let done = set_visible(adapter, level, false);
            drop(leaving);
            done
        }
    }
}

fn set_visible(adapter: &Adapter, level: &Passive, visible: bool) -> Done {
    let done = adapter.driver().set_vid_pn_source_visibility(level, VID_PN_SOURCE, visible);
    ("DxgkDdiSetVidPnSourceVisibility", done)
}

fn show(adapter: &Adapter, flip: &Flip) -> Done {
    // Before the interrupt lock: an agent that gives a device its power must be able to interrupt.
    let _awake = adapter.awake();
    let held = adapter.interrupt_lock.lock_device();
    let done = adapter.driver().set_vid_pn_source_address(&Dirql::enter(&held), address_of(flip));
    ("DxgkDdiSetVidPnSourceAddress", done)
}

fn address_of(flip: &Flip) -> SetVidPnSourceAddress {
    SetVidPnSourceAddress {
        vid_pn_source_id: VID_PN_SOURCE,
        primary_address: flip.allocation.at(),
        surface: flip.surface,
        // spec: PRE-018
        flags: SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
    }
}

impl Adapter {
    /// What became of what was presented; nothing without a display.
    pub fn display_stats(&self) -> DisplayStats {
        self.display
            .as_ref()
            .map_or_else(DisplayStats::default, |display| display.state.lock().stats)
    }

    /// The power goes away, and the screen with it. The caller keeps other threads from calling the driver.
    pub(crate) fn screen_off(&self) {
        let Some(display) = self.display.as_ref().filter(|display| display.is_on()) else { return };
        display.state.lock().flips.unpowered(|flip| flip.sync_interval);
        let (driver, level) = (self.driver_as_it_is(), Passive::enter());
        // What fails here fails in a device that loses its power.
        let _ = driver.control_interrupt(&level, InterruptType::CrtcVsync, false);
        let _ = driver.set_vid_pn_source_visibility(&level, VID_PN_SOURCE, false);
    }

    /// The power is there again, and memory in its place: so is the last picture. As for
    /// [`Adapter::screen_off`].
    pub(crate) fn screen_on(&self) {
        let Some(display) = &self.display else { return };
        let PoweredDisplay { shown, next, vsync } =
            display.state.lock().flips.powered(|flip| flip.address());
        let (driver, level) = (self.driver_as_it_is(), Passive::enter());
        let mut done = Ok(());
        if vsync {
            done = done.and(driver.control_interrupt(&level, InterruptType::CrtcVsync, true));
        }
        if shown.is_some() || next.is_some() {
            done = done.and(driver.set_vid_pn_source_visibility(&level, VID_PN_SOURCE, true));
        }
        let held = self.interrupt_lock.lock_device();
        for flip in shown.iter().chain(&next) {
            done =
                done.and(driver.set_vid_pn_source_address(&Dirql::enter(&held), address_of(flip)));
        }
        debug_assert_eq!(done, Ok(()), "the driver did all of it before");
    }
}
