//! The contexts of one engine whose head is a packet, by priority band.
//!
//! Bands are served in order of priority, and the contexts of a band take turns, packet by packet.
//! A band that has been starved too long is lifted for a quantum, so that HIGH cannot starve it:
//! its contexts then rank as HIGH and run before those of HIGH.
//!
//! | band | guaranteed share while higher bands are saturated | longest wait |
//! |---|---|---|
//! | HIGH | all time left by REALTIME | |
//! | NORMAL | 1 quantum in 10 of the time left by REALTIME | 9 quanta plus the running one |
//! | IDLE | 1 quantum in 100 of the time left by REALTIME | 99 quanta plus the running one |
//!
//! Preemption latency and the turns of other contexts in the band add to the wait. REALTIME needs a
//! privilege and may starve every band. Without preemption, the bounds start at the packet's end.

use std::collections::VecDeque;
use tidegate_ddi::{OsHandle, Priority};
use tidegate_platform::CpuTime;

const BANDS: usize = 4;

// spec: PRE-072
/// Returns the time for which a band waits before it is lifted. `None` for HIGH, which only
/// REALTIME can starve, and for REALTIME.
fn starvation_limit_ns(priority: Priority, quantum_ns: u64) -> Option<u64> {
    match priority {
        Priority::Idle => Some(quantum_ns.saturating_mul(99)),
        Priority::Normal => Some(quantum_ns.saturating_mul(9)),
        Priority::High | Priority::Realtime => None,
    }
}

/// The rank of a lifted packet.
pub(crate) const LIFTED: Priority = Priority::High;

#[derive(Default)]
struct Band {
    contexts: VecDeque<OsHandle>,
    /// Time from which a context has been waiting while no context of the band was served.
    starved_since: Option<CpuTime>,
    /// End of the current lift.
    lifted_until: CpuTime,
}

impl Band {
    /// Returns the time from which the band has been starved, if it is lifted now.
    fn lifted_since(&self, priority: Priority, quantum_ns: u64, now: CpuTime) -> Option<CpuTime> {
        let limit_ns = starvation_limit_ns(priority, quantum_ns)?;
        let since = self.starved_since?;
        (now < self.lifted_until || now >= since.after(limit_ns)).then_some(since)
    }
}

/// The contexts of one engine whose heads are packets.
#[derive(Default)]
pub(crate) struct Ready {
    bands: [Band; BANDS],
}

/// The next context to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) context: OsHandle,
    pub(crate) priority: Priority,
    /// Time from which its band has been starved, if the band is lifted.
    pub(crate) lifted_since: Option<CpuTime>,
}

impl Candidate {
    /// Returns the priority at which the context competes.
    pub(crate) fn rank(&self) -> Priority {
        if self.lifted_since.is_some() { self.priority.max(LIFTED) } else { self.priority }
    }
}

const PRIORITIES: [Priority; BANDS] =
    [Priority::Idle, Priority::Normal, Priority::High, Priority::Realtime];

impl Ready {
    /// Appends a context to its band.
    pub(crate) fn push_back(&mut self, context: OsHandle, priority: Priority, now: CpuTime) {
        let band = &mut self.bands[priority as usize];
        band.contexts.push_back(context);
        band.starved_since.get_or_insert(now);
    }

    /// Prepends a context to its band, because its turn continues. `starved_since` is the start of
    /// the band's wait before that turn, if the band is still owed time.
    pub(crate) fn push_front(
        &mut self,
        context: OsHandle,
        priority: Priority,
        (now, starved_since): (CpuTime, Option<CpuTime>),
    ) {
        let band = &mut self.bands[priority as usize];
        band.contexts.push_front(context);
        let since = starved_since.unwrap_or(now);
        band.starved_since = Some(band.starved_since.map_or(since, |known| known.min(since)));
    }

    pub(crate) fn remove(&mut self, context: OsHandle, priority: Priority) {
        let band = &mut self.bands[priority as usize];
        band.contexts.retain(|c| *c != context);
        if band.contexts.is_empty() {
            band.starved_since = None;
        }
    }

    /// Removes and returns the next context.
    pub(crate) fn pop(&mut self, quantum_ns: u64, now: CpuTime) -> Option<Candidate> {
        let next = self.best(quantum_ns, now, None)?;
        let band = &mut self.bands[next.priority as usize];
        band.contexts.pop_front();
        band.starved_since = (!band.contexts.is_empty()).then_some(now);
        if next.lifted_since.is_some() && now >= band.lifted_until {
            band.lifted_until = now.after(quantum_ns);
        }
        Some(next)
    }

    /// Returns the context that would run next if the packet of `running` ended. Excludes that
    /// context. Its band is not lifted, because it is being served.
    pub(crate) fn best(
        &self,
        quantum_ns: u64,
        now: CpuTime,
        running: Option<(OsHandle, Priority)>,
    ) -> Option<Candidate> {
        let excluded = running.map(|(context, _)| context);
        let candidates = PRIORITIES.into_iter().filter_map(|priority| {
            let band = &self.bands[priority as usize];
            let context = *band.contexts.iter().find(|c| Some(**c) != excluded)?;
            let served = running.is_some_and(|(_, of)| of == priority);
            let lifted_since = band.lifted_since(priority, quantum_ns, now).filter(|_| !served);
            Some(Candidate { context, priority, lifted_since })
        });
        // Among equal ranks a lifted band wins, and among lifted bands the longest waiting.
        candidates
            .max_by_key(|c| (c.rank(), c.lifted_since.map(|since| u64::MAX - since.0), c.priority))
    }

    /// Returns the times at which waiting bands will be lifted.
    pub(crate) fn lifts(&self, quantum_ns: u64) -> impl Iterator<Item = CpuTime> {
        PRIORITIES.into_iter().filter_map(move |priority| {
            let since = self.bands[priority as usize].starved_since?;
            Some(since.after(starvation_limit_ns(priority, quantum_ns)?))
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
        assert_eq!(all.lifts(QUANTUM_NS).count(), 0, "no context waits");
    }

    #[test]
    fn a_band_that_has_waited_nine_quanta_goes_before_high_once() {
        let mut all = ready(&[(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)]);
        all.push_back(OsHandle(4), Priority::High, START);
        assert_eq!(all.lifts(QUANTUM_NS).collect::<Vec<_>>(), [CpuTime(90)]);
        assert_eq!(next(&mut all, 89), Some((3, false)));
        assert_eq!(next(&mut all, 90), Some((1, true)));
        assert_eq!(
            next(&mut all, 100),
            Some((4, false)),
            "the band has had its quantum: its wait restarts"
        );
        all.push_back(OsHandle(4), Priority::High, CpuTime(100));
        assert_eq!(next(&mut all, 179), Some((4, false)));
        all.push_back(OsHandle(4), Priority::Realtime, CpuTime(179));
        assert_eq!(next(&mut all, 180), Some((4, false)), "no band goes before realtime");
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
        let running = |context, priority| {
            all.best(QUANTUM_NS, CpuTime(1000), Some((OsHandle(context), priority)))
                .map(|c| (c.context.0, c.rank()))
        };
        assert_eq!(running(1, Priority::Normal), Some((2, Priority::Normal)));
        assert_eq!(running(7, Priority::High), Some((1, LIFTED)));
    }

    #[test]
    fn a_preempted_context_is_first_and_its_band_stays_owed() {
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
