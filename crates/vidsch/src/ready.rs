//! The contexts of one engine whose head is a packet, by priority band.
//!
//! Bands are served in order of priority, and the contexts of a band take turns, packet by packet.
//! A band that is owed a quantum is lifted until it has had it (`share`), so HIGH cannot starve it:
//! its contexts then rank as HIGH and run before other HIGH contexts.
//!
//! | band | guaranteed share while higher bands are saturated | longest wait |
//! |---|---|---|
//! | HIGH | all time left by REALTIME | |
//! | NORMAL | 1 quantum in 10 of the time left by REALTIME | 9 quanta plus the running one |
//! | IDLE | 1 quantum in 100 of the time left by REALTIME | 99 quanta plus the running one |
//!
//! Preemption latency and the turns of other contexts in the band add to the wait. REALTIME needs a
//! privilege and may starve every band. Without preemption, the bounds start at the packet's end.

use crate::share::{Share, Turn};
use std::collections::VecDeque;
use tidegate_ddi::{OsHandle, Priority};

const BANDS: usize = 4;

/// The rank of a lifted packet.
pub(crate) const LIFTED: Priority = Priority::High;

#[derive(Default)]
struct Band {
    contexts: VecDeque<OsHandle>,
    share: Share,
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
    /// The priority at which it competes.
    pub(crate) rank: Priority,
}

const PRIORITIES: [Priority; BANDS] =
    [Priority::Idle, Priority::Normal, Priority::High, Priority::Realtime];

impl Ready {
    /// Appends a context to its band.
    pub(crate) fn push_back(&mut self, context: OsHandle, priority: Priority) {
        self.bands[priority as usize].contexts.push_back(context);
    }

    /// Prepends a context to its band, because its turn continues.
    pub(crate) fn push_front(&mut self, context: OsHandle, priority: Priority) {
        self.bands[priority as usize].contexts.push_front(context);
    }

    pub(crate) fn remove(&mut self, context: OsHandle, priority: Priority) {
        self.bands[priority as usize].contexts.retain(|c| *c != context);
    }

    /// Counts `spent_ns` in which the engine ran a packet of `running`. `behind` returns whether a
    /// packet of a band waits on the engine. Time of REALTIME counts for no band.
    // spec: PRE-072
    pub(crate) fn account(
        &mut self,
        running: Priority,
        behind: impl Fn(Priority) -> bool,
        spent_ns: u64,
        turn: Turn,
    ) {
        if running == Priority::Realtime {
            return;
        }
        for priority in PRIORITIES {
            let band = &mut self.bands[priority as usize];
            if priority == running {
                band.share.served(priority, spent_ns, turn);
            } else if !band.contexts.is_empty() || behind(priority) {
                band.share.waited(priority, spent_ns, turn);
            }
        }
    }

    /// Returns the priority at which a context of this band competes.
    pub(crate) fn rank(&self, priority: Priority) -> Priority {
        match self.bands[priority as usize].share.is_lifted() {
            true => priority.max(LIFTED),
            false => priority,
        }
    }

    /// Removes and returns the next context.
    pub(crate) fn pop(&mut self) -> Option<Candidate> {
        let next = self.best(None)?;
        self.bands[next.priority as usize].contexts.pop_front();
        Some(next)
    }

    /// Returns the context that would run next if the packet of `running` ended, without that
    /// context itself.
    pub(crate) fn best(&self, running: Option<OsHandle>) -> Option<Candidate> {
        let candidates = PRIORITIES.into_iter().filter_map(|priority| {
            let contexts = &self.bands[priority as usize].contexts;
            let context = *contexts.iter().find(|c| Some(**c) != running)?;
            Some(Candidate { context, priority, rank: self.rank(priority) })
        });
        // Among equal ranks a lifted band wins, and among lifted bands the one that is owed most.
        candidates.max_by_key(|c| {
            (c.rank, self.bands[c.priority as usize].share.lifted_owed_ns(), c.priority)
        })
    }

    /// Returns the further times of `running`, in nanoseconds, after which a band's rank changes.
    pub(crate) fn rank_changes(
        &self,
        running: Priority,
        behind: impl Fn(Priority) -> bool,
        turn: Turn,
    ) -> impl Iterator<Item = u64> {
        let counts = running != Priority::Realtime;
        PRIORITIES.into_iter().filter(move |_| counts).filter_map(move |priority| {
            let Band { contexts, share } = &self.bands[priority as usize];
            if priority == running {
                share.lift_ends_after_ns(priority, turn)
            } else if !contexts.is_empty() || behind(priority) {
                share.lift_begins_after_ns(priority, turn)
            } else {
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: Turn = Turn { quantum_ns: 10, turn_ns: 10 };

    fn ready(contexts: &[(u64, Priority)]) -> Ready {
        let mut ready = Ready::default();
        contexts.iter().for_each(|(c, priority)| ready.push_back(OsHandle(*c), *priority));
        ready
    }

    fn runs(ready: &mut Ready, running: Priority, spent_ns: u64) {
        ready.account(running, |_| false, spent_ns, QUANTUM);
    }

    fn next(ready: &mut Ready) -> Option<(u64, bool)> {
        ready.pop().map(|c| (c.context.0, c.rank != c.priority))
    }

    fn changes(ready: &Ready, running: Priority) -> Vec<u64> {
        ready.rank_changes(running, |_| false, QUANTUM).collect()
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
        let order: Vec<_> = std::iter::from_fn(|| next(&mut all)).map(|(c, _)| c).collect();
        assert_eq!(order, [3, 5, 1, 4, 2]);
        assert_eq!(changes(&all, Priority::High), [], "no context waits");
    }

    #[test]
    fn a_band_that_has_waited_nine_quanta_goes_before_high_once() {
        let mut all = ready(&[(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)]);
        all.push_back(OsHandle(4), Priority::High);
        assert_eq!(changes(&all, Priority::High), [90]);
        runs(&mut all, Priority::High, 89);
        assert_eq!(next(&mut all), Some((3, false)));
        assert_eq!(changes(&all, Priority::High), [1]);
        runs(&mut all, Priority::High, 1);
        assert_eq!(next(&mut all), Some((1, true)));
        assert_eq!(changes(&all, Priority::Normal), [10]);
        runs(&mut all, Priority::Normal, 10);
        assert_eq!(next(&mut all), Some((4, false)), "the band has had its quantum");
        all.push_back(OsHandle(4), Priority::High);
        runs(&mut all, Priority::High, 90);
        all.push_back(OsHandle(5), Priority::Realtime);
        assert_eq!(next(&mut all), Some((5, false)), "no band goes before realtime");
        runs(&mut all, Priority::Realtime, 1_000);
        assert_eq!(changes(&all, Priority::Realtime), [], "its time counts for no band");
        assert_eq!(next(&mut all), Some((2, true)));
    }

    #[test]
    fn a_lifted_band_has_a_quantum_of_work_whatever_the_length_of_its_packets() {
        let mut all = ready(&[(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)]);
        runs(&mut all, Priority::High, 90);
        assert_eq!(next(&mut all), Some((1, true)));
        all.push_back(OsHandle(1), Priority::Normal);
        // It was preempted before it ran, by REALTIME for example: nothing is paid.
        runs(&mut all, Priority::Normal, 0);
        assert_eq!(next(&mut all), Some((2, true)));
        runs(&mut all, Priority::Normal, 9);
        assert_eq!(next(&mut all), Some((1, true)));
        all.push_back(OsHandle(1), Priority::Normal);
        runs(&mut all, Priority::Normal, 1);
        assert_eq!(next(&mut all), Some((3, false)));
    }

    #[test]
    fn a_band_that_runs_a_little_between_higher_packets_is_owed_the_rest_of_its_tenth() {
        // HIGH leaves the engine for 1 in 30 of the time: not enough, so the band is lifted.
        let mut all = ready(&[(1, Priority::Normal)]);
        let mut waited = 0;
        while all.rank(Priority::Normal) == Priority::Normal {
            runs(&mut all, Priority::High, 29);
            runs(&mut all, Priority::Normal, 1);
            waited += 30;
            assert!(waited < 1_000, "{waited}");
        }
        // For 1 in 8 of the time: its share, so it is not.
        let mut all = ready(&[(1, Priority::Normal)]);
        for _ in 0..1_000 {
            runs(&mut all, Priority::High, 7);
            runs(&mut all, Priority::Normal, 1);
            assert_eq!(all.rank(Priority::Normal), Priority::Normal);
        }
    }

    #[test]
    fn a_band_that_wants_nothing_for_a_moment_keeps_what_it_is_owed_and_earns_nothing() {
        let mut all = ready(&[(1, Priority::Normal)]);
        runs(&mut all, Priority::High, 50);
        assert_eq!(next(&mut all), Some((1, false)));
        runs(&mut all, Priority::High, 1_000);
        all.push_back(OsHandle(1), Priority::Normal);
        assert_eq!(changes(&all, Priority::High), [40]);
    }

    #[test]
    fn idle_has_one_quantum_in_a_hundred_also_against_normal() {
        let mut all = ready(&[(1, Priority::Idle), (2, Priority::Normal)]);
        runs(&mut all, Priority::Normal, 989);
        assert_eq!(next(&mut all), Some((2, false)));
        all.push_back(OsHandle(2), Priority::Normal);
        runs(&mut all, Priority::Normal, 1);
        assert_eq!(next(&mut all), Some((1, true)));
        // Both are owed a quantum by HIGH: the one that is owed more goes first.
        let mut all = ready(&[(1, Priority::Idle), (2, Priority::Normal), (3, Priority::High)]);
        runs(&mut all, Priority::High, 2_000);
        assert_eq!(next(&mut all), Some((1, true)));
        assert_eq!(next(&mut all), Some((2, true)));
        assert_eq!(next(&mut all), Some((3, false)));
    }

    #[test]
    fn a_packet_that_waits_on_the_engine_waits_and_the_context_that_runs_is_not_next() {
        let all = ready(&[(1, Priority::Normal), (2, Priority::Normal)]);
        let next = |running| all.best(Some(OsHandle(running))).map(|c| c.context.0);
        assert_eq!((next(1), next(7)), (Some(2), Some(1)));
        let mut all = Ready::default();
        let behind = |priority| priority == Priority::Normal;
        all.account(Priority::High, behind, 90, QUANTUM);
        assert_eq!(all.rank(Priority::Normal), LIFTED);
        assert_eq!(all.rank(Priority::Idle), Priority::Idle);
    }
}
