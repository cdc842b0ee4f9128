//! Owns who is next on an engine: the contexts that could go, by priority. Pure.
//!
//! REALTIME goes before everybody, HIGH before NORMAL before IDLE, and equals take turns, packet by
//! packet. So that HIGH starves nobody, a band that has waited for long enough is lifted for a
//! quantum: what it has stands as HIGH does then, before that of HIGH.
//!
//! | band | promised of an engine on which higher bands never rest | waits at most |
//! |---|---|---|
//! | HIGH | all that REALTIME leaves | |
//! | NORMAL | one quantum in 10, of what REALTIME leaves | 9 quanta and the one that is running |
//! | IDLE | one quantum in 100, of what REALTIME leaves | 99 quanta and the one that is running |
//!
//! To what is waited at most comes the time that the GPU takes to be preempted, and the turns of
//! others in the band. REALTIME asks for a privilege, and is promised to hold everybody up. A
//! driver that takes no requests runs a packet that was begun to its end: there the bounds count
//! from that.

use std::collections::VecDeque;
use tidegate_calls::Priority;
use tidegate_ddi::OsHandle;
use tidegate_platform::CpuTime;

const BANDS: usize = 4;

// spec: PRE-072
/// Quanta after which a band that waits is lifted; `None` where nobody above could starve it, or
/// may.
fn patience(priority: Priority, quantum_ns: u64) -> Option<u64> {
    match priority {
        Priority::Idle => Some(quantum_ns.saturating_mul(99)),
        Priority::Normal => Some(quantum_ns.saturating_mul(9)),
        Priority::High | Priority::Realtime => None,
    }
}

/// Where a lifted packet stands.
pub(super) const LIFTED: Priority = Priority::High;

#[derive(Default)]
struct Band {
    contexts: VecDeque<OsHandle>,
    /// Since when somebody has waited here without that anybody was served.
    hungry_since: Option<CpuTime>,
    /// Until when it is lifted.
    lifted_until: CpuTime,
}

impl Band {
    /// Since when it has waited, if it is lifted now.
    fn lifted_since(&self, priority: Priority, quantum_ns: u64, now: CpuTime) -> Option<CpuTime> {
        let patience_ns = patience(priority, quantum_ns)?;
        let since = self.hungry_since?;
        (now < self.lifted_until || now >= since.after(patience_ns)).then_some(since)
    }
}

/// Contexts of one engine whose heads are packets.
#[derive(Default)]
pub(super) struct Ready {
    bands: [Band; BANDS],
}

/// A context that could be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) context: OsHandle,
    pub(super) priority: Priority,
    /// When it is lifted: since when its band has waited.
    pub(super) lifted_since: Option<CpuTime>,
}

impl Candidate {
    /// Before whom it goes.
    pub(super) fn rank(&self) -> Priority {
        if self.lifted_since.is_some() { self.priority.max(LIFTED) } else { self.priority }
    }
}

const PRIORITIES: [Priority; BANDS] =
    [Priority::Idle, Priority::Normal, Priority::High, Priority::Realtime];

impl Ready {
    /// Behind the others of its band.
    pub(super) fn push_back(&mut self, context: OsHandle, priority: Priority, now: CpuTime) {
        let band = &mut self.bands[priority as usize];
        band.contexts.push_back(context);
        band.hungry_since.get_or_insert(now);
    }

    /// Before the others of its band: it was there before, and its turn is not over. `hungry_since`
    /// is what its band had waited by then, if that is not made good yet.
    pub(super) fn push_front(
        &mut self,
        context: OsHandle,
        priority: Priority,
        (now, hungry_since): (CpuTime, Option<CpuTime>),
    ) {
        let band = &mut self.bands[priority as usize];
        band.contexts.push_front(context);
        let since = hungry_since.unwrap_or(now);
        band.hungry_since = Some(band.hungry_since.map_or(since, |known| known.min(since)));
    }

    pub(super) fn remove(&mut self, context: OsHandle, priority: Priority) {
        let band = &mut self.bands[priority as usize];
        band.contexts.retain(|c| *c != context);
        if band.contexts.is_empty() {
            band.hungry_since = None;
        }
    }

    /// Takes whose turn it is.
    pub(super) fn pop(&mut self, quantum_ns: u64, now: CpuTime) -> Option<Candidate> {
        let next = self.best(quantum_ns, now, None)?;
        let band = &mut self.bands[next.priority as usize];
        band.contexts.pop_front();
        band.hungry_since = (!band.contexts.is_empty()).then_some(now);
        if next.lifted_since.is_some() && now >= band.lifted_until {
            band.lifted_until = now.after(quantum_ns);
        }
        Some(next)
    }

    /// Whose turn it would be beside the packet of a context that an engine is running: of that
    /// context nobody can be next, and a band that is being served does not starve.
    pub(super) fn best(
        &self,
        quantum_ns: u64,
        now: CpuTime,
        beside: Option<(OsHandle, Priority)>,
    ) -> Option<Candidate> {
        let running = beside.map(|(context, _)| context);
        let candidates = PRIORITIES.into_iter().filter_map(|priority| {
            let band = &self.bands[priority as usize];
            let context = *band.contexts.iter().find(|c| Some(**c) != running)?;
            let served = beside.is_some_and(|(_, of)| of == priority);
            let lifted_since = band.lifted_since(priority, quantum_ns, now).filter(|_| !served);
            Some(Candidate { context, priority, lifted_since })
        });
        // Of equals the lifted one, and of those who has waited for longer.
        candidates
            .max_by_key(|c| (c.rank(), c.lifted_since.map(|since| u64::MAX - since.0), c.priority))
    }

    /// When a band that waits will be lifted.
    pub(super) fn lifts(&self, quantum_ns: u64) -> impl Iterator<Item = CpuTime> {
        PRIORITIES.into_iter().filter_map(move |priority| {
            let since = self.bands[priority as usize].hungry_since?;
            Some(since.after(patience(priority, quantum_ns)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM_NS: u64 = 10;
    const START: CpuTime = CpuTime(0);

    fn ready(contexts: &[(u64, Priority)]) -> Ready {
        let mut ready = Ready::default();
        contexts.iter().for_each(|(c, priority)| ready.push_back(OsHandle(*c), *priority, START));
        ready
    }

    fn next(ready: &mut Ready, now: u64) -> Option<(u64, bool)> {
        ready.pop(QUANTUM_NS, CpuTime(now)).map(|c| (c.context.0, c.lifted_since.is_some()))
    }

    #[test]
    fn higher_bands_go_first_and_equals_take_turns() {
        let mut all = ready(&[
            (1, Priority::Normal),
            (2, Priority::Idle),
            (3, Priority::Realtime),
            (4, Priority::Normal),
            (5, Priority::High),
        ]);
        let order: Vec<_> =
            std::iter::from_fn(|| next(&mut all, 0)).map(|(context, _)| context).collect();
        assert_eq!(order, [3, 5, 1, 4, 2]);
        assert_eq!(all.lifts(QUANTUM_NS).count(), 0, "nobody waits");
    }

    #[test]
    fn who_has_waited_for_nine_quanta_goes_before_high_once() {
        let mut all = ready(&[(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)]);
        all.push_back(OsHandle(4), Priority::High, START);
        assert_eq!(all.lifts(QUANTUM_NS).collect::<Vec<_>>(), [CpuTime(90)]);
        assert_eq!(next(&mut all, 89), Some((3, false)));
        assert_eq!(next(&mut all, 90), Some((1, true)));
        assert_eq!(
            next(&mut all, 100),
            Some((4, false)),
            "the band has had its quantum: it waits anew"
        );
        all.push_back(OsHandle(4), Priority::High, CpuTime(100));
        assert_eq!(next(&mut all, 179), Some((4, false)));
        all.push_back(OsHandle(4), Priority::Realtime, CpuTime(179));
        assert_eq!(next(&mut all, 180), Some((4, false)), "nobody goes before realtime");
        assert_eq!(next(&mut all, 180), Some((2, true)));
    }

    #[test]
    fn a_lifted_band_has_a_quantum_whatever_the_length_of_its_packets() {
        let mut all = ready(&[(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)]);
        assert_eq!(next(&mut all, 90), Some((1, true)));
        all.push_back(OsHandle(1), Priority::Normal, CpuTime(95));
        assert_eq!((next(&mut all, 95), next(&mut all, 99)), (Some((2, true)), Some((1, true))));
        all.push_back(OsHandle(1), Priority::Normal, CpuTime(99));
        assert_eq!(next(&mut all, 100), Some((3, false)));
    }

    #[test]
    fn idle_has_one_quantum_in_a_hundred_also_against_normal() {
        let mut all = ready(&[(1, Priority::Idle), (2, Priority::Normal)]);
        assert_eq!(next(&mut all, 89), Some((2, false)));
        all.push_back(OsHandle(2), Priority::Normal, CpuTime(89));
        assert_eq!(next(&mut all, 989), Some((2, true)));
        all.push_back(OsHandle(2), Priority::Normal, CpuTime(989));
        assert_eq!(next(&mut all, 990), Some((1, true)));
    }

    #[test]
    fn a_band_whose_packet_runs_does_not_starve_and_its_context_is_not_next() {
        let all = ready(&[(1, Priority::Normal), (2, Priority::Normal)]);
        let beside = |context, priority| {
            all.best(QUANTUM_NS, CpuTime(1000), Some((OsHandle(context), priority)))
                .map(|c| (c.context.0, c.rank()))
        };
        assert_eq!(beside(1, Priority::Normal), Some((2, Priority::Normal)));
        assert_eq!(beside(7, Priority::High), Some((1, LIFTED)));
    }

    #[test]
    fn who_comes_back_is_first_and_keeps_what_its_band_is_owed() {
        let mut all = ready(&[(1, Priority::Normal)]);
        all.push_front(OsHandle(2), Priority::Normal, (CpuTime(50), None));
        all.push_back(OsHandle(3), Priority::High, CpuTime(50));
        assert_eq!(next(&mut all, 89), Some((3, false)));
        let lifted = all.pop(QUANTUM_NS, CpuTime(90)).unwrap();
        assert_eq!((lifted.context, lifted.lifted_since), (OsHandle(2), Some(START)));
        all.push_front(lifted.context, lifted.priority, (CpuTime(91), lifted.lifted_since));
        all.push_back(OsHandle(3), Priority::High, CpuTime(91));
        assert_eq!(next(&mut all, 91), Some((2, true)));
        all.remove(OsHandle(1), Priority::Normal);
        assert_eq!(all.lifts(QUANTUM_NS).count(), 0);
    }
}
