//! The packets of each engine, from their submission to their end. Clauses of packets, preemption
//! and recovery are judged here, because they are about one order of ids.
//!
//! Ids are 32 bits and wrap, so they are compared by their place in the order of submission and
//! never by size.

use super::recent::Recent;
use super::{packets, paging, power, preemption, recovery};
use crate::journal::{Engines, Event, Facts, Interrupts, RunEnd};
use crate::tally::Tally;
use std::collections::{BTreeMap, VecDeque};
use tidegate::ddi::{ComponentState, DdiCall, EngineId, Entry, InterruptData, SubmitCommandFlags};

/// What an engine has completed before its first packet.
const FRESH: u32 = 0;

/// The packets of one engine.
#[derive(Default)]
struct Packets {
    /// Submitted and not ended, in order.
    in_flight: VecDeque<u32>,
    /// The last packet that was submitted, and whether ids have wrapped by then.
    last: u32,
    wrapped: bool,
    /// The last packet that was reported as complete, or returned by a reset.
    completed: Option<u32>,
    /// Reported as complete before the last one.
    older: Recent<u32>,
    /// Returned by a preemption and not submitted again.
    returned: Recent<u32>,
    /// Cut off by a reset.
    aborted: Recent<u32>,
    /// Preemption requests that are not answered.
    requests: Vec<u32>,
    /// The last packet that the device has completed, where it is known.
    on_device: Option<u32>,
    /// The same when the interrupt routine was called last.
    at_interrupt: Option<u32>,
    /// Packets that were the last complete one since DxgkDdiQueryCurrentFence was called.
    since_asked: Option<Vec<u32>>,
    /// The last packet that the device had completed then.
    asked_device: Option<u32>,
    /// Whether the engine is in F1.
    is_off: bool,
    /// Paging packets in flight.
    paging: Vec<u32>,
    /// Paging packets that were submitted while another one was in flight.
    second_paging: Recent<u32>,
}

impl Packets {
    fn submitted(&mut self, id: u32, flags: SubmitCommandFlags) {
        self.paging.retain(|paging| self.in_flight.contains(paging));
        if flags.contains(SubmitCommandFlags::PAGING) {
            match self.paging.is_empty() {
                true => self.second_paging.remove(id),
                false => self.second_paging.insert_ended(id),
            }
            self.paging.push(id);
        }
        // An id that is used again lies before the last one.
        self.wrapped |= id < self.last && id.wrapping_sub(self.last).cast_signed() > 0;
        self.last = id;
        self.in_flight.push_back(id);
        self.returned.remove(id);
    }

    /// Returns whether an id was given after the ids had wrapped.
    fn is_wrapped(&self, id: u32) -> bool {
        self.wrapped && id <= u32::MAX / 2
    }

    /// Returns whether the device has completed a packet, as far as it is known.
    fn is_done(&self, id: u32) -> bool {
        let Some(device) = self.on_device else { return true };
        let place = |id: u32| self.in_flight.iter().position(|of| *of == id);
        place(id).is_none_or(|place_of| place(device).is_some_and(|done| place_of <= done))
    }

    /// Ends packets in flight up to this one.
    fn complete_up_to(&mut self, id: u32) {
        while let Some(first) = self.in_flight.pop_front() {
            self.since_asked.iter_mut().for_each(|since| since.push(first));
            if let Some(older) = self.completed.replace(first) {
                self.older.insert_ended(older);
            }
            if first == id {
                return;
            }
        }
    }

    /// Cuts off everything.
    fn reset(&mut self) {
        self.at_interrupt = None;
        self.in_flight.drain(..).for_each(|id| self.aborted.insert_ended(id));
        self.requests.clear();
    }
}

/// Returns the clause that requests without an answer break.
fn unanswered(facts: Facts, requests: &[u32]) -> &'static str {
    match facts.engines {
        _ if requests.contains(&0) => preemption::ZERO,
        Engines::Slow => preemption::SLOWLY,
        Engines::Even | Engines::Uneven => preemption::ANSWERED,
    }
}

/// The packets of all engines.
#[derive(Default)]
pub(super) struct Walk {
    engines: BTreeMap<EngineId, Packets>,
    /// Whether a packet was submitted again.
    resubmitted: bool,
    /// Between DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout.
    is_reset: bool,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(call) => self.called(call),
            Event::Returned(entry, status) => {
                let failed = status.is_some_and(|status| !status.is_success());
                self.returned(*entry, failed);
            }
            Event::Refused(engine, id) => self.refused(tally, *engine, *id),
            Event::Report(data, _) => self.report(tally, data),
            Event::EngineReset(engine, id) => self.engine_reset(tally, *engine, *id),
            Event::CurrentFence(engine, id) => self.current_fence(tally, *engine, *id),
            Event::OnDevice(engine, id) => {
                let packets = self.engines.entry(*engine).or_default();
                packets.on_device = Some(*id);
                let runs = packets.returned.contains(*id) && !packets.in_flight.contains(id);
                tally.check(preemption::STOPPED, !runs, || {
                    format!("the device has completed packet {id} of {engine}, which was returned")
                });
                packets.at_interrupt = packets.at_interrupt.or(Some(*id));
                if packets.since_asked.is_some() {
                    packets.asked_device = packets.asked_device.or(Some(*id));
                }
            }
            Event::Interrupted(true) => self.interrupted(tally),
            Event::ComponentPower(engine, state, status) if status.is_success() => {
                let packets = self.engines.entry(*engine).or_default();
                packets.is_off = *state == ComponentState::F1;
            }
            _ => {}
        }
    }

    fn end(&mut self, tally: &mut Tally, end: &RunEnd) {
        // Then packets have no end, whatever the driver does.
        let cut_off = tally.facts.loses_interrupts() || end.was_ended;
        for (engine, packets) in self.engines.iter().filter(|_| !cut_off) {
            let left = &packets.in_flight;
            tally.check_at_end(packets::ENDS, left.is_empty(), || {
                format!("packets {left:?} of {engine} have no end")
            });
            let open = &packets.requests;
            tally.check_at_end(unanswered(tally.facts, open), open.is_empty(), || {
                format!("requests {open:?} of {engine} have no answer")
            });
        }
        // Wrong results that a broken clause explains do not come from packets that went on.
        let explained = tally.judged.values().any(|judged| judged.broken.is_some());
        let is_even = tally.facts.engines == Engines::Even;
        if is_even || !self.resubmitted || !tally.facts.has_results() || cut_off || explained {
            return;
        }
        let problem = end.problems.first();
        tally.check_at_end(preemption::GOES_ON, problem.is_none(), || {
            problem.cloned().unwrap_or_default()
        });
    }
}

impl Walk {
    fn called(&mut self, call: &DdiCall) {
        match call {
            DdiCall::SubmitCommandVirtual { args } => {
                self.submit(args.engine, args.submission_fence_id, args.flags);
            }
            DdiCall::SubmitCommand { args } => {
                self.submit(args.engine, args.submission_fence_id, args.flags);
            }
            DdiCall::InterruptRoutine {} => {
                self.engines.values_mut().for_each(|packets| packets.at_interrupt = None);
            }
            DdiCall::QueryCurrentFence { engine } => {
                let packets = self.engines.entry(*engine).or_default();
                packets.since_asked = Some(packets.completed.into_iter().collect());
            }
            DdiCall::PreemptCommand { args } => {
                let packets = self.engines.entry(args.engine).or_default();
                packets.requests.push(args.preemption_fence_id);
            }
            _ => {}
        }
    }

    fn submit(&mut self, engine: EngineId, id: u32, flags: SubmitCommandFlags) {
        let packets = self.engines.entry(engine).or_default();
        self.resubmitted |= flags.contains(SubmitCommandFlags::RESUBMISSION);
        packets.submitted(id, flags);
    }

    /// A packet was refused. Another reason than a paging packet in flight is judged by its status.
    fn refused(&mut self, tally: &mut Tally, engine: EngineId, id: u32) {
        let packets = self.engines.entry(engine).or_default();
        packets.in_flight.retain(|of| *of != id);
        if packets.second_paging.contains(id) {
            tally.check(paging::SECOND_ACCEPTED, false, || {
                format!("the paging packet {id} of {engine} was refused")
            });
        }
    }

    fn returned(&mut self, entry: Entry, failed: bool) {
        match entry {
            Entry::ResetFromTimeout if !failed => {
                self.is_reset = true;
                self.engines.values_mut().for_each(Packets::reset);
            }
            Entry::RestartFromTimeout => self.is_reset = false,
            _ => {}
        }
    }

    fn report(&mut self, tally: &mut Tally, data: &InterruptData) {
        let of_packets = matches!(
            data,
            InterruptData::DmaCompleted { .. }
                | InterruptData::DmaPreempted { .. }
                | InterruptData::DmaPageFaulted { .. }
        );
        if of_packets {
            let is_quiet = !self.is_reset || self.ended_in_reset(data);
            tally.check(recovery::QUIET, is_quiet, || format!("it reported {data:?}"));
        }
        match data {
            InterruptData::DmaCompleted { engine, submission_fence_id } => {
                self.completed(tally, *engine, *submission_fence_id);
            }
            InterruptData::DmaPageFaulted { engine, faulted_fence_id, .. } => {
                self.faulted(tally, *engine, *faulted_fence_id);
            }
            InterruptData::DmaPreempted {
                engine,
                preemption_fence_id,
                last_completed_fence_id,
            } => self.preempted(tally, *engine, *preemption_fence_id, *last_completed_fence_id),
            _ => {}
        }
    }

    /// Returns whether a report is of a packet that a reset has ended: it is void.
    fn ended_in_reset(&self, data: &InterruptData) -> bool {
        let InterruptData::DmaCompleted { engine, submission_fence_id } = data else {
            return false;
        };
        let packets = self.engines.get(engine);
        packets.is_some_and(|packets| packets.aborted.contains(*submission_fence_id))
    }

    fn completed(&mut self, tally: &mut Tally, engine: EngineId, id: u32) {
        let packets = self.engines.entry(engine).or_default();
        let in_flight = packets.in_flight.contains(&id);
        // The last complete packet may be reported again: a report means all packets up to it.
        let again = packets.completed.map_or(id == FRESH, |completed| completed == id);
        let older = packets.older.contains(id);
        let returned = packets.returned.contains(id);
        let told = in_flight || again || older || returned || packets.aborted.contains(id);
        let text = |what: &str| format!("packet {id} of {engine} {what}");
        tally.check(packets::KNOWN, told, || text("was not submitted"));
        let is_second = packets.second_paging.contains(id)
            || packets.completed.is_some_and(|last| packets.second_paging.contains(last));
        let order = if is_second { paging::SECOND_ORDER } else { packets::ORDER };
        tally.check(order, in_flight || !older, || {
            let last = packets.completed.unwrap_or_default();
            text(&format!("is reported after the later packet {last}"))
        });
        tally.check(preemption::RETURNED, in_flight || !returned, || {
            text("was returned by a preemption and not submitted again")
        });
        if packets.on_device.is_some() {
            let clause = match tally.facts.engines {
                Engines::Uneven => packets::PATIENCE,
                Engines::Even | Engines::Slow => packets::FINISHED,
            };
            tally.check(clause, packets.is_done(id), || {
                text("is reported as complete, and the device has not completed it")
            });
        }
        tally.check(power::F1_QUIET, !packets.is_off, || text("is reported in F1"));
        if in_flight {
            if packets.second_paging.contains(id) {
                tally.check(paging::SECOND_ACCEPTED, true, String::new);
            }
            packets.complete_up_to(id);
        }
    }

    /// The interrupt routine returned TRUE.
    fn interrupted(&mut self, tally: &mut Tally) {
        for (engine, packets) in &mut self.engines {
            let Some(id) = packets.at_interrupt.take() else { continue };
            let is_left = packets.in_flight.contains(&id);
            let clause = match (packets.is_wrapped(id), id) {
                (false, _) if packets.second_paging.contains(id) => paging::SECOND_REPORTED,
                (false, _) if tally.facts.interrupts == Interrupts::Late => packets::COALESCED,
                (false, _) => match tally.facts.engines {
                    Engines::Even => packets::REPORTED,
                    Engines::Uneven => packets::OTHER_ENGINE,
                    Engines::Slow => packets::SLOW,
                },
                (true, 0) => packets::ZERO,
                (true, _) => packets::WRAPPED,
            };
            tally.check(clause, !is_left, || {
                format!("packet {id} of {engine}, which the device has completed, is not reported")
            });
        }
    }

    fn faulted(&mut self, tally: &mut Tally, engine: EngineId, id: u32) {
        let packets = self.engines.entry(engine).or_default();
        let known = packets.in_flight.contains(&id);
        tally.check(packets::FAULTED, known, || {
            format!("packet {id} of {engine}, which is not in flight, faulted")
        });
        packets.in_flight.retain(|of| *of != id);
    }

    fn preempted(&mut self, tally: &mut Tally, engine: EngineId, request: u32, last: u32) {
        let packets = self.engines.entry(engine).or_default();
        let known = packets.requests.contains(&request);
        tally.check(preemption::ANSWERS, known, || {
            let asked = &packets.requests;
            format!("request {request} of {engine} is answered; requests are {asked:?}")
        });
        packets.requests.retain(|of| *of != request);
        if request == 0 {
            tally.check(preemption::ZERO, true, String::new);
        }
        if packets.on_device.is_some() {
            tally.check(preemption::FINISHED, packets.is_done(last), || {
                format!(
                    "LastCompletedFenceId of {engine} is {last}, which the device has not completed"
                )
            });
        }
        let in_flight = packets.in_flight.contains(&last);
        let right = in_flight || packets.completed.unwrap_or(FRESH) == last;
        tally.check(preemption::LAST_COMPLETED, right, || {
            let completed = packets.completed.unwrap_or_default();
            format!("LastCompletedFenceId of {engine} is {last}; {completed} was complete last")
        });
        if in_flight {
            packets.complete_up_to(last);
        }
        let Packets { in_flight, returned, .. } = packets;
        in_flight.drain(..).for_each(|id| returned.insert_ended(id));
    }

    fn engine_reset(&mut self, tally: &mut Tally, engine: EngineId, id: u32) {
        let packets = self.engines.entry(engine).or_default();
        let known = packets.in_flight.contains(&id) || packets.completed.unwrap_or(FRESH) == id;
        tally.check(recovery::LAST_ABORTED, known, || {
            format!("LastAbortedFenceId of {engine} is {id}, which is neither in flight nor the last complete packet")
        });
        if known && tally.facts.hangs() && packets.on_device.is_some() {
            let left: Vec<u32> =
                packets.in_flight.iter().copied().filter(|of| !packets.is_done(*of)).collect();
            let holds = left.is_empty() || left.contains(&id);
            let clause = match left.iter().any(|left| packets.is_wrapped(*left)) {
                true => recovery::ABORTED_WRAPPED,
                false => recovery::ABORTED_RUNNING,
            };
            tally.check(clause, holds, || {
                format!("LastAbortedFenceId of {engine} is {id}, and {left:?} were not complete")
            });
        }
        self.overdue(tally, engine);
        let packets = self.engines.entry(engine).or_default();
        if packets.in_flight.contains(&id) {
            while packets.in_flight.front().is_some_and(|first| *first != id) {
                let first = packets.in_flight[0];
                packets.complete_up_to(first);
            }
            packets.completed = Some(id);
        }
        packets.reset();
    }

    /// A request that is open when the engine is reset was not answered in time. A hang or a lost
    /// interrupt may be the cause.
    fn overdue(&mut self, tally: &mut Tally, engine: EngineId) {
        if tally.facts.may_hang() {
            return;
        }
        let Some(Packets { requests: open, .. }) = self.engines.get(&engine) else { return };
        tally.check(unanswered(tally.facts, open), open.is_empty(), || {
            format!("requests {open:?} of {engine} have no answer when it is reset")
        });
    }

    fn current_fence(&mut self, tally: &mut Tally, engine: EngineId, id: u32) {
        let packets = self.engines.entry(engine).or_default();
        let since = packets.since_asked.take().unwrap_or_default();
        let in_flight = packets.in_flight.contains(&id);
        let is_complete = match in_flight {
            true => packets.is_done(id),
            false => packets.completed.unwrap_or(FRESH) == id || since.contains(&id),
        };
        let place = |id: u32| packets.in_flight.iter().position(|of| *of == id);
        let device = packets.asked_device.take();
        let is_behind = device
            .and_then(place)
            .is_some_and(|done| place(id).is_none_or(|place_of| place_of < done));
        let holds = is_complete && !is_behind;
        tally.check(packets::CURRENT, holds, || {
            let completed = packets.completed.unwrap_or_default();
            let device = packets.on_device.unwrap_or(completed);
            format!("it returned {id} for {engine}; {completed} was reported last, and the device has completed {device}")
        });
    }
}
