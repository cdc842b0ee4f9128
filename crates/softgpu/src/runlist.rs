//! The order in which the queues of one engine run. Policy under the `cmp` lock, in nanoseconds:
//! decision 28.
//!
//! The next queue: 1. the highest band with a queue, REALTIME by its levels, or NORMAL while it
//! catches up (`floor`); 2. its process with the least time, or the served one until its quantum is
//! used up; 3. its contexts of the highest in-process priority, in turn; 4. their queues, in turn.
//! An engine that may not leave a queue keeps it. A queue is on the list at most once.
//!
//! Guarantee: two processes that always want a band get equal time in it, within 2(Q + M). Q is the
//! process quantum, at least [`SLICE_NS`]; M is the longest time in which the engine may not leave
//! a queue. Time is counted only while another queue competes, so a lone queue reads no clock. Time
//! in which the engine had no processor is not counted: a turn has a longest time, and timed work
//! has an end.

mod floor;
mod place;
mod sorted_map;

use floor::Floor;
pub(crate) use place::{
    BANDS, Bands, MAX_IN_PROCESS, MAX_NORMAL_PERCENT, MAX_REALTIME_LEVEL, Place,
};
use place::{FOCUS, NORMAL, TIERS};
use sorted_map::SortedMap;
use std::collections::VecDeque;
use tidegate_gpu_abi::QueueId;
use tidegate_platform::CpuTime;

/// The time slice of a packet in nanoseconds, where no quantum is set.
pub(crate) const SLICE_NS: u64 = 1_000_000;

/// The most that is counted without a call of [`RunList::timed_work_ended`], in nanoseconds. A turn
/// is a short part of a packet, and takes longer only while its thread is stopped.
const LONGEST_TURN_NS: u64 = 10_000_000;

/// A context with ready queues.
struct ContextSlot {
    context: u64,
    queues: VecDeque<QueueId>,
}

/// A process with ready contexts.
#[derive(Default)]
struct ProcessSlot {
    /// The arrival number of its entry or last service, which orders equals.
    since: u64,
    /// Its contexts by in-process priority.
    contexts: SortedMap<i32, VecDeque<ContextSlot>>,
}

/// The queues of a band, or of a level of REALTIME.
#[derive(Default)]
struct Tier {
    ready: SortedMap<u32, ProcessSlot>,
    /// Time received by each process that wants more or had more than others, in nanoseconds.
    had_ns: SortedMap<u32, u64>,
    /// The smallest time received by a process when a quantum last began. A process that enters
    /// starts with it.
    base_ns: u64,
    /// The process that is served, and the used part of its quantum in nanoseconds.
    current: Option<(u32, u64)>,
    /// A queue in the middle of a packet whose slice is not used up.
    unfinished: Option<QueueId>,
}

/// The queue that the engine serves, or served last.
#[derive(Clone, Copy)]
struct Served {
    queue: QueueId,
    place: Place,
    /// The used part of its context's quantum.
    context_used_ns: u64,
    /// The used part of its slice: counted time since it was taken from among its equals.
    slice_used_ns: u64,
    /// Whether its last turn ended in the middle of a packet.
    in_packet: bool,
    /// Whether its slice is over. It then goes behind its equals, even in the middle of a packet.
    slice_over: bool,
    /// Whether it is on the engine. If not, only its turn counts.
    on_engine: bool,
    /// The start of its uncounted time; `None` while no other queue competes with it.
    since: Option<CpuTime>,
    /// Whether both NORMAL and FOCUS wanted the engine when it was taken.
    contended: bool,
}

pub(crate) struct RunList {
    bands: Bands,
    tiers: Vec<Tier>,
    /// A bitmap of the tiers with a queue.
    occupied: u64,
    /// The queues on the list and their places here, by their places in the GPU's table.
    places: Vec<Option<(QueueId, Place)>>,
    /// Emptied slots for reuse, so that a queue's entry and removal allocate nothing.
    spare_processes: Vec<ProcessSlot>,
    spare_queues: Vec<VecDeque<QueueId>>,
    served: Option<Served>,
    /// The queue that the engine may not leave. No other queue precedes it.
    kept: Option<QueueId>,
    floor: Floor,
    /// Counts entries and services of processes.
    arrivals: u64,
}

impl Default for RunList {
    fn default() -> RunList {
        RunList {
            bands: Bands::default(),
            tiers: (0..TIERS).map(|_| Tier::default()).collect(),
            occupied: 0,
            places: Vec::new(),
            spare_processes: Vec::new(),
            spare_queues: Vec::new(),
            served: None,
            kept: None,
            floor: Floor::default(),
            arrivals: 0,
        }
    }
}

impl RunList {
    pub(crate) fn set_bands(&mut self, bands: Bands) {
        self.bands = bands;
        self.floor = Floor::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Sets the queue that the engine may not leave.
    pub(crate) fn keep(&mut self, queue: Option<QueueId>) {
        self.kept = queue;
    }

    /// Returns whether the engine may not leave its queue.
    pub(crate) fn keeps_a_queue(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns whether the engine has to wait for the queue that it may not leave.
    pub(crate) fn waits_for_kept(&self) -> bool {
        self.kept.is_some_and(|queue| self.place(queue).is_none())
    }

    /// Enters a queue behind its equals, or before them if it is in the middle of a packet.
    pub(crate) fn push(
        &mut self,
        queue: QueueId,
        place: Place,
        in_packet: bool,
        clock: impl Fn() -> CpuTime,
    ) {
        let tier_number = place.tier();
        let served_here = self.served.filter(|s| s.on_engine && s.place.tier() == tier_number);
        let own = self
            .served
            .filter(|s| s.place.context == place.context && s.place.process == place.process);
        let in_packet = in_packet && !own.is_some_and(|s| s.queue == queue && s.slice_over);
        let in_quantum = own.is_some_and(|s| !s.slice_over && s.context_used_ns < place.quantum_ns);
        let keeps_turn = in_packet || in_quantum;
        self.arrivals += 1;
        let arrival = self.arrivals;
        let tier = &mut self.tiers[tier_number];
        if tier.ready.is_empty() && served_here.is_none() {
            // All processes of the tier are even.
            tier.had_ns.clear();
            (tier.base_ns, tier.current) = (0, None);
        }
        if !tier.ready.contains(place.process) {
            let had = tier.had_ns.get_or_insert_with(place.process, || 0);
            *had = (*had).max(tier.base_ns);
        }
        let (processes, queues) = (&mut self.spare_processes, &mut self.spare_queues);
        let fresh = || ProcessSlot { since: arrival, ..processes.pop().unwrap_or_default() };
        let process = tier.ready.get_or_insert_with(place.process, fresh);
        let ring = process.contexts.get_or_insert_with(place.in_process, VecDeque::new);
        let mut slot =
            || ContextSlot { context: place.context, queues: queues.pop().unwrap_or_default() };
        let at = ring.iter().position(|slot| slot.context == place.context);
        let old = at.and_then(|at| if keeps_turn { ring.remove(at) } else { None });
        if keeps_turn {
            let mut slot = old.unwrap_or_else(slot);
            if in_packet {
                slot.queues.push_front(queue)
            } else {
                slot.queues.push_back(queue)
            }
            ring.push_front(slot);
        } else if let Some(slot) = at.and_then(|at| ring.get_mut(at)) {
            slot.queues.push_back(queue);
        } else {
            let mut slot = slot();
            slot.queues.push_back(queue);
            ring.push_back(slot);
        }
        if in_packet {
            tier.unfinished = Some(queue);
        }
        self.occupied |= 1 << tier_number;
        let number = queue.place() as usize;
        if number >= self.places.len() {
            self.places.resize(number + 1, None);
        }
        self.places[number] = Some((queue, place));
        if let Some(served) =
            self.served.filter(|s| s.on_engine && s.since.is_none() && s.queue != queue)
            && self.is_wanted(&served.place, served.in_packet)
        {
            self.served = Some(Served { since: Some(clock()), ..served });
        }
    }

    /// Takes the next queue and serves it.
    pub(crate) fn pop(&mut self, clock: impl Fn() -> CpuTime) -> Option<QueueId> {
        let last = self.account(&clock);
        let Some((tier_number, process_number, queue)) = self.choose() else {
            self.left(clock);
            return None;
        };
        let tier = &mut self.tiers[tier_number];
        let goes_on = tier.unfinished.take() == Some(queue);
        let had = tier.had_ns.get(process_number).copied().unwrap_or_default();
        // The rest of a packet begins no new quantum.
        let quantum_ns = self.bands.quantum_ns(tier_number);
        let kept = |(current, used)| current == process_number && (goes_on || used < quantum_ns);
        if !tier.current.is_some_and(kept) {
            tier.current = Some((process_number, 0));
            tier.base_ns = tier.base_ns.max(had);
        }
        let place = self.take(queue)?;
        self.drop_even_accounts(tier_number);
        let same =
            last.filter(|l| (l.place.process, l.place.context) == (place.process, place.context));
        let context_used_ns = same.map_or(0, |l| l.context_used_ns);
        let slice_used_ns =
            last.filter(|l| goes_on && l.queue == queue).map_or(0, |l| l.slice_used_ns);
        let now = last.and_then(|l| l.since);
        let since = self.is_wanted(&place, goes_on).then(|| now.unwrap_or_else(clock));
        let contended = self.is_rivalled(place.band);
        self.served = Some(Served {
            queue,
            place,
            context_used_ns,
            slice_used_ns,
            in_packet: goes_on,
            slice_over: false,
            on_engine: true,
            since,
            contended,
        });
        Some(queue)
    }

    // spec: HS-008
    /// Ends the turn of the served queue. `in_packet`: it is in the middle of a packet.
    /// `may_leave`: the engine may leave it. Called before the queue is entered again, if it is.
    pub(crate) fn turn_ended(
        &mut self,
        in_packet: bool,
        may_leave: bool,
        clock: impl Fn() -> CpuTime,
    ) {
        let Some(mut served) = self.account(&clock) else { return };
        served.in_packet = in_packet;
        if served.on_engine && served.since.is_none() && self.is_wanted(&served.place, in_packet) {
            served.since = Some(clock());
        }
        served.slice_over =
            may_leave && served.since.is_some() && self.slice_left_ns(&served) == Some(0);
        self.served = Some(served);
        if in_packet && !served.slice_over {
            return;
        }
        self.arrivals += 1;
        let (arrival, place) = (self.arrivals, served.place);
        let Some(process) = self.tiers[place.tier()].ready.get_mut(place.process) else { return };
        process.since = arrival;
        if (served.slice_over || served.context_used_ns >= place.quantum_ns)
            && let Some(ring) = process.contexts.get_mut(place.in_process)
            && let Some(at) = ring.iter().position(|slot| slot.context == place.context)
            && let Some(slot) = ring.remove(at)
        {
            ring.push_back(slot);
        }
    }

    /// Records that the engine has left the served queue, at least until it is taken again.
    pub(crate) fn left(&mut self, clock: impl Fn() -> CpuTime) {
        self.account(clock);
        if let Some(served) = &mut self.served {
            (served.on_engine, served.since) = (false, None);
        }
    }

    /// Removes a queue.
    pub(crate) fn remove(&mut self, queue: QueueId) {
        self.take(queue);
    }

    /// Returns the queue that [`RunList::pop`] would take, as of the last counted time.
    pub(crate) fn next(&self) -> Option<QueueId> {
        self.choose().map(|(_, _, queue)| queue)
    }

    /// Returns whether a queue on the list precedes the one on the engine, regardless of what that
    /// one is in the middle of.
    pub(crate) fn is_outranked(&self) -> bool {
        let Some(served) = self.served.filter(|s| s.on_engine && self.kept.is_none()) else {
            return false;
        };
        let place = served.place;
        let top = (u64::BITS - self.occupied.leading_zeros()).checked_sub(1);
        let higher_band = top.is_some_and(|top| top as usize > place.tier());
        let pays = self.floor.is_paying() && place.band == FOCUS && self.wants(NORMAL);
        let own = self.tiers[place.tier()].ready.get(place.process);
        let ready = own.and_then(|own| own.contexts.iter().rfind(|(_, slots)| !slots.is_empty()));
        let in_process = ready.map(|(priority, _)| priority);
        higher_band || pays || in_process.is_some_and(|priority| priority > place.in_process)
    }

    /// Returns the next queue if the engine could leave its current one.
    pub(crate) fn first_of_all(&self) -> Option<QueueId> {
        self.choose_from_all().map(|(_, _, queue)| queue)
    }

    /// Returns whether the served queue is of FOCUS or NORMAL, and the other of the two bands wants
    /// the engine.
    pub(crate) fn is_contended(&self) -> bool {
        self.served.is_some_and(|s| self.is_rivalled(s.place.band))
    }

    /// Returns when the served queue gives way if nothing else changes: at the end of its slice, or
    /// when NORMAL's share is due.
    pub(crate) fn gives_way_at(&self) -> Option<CpuTime> {
        let served = self.served.filter(|s| s.on_engine)?;
        let slice = served
            .since
            .zip(self.slice_left_ns(&served))
            .map(|(since, left_ns)| since.after(left_ns));
        slice.into_iter().chain(self.floor_turns_at()).min()
    }

    /// Returns the rest of the served queue's slice in nanoseconds; `None` while no equal waits for
    /// its end.
    // spec: HS-021
    fn slice_left_ns(&self, served: &Served) -> Option<u64> {
        let place = &served.place;
        let tier = &self.tiers[place.tier()];
        let process_slice_ns = match self.bands.quantum_ns(place.tier()) {
            0 => SLICE_NS,
            quantum_ns => quantum_ns,
        };
        let own = tier.ready.get(place.process);
        let processes_wait = tier.ready.len() > usize::from(own.is_some());
        let used_ns = tier
            .current
            .filter(|(current, _)| *current == place.process)
            .map_or(0, |(_, used)| used);
        let against_processes = processes_wait.then(|| process_slice_ns.saturating_sub(used_ns));

        let slice_ns = if place.quantum_ns == 0 { process_slice_ns } else { place.quantum_ns };
        let ring = own.and_then(|own| own.contexts.get(place.in_process));
        let (mut contexts_wait, mut queues_wait) = (false, false);
        for slot in ring.into_iter().flatten() {
            match slot.context == place.context {
                true => queues_wait |= slot.queues.iter().any(|queue| *queue != served.queue),
                false => contexts_wait = true,
            }
        }
        let against_contexts =
            contexts_wait.then(|| slice_ns.saturating_sub(served.context_used_ns));
        let against_queues = queues_wait.then(|| slice_ns.saturating_sub(served.slice_used_ns));
        [against_processes, against_contexts, against_queues].into_iter().flatten().min()
    }

    /// Returns when FOCUS and NORMAL change places for NORMAL's share.
    fn floor_turns_at(&self) -> Option<CpuTime> {
        let served = self.served.filter(|s| self.is_rivalled(s.place.band))?;
        let left_ns = self.floor.turns_after_ns(served.place.band, self.bands.normal_percent)?;
        Some(served.since?.after(left_ns))
    }

    fn wants(&self, band: u32) -> bool {
        self.occupied & 1 << band != 0
    }

    /// Returns whether the other of NORMAL and FOCUS wants the engine.
    fn is_rivalled(&self, band: u32) -> bool {
        match band {
            NORMAL => self.wants(FOCUS),
            FOCUS => self.wants(NORMAL),
            _ => false,
        }
    }

    /// Returns whether the order of the waiting queues depends on how long a queue at this place
    /// has the engine. `in_packet`: it is in the middle of a packet.
    fn is_wanted(&self, place: &Place, in_packet: bool) -> bool {
        let ready = &self.tiers[place.tier()].ready;
        let other_processes = ready.len() > usize::from(ready.contains(place.process));
        let slices = place.quantum_ns > 0 || in_packet;
        other_processes || self.is_rivalled(place.band) || slices && !ready.is_empty()
    }

    /// Counts timed work that occupied the engine until now, or that was over at `until`.
    // spec: HS-027
    pub(crate) fn timed_work_ended(&mut self, until: CpuTime, clock: impl Fn() -> CpuTime) {
        self.count(clock, |since, now| now.min(until).since(since));
    }

    /// Counts the time of a turn since the last call. Returns the queue that the engine serves, or
    /// served last.
    fn account(&mut self, clock: impl Fn() -> CpuTime) -> Option<Served> {
        self.count(clock, |since, now| now.since(since).min(LONGEST_TURN_NS))
    }

    // spec: HS-006
    fn count(
        &mut self,
        clock: impl Fn() -> CpuTime,
        spent_ns: impl Fn(CpuTime, CpuTime) -> u64,
    ) -> Option<Served> {
        let served = self.served.as_mut()?;
        let Some(since) = served.since else { return Some(*served) };
        let now = clock();
        served.since = Some(now);
        // A turn has a cost even where the clock does not advance.
        let spent_ns = spent_ns(since, now).max(1);
        served.context_used_ns += spent_ns;
        served.slice_used_ns += spent_ns;
        let served = *served;
        let tier = &mut self.tiers[served.place.tier()];
        *tier.had_ns.get_or_insert_with(served.place.process, || 0) += spent_ns;
        if let Some((current, used_ns)) = &mut tier.current
            && *current == served.place.process
        {
            *used_ns += spent_ns;
        }
        if served.contended {
            self.floor.account(served.place.band, spent_ns, self.bands.normal_percent);
        }
        Some(served)
    }

    // spec: HS-003, HS-005, HS-007
    fn choose(&self) -> Option<(usize, u32, QueueId)> {
        match self.kept {
            Some(queue) => self.place(queue).map(|place| (place.tier(), place.process, queue)),
            None => self.choose_from_all(),
        }
    }

    /// Returns the first queue, even if the engine may not leave its current one.
    fn choose_from_all(&self) -> Option<(usize, u32, QueueId)> {
        let top = (u64::BITS - self.occupied.leading_zeros()).checked_sub(1)? as usize;
        let pays = self.floor.is_paying() && top == FOCUS as usize && self.wants(NORMAL);
        let number = if pays { NORMAL as usize } else { top };
        let tier = &self.tiers[number];
        if let Some(queue) = tier.unfinished
            && let Some(process) = self.place(queue).map(|place| place.process)
            && tier.ready.get(process).and_then(ProcessSlot::first) == Some(queue)
        {
            return Some((number, process, queue));
        }
        let quantum_ns = self.bands.quantum_ns(number);
        let goes_on =
            tier.current.filter(|(_, used)| *used < quantum_ns).map(|(process, _)| process);
        let process = goes_on.filter(|process| tier.ready.contains(*process)).or_else(|| {
            let had = |process: u32| tier.had_ns.get(process).copied().unwrap_or_default();
            tier.ready
                .iter()
                .min_by_key(|(number, slot)| (had(*number), slot.since))
                .map(|(number, _)| number)
        })?;
        Some((number, process, tier.ready.get(process)?.first()?))
    }

    fn place(&self, queue: QueueId) -> Option<Place> {
        let (listed, place) = self.places.get(queue.place() as usize).copied().flatten()?;
        (listed == queue).then_some(place)
    }

    /// Removes a queue, and its process and context if they become empty.
    fn take(&mut self, queue: QueueId) -> Option<Place> {
        let listed = self.places.get_mut(queue.place() as usize)?;
        let (_, place) = listed.take_if(|(listed, _)| *listed == queue)?;
        let tier = &mut self.tiers[place.tier()];
        tier.unfinished = tier.unfinished.filter(|unfinished| *unfinished != queue);
        let process = tier.ready.get_mut(place.process)?;
        let ring = process.contexts.get_mut(place.in_process)?;
        let at = ring.iter().position(|slot| slot.context == place.context)?;
        ring[at].queues.retain(|other| *other != queue);
        if ring[at].queues.is_empty() {
            self.spare_queues.extend(ring.remove(at).map(|slot| slot.queues));
        }
        if process.is_empty() {
            self.spare_processes.extend(tier.ready.remove(place.process));
        }
        if tier.ready.is_empty() {
            self.occupied &= !(1 << place.tier());
        }
        Some(place)
    }

    /// Drops the time of processes that want nothing and had no more than others, because processes
    /// come and go.
    fn drop_even_accounts(&mut self, tier: usize) {
        let Tier { ready, had_ns, base_ns, current, .. } = &mut self.tiers[tier];
        if had_ns.len() > 2 * ready.len() + 8 {
            let is_current = |process: u32| current.is_some_and(|(number, _)| number == process);
            had_ns.retain(|number, had| {
                ready.contains(number) || is_current(number) || *had > *base_ns
            });
        }
    }
}

impl ProcessSlot {
    /// Returns the next queue of the tier.
    fn first(&self) -> Option<QueueId> {
        self.contexts.iter().rev().find_map(|(_, ring)| ring.front()?.queues.front().copied())
    }

    fn is_empty(&self) -> bool {
        self.contexts.iter().all(|(_, ring)| ring.is_empty())
    }
}

#[cfg(test)]
mod tests;
