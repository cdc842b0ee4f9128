//! Presents of a recording: what their calls waited for.
//!
//! A workload has one display, so the presents of one swap chain are replayed. A present call of
//! other swap chains only takes time. A long call returned with the end of GPU work, or with a
//! frame of its swap chain on the screen, or for a reason that is not recorded (`decisions/0164`).
//! Entry point: [`Presents`].

use foldhash::HashMap;

use super::blocked::CLOCK_SKEW_NS;
use super::records::{CallId, CallRecord, DisplayFacts, PresentRecord, Recording, StreamId};

/// A present call this long waited; a shorter one is the host's own time.
pub const WAITS_FROM_NS: i64 = 1_000_000;

/// The longest time from a frame on the screen to the return of the call that waited for it.
const RETURN_WITHIN_NS: i64 = 1_000_000;

/// The presents by their calls.
pub struct Presents {
    by_call: HashMap<CallId, PresentRecord>,
    display: Option<DisplayFacts>,
    /// When the frames of each stream were on the screen, sorted.
    shown: HashMap<StreamId, Vec<i64>>,
}

impl Presents {
    pub fn of(recording: &Recording) -> Self {
        let mut shown: HashMap<StreamId, Vec<i64>> = HashMap::default();
        for present in &recording.presents {
            shown.entry(present.stream).or_default().extend(present.shown);
        }
        shown.values_mut().for_each(|shown| shown.sort_unstable());
        let by_call = recording.presents.iter().map(|present| (present.call, *present)).collect();
        Self { by_call, display: recording.display, shown }
    }

    pub fn get(&self, call: CallId) -> Option<&PresentRecord> {
        self.by_call.get(&call)
    }

    /// Whether a present is replayed.
    pub fn is_on_display(&self, present: &PresentRecord) -> bool {
        self.display.is_some_and(|display| display.stream == present.stream)
    }

    /// Whether a call returned when a frame of its stream had reached the screen.
    pub fn ended_with_frame(&self, present: &PresentRecord, call: &CallRecord) -> bool {
        let shown = self.shown.get(&present.stream).map_or(&[][..], Vec::as_slice);
        let after = shown.partition_point(|at| *at <= call.end.saturating_add(CLOCK_SKEW_NS));
        let last = after.checked_sub(1).map(|last| shown[last]);
        last.is_some_and(|at| at > call.start && call.end.saturating_sub(at) <= RETURN_WITHIN_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Call, TrackId};

    /// A file may list frames in another order than they were shown in, for example by process.
    #[test]
    fn a_return_is_compared_with_the_last_frame_before_it_whatever_the_order_of_presents() {
        let (stream, interval) = (StreamId::new(0), 1);
        let shown = [9_000_000, 3_000_000, 6_000_000];
        let presents = (0..).zip(shown).map(|(number, shown)| PresentRecord {
            call: CallId::new(number),
            stream,
            interval,
            shown: Some(shown),
        });
        let mut recording = Recording::default();
        recording.presents = presents.collect();
        let present = recording.presents[0];
        let presents = Presents::of(&recording);
        let ended = |start, end| {
            let (call, track) = (Call::Other, TrackId::new(0));
            let call = CallRecord { call, track, start, end, correlation: None };
            presents.ended_with_frame(&present, &call)
        };
        let ends = [(2_000_000, 3_500_000), (4_000_000, 6_100_000), (4_000_000, 8_500_000)];
        assert_eq!(ends.map(|(start, end)| ended(start, end)), [true, true, false]);
    }
}
