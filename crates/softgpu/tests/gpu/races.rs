//! Races between engines, and between an engine and the CPU, in every order that a machine with
//! store buffers allows.
//!
//! Each is explored to its end with the hardware as it is, and must then be found broken when the
//! hardware leaves out the barrier of a signal: an exploration that finds nothing proves something
//! only if it can find something.

use crate::machine::{Fence, Machine};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_explorer::{Searched, Strategy, search};
use tidegate_gpu_abi::log::{LOG_ENTRY_BYTES, LOG_HEADER_WORDS, LOG_INDEX_WORD, LogType};
use tidegate_gpu_abi::{AdminCommand, CONTROL_READ_WORD, Device, InterruptSink, RingPacket};
use tidegate_platform::{
    AgentIx, Bulk, Event, MemoryModel, Object, OpKind, Point, Step, WaitEnd, Word,
};
use tidegate_softgpu::{Barriers, Config, EngineClass, NodeConfig};

/// An exhaustive search in which reads of bytes are no choices.
///
/// In most scenarios no agent reads bytes that another one writes: page tables, rings and commands
/// are there before the run, and the mailbox is one agent's. A read of bytes then commutes with
/// every step of the other agents.
#[derive(Default)]
struct UnsharedBytes(Exhaustive);

impl Strategy for UnsharedBytes {
    fn begin(&mut self) -> bool {
        self.0.begin()
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        let reads_bytes = |agent: AgentIx| {
            matches!(point.pending[agent.0 as usize], (OpKind::Load, Object::Bulk(_)))
        };
        if point.current.is_some_and(reads_bytes) { 0 } else { self.0.choose(point) }
    }

    fn states(&self) -> u64 {
        self.0.states()
    }

    fn parted_at(&self) -> Option<u64> {
        self.0.parted_at()
    }
}

/// The result of an exploration.
#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
struct Explored {
    searched: Searched,
    /// Schedules in which an agent or a queue was left waiting for ever.
    stuck: u64,
}

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

/// More schedules than a scenario here needs. They take about 10 s of one core.
const MOST_SCHEDULES: u64 = 250_000;

/// Runs `scenario` in every order or, if `until_stuck`, until the first that stands still.
fn explore(
    config: &Config,
    until_stuck: bool,
    scenario: impl Fn(&Arc<Machine>) -> Body,
) -> Explored {
    explore_by(UnsharedBytes::default(), config, until_stuck, scenario)
}

fn explore_by(
    strategy: impl Strategy + 'static,
    config: &Config,
    until_stuck: bool,
    scenario: impl Fn(&Arc<Machine>) -> Body,
) -> Explored {
    let (mut runs, mut stuck) = (0, 0);
    let searched = search(strategy, MemoryModel::TotalStoreOrder, |platform| {
        let machine = Machine::new(platform, config.clone());
        let body = scenario(&machine);
        let gpu = Arc::clone(&machine.gpu);
        let bell = platform.event(false);
        gpu.connect_interrupt(Arc::new(Bell(bell.clone())));
        gpu.start();
        let over = Arc::new(OnceLock::new());
        let result = Arc::clone(&over);
        let report = platform.run(move || _ = result.set(body(bell)));
        assert!(report.panics.is_empty(), "{:?}", report.panics);
        stuck += u64::from(over.get() != Some(&true));
        runs += 1;
        assert!(runs < MOST_SCHEDULES, "too many schedules to explore");
        if until_stuck && stuck > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    Explored { searched, stuck }
}

fn hardware(nodes: &[(&str, EngineClass)], signal_barrier: bool) -> Config {
    Config {
        nodes: nodes.iter().map(|(name, class)| NodeConfig::new(*name, *class)).collect(),
        barriers: Barriers { signal_barrier, ..Barriers::default() },
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
    let (header_at, header) = machine.system.protocol(LOG_HEADER_WORDS);
    let (payload_at, entries) = machine.system.bulk(LOG_ENTRY_BYTES);
    let set = AdminCommand::SetLogBuffer {
        queue: queue.id,
        kind: LogType::Signals,
        header: header_at,
        payload: payload_at,
        entries: 1,
        notify_every: 0,
    };
    machine.admin(set).expect("a log");
    let RingPacket::Signal { current_value, monitored_value, value, fence_handle, trace, .. } =
        fence.signal(1)
    else {
        panic!("a signal is a signal packet")
    };
    let log_entry = 0;
    queue.submit(&[RingPacket::Signal {
        current_value,
        monitored_value,
        value,
        fence_handle,
        log_entry,
        trace,
    }]);
    (fence, header.word(LOG_INDEX_WORD), entries)
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
        machine.tell_monitored(7, 0);
        fence.current.load() >= 1 || rings(&bell)
    })
}

/// The CPU has a shadow of MonitoredValue changed and looks again while an engine signals.
fn shadow_meets_signal(machine: &Arc<Machine>) -> Body {
    let fence = shadowed_and_signaled(machine);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        machine.tell_monitored(7, 0);
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
    let (link, done) = (process.fence(0, u64::MAX), process.fence(0, 0));
    let mut queue = process.queue(0);
    queue.submit(&[link.wait(1), done.signal(1)]);
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        link.current.store(1);
        let notify =
            AdminCommand::NotifyFence { address_space: process.id, current_value: link.current_va };
        machine.tell(notify).expect("a fence");
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
        machine.tell(AdminCommand::SuspendQueue { queue: queue.id }).expect("a queue");
        queue.publish();
        queue.ring();
        machine.tell(AdminCommand::ResumeQueue { queue: queue.id }).expect("a queue");
        rings(&bell)
    })
}

/// A doorbell is taken away after it was rung, and nobody rings again.
fn disconnect_meets_ring(machine: &Arc<Machine>) -> Body {
    let process = machine.process();
    let done = process.fence(0, 0);
    let mut queue = process.queue(0);
    queue.put(&done.signal(1));
    queue.publish();
    let machine = Arc::clone(machine);
    Box::new(move |bell| {
        queue.ring();
        machine.tell(AdminCommand::DisconnectDoorbell { queue: queue.id }).expect("a queue");
        assert!(machine.gpu.doorbell_page(queue.id).is_none());
        rings(&bell)
    })
}

const ONE: &[(&str, EngineClass)] = &[("copy", EngineClass::Copy)];
const TWO: &[(&str, EngineClass)] =
    &[("compute", EngineClass::Compute), ("copy", EngineClass::Copy)];

fn exhaust(name: &str, nodes: &[(&str, EngineClass)], scenario: impl Fn(&Arc<Machine>) -> Body) {
    let right = explore(&hardware(nodes, true), false, scenario);
    assert_eq!(right.stuck, 0, "{name}: {right:?}");
    println!("{name}: {right:?}");
}

fn find(name: &str, nodes: &[(&str, EngineClass)], scenario: impl Fn(&Arc<Machine>) -> Body) {
    let wrong = explore(&hardware(nodes, false), true, scenario);
    assert_eq!(wrong.stuck, 1, "{name}: the missing barrier was not found: {wrong:?}");
    println!("{name}, without the barrier: {wrong:?}");
}

// spec: NF-005
#[test]
fn a_queue_that_parks_while_its_fence_is_signaled_is_never_lost() {
    exhaust("wait meets signal", TWO, wait_meets_signal);
    find("wait meets signal", TWO, wait_meets_signal);
}

// spec: NF-211, NF-213
#[test]
fn an_index_is_visible_when_its_signal_is_compared_with_monitored_value() {
    exhaust("armed reader meets logged signal", ONE, armed_reader_meets_logged_signal);
    find("armed reader meets logged signal", ONE, armed_reader_meets_logged_signal);
}

// spec: NF-196, NF-197, NF-211
#[test]
fn a_signal_stores_its_value_then_its_entry_then_the_index() {
    // The CPU reads bytes that an engine writes.
    let all = Exhaustive::new();
    let right = explore_by(all, &hardware(ONE, true), false, reader_meets_logged_signal);
    assert_eq!(right.stuck, 0, "a later store was seen before an earlier one: {right:?}");
    println!("reader meets logged signal: {right:?}");
}

// spec: NF-054, NF-055
#[test]
fn a_cpu_waiter_that_arms_while_its_fence_is_signaled_is_never_lost() {
    exhaust("armed wait meets signal", ONE, armed_wait_meets_signal);
    find("armed wait meets signal", ONE, armed_wait_meets_signal);
}

/// Hardware that keeps shadows and posts its stores of fence values.
fn with_shadow(barriers: Barriers) -> Config {
    Config { barriers, shadow_entries: 4, posted_fence_writes: true, ..hardware(ONE, true) }
}

// spec: NF-043, NF-044
#[test]
fn a_cpu_waiter_whose_shadow_changes_while_its_fence_is_signaled_is_never_lost() {
    let right = explore(&with_shadow(Barriers::default()), false, shadow_meets_signal);
    assert_eq!(right.stuck, 0, "{right:?}");
    println!("shadow meets signal: {right:?}");
    for barriers in [
        Barriers { shadow_barrier: false, ..Barriers::default() },
        Barriers { signal_barrier: false, ..Barriers::default() },
    ] {
        let wrong = explore(&with_shadow(barriers), true, shadow_meets_signal);
        assert_eq!(wrong.stuck, 1, "not found: {barriers:?}: {wrong:?}");
    }
}

/// Even with an engine that never waits for its own stores: the CMP's barrier makes visible what
/// was compared with the old shadow, so the CMP finds that value; a later one is compared with the
/// new shadow.
// spec: NF-047
#[test]
fn the_cmp_finds_what_was_compared_with_the_old_shadow_and_is_still_posted() {
    let barriers = Barriers { signal_barrier: false, ..Barriers::default() };
    let heard = explore(&with_shadow(barriers), false, shadow_meets_pending_store);
    assert_eq!(heard.stuck, 0, "{heard:?}");
}

// spec: UMS-004
#[test]
fn a_ring_is_never_lost_to_an_engine_that_goes_to_sleep() {
    exhaust("ring meets sleep", ONE, ring_meets_sleep);
}

// spec: NF-135
#[test]
fn a_value_from_the_cpu_is_never_lost_to_a_queue_that_parks() {
    exhaust("notify meets wait", ONE, notify_meets_wait);
}

// spec: UMS-047
#[test]
fn a_ring_during_suspend_is_never_lost() {
    exhaust("resume meets ring", ONE, resume_meets_ring);
}

// spec: UMS-009
#[test]
fn a_ring_before_a_disconnect_is_never_lost() {
    exhaust("disconnect meets ring", ONE, disconnect_meets_ring);
}
