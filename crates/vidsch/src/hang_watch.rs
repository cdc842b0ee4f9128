//! Hang detection for engines that run hardware queues.
//!
//! Engines are sampled once per timeout delay. An engine is preempted if it runs a context and is
//! unresponsive or made no progress since the last sample. It is hung if the context is still
//! running at the next sample. If the context left and the engine still makes no progress, every
//! context is preempted, because the driver may have named the wrong one. An engine that responds
//! and runs no context is not hung, because its queues may be waiting legally. One that does not
//! respond after every context left hangs in work whose context has ended. Work that the driver
//! reports as neither running nor blocked has its context preempted; it is lost if that changes
//! nothing. Two equal samples without a running context are a rest (`SampleTimer`).

use tidegate_ddi::OsHandle;
use tidegate_platform::CpuTime;

/// A snapshot of an engine's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSample {
    /// A number that changes whenever work is announced or completed; 0 if no work is pending and
    /// no context runs.
    pub announced: u64,
    /// Whether the driver reports the engine as responsive.
    pub responsive: bool,
    /// The context that the engine runs.
    pub works_for: Option<OsHandle>,
    /// A number that changes whenever the engine makes progress.
    pub progress: u64,
    /// The context of work that is neither running nor blocked, while the engine runs no context.
    pub unserved: Option<OsHandle>,
}

/// The action to take for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangVerdict {
    /// The engine has nothing to do now. A later sample finds work that starts without a call.
    Rest,
    /// Sample again after the timeout delay.
    SampleAgain,
    /// Preempt this context, and sample again after the timeout delay.
    Preempt(OsHandle),
    /// Preempt every context of the engine, and sample again after the timeout delay.
    PreemptEach,
    /// Work of this context is lost: the driver accepted it, and neither runs nor blocks it.
    Lost(OsHandle),
    /// The engine hangs in work of no context that exists: every context left it, and it neither
    /// responds nor makes progress.
    Ownerless,
}

/// Hang detection state of one engine.
#[derive(Default)]
pub struct EngineWatch {
    last: Option<EngineSample>,
    /// The running context and progress at which a hang was ignored.
    ignored: Option<(Option<OsHandle>, u64)>,
    /// The progress at which a preempted context left the engine, until all contexts are preempted.
    left_at: Option<u64>,
    /// The progress at which every preempted context had left an engine that ran none.
    each_left_at: Option<u64>,
    /// The progress at which the engine did not respond directly after a reset. It may hang in work
    /// that began after the reset, of a queue that has ended or has lost its doorbell since.
    silent_after_reset: Option<u64>,
    /// The same after two resets: the driver reports a state that no reset changes.
    unchanged_by_reset: Option<u64>,
    /// The sample after which an unserved context was preempted.
    unserved_request: Option<EngineSample>,
}

impl EngineWatch {
    /// Compares a sample with the previous one.
    // spec: PRE-027
    pub fn judge(&mut self, sample: EngineSample) -> HangVerdict {
        let before = self.last.replace(sample);
        let progress = Some(sample.progress);
        let is_ownerless =
            self.each_left_at.take() == progress && self.unchanged_by_reset != progress;
        let hangs_on = self.ignored == Some((sample.works_for, sample.progress));
        if sample.announced == 0 || hangs_on {
            self.last = None;
            return HangVerdict::Rest;
        }
        let still = before
            .is_some_and(|b| (b.works_for, b.progress) == (sample.works_for, sample.progress));
        match sample.works_for {
            Some(context) if still || !sample.responsive => {
                match self.left_at.take() == Some(sample.progress) {
                    true => HangVerdict::PreemptEach,
                    false => HangVerdict::Preempt(context),
                }
            }
            None if !sample.responsive && is_ownerless => HangVerdict::Ownerless,
            None if !sample.responsive => HangVerdict::PreemptEach,
            Some(_) => HangVerdict::SampleAgain,
            // spec: PRE-096
            None if sample.unserved.is_some() && self.unserved_request == Some(sample) => {
                self.unserved_request = None;
                sample.unserved.map_or(HangVerdict::Rest, HangVerdict::Lost)
            }
            None if before == Some(sample) => match sample.unserved {
                Some(context) => {
                    self.unserved_request = Some(sample);
                    HangVerdict::Preempt(context)
                }
                None => HangVerdict::Rest,
            },
            None => HangVerdict::SampleAgain,
        }
    }

    /// Ignores the hang in this sample until the engine makes progress.
    pub fn ignore(&mut self, sample: EngineSample) {
        self.ignored = Some((sample.works_for, sample.progress));
    }

    /// Records the state directly after a recovery, and discards earlier samples. Returns whether
    /// two recoveries have left the engine without a context and without an answer: it is reset no
    /// third time for that.
    pub fn recovered(&mut self, sample: EngineSample) -> bool {
        (self.last, self.left_at, self.each_left_at) = (None, None, None);
        let is_silent = sample.works_for.is_none() && !sample.responsive;
        let silent = is_silent.then_some(sample.progress);
        let before = std::mem::replace(&mut self.silent_after_reset, silent);
        self.unchanged_by_reset = silent.filter(|_| silent == before);
        self.unchanged_by_reset.is_some()
    }

    /// Records that the preempted contexts left the engine. `each`: they were all of its contexts.
    pub fn preempted(&mut self, each: bool) {
        let last = self.last.take();
        let progress_if =
            |is_wanted: fn(&EngineSample) -> bool| last.filter(is_wanted).map(|last| last.progress);
        (self.left_at, self.each_left_at) = match each {
            false => (progress_if(|last| last.works_for.is_some()), None),
            true => (None, progress_if(|last| last.works_for.is_none())),
        };
    }
}

/// The deadline of the next sample of all engines. At rest no agent waits for it: the engines have
/// nothing to do, but a doorbell or a signal of the GPU may change that, and neither calls the
/// kernel.
#[derive(Default)]
pub struct SampleTimer {
    due: Option<CpuTime>,
    at_rest: bool,
}

impl SampleTimer {
    /// Arms the timer, because work may have been announced. Ends a rest. Returns the deadline if
    /// it is new.
    pub fn start(&mut self, now: CpuTime, delay_ns: u64) -> Option<CpuTime> {
        if self.due.is_some() && !self.at_rest {
            return None;
        }
        (self.due, self.at_rest) = (Some(now.after(delay_ns)), false);
        self.due
    }

    /// Arms the timer for a sample at rest, unless it is armed. Returns whether it was not.
    pub fn rest(&mut self, now: CpuTime, delay_ns: u64) -> bool {
        let begins = self.due.is_none();
        if begins {
            (self.due, self.at_rest) = (Some(now.after(delay_ns)), true);
        }
        begins
    }

    /// Counts no time before `from` towards the delay. A sample at rest stays where it is.
    pub fn count_from(&mut self, from: CpuTime, delay_ns: u64) {
        if let Some(due) = &mut self.due
            && !self.at_rest
        {
            *due = (*due).max(from.after(delay_ns));
        }
    }

    /// Leaves the last `ns` out of the delay until the next sample: nothing had a processor then.
    /// A timer that was armed afterwards stays where it is.
    pub fn leave_out(&mut self, ns: u64, now: CpuTime, delay_ns: u64) {
        if let Some(due) = &mut self.due {
            *due = due.after(ns).min(now.after(delay_ns));
        }
    }

    /// Returns the time of the next sample. Without one, or at rest, returns `None`.
    pub fn deadline(&self) -> Option<CpuTime> {
        self.due.filter(|_| !self.at_rest)
    }

    /// Returns the time of the next sample at rest.
    pub fn deadline_at_rest(&self) -> Option<CpuTime> {
        self.due.filter(|_| self.at_rest)
    }

    /// Returns whether a sample is due, and disarms the timer if so.
    pub fn take_due(&mut self, now: CpuTime) -> bool {
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

    fn works(progress: u64) -> EngineSample {
        EngineSample {
            announced: 1,
            responsive: true,
            works_for: Some(A),
            progress,
            unserved: None,
        }
    }

    // spec: PRE-169
    #[test]
    fn time_without_a_processor_is_left_out_until_a_sample() {
        let mut timer = SampleTimer::default();
        timer.count_from(CpuTime(9), 10);
        timer.leave_out(10, CpuTime(0), 10);
        assert_eq!(timer.start(CpuTime(0), 10), Some(CpuTime(10)));
        timer.count_from(CpuTime(0), 10);
        assert_eq!(timer.deadline(), Some(CpuTime(10)));
        timer.count_from(CpuTime(5), 10);
        timer.leave_out(20, CpuTime(29), 10);
        assert_eq!(timer.deadline(), Some(CpuTime(35)));
        assert!(!timer.take_due(CpuTime(34)) && timer.take_due(CpuTime(35)));
        assert!(timer.rest(CpuTime(40), 10));
        timer.count_from(CpuTime(45), 10);
        assert_eq!(timer.deadline_at_rest(), Some(CpuTime(50)));
        assert_eq!(timer.start(CpuTime(90), 10), Some(CpuTime(100)), "after a time without one");
        timer.leave_out(40, CpuTime(91), 10);
        assert_eq!(timer.deadline(), Some(CpuTime(101)));
    }

    // spec: PRE-027
    #[test]
    fn an_engine_whose_queues_wait_is_not_preempted() {
        let waits = EngineSample { works_for: None, ..works(7) };
        let mut watch = EngineWatch::default();
        assert_eq!(
            watch.judge(waits),
            HangVerdict::SampleAgain,
            "it may have made progress just before"
        );
        for _ in 0..5 {
            assert_eq!(watch.judge(waits), HangVerdict::Rest);
        }
    }

    // spec: PRE-096
    #[test]
    fn work_that_neither_runs_nor_waits_is_preempted_and_then_lost() {
        let idle =
            |progress| EngineSample { works_for: None, unserved: Some(A), ..works(progress) };
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(idle(7)), HangVerdict::SampleAgain);
        assert_eq!(watch.judge(idle(8)), HangVerdict::SampleAgain, "the engine has run something");
        assert_eq!(watch.judge(idle(8)), HangVerdict::Preempt(A));
        watch.preempted(false);
        assert_eq!(watch.judge(idle(9)), HangVerdict::SampleAgain, "the request helped");
        assert_eq!(watch.judge(idle(9)), HangVerdict::Preempt(A));
        watch.preempted(false);
        assert_eq!(watch.judge(idle(9)), HangVerdict::Lost(A));
    }

    #[test]
    fn an_engine_is_preempted_when_it_works_without_progress() {
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(works(1)), HangVerdict::SampleAgain);
        assert_eq!(watch.judge(works(2)), HangVerdict::SampleAgain, "slow is not hung");
        assert_eq!(watch.judge(works(2)), HangVerdict::Preempt(A));
        watch.preempted(false);
        assert_eq!(watch.judge(works(2)), HangVerdict::SampleAgain, "it answered");
        assert!(!watch.recovered(works(2)));
        assert_eq!(watch.judge(works(2)), HangVerdict::SampleAgain, "it was reset");
        assert_eq!(watch.judge(works(2)), HangVerdict::Preempt(A));
        assert_eq!(watch.judge(EngineSample { announced: 0, ..works(2) }), HangVerdict::Rest);
    }

    // spec: PRE-103
    #[test]
    fn every_context_is_preempted_when_the_named_one_left_and_nothing_moved() {
        let unresponsive = |progress| EngineSample { responsive: false, ..works(progress) };
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(unresponsive(1)), HangVerdict::Preempt(A));
        watch.preempted(false);
        assert_eq!(watch.judge(unresponsive(1)), HangVerdict::PreemptEach);
        // None of them hangs: it is long work on an engine that lets go.
        watch.preempted(true);
        assert_eq!(watch.judge(unresponsive(1)), HangVerdict::Preempt(A));
        watch.preempted(false);
        assert_eq!(watch.judge(unresponsive(2)), HangVerdict::Preempt(A), "the engine moved");
        watch.preempted(false);
        assert!(!watch.recovered(works(2)));
        assert_eq!(watch.judge(unresponsive(2)), HangVerdict::Preempt(A), "it was reset");
        // The engine responds, or names no context.
        let mut watch = EngineWatch::default();
        watch.judge(works(1));
        assert_eq!(watch.judge(works(1)), HangVerdict::Preempt(A));
        watch.preempted(false);
        assert_eq!(watch.judge(works(1)), HangVerdict::SampleAgain);
        assert_eq!(watch.judge(works(1)), HangVerdict::PreemptEach);
        let silent = EngineSample { works_for: None, ..unresponsive(1) };
        assert_eq!(EngineWatch::default().judge(silent), HangVerdict::PreemptEach);
    }

    // spec: PRE-160
    #[test]
    fn an_engine_that_every_context_left_and_that_does_not_respond_is_hung() {
        let silent =
            |progress| EngineSample { works_for: None, responsive: false, ..works(progress) };
        let mut watch = EngineWatch::default();
        assert_eq!(watch.judge(silent(1)), HangVerdict::PreemptEach);
        watch.preempted(true);
        assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach, "the engine moved");
        watch.preempted(true);
        assert_eq!(watch.judge(works(2)), HangVerdict::SampleAgain, "a context runs");
        assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach);
        watch.preempted(false);
        assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach, "one context left");
        watch.preempted(true);
        assert_eq!(watch.judge(silent(2)), HangVerdict::Ownerless);
        assert!(!watch.recovered(works(2)));
        assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach, "it was reset");
        watch.preempted(true);
        assert!(!watch.recovered(works(2)));
        assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach, "it was reset again");
        // An ignored hang is not reported again.
        watch.preempted(true);
        assert_eq!(watch.judge(silent(2)), HangVerdict::Ownerless);
        watch.ignore(silent(2));
        assert_eq!(watch.judge(silent(2)), HangVerdict::Rest);
    }

    // spec: PRE-160
    #[test]
    fn two_resets_that_change_nothing_are_not_repeated() {
        let silent =
            |progress| EngineSample { works_for: None, responsive: false, ..works(progress) };
        let mut watch = EngineWatch::default();
        assert!(!watch.recovered(works(1)) && !watch.recovered(silent(1)));
        assert!(!watch.recovered(silent(2)), "the engine moved");
        assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach);
        watch.preempted(true);
        assert_eq!(watch.judge(silent(2)), HangVerdict::Ownerless);
        assert!(watch.recovered(silent(2)));
        for _ in 0..3 {
            assert_eq!(watch.judge(silent(2)), HangVerdict::PreemptEach);
            watch.preempted(true);
        }
        assert_eq!(watch.judge(silent(3)), HangVerdict::PreemptEach, "the engine moved");
        watch.preempted(true);
        assert_eq!(watch.judge(silent(3)), HangVerdict::Ownerless);
    }

    #[test]
    fn an_ignored_hang_is_left_alone_until_the_engine_makes_progress() {
        let mut watch = EngineWatch::default();
        watch.ignore(works(2));
        for _ in 0..5 {
            assert_eq!(watch.judge(works(2)), HangVerdict::Rest);
        }
        assert_eq!(watch.judge(works(3)), HangVerdict::SampleAgain);
    }

    #[test]
    fn an_unresponsive_engine_is_preempted_after_its_first_sample() {
        let mut watch = EngineWatch::default();
        assert_eq!(
            watch.judge(EngineSample { responsive: false, ..works(1) }),
            HangVerdict::Preempt(A)
        );
    }

    #[test]
    fn the_next_sample_is_a_delay_after_the_first_start() {
        let mut timer = SampleTimer::default();
        assert_eq!(timer.start(CpuTime(5), 10), Some(CpuTime(15)));
        assert_eq!(timer.start(CpuTime(6), 10), None);
        assert!(!timer.take_due(CpuTime(14)));
        assert!(timer.take_due(CpuTime(15)) && timer.deadline().is_none());
    }

    // spec: PRE-102
    #[test]
    fn a_sample_at_rest_is_periodic_and_announced_work_gets_a_whole_delay() {
        let mut timer = SampleTimer::default();
        assert!(timer.rest(CpuTime(5), 10) && !timer.rest(CpuTime(6), 10));
        assert_eq!((timer.deadline(), timer.deadline_at_rest()), (None, Some(CpuTime(15))));
        assert!(timer.take_due(CpuTime(15)) && timer.rest(CpuTime(15), 10));
        assert_eq!(timer.start(CpuTime(24), 10), Some(CpuTime(34)), "the rest is over");
        assert_eq!((timer.deadline(), timer.deadline_at_rest()), (Some(CpuTime(34)), None));
        assert!(!timer.rest(CpuTime(30), 10), "a sample is due");
        assert_eq!(timer.start(CpuTime(33), 10), None, "it is not put off");
    }
}
