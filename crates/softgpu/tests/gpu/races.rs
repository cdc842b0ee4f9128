//! Races between engines, and between an engine and the CPU, in every order that a machine with
//! store buffers allows.
//!
//! Each is explored to its end with the hardware as it is, and must then be found broken when the
//! hardware leaves out the barrier of a signal: an exploration that finds nothing proves something
//! only if it can find something.

use crate::packets::{Log, logged};
use tidegate_explorer::{Options, Prepared, Report, Scenario};
use tidegate_testbed::prelude::gpu::*;

/// An interrupt line that only rings: what it reports is not what these scenarios are about.
struct Bell(Event);

impl InterruptSink for Bell {
    fn raise(&self) {
        self.0.set(Step::ThreadWake);
    }

    fn turn_ended(&self) {}
}

/// A scenario prepares a machine and returns what the CPU does, given the bell. That says whether
/// everything happened that was to happen.
type Body = Box<dyn FnOnce(Event) -> bool + Send>;

/// Blocks until the bell rings; `false` when nothing can move any more.
fn rings(bell: &Event) -> bool {
    bell.wait() != WaitEnd::Stopped
}

/// A race of engines, with a planted fault or without.
struct Race<'a> {
    config: Config,
    fault: Option<PlantedFault>,
    body: &'a dyn Fn(&Arc<Machine>) -> Body,
}

impl Scenario for Race<'_> {
    fn name(&self) -> &str {
        "engines"
    }

    fn about(&self) -> &str {
        "engines against each other, or against the CPU"
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        self.fault.into_iter().for_each(|fault| platform.plant(fault));
        let machine = Machine::new(platform, self.config.clone());
        let body = (self.body)(&machine);
        let bell = platform.event(false);
        machine.gpu.connect_interrupt(Arc::new(Bell(bell.clone())));
        machine.gpu.start();
        let over = Arc::new(OnceLock::new());
        let ended = Arc::clone(&over);
        let main = move || _ = ended.set(body(bell));
        let check = move |end: &mut tidegate_explorer::Verdict<'_>| {
            end.eventually("everything happens", over.get() == Some(&true));
            drop(machine);
        };
        Prepared::new(main, check).may_block()
    }
}

/// Searches every order.
fn explore(
    config: Config,
    fault: Option<PlantedFault>,
    body: impl Fn(&Arc<Machine>) -> Body,
) -> Report {
    let race = Race { config, fault, body: &body };
    tidegate_explorer::explore(&race, &Options::default()).expect("a race is deterministic")
}

/// A machine of `nodes`, whose engines keep few translations: machines are made by the thousand.
fn hardware(nodes: &[(&str, EngineKind)]) -> Config {
    Config {
        nodes: nodes.iter().map(|(name, class)| NodeConfig::new(*name, *class)).collect(),
        kept_translations: 32,
        service_threads: nodes.len(),
        ..Config::default()
    }
}

/// One engine parks a queue on a fence while another signals it. Nothing interrupts: when nothing
/// can move any more the wait has left its ring, or the queue is lost.
fn wait_meets_signal(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let link = process.fence(0, u64::MAX);
    let (mut waiter, mut signaler) = (process.queue(0), process.queue(1));
    waiter.submit(&[link.wait(1)]);
    signaler.submit(&[link.signal(1)]);
    Box::new(move |bell| {
        assert!(!rings(&bell), "no signal of this scenario interrupts");
        waiter.control.word(CONTROL_READ_WORD).load() == 1
    })
}

/// The CPU arms MonitoredValue and looks again while an engine signals.
fn armed_wait_meets_signal(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let fence = process.fence(0, u64::MAX);
    let mut queue = process.queue(0);
    queue.submit(&[fence.signal(1)]);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        fence.monitored.store(0);
        machine.platform.fence();
        fence.current.load() >= 1 || rings(&bell)
    })
}

/// A queue whose first packet signals 1 and writes entry 0 of the log that is returned: its index
/// word and its entries.
fn logged_signal(machine: &Arc<Machine>) -> (Fence, Word, Bulk) {
    let process = machine.process();
    let fence = process.fence(0, u64::MAX);
    let mut queue = process.queue(0);
    let log = Log::set(machine, queue.id, LogType::Signals, 1, 0);
    queue.submit(&[logged(fence.signal(1), 0)]);
    (fence, log.header.word(LOG_INDEX_WORD), log.payload)
}

/// The CPU arms MonitoredValue and reads the log instead of the value, while an engine signals.
/// Either the engine sees the new MonitoredValue and interrupts, or its index word is visible.
fn armed_reader_meets_logged_signal(machine: &Arc<Machine>) -> Body {
    let (fence, index, _entries) = logged_signal(machine);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        fence.monitored.store(0);
        machine.platform.fence();
        index.load() != 0 || rings(&bell)
    })
}

/// The CPU reads index, entry and value, the last of the engine's stores first, while an engine
/// signals. What is seen of a later store must be there of the stores before it.
fn reader_meets_logged_signal(machine: &Arc<Machine>) -> Body {
    let (fence, index, entries) = logged_signal(machine);
    Box::new(move |_| {
        let index = index.load() != 0;
        let entry = entries.read_u64(0).expect("an entry") != 0;
        let value = fence.current.load() != 0;
        (entry || !index) && (value || !entry)
    })
}

fn shadowed_and_signaled(machine: &Arc<Machine>) -> Fence {
    let process = machine.process();
    let fence = process.fence(0, u64::MAX);
    assert_eq!(machine.keep_shadow(7, &process, &fence), Ok(true));
    process.queue(0).submit(&[fence.signal(1)]);
    fence
}

/// The CPU has a shadow of MonitoredValue changed, and only wants to hear of the signal, by its
/// value or by an interrupt.
fn shadow_meets_pending_store(machine: &Arc<Machine>) -> Body {
    let fence = shadowed_and_signaled(machine);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        machine.set_monitored(7, 0);
        fence.current.load() >= 1 || rings(&bell)
    })
}

/// The CPU has a shadow of MonitoredValue changed and looks again while an engine signals.
fn shadow_meets_signal(machine: &Arc<Machine>) -> Body {
    let fence = shadowed_and_signaled(machine);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        machine.set_monitored(7, 0);
        // A woken waiter looks again, and waits on while the value is not there.
        loop {
            if fence.current.load() >= 1 {
                return true;
            }
            if !rings(&bell) {
                return false;
            }
        }
    })
}

/// A doorbell is rung while its engine goes to sleep.
fn ring_meets_sleep(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let done = process.fence(0, 0);
    let mut queue = process.queue(0);
    queue.put(&done.signal(1));
    queue.publish();
    Box::new(move |bell| {
        queue.ring();
        rings(&bell)
    })
}

/// The CPU stores a value and notifies while an engine parks a queue on it.
fn notify_meets_wait(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let [link, done] = process.fences([u64::MAX, 0]);
    let mut queue = process.queue(0);
    queue.submit(&[link.wait(1), done.signal(1)]);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        link.current.store(1);
        let notify =
            AdminCommand::NotifyFence { address_space: process.id, current_value: link.current_va };
        machine.run_command(notify).expect("a fence");
        rings(&bell)
    })
}

/// A queue is suspended, rung and resumed while its engine may be anywhere.
fn resume_meets_ring(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let done = process.fence(0, 0);
    let mut queue = process.queue(0);
    queue.put(&done.signal(1));
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        machine.run_command(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
        queue.publish();
        queue.ring();
        machine.run_command(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        rings(&bell)
    })
}

/// A doorbell is taken away after it was rung, and not rung again.
fn disconnect_meets_ring(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let done = process.fence(0, 0);
    let mut queue = process.queue(0);
    queue.put(&done.signal(1));
    queue.publish();
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        queue.ring();
        machine.run_command(AdminCommand::DisconnectDoorbell { queue: queue.id }).expect("a queue");
        assert!(machine.gpu.doorbell_page(queue.id).is_none());
        rings(&bell)
    })
}

const ONE: &[(&str, EngineKind)] = &[("copy", EngineKind::Copy)];
const TWO: &[(&str, EngineKind)] = &[("compute", EngineKind::Compute), ("copy", EngineKind::Copy)];

fn exhaust(config: Config, body: impl Fn(&Arc<Machine>) -> Body) {
    let report = explore(config, None, body);
    assert!(report.exhausted && report.passed(), "{report:?}");
    println!("{} states", report.states);
}

fn find(config: Config, fault: PlantedFault, body: impl Fn(&Arc<Machine>) -> Body) {
    let report = explore(config, Some(fault), body);
    assert!(report.failure.is_some(), "{fault:?} was not found: {report:?}");
}

const NO_SIGNAL_BARRIER: PlantedFault = PlantedFault::NoSignalBarrier;

// spec: NF-005
#[test]
fn a_queue_that_parks_while_its_fence_is_signaled_is_never_lost() {
    exhaust(hardware(TWO), wait_meets_signal);
    find(hardware(TWO), NO_SIGNAL_BARRIER, wait_meets_signal);
}

// spec: NF-211, NF-213
#[test]
fn an_index_is_visible_when_its_signal_is_compared_with_monitored_value() {
    exhaust(hardware(ONE), armed_reader_meets_logged_signal);
    find(hardware(ONE), NO_SIGNAL_BARRIER, armed_reader_meets_logged_signal);
}

// spec: NF-196, NF-197, NF-211
#[test]
fn a_signal_stores_its_value_then_its_entry_then_the_index() {
    exhaust(hardware(ONE), reader_meets_logged_signal);
}

// spec: NF-054, NF-055
#[test]
fn a_cpu_waiter_that_arms_while_its_fence_is_signaled_is_never_lost() {
    exhaust(hardware(ONE), armed_wait_meets_signal);
    find(hardware(ONE), NO_SIGNAL_BARRIER, armed_wait_meets_signal);
}

/// Hardware that keeps shadows and posts its stores of fence values.
fn with_shadow() -> Config {
    Config { shadow_entries: 4, posted_fence_writes: true, ..hardware(ONE) }
}

// spec: NF-043, NF-044
#[test]
fn a_cpu_waiter_whose_shadow_changes_while_its_fence_is_signaled_is_never_lost() {
    exhaust(with_shadow(), shadow_meets_signal);
    find(with_shadow(), PlantedFault::NoShadowBarrier, shadow_meets_signal);
    find(with_shadow(), NO_SIGNAL_BARRIER, shadow_meets_signal);
}

/// Even with an engine that never waits for its own stores: the CMP's barrier makes visible what
/// was compared with the old shadow, so the CMP finds that value; a later one is compared with the
/// new shadow.
// spec: NF-047
#[test]
fn the_cmp_finds_what_was_compared_with_the_old_shadow_and_is_still_posted() {
    let report = explore(with_shadow(), Some(NO_SIGNAL_BARRIER), shadow_meets_pending_store);
    assert!(report.exhausted && report.passed(), "{report:?}");
}

// spec: UMS-004
#[test]
fn a_ring_is_never_lost_to_an_engine_that_goes_to_sleep() {
    exhaust(hardware(ONE), ring_meets_sleep);
}

// spec: NF-135
#[test]
fn a_value_from_the_cpu_is_never_lost_to_a_queue_that_parks() {
    exhaust(hardware(ONE), notify_meets_wait);
}

// spec: UMS-047
#[test]
fn a_ring_during_suspend_is_never_lost() {
    exhaust(hardware(ONE), resume_meets_ring);
}

// spec: UMS-009
#[test]
fn a_ring_before_a_disconnect_is_never_lost() {
    exhaust(hardware(ONE), disconnect_meets_ring);
}
