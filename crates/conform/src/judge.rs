//! Judges the events of a run as they come. It keeps no events, so a run may be of any length.

use crate::clause::{Clause, Words};
use crate::families::{clauses, walks};
use crate::journal::{Event, Facts, RunEnd};
use crate::tally::{Broken, Judged, Place, Tally};
use crate::walk::Walk;
use std::collections::BTreeMap;
use tidegate::ddi::AdapterCaps;
use tidegate::platform::CpuTime;

/// The clauses and what was seen of them.
pub(crate) struct Judge {
    tally: Tally,
    walks: Vec<Box<dyn Walk>>,
    /// Events so far, and the time of the last one.
    events: usize,
    last: CpuTime,
    /// The first answer of DxgkDdiQueryAdapterInfo.
    pub(crate) caps: Option<Box<AdapterCaps>>,
}

/// The judgement of a run.
pub(crate) struct Judgement {
    pub(crate) judged: BTreeMap<&'static str, Judged>,
    /// The end of the run.
    pub(crate) end: Place,
}

impl Judge {
    pub(crate) fn new(facts: Facts) -> Judge {
        let (tally, walks) = (Tally::new(facts), walks());
        Judge { tally, walks, events: 0, last: CpuTime(0), caps: None }
    }

    /// Judges an event.
    pub(crate) fn event(&mut self, at: CpuTime, event: &Event) {
        if let (None, Event::Caps(caps)) = (&self.caps, event) {
            self.caps = Some(caps.clone());
        }
        self.tally.go_to(Place { number: self.events, at });
        for walk in &mut self.walks {
            walk.event(&mut self.tally, event);
        }
        self.events += 1;
        self.last = at;
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Takes the clauses that broke since the last take.
    pub(crate) fn take_newly_broken(&mut self) -> Vec<(&'static str, Broken)> {
        self.tally.take_newly_broken()
    }

    /// Judges what is due at the end.
    pub(crate) fn end(mut self, end: &RunEnd) -> Judgement {
        let place = Place { number: self.events, at: self.last };
        self.tally.go_to(place);
        self.tally.is_stopped = end.stopped;
        for walk in &mut self.walks {
            walk.end(&mut self.tally, end);
        }
        let mut judged = self.tally.judged;
        if end.stopped {
            keep_first(&mut judged);
        }
        Judgement { judged, end: place }
    }
}

/// Keeps the first break only: what comes after the violation that stopped the adapter is a
/// consequence.
fn keep_first(judged: &mut BTreeMap<&'static str, Judged>) {
    let place = |judged: &Judged| Some(judged.broken.as_ref()?.place.number);
    let Some(first) = judged.values().filter_map(place).min() else { return };
    judged.retain(|_, judged| place(judged).is_none_or(|place| place == first));
}

/// Returns the words of a clause that a walk judges.
pub(crate) fn words(id: &str) -> Option<Words> {
    clauses().find(|clause| clause.id == id).map(Clause::words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::calls::{PixelFormat, Surface};
    use tidegate::ddi::display::{SetVidPnSourceAddress, SetVidPnSourceAddressFlags};
    use tidegate::ddi::preemption::SubmitCommandFlags;
    use tidegate::ddi::queue::SubmitCommandVirtual;
    use tidegate::ddi::{
        ComponentState, DdiCall, DevicePowerState, DriverHandle, EngineId, Entry, InterruptData,
        PowerAction, Status,
    };
    use tidegate::platform::PhysicalAddress;

    fn broken(facts: Facts, events: &[Event]) -> Vec<&'static str> {
        let mut judge = Judge::new(facts);
        events.iter().for_each(|event| judge.event(CpuTime(0), event));
        let judged = judge.end(&RunEnd::default()).judged;
        judged.iter().filter(|(_, of)| of.broken.is_some()).map(|(id, _)| *id).collect()
    }

    /// F0 of one engine returns while F1 of another one is refused.
    #[test]
    fn answers_of_power_calls_that_overlap_are_not_mixed_up() {
        let [first, second] = [0, 1].map(EngineId::of_node);
        let refused = Status::GRAPHICS_TRY_AGAIN_LATER;
        let good = [
            Event::ComponentPower(second, ComponentState::F0, Status::SUCCESS),
            Event::Returned(Entry::SetPowerComponentFState, Some(Status::SUCCESS)),
            Event::ComponentPower(first, ComponentState::F1, refused),
            Event::Returned(Entry::SetPowerComponentFState, Some(refused)),
        ];
        assert_eq!(broken(Facts::UNKNOWN, &good), [""; 0]);
        let bad = [Event::ComponentPower(second, ComponentState::F0, refused)];
        assert_eq!(broken(Facts::UNKNOWN, &bad), ["power-f0"]);
    }

    #[test]
    fn published_statuses_of_an_entry_are_legal() {
        for (entry, status) in [
            (Entry::ControlInterrupt, Status::NOT_IMPLEMENTED),
            (Entry::CollectDbgInfo, Status::UNSUCCESSFUL),
            (Entry::CreateContext, Status::GRAPHICS_DRIVER_MISMATCH),
        ] {
            let returned = |status| [Event::Returned(entry, Some(status))];
            assert_eq!(broken(Facts::UNKNOWN, &returned(status)), [""; 0], "{entry}");
            let other = returned(Status::GRAPHICS_PRESENT_DENIED);
            assert_eq!(broken(Facts::UNKNOWN, &other), [format!("statuses-{}", entry.name())]);
        }
    }

    #[test]
    fn d3_may_be_refused_when_the_system_does_not_sleep() {
        let d3 = |action| Event::Power(DevicePowerState::D3, action, Status::NOT_SUPPORTED);
        assert_eq!(broken(Facts::UNKNOWN, &[d3(PowerAction::None)]), [""; 0]);
        assert_eq!(broken(Facts::UNKNOWN, &[d3(PowerAction::Sleep)]), ["power-d3"]);
    }

    #[test]
    fn the_first_interrupt_in_d3_may_be_of_a_cause_from_before() {
        let called = || Event::Called(DdiCall::InterruptRoutine {});
        let sleeps = || Event::Power(DevicePowerState::D3, PowerAction::Sleep, Status::SUCCESS);
        let ours = || Event::Interrupted(true);
        // D3 begins in the routine, or before it.
        for first in [[called(), sleeps(), ours()], [sleeps(), called(), ours()]] {
            assert_eq!(broken(Facts::UNKNOWN, &first), [""; 0]);
            let second = first.into_iter().chain([called(), ours(), called(), ours()]);
            assert_eq!(broken(Facts::UNKNOWN, &second.collect::<Vec<_>>()), ["power-foreign"]);
        }
    }

    /// The interrupt of the frame before the first flip comes while the flip is made.
    #[test]
    fn a_vertical_sync_before_the_first_flip_may_be_reported_after_it() {
        let set = |at| {
            let args = SetVidPnSourceAddress {
                vid_pn_source_id: 0,
                primary_address: PhysicalAddress(at),
                surface: Surface {
                    width: 1,
                    height: 1,
                    pitch_bytes: 4,
                    format: PixelFormat::A8R8G8B8,
                },
                flags: SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
            };
            Event::Called(DdiCall::SetVidPnSourceAddress { args })
        };
        let sync = |at| {
            let physical_address = PhysicalAddress(at);
            Event::Report(InterruptData::CrtcVsync { vid_pn_target_id: 0, physical_address }, true)
        };
        let good = [set(0x1000), sync(0), sync(0x1000)];
        assert_eq!(broken(Facts::UNKNOWN, &good), [""; 0]);
        let twice = [set(0x1000), sync(0), sync(0), sync(0x1000)];
        assert_eq!(broken(Facts::UNKNOWN, &twice), ["display-shown"]);
        let later = [set(0x1000), sync(0x1000), sync(0)];
        assert_eq!(broken(Facts::UNKNOWN, &later), ["display-shown"]);
    }

    /// A packet is reported while DxgkDdiQueryCurrentFence runs on another thread.
    #[test]
    fn the_current_fence_may_be_overtaken_by_a_report() {
        let engine = EngineId::of_node(0);
        let done = |submission_fence_id| {
            Event::Report(InterruptData::DmaCompleted { engine, submission_fence_id }, true)
        };
        let asked = Event::Called(DdiCall::QueryCurrentFence { engine });
        let submitted = |submission_fence_id| {
            let args = SubmitCommandVirtual {
                context: DriverHandle(1),
                engine,
                dma_buffer_gpu_va: 0,
                dma_buffer_bytes: 0,
                submission_fence_id,
                flags: SubmitCommandFlags::default(),
            };
            Event::Called(DdiCall::SubmitCommandVirtual { args })
        };
        let events = |last| {
            let fence = Event::CurrentFence(engine, last);
            [submitted(1), submitted(2), done(1), asked.clone(), done(2), fence]
        };
        assert_eq!(broken(Facts::UNKNOWN, &events(1)), [""; 0]);
        assert_eq!(broken(Facts::UNKNOWN, &events(3)), ["packets-current-fence"]);
    }
}
