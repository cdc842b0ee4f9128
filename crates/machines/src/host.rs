//! The host back end: agents are threads that park on futexes, and the clock is the wall clock. A
//! *closed* host has a watch that ends a run in which no agent can move.
//!
//! Invariants: only a closed host detects standstill. On an open host an unknown thread may still
//! act (decisions/0048). A sleeper registers before it reads `stopped`, and `stop` wakes until no
//! sleeper is registered.
//!
//! The watch sleeps without a deadline while an agent can move. The last agent that sleeps or ends
//! wakes it. It then checks periodically, because a woken thread counts as asleep until it runs.

use crate::cells::{KeptPage, Owner, PinnedCell};
use crate::os::{self, Sharing};
use crate::run_report::{RunReport, panic_text};
use crate::thread::{self, Belongings, HOST, IS_SERVICE};
use crate::time::CpuTime;
use crate::wait::{Deadline, WaitEnd};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static NEXT_HOST: AtomicU64 = AtomicU64::new(1);

/// What keeps a host alive: a handle of its platform.
pub trait OwnsHost: Clone + Send + 'static {
    /// Returns the host.
    fn host(&self) -> &Host;
}

/// Counts of thread sleeps and wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkingCounts {
    /// Times an agent went to sleep in a wait, except for background work.
    pub sleeps: u64,
    /// Wake calls made.
    pub wakes: u64,
}

struct Sleeper {
    /// The page and index of the word that it sleeps on.
    word: (KeptPage, u32),
    agent: String,
    what: String,
    /// Whether it has a deadline and so moves again by itself.
    deadline: bool,
    /// Whether the sleeping thread is an agent of this host. Other threads do not matter
    /// for standstill.
    agent_of_host: bool,
    /// Whether it is a service between two turns.
    idle_service: bool,
}

#[derive(Default)]
struct Threads {
    /// Agents that have not ended.
    live: u64,
    sleepers: BTreeMap<u64, Sleeper>,
    /// The number of agents among `sleepers`.
    agents_asleep: u64,
    /// The number of agents among `sleepers` with a deadline.
    with_deadline: u64,
    /// The number of agents among `sleepers` with a stated reason. The others are services, which
    /// may sleep indefinitely.
    with_reason: u64,
    /// Tasks of the machine that have not ended.
    tasks: u64,
    /// Services that have not ended.
    services: u64,
    /// The number of services among `sleepers` that are between two turns.
    idle_services: u64,
    /// The watch, while it waits for standstill.
    watch: Option<std::thread::Thread>,
    panics: Vec<String>,
    handles: Vec<std::thread::JoinHandle<()>>,
    /// The number of handles at which handles of ended threads are removed.
    handles_full: usize,
}

impl Threads {
    fn insert(&mut self, thread: u64, sleeper: Sleeper) {
        if sleeper.agent_of_host {
            self.agents_asleep += 1;
            self.with_deadline += u64::from(sleeper.deadline);
            self.with_reason += u64::from(!sleeper.what.is_empty());
        }
        self.idle_services += u64::from(sleeper.idle_service);
        self.sleepers.insert(thread, sleeper);
        self.notify_watch();
    }

    fn remove(&mut self, thread: u64) {
        let Some(sleeper) = self.sleepers.remove(&thread) else { return };
        self.idle_services -= u64::from(sleeper.idle_service);
        if sleeper.agent_of_host {
            self.agents_asleep -= 1;
            self.with_deadline -= u64::from(sleeper.deadline);
            self.with_reason -= u64::from(!sleeper.what.is_empty());
        }
    }

    /// Returns whether every agent is asleep without a deadline, and at least one is not an
    /// idle service.
    fn stands_still(&self) -> bool {
        self.with_deadline == 0 && self.with_reason > 0 && self.agents_asleep >= self.live
    }

    /// Notifies the watch after a thread has gone to sleep or ended.
    fn notify_watch(&mut self) {
        if self.watch.is_some()
            && self.stands_still()
            && let Some(watch) = self.watch.take()
        {
            watch.unpark();
        }
    }

    /// Keeps the handle of a thread until the thread has ended. Returns those that are not kept any
    /// longer, to be joined without the lock: a thread keeps its stack until it is joined.
    fn keep_handle(
        &mut self,
        handle: std::thread::JoinHandle<()>,
    ) -> Vec<std::thread::JoinHandle<()>> {
        self.handles.push(handle);
        if self.handles.len() < self.handles_full {
            return Vec::new();
        }
        let ended = self.handles.extract_if(.., |handle| handle.is_finished()).collect();
        self.handles_full = (2 * self.handles.len()).max(HANDLES_KEPT);
        ended
    }

    fn blocked(&self) -> Vec<(String, String)> {
        if !self.stands_still() {
            return Vec::new();
        }
        let said = self.sleepers.values().filter(|s| s.agent_of_host && !s.what.is_empty());
        said.map(|s| (s.agent.clone(), s.what.clone())).collect()
    }
}

/// The threads of a host platform.
pub struct Host {
    /// The host's number, never 0.
    number: u64,
    /// When the machine was created.
    start_ns: u64,
    /// Whether every thread that acts on this host is one of its agents.
    closed: bool,
    /// Whether memory for processes lies in files.
    memory: ClientMemory,
    /// 1 after `stop`. A sleep with only a deadline sleeps on this word.
    stopped: AtomicU64,
    sleeps: AtomicU64,
    wakes: AtomicU64,
    threads: Mutex<Threads>,
}

/// Where the memory lies that a host hands to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemory {
    /// With the process's other memory.
    Private,
    /// Each page is a mapping of its own.
    Mappings,
    /// Each page, and each run of bytes, is a file of its own.
    Files,
    /// As `Files`. Pages that a process may only read can have copies in rooms.
    FilesAndRooms,
}

/// The period of the watch's checks once no agent can move, and the number of consecutive equal
/// checks required: one second in total.
const WATCH_PERIOD: Duration = Duration::from_millis(50);
const WATCH_QUIET_LOOKS: u32 = 20;
/// The number of handles below which handles of ended threads are not looked for.
const HANDLES_KEPT: usize = 32;
/// Accuracy of the system's sleep, in nanoseconds. The last part of a busy time is spun.
pub const SLEEP_SLACK_NS: u64 = 80_000;

impl Host {
    /// Returns a host. `closed`: every thread that acts on it is one of its agents.
    pub fn new(closed: bool) -> Host {
        Host {
            number: NEXT_HOST.fetch_add(1, Ordering::Relaxed),
            closed,
            memory: ClientMemory::Private,
            start_ns: os::monotonic_ns(),
            stopped: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            threads: Mutex::new(Threads::default()),
        }
    }

    /// An open host whose memory for processes lies in files.
    pub fn sharing() -> Host {
        Host { memory: ClientMemory::Files, ..Host::new(false) }
    }

    /// An open host whose memory for processes lies in files, and for guests in rooms.
    pub fn hosting_guests() -> Host {
        Host { memory: ClientMemory::FilesAndRooms, ..Host::new(false) }
    }

    /// An open host whose pages for processes can be shown at a second address.
    pub fn placing() -> Host {
        Host { memory: ClientMemory::Mappings, ..Host::new(false) }
    }

    /// Returns the monotonic clock when the host was made, in nanoseconds.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Returns where memory for processes lies.
    pub fn client_memory(&self) -> ClientMemory {
        self.memory
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the clock.
    #[inline]
    pub fn now(&self) -> CpuTime {
        CpuTime(os::monotonic_ns().saturating_sub(self.start_ns))
    }

    /// Returns the system's clock, which may be set, in nanoseconds since 1 January 1970.
    pub fn system_time_ns(&self) -> u64 {
        os::system_time_ns()
    }

    /// Keeps the calling thread busy for `ns` nanoseconds, or until the stop.
    pub fn busy(&self, ns: u64) {
        let end = self.now().after(ns);
        if ns > 2 * SLEEP_SLACK_NS {
            std::thread::sleep(Duration::from_nanos(ns - SLEEP_SLACK_NS));
        }
        while self.now() < end && !self.is_stopped() {
            std::hint::spin_loop();
        }
    }

    /// Sleeps until `deadline`, or the stop.
    pub fn sleep_until(&self, deadline: CpuTime) -> WaitEnd {
        while self.now() < deadline {
            if self.is_stopped() {
                return WaitEnd::Stopped;
            }
            let rest = Duration::from_nanos(deadline.since(self.now()));
            os::futex_wait(&self.stopped, 0, Some(rest), Sharing::Private);
        }
        WaitEnd::TimedOut
    }

    /// Sleeps as [`Host::sleep_until`] does, and spins for the last part.
    pub fn sleep_precisely_until(&self, deadline: CpuTime) -> WaitEnd {
        let coarse = CpuTime(deadline.0.saturating_sub(SLEEP_SLACK_NS));
        if self.sleep_until(coarse) == WaitEnd::Stopped {
            return WaitEnd::Stopped;
        }
        self.busy(deadline.since(self.now()));
        WaitEnd::TimedOut
    }

    /// Returns whether the host is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) != 0
    }

    /// Returns the counts of sleeps and wakes so far.
    pub fn parking_counts(&self) -> ParkingCounts {
        ParkingCounts {
            sleeps: self.sleeps.load(Ordering::Relaxed),
            wakes: self.wakes.load(Ordering::Relaxed),
        }
    }

    /// Sleeps on a word while its low half is `expected`.
    pub fn wait_word<O: Owner>(
        &self,
        word: &PinnedCell<O>,
        expected: u32,
        deadline: Option<Deadline>,
        what: &str,
    ) -> WaitEnd {
        let by_itself = deadline.is_some_and(|d| !d.in_background);
        let deadline = deadline.map(|d| d.time);
        let timeout = match deadline {
            None => None,
            Some(d) if self.now() >= d => return WaitEnd::TimedOut,
            Some(d) => Some(Duration::from_nanos(d.since(self.now()))),
        };
        let me = thread::number();
        let sleeper = Sleeper {
            word: (word.page().keep(), word.index),
            agent: thread::name(),
            what: what.to_owned(),
            deadline: by_itself,
            agent_of_host: HOST.get() == self.number,
            idle_service: what.is_empty() && IS_SERVICE.get(),
        };
        // Registered before `stopped` is read, because `stop` wakes until no sleeper is registered.
        self.threads().insert(me, sleeper);
        let end = if self.is_stopped() {
            WaitEnd::Stopped
        } else {
            // Only a sleep with a deadline of its own, or with none, counts as movement for
            // the watch.
            self.sleeps.fetch_add(u64::from(by_itself || deadline.is_none()), Ordering::Relaxed);
            os::futex_wait(word.get(), expected, timeout, word.page().sharing());
            match deadline {
                _ if self.is_stopped() => WaitEnd::Stopped,
                Some(d) if self.now() >= d => WaitEnd::TimedOut,
                _ => WaitEnd::Woken,
            }
        };
        self.threads().remove(me);
        end
    }

    /// Wakes up to `count` sleepers of a word.
    pub fn wake_word<O>(&self, word: &PinnedCell<O>, count: u32) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        os::futex_wake(word.get(), count, word.page().sharing());
    }

    /// Whether threads that are unknown to it may act on it.
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// Lets threads block again after a stop.
    pub fn resume(&self) {
        self.stopped.store(0, Ordering::Release);
    }

    /// Releases every sleeper, and every later one.
    pub fn stop(&self) {
        self.begin_stop();
        self.release_sleepers();
    }

    /// Stops at a moment at which every service is between two turns and no task runs, so that none
    /// is cut off. A service checks for the stop before each turn, after it has left the list of
    /// sleepers.
    fn begin_rest(&self) {
        loop {
            let threads = self.threads();
            let all_rest = threads.tasks == 0 && threads.idle_services == threads.services;
            if all_rest || self.is_stopped() {
                self.stopped.store(1, Ordering::Release);
                return;
            }
            drop(threads);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn begin_stop(&self) {
        self.stopped.store(1, Ordering::Release);
        os::futex_wake(&self.stopped, i32::MAX, Sharing::Private);
    }

    /// Wakes until no sleeper is registered. A sleeper that registers later finds `stopped` set.
    fn release_sleepers(&self) {
        loop {
            let sleeping: Vec<_> =
                self.threads().sleepers.values().map(|s| s.word.clone()).collect();
            if sleeping.is_empty() {
                return;
            }
            for (page, index) in &sleeping {
                os::futex_wake(page.cell(*index as usize), i32::MAX, page.sharing());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Returns the blocked agents; none on an open host, where another thread may still act.
    pub fn blocked_agents(&self) -> Vec<(String, String)> {
        if self.closed { self.threads().blocked() } else { Vec::new() }
    }

    /// Records a panic that the calling agent has contained. Other threads have no report.
    pub fn report_panic(&self, payload: &(dyn std::any::Any + Send)) {
        if HOST.get() == self.number {
            self.threads().panics.push(panic_text(&thread::name(), payload));
        }
    }

    /// Runs `main` on this thread and joins every agent. On a closed host the watch detects
    /// standstill meanwhile. Services rest at the end if `rests` then says so.
    pub fn run(&self, rests: impl FnOnce() -> bool, main: impl FnOnce()) -> RunReport {
        let outer = thread::exchange(Belongings::named("main".to_owned()));
        let outer_host = HOST.replace(self.number);
        self.threads().live += 1;
        let finished = AtomicBool::new(false);
        let mut blocked = Vec::new();
        std::thread::scope(|scope| {
            let watch = self.closed.then(|| scope.spawn(|| self.watch(&finished)));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(main));
            if let Err(payload) = result {
                self.threads().panics.push(panic_text("main", payload.as_ref()));
            }
            finished.store(true, Ordering::Release);
            if let Some(watch) = watch {
                watch.thread().unpark();
                blocked = watch.join().unwrap_or_default();
            }
        });
        self.threads().live -= 1;
        if rests() {
            self.begin_rest();
        }
        self.stop();
        loop {
            let Some(handle) = self.threads().handles.pop() else { break };
            // A panic of the thread was caught and recorded inside it.
            let _ = handle.join();
        }
        thread::collect();
        thread::exchange(outer);
        HOST.set(outer_host);
        let panics = std::mem::take(&mut self.threads().panics);
        RunReport { blocked, panics, end: self.now(), ..RunReport::default() }
    }

    /// Returns whether the machine may still move. If so, the calling thread is unparked at
    /// a standstill.
    fn may_move(&self) -> bool {
        let mut threads = self.threads();
        let may_move = !threads.stands_still();
        threads.watch = may_move.then(std::thread::current);
        may_move
    }

    fn watch(&self, finished: &AtomicBool) -> Vec<(String, String)> {
        let (mut quiet, mut seen) = (0, self.parking_counts());
        let finished = || finished.load(Ordering::Acquire);
        while !finished() {
            if self.may_move() {
                std::thread::park();
            }
            if finished() {
                break;
            }
            // An immediate check would mostly find a thread that is about to move. Waiting a period
            // avoids disturbing threads that hand work to each other.
            std::thread::park_timeout(WATCH_PERIOD);
            let (blocked, counts) = (self.blocked_agents(), self.parking_counts());
            quiet = if blocked.is_empty() || counts != seen { 0 } else { quiet + 1 };
            seen = counts;
            if quiet >= WATCH_QUIET_LOOKS {
                self.stop();
                return blocked;
            }
        }
        Vec::new()
    }
}

/// Starts a task of the machine.
pub fn spawn_task(owner: &impl OwnsHost, name: String, body: Box<dyn FnOnce() + Send>) {
    spawn_counted(owner, name, |threads| &mut threads.tasks, body);
}

/// Starts the thread of a service.
pub fn spawn_service(owner: &impl OwnsHost, name: String, body: Box<dyn FnOnce() + Send>) {
    let body = move || {
        IS_SERVICE.set(true);
        os::sleep_with_least_slack();
        body();
    };
    spawn_counted(owner, name, |threads| &mut threads.services, Box::new(body));
}

/// Starts a thread that `count` counts until it ends.
fn spawn_counted<O: OwnsHost>(
    owner: &O,
    name: String,
    count: fn(&mut Threads) -> &mut u64,
    body: Box<dyn FnOnce() + Send>,
) {
    struct Ended<O: OwnsHost>(O, fn(&mut Threads) -> &mut u64);
    impl<O: OwnsHost> Drop for Ended<O> {
        fn drop(&mut self) {
            *self.1(&mut self.0.host().threads()) -= 1;
        }
    }
    *count(&mut owner.host().threads()) += 1;
    let ended = Ended(owner.clone(), count);
    let body = move || {
        let _ended = ended;
        body();
    };
    spawn(owner, name, Box::new(body));
}

/// Starts the thread of a straight-line agent.
pub fn spawn<O: OwnsHost>(owner: &O, name: String, body: Box<dyn FnOnce() + Send>) {
    owner.host().threads().live += 1;
    let (own, thread_name) = (owner.clone(), name.clone());
    let run = move || {
        thread::exchange(Belongings::named(name.clone()));
        HOST.set(own.host().number);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        thread::collect();
        let mut threads = own.host().threads();
        threads.live -= 1;
        threads.notify_watch();
        if let Err(payload) = result {
            threads.panics.push(panic_text(&name, payload.as_ref()));
        }
    };
    let handle = std::thread::Builder::new()
        .name(thread_name)
        .spawn(run)
        .expect("the system cannot create another thread");
    let ended = owner.host().threads().keep_handle(handle);
    // The end of such a thread cannot fail, and a panic is known already.
    ended.into_iter().for_each(|handle| _ = handle.join());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::OwnedPage;

    /// Rounds of [`a_sleeper_that_registers_during_a_stop_is_released`]. One round usually finds a
    /// sleeper that reads `stopped` too early.
    const ROUNDS: u32 = 100;

    /// The registration lock is held while a thread comes to its sleep, so the stop falls between
    /// what the thread does before it registers and what it does after. A released thread never
    /// begins to sleep once the stop is complete.
    #[test]
    fn a_sleeper_that_registers_during_a_stop_is_released() {
        for round in 0..ROUNDS {
            let page = OwnedPage::zeroed((), 0, false, 1);
            let (word, comes) = (PinnedCell::new(&page, 0), AtomicBool::new(false));
            let host = Host::new(false);
            std::thread::scope(|scope| {
                let registration = host.threads();
                let sleeper = scope.spawn(|| {
                    comes.store(true, Ordering::Release);
                    host.wait_word(&word, 0, None, "nothing")
                });
                while !comes.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // The sleeper meanwhile reaches the lock. If it does not, the round passes anyway.
                (0..200).for_each(|_| std::thread::yield_now());
                host.begin_stop();
                drop(registration);
                host.release_sleepers();
                let sleeps = host.parking_counts().sleeps;
                // A missed sleeper is woken here, so that the test ends.
                while !sleeper.is_finished() {
                    os::futex_wake(word.get(), i32::MAX, Sharing::Private);
                    std::thread::yield_now();
                }
                assert_eq!(sleeper.join().expect("no panic"), WaitEnd::Stopped);
                let late = host.parking_counts().sleeps - sleeps;
                assert_eq!(
                    late, 0,
                    "round {round}: a thread went to sleep after the stop was complete"
                );
            });
        }
    }
}
