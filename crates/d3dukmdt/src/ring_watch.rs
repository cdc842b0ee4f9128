//! Rings of a program that stores to its doorbells and does nothing else, as published: the hint
//! that belongs to a ring ([`RingHint`]) is given by a thread of the user-mode driver, which
//! watches the doorbells.
//!
//! The thread looks at a doorbell often for a short time after each ring. Then it sleeps: a trap is
//! armed on the doorbell's address, the doorbell is looked at again, and the thread waits. The
//! second look finds a ring that comes before the trap, and a later ring wakes the thread, once.
//! Where the system has no traps, the thread looks at an interval that grows with the time since
//! the last ring.
//!
//! A trapped store gives the hint before it is carried out, so that the engine wakes meanwhile and
//! looks at the doorbell itself for a short time. The thread does not look in this time, because it
//! could need the processor of the engine or of the program. A later look that finds a new write
//! pointer gives the hint, too. A hint too many has no effect.
//!
//! Entry points: [`RingWatch::watch`], [`RingWatch::run`].

use crate::RingHint;
use std::sync::Arc;
use tidegate_platform::mapping::traps::StoreTraps;
use tidegate_platform::{CpuTime, Event, Mapping, Mutex, Platform, Step};

/// The word of a doorbell that has the write pointer.
const VALUE_WORD: usize = 0;

/// How the thread that watches learns of stores.
pub trait Traps: Send + Sync {
    /// Has the next store to the window's address end a wait. Returns `false` if it cannot.
    fn arm(&self, window: &Mapping) -> bool;

    /// Has stores end no wait.
    fn release(&self, window: &Mapping);

    /// Waits until a store to an armed window, a poke, or `deadline`. Calls `stopped` with the
    /// address of each window that is stored to, before the store is carried out. It is armed no
    /// more afterwards.
    fn wait(&self, deadline: Option<CpuTime>, stopped: &mut dyn FnMut(u64));

    /// Has a wait return, or the next one.
    fn poke(&self);
}

impl Traps for StoreTraps {
    fn arm(&self, window: &Mapping) -> bool {
        StoreTraps::arm(self, window).is_ok()
    }

    fn release(&self, window: &Mapping) {
        StoreTraps::release(self, window);
    }

    fn wait(&self, deadline: Option<CpuTime>, stopped: &mut dyn FnMut(u64)) {
        StoreTraps::wait(self, deadline, stopped);
    }

    fn poke(&self) {
        StoreTraps::poke(self);
    }
}

/// No traps: the watch looks at an interval.
struct NoTraps(Event);

impl Traps for NoTraps {
    fn arm(&self, _: &Mapping) -> bool {
        false
    }

    fn release(&self, _: &Mapping) {}

    fn wait(&self, deadline: Option<CpuTime>, _stopped: &mut dyn FnMut(u64)) {
        let _ended = self.0.wait_for(deadline, "a doorbell to watch");
    }

    fn poke(&self) {
        self.0.set(Step::ThreadWake);
    }
}

/// How often a doorbell is looked at. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookTimes {
    /// The pause in the time after a ring or a trapped store.
    pub busy_ns: u64,
    /// So many looks that find nothing end that time.
    pub looks: u32,
    /// The longest pause after that, without traps.
    pub idle_ns: u64,
}

impl Default for LookTimes {
    fn default() -> LookTimes {
        LookTimes { busy_ns: 200_000, looks: 3, idle_ns: 5_000_000 }
    }
}

/// Without traps each pause of an idle doorbell is longer than the last one by this part of it. So
/// a ring is found after about this part of the time for which the doorbell was idle.
const GROWTH: u64 = 32;

/// A doorbell that is watched.
struct Ring {
    number: u64,
    /// The doorbell, and its secondary one, with their addresses.
    windows: Vec<(Mapping, u64)>,
    hint: Arc<dyn RingHint>,
    /// The write pointer that was found last.
    seen: u64,
    /// Looks that have found nothing since.
    idle_looks: u32,
    pause_ns: u64,
    /// `None` while its traps are armed.
    next_look: Option<CpuTime>,
}

/// What follows a look.
#[derive(PartialEq, Eq)]
enum Found {
    Rung,
    Nothing,
}

impl Ring {
    /// Reads the doorbell. A new write pointer begins a time of frequent looks.
    fn find_ring(&mut self, times: &LookTimes) -> Found {
        let pointer = |(window, _): &(Mapping, u64)| window.page().load(VALUE_WORD);
        let found = self.windows.iter().map(pointer).max().unwrap_or(0);
        if std::mem::replace(&mut self.seen, found) == found {
            self.idle_looks += 1;
            return Found::Nothing;
        }
        (self.idle_looks, self.pause_ns) = (0, times.busy_ns);
        Found::Rung
    }

    /// Looks, and decides when the next look is.
    fn turn(&mut self, now: CpuTime, times: &LookTimes, traps: &dyn Traps) -> Found {
        let mut found = self.find_ring(times);
        if found == Found::Nothing && self.idle_looks >= times.looks {
            // The traps come before the last look.
            let is_armed = self.windows.iter().all(|(window, _)| traps.arm(window));
            found = self.find_ring(times);
            if found == Found::Nothing && is_armed {
                self.next_look = None;
                return Found::Nothing;
            }
            self.release(traps);
            if found == Found::Nothing {
                self.pause_ns = (self.pause_ns + self.pause_ns.div_ceil(GROWTH)).min(times.idle_ns);
            }
        }
        self.next_look = Some(now.after(self.pause_ns));
        found
    }

    fn release(&self, traps: &dyn Traps) {
        self.windows.iter().for_each(|(window, _)| traps.release(window));
    }

    /// A store was trapped, and is carried out soon.
    fn begin(&mut self, now: CpuTime, times: &LookTimes) {
        // Without the pause a thread that is slow to go on could meet the next trap, and again.
        (self.idle_looks, self.pause_ns) = (0, times.busy_ns);
        self.next_look = Some(now.after(times.busy_ns));
    }
}

struct Watch {
    platform: Platform,
    times: LookTimes,
    traps: Box<dyn Traps>,
    rings: Mutex<Rings>,
}

#[derive(Default)]
struct Rings {
    all: Vec<Ring>,
    last_number: u64,
}

/// Watches the doorbells of a process.
#[derive(Clone)]
pub struct RingWatch(Arc<Watch>);

/// A doorbell that is watched until this is dropped.
pub struct WatchedRing {
    watch: Arc<Watch>,
    number: u64,
}

impl RingWatch {
    /// Returns a watch by the system's traps, or without where it has none. A thread has to
    /// [run](RingWatch::run) it.
    pub fn of_system(platform: &Platform, times: LookTimes) -> RingWatch {
        match StoreTraps::new(platform) {
            Ok(traps) => RingWatch::new(platform, times, Box::new(traps)),
            Err(_) => RingWatch::without_traps(platform, times),
        }
    }

    /// Returns a watch that looks at an interval.
    pub fn without_traps(platform: &Platform, times: LookTimes) -> RingWatch {
        RingWatch::new(platform, times, Box::new(NoTraps(platform.event(false))))
    }

    /// Returns a watch by `traps`.
    pub fn new(platform: &Platform, times: LookTimes, traps: Box<dyn Traps>) -> RingWatch {
        let rings = platform.mutex("watched doorbells", Rings::default());
        RingWatch(Arc::new(Watch { platform: platform.clone(), times, traps, rings }))
    }

    /// Gives `hint` after each ring of a doorbell, one that came before this call too. The windows
    /// have the addresses that [`Mapping::place`] returned.
    pub fn watch(&self, windows: Vec<(Mapping, u64)>, hint: Arc<dyn RingHint>) -> WatchedRing {
        let watch = &self.0;
        let number = {
            let mut rings = watch.rings.lock();
            rings.last_number += 1;
            let (number, now) = (rings.last_number, watch.platform.now());
            rings.all.push(Ring {
                number,
                windows,
                hint,
                seen: 0,
                idle_looks: 0,
                pause_ns: watch.times.busy_ns,
                next_look: Some(now),
            });
            number
        };
        watch.traps.poke();
        WatchedRing { watch: watch.clone(), number }
    }

    /// Watches until the machine is stopped.
    pub fn run(&self) {
        let mut next = None;
        while !self.0.platform.is_stopped() {
            next = self.0.turn(next);
        }
    }
}

impl Watch {
    /// Waits for a trapped store or until `next`, and reads the doorbells that are due.
    fn turn(&self, next: Option<CpuTime>) -> Option<CpuTime> {
        let mut stored = Vec::new();
        self.traps.wait(next, &mut |address| {
            self.wake_engine(address);
            stored.push(address);
        });
        self.serve_due(&stored)
    }

    /// Gives the hint of a doorbell while a store to it is stopped. Afterwards the thread that
    /// stores may take the processor of this thread and spin, and no hint would be given meanwhile.
    fn wake_engine(&self, address: u64) {
        let is_at = |ring: &&Ring| ring.windows.iter().any(|(_, at)| *at == address);
        let hint = self.rings.lock().all.iter().find(is_at).map(|ring| ring.hint.clone());
        // A hint may call the kernel.
        hint.iter().for_each(|hint| hint.rung());
    }

    /// Reads the doorbells that are due and gives their hints; those in `stored` are due soon.
    /// Returns when the next one is due.
    fn serve_due(&self, stored: &[u64]) -> Option<CpuTime> {
        let now = self.platform.now();
        let mut rung = Vec::new();
        let mut next: Option<CpuTime> = None;
        for ring in &mut self.rings.lock().all {
            if ring.windows.iter().any(|(_, address)| stored.contains(address)) {
                ring.begin(now, &self.times);
            }
            if ring.next_look.is_some_and(|at| at <= now)
                && ring.turn(now, &self.times, &*self.traps) == Found::Rung
            {
                rung.push(ring.hint.clone());
            }
            next = next.into_iter().chain(ring.next_look).min();
        }
        // A hint may call the kernel.
        rung.iter().for_each(|hint| hint.rung());
        next
    }
}

impl Drop for WatchedRing {
    fn drop(&mut self) {
        let mut rings = self.watch.rings.lock();
        let ended = rings.all.iter().position(|ring| ring.number == self.number);
        let ended = ended.map(|at| rings.all.swap_remove(at));
        drop(rings);
        if let Some(ring) = ended {
            ring.release(&*self.watch.traps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::Word;

    const TIMES: LookTimes = LookTimes { busy_ns: 40, looks: 3, idle_ns: 700 };

    struct Counted(Word);

    impl Counted {
        fn new(platform: &Platform) -> Arc<Counted> {
            Arc::new(Counted(platform.page(1).word(0)))
        }
    }

    impl RingHint for Counted {
        fn rung(&self) {
            self.0.fetch_add(1);
        }
    }

    /// The address of the doorbell.
    const ADDRESS: u64 = 4096;

    /// Traps that only note what is done with them; a store comes while they are armed, or ends a
    /// wait.
    struct Noted {
        arms: bool,
        armed: Mutex<bool>,
        store_at_arm: Mutex<Option<(Mapping, u64)>>,
        /// The hint of the doorbell, and its count when the stopped store was carried out.
        hints_at_store: Mutex<Option<(Arc<Counted>, u64)>>,
    }

    impl Traps for Arc<Noted> {
        fn arm(&self, _: &Mapping) -> bool {
            *self.armed.lock() = self.arms;
            if let Some((window, pointer)) = self.store_at_arm.lock().take() {
                window.store(0, pointer);
            }
            self.arms
        }

        fn release(&self, _: &Mapping) {
            *self.armed.lock() = false;
        }

        fn wait(&self, _: Option<CpuTime>, stopped: &mut dyn FnMut(u64)) {
            stopped(ADDRESS);
            if let Some((hint, count)) = &mut *self.hints_at_store.lock() {
                *count = hint.0.load();
            }
        }

        fn poke(&self) {}
    }

    struct Bench {
        traps: Arc<Noted>,
        window: Mapping,
        ring: Ring,
        at: u64,
    }

    impl Bench {
        fn new(arms: bool) -> Bench {
            let platform = Platform::host();
            let window = Mapping::new(&platform, platform.page(8));
            let traps = Arc::new(Noted {
                arms,
                armed: platform.mutex("armed", false),
                store_at_arm: platform.mutex("store", None),
                hints_at_store: platform.mutex("hints", None),
            });
            let ring = Ring {
                number: 1,
                windows: vec![(window.clone(), ADDRESS)],
                hint: Counted::new(&platform),
                seen: 0,
                idle_looks: 0,
                pause_ns: TIMES.busy_ns,
                next_look: Some(CpuTime(0)),
            };
            Bench { traps, window, ring, at: 0 }
        }

        /// Looks at the time that was decided last. Returns whether a ring was found, and the pause
        /// until the next look.
        fn turn(&mut self) -> (bool, Option<u64>) {
            self.at = self.ring.next_look.expect("not armed").0;
            let found = self.ring.turn(CpuTime(self.at), &TIMES, &self.traps);
            (found == Found::Rung, self.ring.next_look.map(|at| at.0 - self.at))
        }

        fn is_armed(&self) -> bool {
            *self.traps.armed.lock()
        }
    }

    #[test]
    fn an_idle_doorbell_is_armed_and_not_looked_at() {
        let mut bench = Bench::new(true);
        bench.window.store(0, 5);
        assert_eq!(bench.turn(), (true, Some(40)));
        assert_eq!([bench.turn(), bench.turn()], [(false, Some(40)); 2]);
        assert!(!bench.is_armed());
        assert_eq!(bench.turn(), (false, None));
        assert!(bench.is_armed());
    }

    #[test]
    fn a_trapped_store_is_looked_for_after_a_pause_although_it_is_late() {
        let mut bench = Bench::new(true);
        bench.ring.begin(CpuTime(1_000), &TIMES);
        assert_eq!(bench.ring.next_look, Some(CpuTime(1_040)));
        assert_eq!([bench.turn(), bench.turn()], [(false, Some(40)); 2]);
        bench.window.store(0, 1);
        assert_eq!([bench.turn(), bench.turn()], [(true, Some(40)), (false, Some(40))]);
    }

    #[test]
    fn a_ring_beside_the_arming_is_found_and_the_trap_released() {
        let mut bench = Bench::new(true);
        *bench.traps.store_at_arm.lock() = Some((bench.window.clone(), 3));
        assert_eq!([bench.turn(), bench.turn()], [(false, Some(40)); 2]);
        assert_eq!(bench.turn(), (true, Some(40)));
        assert!(!bench.is_armed());
    }

    #[test]
    fn without_traps_an_idle_doorbell_is_looked_at_more_and_more_rarely() {
        let mut bench = Bench::new(false);
        assert_eq!([bench.turn(), bench.turn()], [(false, Some(40)); 2]);
        let (start, mut pause) = (bench.at, 40);
        while pause < TIMES.idle_ns {
            let (found, next) = bench.turn();
            let (last, idle_ns) = (std::mem::replace(&mut pause, next.unwrap()), bench.at - start);
            assert!(!found && pause > last);
            assert!(pause <= TIMES.busy_ns + idle_ns / 16, "{pause} after {idle_ns}");
        }
        assert_eq!([bench.turn(), bench.turn()], [(false, Some(700)); 2]);
        bench.window.store(0, 9);
        assert_eq!([bench.turn(), bench.turn()], [(true, Some(40)), (false, Some(40))]);
    }

    #[test]
    fn the_hint_of_a_trapped_store_is_given_while_the_store_is_stopped() {
        let Bench { traps, window, .. } = Bench::new(true);
        let platform = Platform::host();
        let hint = Counted::new(&platform);
        *traps.hints_at_store.lock() = Some((hint.clone(), 0));
        let watch = RingWatch::new(&platform, TIMES, Box::new(traps.clone()));
        let _watched = watch.watch(vec![(window, ADDRESS)], hint);
        watch.0.turn(None);
        let noted = traps.hints_at_store.lock().take();
        assert_eq!(noted.map(|(_, count)| count), Some(1));
    }

    #[test]
    fn each_window_of_a_doorbell_rings_and_only_the_store_ends_with_its_owner() {
        let platform = Platform::host();
        let watch = RingWatch::without_traps(&platform, TIMES);
        let windows = [8, 8].map(|words| Mapping::new(&platform, platform.page(words)));
        let hint = Counted::new(&platform);
        let placed = windows.clone().map(|window| (window, 0)).to_vec();
        let watched = watch.watch(placed, hint.clone());
        let given = || {
            watch.0.serve_due(&[]);
            hint.0.exchange(0)
        };
        windows[1].store(0, 2);
        assert_eq!(given(), 1);
        watch.0.rings.lock().all[0].next_look = Some(CpuTime(0));
        windows[0].store(0, 3);
        assert_eq!(given(), 1);
        drop(watched);
        windows[0].store(0, 4);
        assert_eq!((given(), watch.0.rings.lock().all.len()), (0, 0));
    }
}
