//! Owns timeout detection and recovery: when a GPU counts as hung, and what is done about it.
//!
//! A recovery of an engine, in order: 1. it is noticed, by a request that nobody answered or by the
//! driver; 2. its report is made, while everything stands as it does; 3. configuration and window
//! say whether it may begin; 4. the engine is reset, for packets or for hardware queues; 5. whose
//! work was cut off is lost, and nobody else; 6. the engine goes on. When 4 fails the adapter is
//! reset instead.
//!
//! Rooms: `config` (the published values) · `window` (how many recoveries are too many; pure) ·
//! `hw_watch` (which engine of hardware queues hangs; pure) · `hw_engine` (looks at them, and
//! resets them) · `engine_reset` (packets) · `adapter_reset` · `gate` (who is inside the driver) ·
//! `report`.
//!
//! The supervisor, `suspend` and `interrupt` call in; `recovery`, `sched`, `suspend`, `memory` and
//! the driver are called. One recovery at a time: its lock is taken before every other but those of
//! whoever takes power.

mod adapter_reset;
mod engine_reset;
mod hw_engine;
mod hw_watch;
mod report;
mod window;

pub use report::{HeldBack, RecoveryOutcome, RecoveryReport, WorkAtReset};

pub(crate) use engine_reset::WATCH as PACKETS;
pub(crate) use hw_engine::WATCH as QUEUES;

use crate::adapter::Adapter;
use crate::config::{TdrConfig, TdrDebugMode, TdrLevel};
use crate::context::Context;
use crate::device::Device;
use crate::driver::OutstandingWork;
use crate::error::BugCheck;
use crate::recovery;
use crate::stats::Count;
use hw_watch::{Cadence, EngineWatch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use tidegate_calls::{DeviceState, Status, TdrTest};
use tidegate_ddi::{DebugReason, EngineId, HwContextLoss, OsHandle};
use tidegate_platform::{CpuTime, Mutex, Platform, Word};
use tidegate_trace::{Kind, LaneId};
use window::{RecoveryWindow, Verdict};

/// What a debugger is told before a recovery begins.
pub type RecoveryHook = Arc<dyn Fn(&RecoveryReport) + Send + Sync>;

/// Contexts that a driver named in a reset.
type Named = Vec<(Arc<Context>, HwContextLoss)>;

/// Timeout detection and recovery of one adapter.
pub(crate) struct Tdr {
    /// One recovery at a time; held over all of it.
    recovering: Mutex<()>,
    state: Mutex<State>,
    /// A look at the engines of hardware queues is due: nobody need ask for one.
    watched: Word,
    /// Counts the beginnings and ends of adapter resets: odd while one is under way.
    resets: Word,
    lane: OnceLock<LaneId>,
}

struct State {
    window: RecoveryWindow,
    cadence: Cadence,
    watches: BTreeMap<u32, EngineWatch>,
    /// Contexts that engines, by number, were asked to let go of, at the last look.
    asked: BTreeMap<u32, Arc<Context>>,
    /// Engines, by number, that hang as was found out where nobody could wait: what was noticed.
    hanging: BTreeMap<u32, String>,
    /// The adapter is to be reset, as was found out where nobody could wait: what was noticed.
    adapter_hangs: Option<String>,
    /// Unserved work at the time of its preemption request, by engine number.
    unserved: BTreeMap<u32, OutstandingWork>,
    /// Fences with satisfied waiters that are to be checked at this time: the interrupt may be
    /// under way.
    unreleased: Option<(CpuTime, Vec<OsHandle>)>,
    /// What the driver names in the reset that is under way.
    naming: Option<Named>,
    /// Address spaces of processes that are blocked.
    blocked: BTreeSet<u32>,
    breaks: bool,
    hook: Option<RecoveryHook>,
    reports: VecDeque<RecoveryReport>,
    count: u64,
}

/// Why an engine is to be recovered.
pub(crate) struct Noticed {
    /// In words.
    pub(crate) what: String,
    /// Whose work it is, as far as the kernel can tell; the driver knows better.
    pub(crate) suspects: Vec<Arc<Device>>,
    /// It is about packets, which may be complete by now: then nothing is reset, and nobody is to
    /// blame.
    pub(crate) packets: bool,
    /// The engine does not run the work: a reset would not reach it, and could only cut off the
    /// work of others.
    pub(crate) unserved: bool,
}

/// Whose work a reset cut off.
#[derive(Default)]
struct Blame {
    culprits: Vec<Arc<Device>>,
    bystanders: Vec<Arc<Device>>,
}

/// How a reset of an engine went.
enum Reset {
    /// It was not necessary any more.
    NothingLeft,
    Done(Blame),
}

/// Why an engine's reset was not enough.
enum Failure {
    /// Reset the adapter; why.
    Promoted(String),
    /// The driver broke the contract.
    Broken(BugCheck),
}

impl Noticed {
    fn new(what: String, suspects: Vec<Arc<Device>>) -> Noticed {
        Noticed { what, suspects, packets: false, unserved: false }
    }

    /// Whoever has work on the engine at this moment is suspected.
    fn of_all_on(adapter: &Arc<Adapter>, engine: EngineId, what: String) -> Noticed {
        let (suspects, packets) = recovery::busy_on(adapter, engine);
        Noticed { what, suspects, packets, unserved: false }
    }
}

impl Tdr {
    pub(crate) fn new(platform: &Platform, config: &TdrConfig) -> Tdr {
        let page = platform.page(16).named("the timeouts");
        Tdr {
            recovering: platform.mutex("recovery of an adapter", ()),
            state: platform.mutex(
                "timeouts",
                State {
                    window: RecoveryWindow::new(config),
                    cadence: Cadence::default(),
                    watches: BTreeMap::new(),
                    asked: BTreeMap::new(),
                    hanging: BTreeMap::new(),
                    adapter_hangs: None,
                    unserved: BTreeMap::new(),
                    unreleased: None,
                    naming: None,
                    blocked: BTreeSet::new(),
                    breaks: config.debug_mode == TdrDebugMode::Break,
                    hook: None,
                    reports: VecDeque::new(),
                    count: 0,
                },
            ),
            watched: page.word(0),
            resets: page.word(8),
            lane: OnceLock::new(),
        }
    }

    /// Changes with the beginning and with the end of each adapter reset; odd in between.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load()
    }

    /// Whether a process caused too many time-outs (0x142).
    pub(crate) fn is_blocked(&self, address_space: u32) -> bool {
        self.state.lock().blocked.contains(&address_space)
    }

    /// Makes `change` between recoveries: one that is under way is over before.
    pub(crate) fn wait_for_recovery(&self, change: impl FnOnce()) {
        let _between_recoveries = self.recovering.lock_device();
        change();
    }

    /// Forgets what it holds of processes: the adapter stops.
    pub(crate) fn forget(&self) {
        let asked = std::mem::take(&mut self.state.lock().asked);
        drop(asked);
    }
}

/// An engine hangs, as was found out where nobody may wait. The supervisor recovers it; without
/// one, the caller does.
pub(crate) fn engine_hangs(adapter: &Arc<Adapter>, engine: EngineId, what: String) {
    let Some(number) = adapter.caps.engine_number(engine) else { return };
    if !adapter.timer.is_on() {
        return engine_timed_out(adapter, engine, &Noticed::of_all_on(adapter, engine, what));
    }
    let first = adapter.tdr.state.lock().hanging.insert(number, what).is_none();
    if first {
        adapter.timer.arm(adapter.platform.now());
    }
}

/// The same of the adapter as a whole. Without recovery nothing is reset.
pub(crate) fn adapter_hangs(adapter: &Arc<Adapter>, what: String) {
    if !adapter.config.tdr.is_on() {
        return;
    }
    if !adapter.timer.is_on() {
        return adapter_timed_out(adapter, what);
    }
    let first = adapter.tdr.state.lock().adapter_hangs.replace(what).is_none();
    if first {
        adapter.timer.arm(adapter.platform.now());
    }
}

/// The driver acknowledged that a context is off the run list. If that was the probe of an engine,
/// the supervisor puts the context back at once.
pub(crate) fn suspended(adapter: &Adapter, context: &Context) {
    if !adapter.timer.is_on() {
        return;
    }
    let state = adapter.tdr.state.lock();
    let is_probed = state.asked.values().any(|asked| asked.os_handle == context.os_handle);
    drop(state);
    if is_probed {
        adapter.timer.arm(adapter.platform.now());
    }
}

/// The driver did not acknowledge in time that a context is off the run list, or refused to take it
/// off: the request that goes before a reset was made and not answered. Whoever asked has waited
/// long enough, so the reset is now.
pub(crate) fn not_suspended(adapter: &Arc<Adapter>, context: &Arc<Context>) {
    let what = format!("{} did not let go of a context that was suspended", context.engine);
    engine_timed_out(adapter, context.engine, &Noticed::new(what, vec![context.device.clone()]));
}

/// Recovers an engine.
pub(crate) fn engine_timed_out(adapter: &Arc<Adapter>, engine: EngineId, noticed: &Noticed) {
    // Without recovery whoever is suspected is lost, so that at least nobody waits for him.
    if !adapter.config.tdr.is_on() {
        let reason = || DeviceState::Hung(noticed.what.clone());
        return noticed
            .suspects
            .iter()
            .for_each(|d| _ = recovery::lose_device(adapter, d, reason()));
    }
    let tdr = &adapter.tdr;
    let _one_at_a_time = tdr.recovering.lock_device();
    if adapter.check().is_err() {
        return;
    }
    let start_ns = adapter.platform.stamp_ns();
    // 2.
    let suspected =
        |device: &Device| noticed.suspects.iter().any(|s| s.os_handle == device.os_handle);
    let reason = DebugReason::EngineTimeoutDetected;
    let mut report =
        report::collect(adapter, Some(engine), reason, noticed.what.clone(), suspected);
    // 3.
    let verdict = |state: &mut State, now| state.window.engine_timed_out(now);
    if !admit(adapter, &mut report, verdict) {
        return tdr.keep(report);
    }
    adapter.count(Count::engine_timeouts);
    adapter.record_recovery_step(&format!("detected: {}", noticed.what), start_ns);
    if noticed.unserved {
        let blame = Blame { culprits: noticed.suspects.clone(), bystanders: Vec::new() };
        lose(adapter, &mut report, &blame, engine);
        report.outcome = RecoveryOutcome::DeviceLost;
        adapter.record_recovery(&format!("recovery of {engine}"), start_ns, u64::from(report.code));
        return tdr.keep(report);
    }
    // 4.
    let reset_ns = adapter.platform.stamp_ns();
    let number = adapter.caps.engine_number(engine);
    let has_packets =
        noticed.packets || number.is_some_and(|number| adapter.sched.lock().has_packets(number));
    let reset = match has_packets {
        true => engine_reset::reset(adapter, engine),
        false => hw_engine::reset(adapter, engine),
    };
    adapter.record_recovery_step("engine suspended and reset", reset_ns);
    // 5.
    let lost_ns = adapter.platform.stamp_ns();
    match reset {
        Ok(Reset::NothingLeft) => report.outcome = RecoveryOutcome::NothingLeft,
        Ok(Reset::Done(mut blame)) => {
            if blame.culprits.is_empty() && !has_packets {
                blame.culprits.clone_from(&noticed.suspects);
            }
            lose(adapter, &mut report, &blame, engine);
            report.outcome = RecoveryOutcome::EngineReset;
            adapter.record_recovery_step("work that was cut off is lost", lost_ns);
            // 6.
            let resumed_ns = adapter.platform.stamp_ns();
            match has_packets {
                true => engine_reset::resume(adapter, engine),
                false => {
                    if let Err(failure) = hw_engine::resume(adapter, engine) {
                        promote(adapter, &mut report, failure, &noticed.suspects);
                    }
                }
            }
            adapter.record_recovery_step("engine resumed", resumed_ns);
        }
        Err(failure) => promote(adapter, &mut report, failure, &noticed.suspects),
    }
    adapter.record_recovery(&format!("recovery of {engine}"), start_ns, u64::from(report.code));
    tdr.keep(report);
}

/// Recovers the adapter, for no engine in particular.
pub(crate) fn adapter_timed_out(adapter: &Arc<Adapter>, what: String) {
    let tdr = &adapter.tdr;
    let _one_at_a_time = tdr.recovering.lock_device();
    if adapter.check().is_err() {
        return;
    }
    let reason = DebugReason::TimeoutDetected;
    let mut report = report::collect(adapter, None, reason, what, |_| false);
    promote(adapter, &mut report, Failure::Promoted(String::new()), &[]);
    tdr.keep(report);
}

/// An engine's reset was not enough, or there is no engine to reset: the adapter is.
// spec: PRE-051
fn promote(
    adapter: &Arc<Adapter>,
    report: &mut RecoveryReport,
    failure: Failure,
    guilty: &[Arc<Device>],
) {
    let why = match failure {
        Failure::Promoted(why) => why,
        Failure::Broken(bug) => {
            report.outcome = RecoveryOutcome::Fatal(bug.to_string());
            return adapter.bug_check(bug);
        }
    };
    report.code = DebugReason::TimeoutDetected as u32;
    if !why.is_empty() {
        report.noticed = format!("{}; {why}", report.noticed);
    }
    if !admit(adapter, report, |state, now| state.window.adapter_timed_out(now)) {
        return;
    }
    adapter.count(Count::adapter_resets);
    let start_ns = adapter.platform.stamp_ns();
    match adapter_reset::reset(adapter, guilty, &report.noticed) {
        Ok(lost) => {
            report.lost.extend(lost);
            report.outcome = RecoveryOutcome::AdapterReset;
        }
        Err(bug) => {
            report.code = DebugReason::TimeoutFailure as u32;
            report.outcome = RecoveryOutcome::Fatal(bug.to_string());
            adapter.bug_check(bug);
        }
    }
    adapter.record_recovery("adapter reset", start_ns, u64::from(report.code));
}

/// Whether a recovery may begin, as it is configured and as often as there were others. The report
/// says why not.
fn admit(
    adapter: &Arc<Adapter>,
    report: &mut RecoveryReport,
    count: impl FnOnce(&mut State, tidegate_platform::CpuTime) -> Verdict,
) -> bool {
    let config = &adapter.config.tdr;
    if config.debug_mode == TdrDebugMode::Ignore {
        report.outcome = RecoveryOutcome::Ignored;
        return false;
    }
    let fatal = match config.level {
        TdrLevel::BugCheck => Some(BugCheck::Timeout(report.noticed.clone())),
        _ => match count(&mut adapter.tdr.state.lock(), adapter.platform.now()) {
            Verdict::Fatal => Some(BugCheck::TooManyTimeouts(report.noticed.clone())),
            Verdict::Recover => None,
        },
    };
    let hook = {
        let state = adapter.tdr.state.lock();
        state.hook.clone().filter(|_| state.breaks)
    };
    if let Some(hook) = hook {
        hook(report);
    }
    if let Some(bug) = fatal {
        report.code = DebugReason::TimeoutFailure as u32;
        report.outcome = RecoveryOutcome::Fatal(bug.to_string());
        adapter.bug_check(bug);
        return false;
    }
    true
}

/// Whose work was cut off is lost.
// spec: PRE-053
fn lose(adapter: &Arc<Adapter>, report: &mut RecoveryReport, blame: &Blame, engine: EngineId) {
    let now = adapter.platform.now();
    for device in &blame.culprits {
        let tags = tags_of(adapter, device);
        report.work.iter_mut().filter(|w| tags.contains(&w.tag)).for_each(|w| w.guilty = true);
        if recovery::lose_device(adapter, device, DeviceState::Hung(report.noticed.clone())) {
            report.lost.extend(tags.first().map(|tag| (*tag, true)));
        }
        let blocked = {
            let mut state = adapter.tdr.state.lock();
            let blocked = state.window.caused_by(device.space.number, now);
            blocked && state.blocked.insert(device.space.number)
        };
        report.blocked |= blocked;
    }
    for device in &blame.bystanders {
        let what =
            format!("{engine} was reset for somebody else's work, and what stood there was lost");
        let tags = tags_of(adapter, device);
        if recovery::lose_device(adapter, device, DeviceState::Reset(what)) {
            report.lost.extend(tags.first().map(|tag| (*tag, false)));
        }
    }
}

/// The tags of a device's queues.
fn tags_of(adapter: &Arc<Adapter>, device: &Device) -> Vec<u32> {
    let queues = adapter.hw_queues_of(|q| q.device.os_handle == device.os_handle);
    let contexts = adapter.contexts_of(|c| c.device.os_handle == device.os_handle);
    queues.iter().map(|q| q.tag).chain(contexts.iter().map(|c| c.tag)).collect()
}

/// Has `reset` made, and collects what the driver names in it.
fn naming<R>(adapter: &Adapter, reset: impl FnOnce() -> R) -> (R, Blame) {
    adapter.tdr.state.lock().naming = Some(Vec::new());
    let outcome = reset();
    let named = adapter.tdr.state.lock().naming.take().unwrap_or_default();
    let of = |loss| {
        let devices = named.iter().filter(move |(_, l)| *l == loss).map(|(c, _)| c.device.clone());
        devices.collect::<Vec<_>>()
    };
    (
        outcome,
        Blame { culprits: of(HwContextLoss::Culprit), bystanders: of(HwContextLoss::Bystander) },
    )
}

/// DxgkCbInvalidateHwContext: what a reset did to a hardware context. INVALID_PARAMETER for one
/// that is not there, and outside of a reset.
pub(crate) fn invalidated(
    adapter: &Adapter,
    context: OsHandle,
    loss: HwContextLoss,
) -> Result<(), Status> {
    let found = adapter.hw_contexts.lock().get(context);
    let found = found.ok_or(Status::INVALID_PARAMETER)?;
    let mut state = adapter.tdr.state.lock();
    let refused = match &mut state.naming {
        Some(named) => {
            named.push((found, loss));
            None
        }
        None => Some(found),
    };
    drop(state);
    if refused.is_some() { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
}

impl Tdr {
    fn keep(&self, mut report: RecoveryReport) {
        let mut state = self.state.lock();
        state.count += 1;
        report.number = state.count;
        if state.reports.len() == report::KEPT {
            state.reports.pop_front();
        }
        state.reports.push_back(report);
    }
}

impl Adapter {
    /// The reports of the last 16 recoveries, the oldest first.
    pub fn recoveries(&self) -> Vec<RecoveryReport> {
        self.tdr.state.lock().reports.iter().cloned().collect()
    }

    /// Whom to tell before a recovery begins, where TdrDebugMode, or [`TdrTest::EnableBreak`], asks
    /// for that: the recovery goes on when the hook returns.
    pub fn before_recovery(&self, hook: RecoveryHook) {
        self.tdr.state.lock().hook = Some(hook);
    }

    /// D3DKMT_TDRDBGCTRLTYPE: has the adapter behave as if it had timed out, or changes how
    /// timeouts are treated. A forced recovery is over when this returns.
    ///
    /// # Errors
    /// NOT_SUPPORTED for tests of displays; INVALID_PARAMETER for an engine that is not there;
    /// DEVICE_REMOVED when a driver contract was broken.
    pub fn debug_timeouts(self: &Arc<Adapter>, test: TdrTest) -> Result<(), Status> {
        self.check()?;
        match test {
            TdrTest::ForceTdr | TdrTest::GpuTdr => {
                adapter_timed_out(self, "a timeout was forced".to_owned())
            }
            TdrTest::EngineTdr { node_ordinal, engine_ordinal } => {
                let engine = EngineId { node_ordinal, engine_ordinal };
                self.check_engine(engine).map_err(|_| Status::INVALID_PARAMETER)?;
                let what = format!("a timeout of {engine} was forced");
                engine_timed_out(self, engine, &Noticed::of_all_on(self, engine, what));
            }
            TdrTest::DisableBreak => self.tdr.state.lock().breaks = false,
            TdrTest::EnableBreak => self.tdr.state.lock().breaks = true,
            TdrTest::Unconditional => self.tdr.state.lock().window.never_fatal(),
            TdrTest::VSyncTdr | TdrTest::ForceDodTdr | TdrTest::ForceDodVSyncTdr => {
                return Err(Status::NOT_SUPPORTED);
            }
        }
        self.check()
    }

    /// Records a recovery that ends now.
    fn record_recovery(&self, what: &str, start_ns: u64, code: u64) {
        self.record_on((&self.tdr.lane, "recovery"), (Kind::Recovery, what), start_ns, code);
    }

    /// Records a step of a recovery; the step ends now.
    fn record_recovery_step(&self, what: &str, start_ns: u64) {
        self.record_on((&self.tdr.lane, "recovery"), (Kind::Mark, what), start_ns, 0);
    }

    /// Somebody may have announced work to a hardware queue: its engine is looked at when the delay
    /// is over.
    pub(crate) fn stir_watch(&self) {
        let tdr = &self.tdr;
        if !self.timer.is_on() || !self.config.tdr.is_on() || tdr.watched.load() != 0 {
            return;
        }
        if self.hw_queues.lock().len() == 0 {
            return;
        }
        tdr.watched.store(1);
        let due = tdr.state.lock().cadence.stir(self.platform.now(), self.config.tdr.delay_ns);
        if let Some(due) = due {
            self.timer.arm(due);
        }
    }
}
