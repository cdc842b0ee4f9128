//! Resolves blocked host calls whose stream or event is not recorded.
//!
//! A call that returned just after work had ended, which was launched before the call, waited for
//! that work. A short call found nothing pending. For any other call the recording does not say
//! what it waited for: it stays a wait, as long as recorded, and is counted. Entry points:
//! [`WorkByEnd`], [`Blocked`].

use super::records::{CallRecord, WorkId};

/// The longest time from the end of work to the return of the host that waits for it.
const RETURN_WITHIN_NS: i64 = 100_000;

/// A host clock may be behind the GPU's clock by this much.
pub const CLOCK_SKEW_NS: i64 = 2_000;

/// A call this short found nothing pending.
const SHORT_NS: i64 = 20_000;

/// What a blocked call waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The end of this work.
    For(WorkId),
    /// Nothing: its length is the host's own time.
    Nothing,
    /// The recording does not say.
    Unknown,
}

/// Work in the order of its ends, each with the start of the call that launched it.
pub struct WorkByEnd(Vec<(i64, WorkId, i64)>);

impl WorkByEnd {
    pub fn new(work: impl Iterator<Item = (i64, WorkId, i64)>) -> Self {
        let mut list: Vec<_> = work.collect();
        list.sort_unstable();
        Self(list)
    }

    /// What a call waited for, among the work that `is_possible`.
    pub fn awaited_by(&self, call: &CallRecord, is_possible: impl Fn(WorkId) -> bool) -> Blocked {
        let latest = call.end.saturating_add(CLOCK_SKEW_NS);
        let ended = self.0.partition_point(|(end, ..)| *end <= latest);
        let during = self.0[..ended].iter().rev().take_while(|(end, ..)| {
            *end > call.start && call.end.saturating_sub(*end) <= RETURN_WITHIN_NS
        });
        let mut possible =
            during.filter(|(_, work, launched)| *launched < call.start && is_possible(*work));
        match possible.next() {
            Some((_, work, _)) => Blocked::For(*work),
            None if call.end - call.start <= SHORT_NS => Blocked::Nothing,
            None => Blocked::Unknown,
        }
    }
}
