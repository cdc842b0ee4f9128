//! When an engine of hardware queues counts as hung: pure policy, with the time as an argument.
//!
//! Engines are checked once per timeout delay while work may be announced. An engine that works for
//! a context, and does not respond or made no progress since the last check, gets a preemption
//! request for that context. If it has not left the context by the next check, it hangs. An engine
//! that works for no context is not hung: its queues may wait legally. A queue with work that the
//! driver counts as neither running nor held back gets a preemption request as well. If the request
//! changes nothing, the work is lost. A check that finds no change since the one before is the last
//! until the watch is stirred.

use tidegate_ddi::OsHandle;
use tidegate_platform::CpuTime;

/// What a look at an engine finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// What its queues announced and is not complete, in any measure that changes when that
    /// changes; 0 for nothing.
    pub(crate) announced: u64,
    /// The driver says that the engine takes part.
    pub(crate) responsive: bool,
    /// The context that it works for.
    pub(crate) works_for: Option<OsHandle>,
    /// Another number as soon as it has done something.
    pub(crate) progress: u64,
    /// The context of a queue with work that neither runs nor is held back, while the engine works
    /// for no context.
    pub(crate) unserved: Option<OsHandle>,
}

/// What is to be done about an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Nothing, and nothing at the next look unless somebody stirs.
    Rest,
    /// Look again when the delay is over.
    LookAgain,
    /// Ask it to let go of this context, and see when the delay is over.
    Ask(OsHandle),
    /// The driver accepted work of this context and lost it.
    Lost(OsHandle),
}

/// One engine.
#[derive(Default)]
pub(crate) struct EngineWatch {
    seen: Option<Look>,
    /// A hang that is left alone: the context that the engine works for, and its progress.
    ignored: Option<(Option<OsHandle>, u64)>,
    /// The check after which an unserved context got its preemption request.
    asked_for_unserved: Option<Look>,
}

impl EngineWatch {
    /// What follows from a look.
    // spec: PRE-027
    pub(crate) fn judge(&mut self, look: Look) -> Judgement {
        let before = self.seen.replace(look);
        let hangs_on = self.ignored == Some((look.works_for, look.progress));
        if look.announced == 0 || hangs_on {
            self.seen = None;
            return Judgement::Rest;
        }
        let still =
            before.is_some_and(|b| (b.works_for, b.progress) == (look.works_for, look.progress));
        match look.works_for {
            Some(context) if still || !look.responsive => Judgement::Ask(context),
            Some(_) => Judgement::LookAgain,
            // spec: PRE-096
            None if look.unserved.is_some() && self.asked_for_unserved == Some(look) => {
                self.asked_for_unserved = None;
                look.unserved.map_or(Judgement::Rest, Judgement::Lost)
            }
            None if before == Some(look) => match look.unserved {
                Some(context) => {
                    self.asked_for_unserved = Some(look);
                    Judgement::Ask(context)
                }
                None => Judgement::Rest,
            },
            None => Judgement::LookAgain,
        }
    }

    /// The engine hangs as this look finds it, and nothing is done about it: it is asked again when
    /// it has moved.
    pub(crate) fn ignore(&mut self, look: Look) {
        self.ignored = Some((look.works_for, look.progress));
    }

    /// What was seen does not count any more: the engine let go of a context, or was reset.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }
}

/// The time of the next look at all engines.
#[derive(Default)]
pub(crate) struct Cadence {
    due: Option<CpuTime>,
}

impl Cadence {
    /// Somebody may have announced work. Returns the time of the next look when there was none.
    pub(crate) fn stir(&mut self, now: CpuTime, delay_ns: u64) -> Option<CpuTime> {
        if self.due.is_some() {
            return None;
        }
        self.due = Some(now.after(delay_ns));
        self.due
    }

    /// When the next look is.
    pub(crate) fn next(&self) -> Option<CpuTime> {
        self.due
    }

    /// Whether it is time; if so, there is no next look until one is named.
    pub(crate) fn take_due(&mut self, now: CpuTime) -> bool {
        let due = self.due.is_some_and(|due| due <= now);
        if due {
            self.due = None;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OsHandle = OsHandle(1);

    fn works(progress: u64) -> Look {
        Look { announced: 1, responsive: true, works_for: Some(A), progress, unserved: None }
    }

    // spec: PRE-027
    #[test]
    fn a_queue_that_waits_is_never_asked() {
        let waits = Look { works_for: None, ..works(7) };
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(waits), Judgement::LookAgain, "it may have moved just before");
        for _ in 0..5 {
            assert_eq!(watch.judge(waits), Judgement::Rest);
        }
    }

    // spec: PRE-096
    #[test]
    fn work_that_neither_runs_nor_waits_is_asked_for_and_then_lost() {
        let idle = |progress| Look { works_for: None, unserved: Some(A), ..works(progress) };
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(idle(7)), Judgement::LookAgain);
        assert_eq!(watch.judge(idle(8)), Judgement::LookAgain, "the engine has run something");
        assert_eq!(watch.judge(idle(8)), Judgement::Ask(A));
        watch.forget();
        assert_eq!(watch.judge(idle(9)), Judgement::LookAgain, "the request helped");
        assert_eq!(watch.judge(idle(9)), Judgement::Ask(A));
        watch.forget();
        assert_eq!(watch.judge(idle(9)), Judgement::Lost(A));
    }

    #[test]
    fn only_standing_still_while_working_is_asked_about() {
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(works(1)), Judgement::LookAgain);
        assert_eq!(watch.judge(works(2)), Judgement::LookAgain, "slow is not hung");
        assert_eq!(watch.judge(works(2)), Judgement::Ask(A));
        watch.forget();
        assert_eq!(watch.judge(works(2)), Judgement::LookAgain, "it answered");
        assert_eq!(watch.judge(Look { announced: 0, ..works(2) }), Judgement::Rest);
    }

    #[test]
    fn a_hang_that_is_ignored_is_not_asked_about_until_the_engine_moves() {
        let mut watch = EngineWatch::default();
        watch.ignore(works(2));
        for _ in 0..5 {
            assert_eq!(watch.judge(works(2)), Judgement::Rest);
        }
        assert_eq!(watch.judge(works(3)), Judgement::LookAgain);
    }

    #[test]
    fn an_engine_that_says_that_it_does_not_answer_is_asked_at_the_first_look() {
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(Look { responsive: false, ..works(1) }), Judgement::Ask(A));
    }

    #[test]
    fn the_next_look_is_a_delay_after_the_first_stir() {
        let mut cadence = Cadence::default();
        assert_eq!(cadence.stir(CpuTime(5), 10), Some(CpuTime(15)));
        assert_eq!(cadence.stir(CpuTime(6), 10), None);
        assert!(!cadence.take_due(CpuTime(14)));
        assert!(cadence.take_due(CpuTime(15)) && cadence.next().is_none());
    }
}
