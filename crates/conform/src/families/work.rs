//! The packets of each engine, from their submission to their end. Clauses of packets, preemption
//! and recovery are judged here, because they are about one order of ids.
//!
//! Ids are 32 bits and wrap, so they are compared by their place in the order of submission and
//! never by size.

use super::recent::Recent;
use super::{packets, preemption, recovery};
use crate::journal::{Event, RunEnd};
use crate::tally::Tally;
use std::collections::{BTreeMap, VecDeque};
use tidegate::ddi::{DdiCall, EngineId, Entry, InterruptData};

/// What an engine has completed before its first packet.
const FRESH: u32 = 0;

/// The packets of one engine.
#[derive(Default)]
struct Packets {
    /// Submitted and not ended, in order.
    in_flight: VecDeque<u32>,
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
}

impl Packets {
    fn submitted(&mut self, id: u32) {
        self.in_flight.push_back(id);
        self.returned.remove(id);
    }

    /// Ends packets in flight up to this one.
    fn complete_up_to(&mut self, id: u32) {
        while let Some(first) = self.in_flight.pop_front() {
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
        self.in_flight.drain(..).for_each(|id| self.aborted.insert_ended(id));
        self.requests.clear();
    }
}

/// The packets of all engines.
#[derive(Default)]
pub(super) struct Walk {
    engines: BTreeMap<EngineId, Packets>,
    /// Between DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout.
    is_reset: bool,
}

impl super::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(call) => self.called(call),
            Event::Returned(entry, status) => {
                let failed = status.is_some_and(|status| !status.is_success());
                self.returned(*entry, failed);
            }
            Event::Refused(engine, id) => {
                self.engines.entry(*engine).or_default().in_flight.retain(|of| of != id);
            }
            Event::Report(data) => self.report(tally, data),
            Event::EngineReset(engine, id) => self.engine_reset(tally, *engine, *id),
            Event::CurrentFence(engine, id) => self.current_fence(tally, *engine, *id),
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
            tally.check_at_end(preemption::ANSWERED, open.is_empty(), || {
                format!("requests {open:?} of {engine} have no answer")
            });
        }
    }
}

impl Walk {
    fn called(&mut self, call: &DdiCall) {
        match call {
            DdiCall::SubmitCommandVirtual { args } => {
                self.submit(args.engine, args.submission_fence_id);
            }
            DdiCall::SubmitCommand { args } => self.submit(args.engine, args.submission_fence_id),
            DdiCall::PreemptCommand { args } => {
                let packets = self.engines.entry(args.engine).or_default();
                packets.requests.push(args.preemption_fence_id);
            }
            _ => {}
        }
    }

    fn submit(&mut self, engine: EngineId, id: u32) {
        self.engines.entry(engine).or_default().submitted(id);
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
            let is_quiet = !self.is_reset;
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
        tally.check(packets::ORDER, in_flight || !older, || {
            let last = packets.completed.unwrap_or_default();
            text(&format!("is reported after the later packet {last}"))
        });
        tally.check(preemption::RETURNED, in_flight || !returned, || {
            text("was returned by a preemption and not submitted again")
        });
        if in_flight {
            packets.complete_up_to(id);
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
        self.overdue(tally, engine);
        let packets = self.engines.entry(engine).or_default();
        if packets.in_flight.contains(&id) {
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
        let open = self.engines.get(&engine).map_or(0, |packets| packets.requests.len());
        tally.check(preemption::ANSWERED, open == 0, || {
            format!("{open} requests of {engine} have no answer when it is reset")
        });
    }

    fn current_fence(&mut self, tally: &mut Tally, engine: EngineId, id: u32) {
        let Some(packets) = self.engines.get(&engine) else { return };
        let holds = packets.in_flight.contains(&id) || packets.completed.unwrap_or(FRESH) == id;
        tally.check(packets::CURRENT, holds, || {
            let completed = packets.completed.unwrap_or_default();
            format!("it returned {id} for {engine}; {completed} was reported last")
        });
    }
}
