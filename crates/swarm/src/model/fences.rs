//! The rules of fences: their instances, signals and waits.

use super::state::{FenceState, History, QueueState, Signaller};
use super::{Facts, Model, Refusal, adapter_of, require};
use crate::operation::NewFence;
use crate::words::{
    Fate, FenceId, FenceKind, Model as Submission, ProcessId, QueueId, Sharing, Surface, ThreadId,
};
use std::collections::{BTreeMap, BTreeSet};
use tidegate::kmd::FaultNaming;

/// Values of fences on adapters with 64-bit and with 32-bit atomics.
const WIDE_LIMIT: u64 = 1 << 62;
const NARROW_LIMIT: u64 = 1 << 31;

impl Model {
    pub(super) fn close_fence(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        fence: FenceId,
    ) -> Result<(), Refusal> {
        let state = self.instance(thread, process, fence, Surface::Raw)?;
        require(state.sharing == Sharing::Private, "only private fences are closed")?;
        require(!state.is_pulsed(), "the fence is pulsed")?;
        require(!state.has_ring, "a ring names the fence")?;
        require(!state.is_closed, "the fence is closed")?;
        state.is_closed = true;
        Ok(())
    }

    /// Admits a wait for both or for one of two fences.
    pub(super) fn wait_for_two(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        both: [(FenceId, u64); 2],
        is_all: bool,
    ) -> Result<(), Refusal> {
        require(both[0].0 != both[1].0, "the fences are one")?;
        let mut ends = [Ok(()); 2];
        for ((fence, value), end) in both.into_iter().zip(&mut ends) {
            let state = self.instance(thread, process, fence, Surface::Raw)?;
            require(!state.is_pulsed(), "the fence is pulsed")?;
            *end = self.is_guaranteed(fence, value);
        }
        let [one, other] = ends;
        if is_all { one.and(other) } else { one.or(other) }
    }

    pub(super) fn create_fence(
        &mut self,
        facts: &Facts<'_>,
        process: ProcessId,
        fence: FenceId,
        new: NewFence,
    ) -> Result<(), Refusal> {
        let NewFence { surface, kind, sharing, initial } = new;
        require(!self.fences.contains_key(&fence), "the fence is there already")?;
        let native = facts.caps(process).native_fences;
        require(native || kind == FenceKind::Monitored, "the adapter has no native fences")?;
        require(
            surface == Surface::Raw || kind == facts.api_kind(process),
            "the queue API makes fences of the other kind",
        )?;
        let is_wide = facts.caps(process).atomics_64bit;
        let limit = if is_wide { WIDE_LIMIT } else { NARROW_LIMIT };
        require(initial < limit / 2, "the initial value is too high for the adapter")?;
        let is_kept = sharing == Sharing::Private || !self.destroyed.contains(&process);
        require(is_kept, "the device of the process may be destroyed")?;
        let state = FenceState {
            owner: process,
            kind,
            sharing,
            instances: BTreeSet::from([(process, surface)]),
            opened: BTreeSet::from([(process, surface)]),
            highest: initial,
            initial,
            limit,
            is_wide,
            last: BTreeMap::new(),
            is_closed: false,
            pulsed_by: None,
            history: History::new(initial, facts.history_room(process)),
            pulsed_rings: BTreeSet::new(),
            threads: BTreeSet::new(),
            has_ring: false,
            users: BTreeSet::new(),
        };
        self.fences.insert(fence, state);
        Ok(())
    }

    pub(super) fn open_fence(
        &mut self,
        facts: &Facts<'_>,
        process: ProcessId,
        fence: FenceId,
        surface: Surface,
    ) -> Result<(), Refusal> {
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(!state.instances.is_empty(), "every instance is closed")?;
        let owner = facts.program.process(state.owner);
        // The storage of a fence has one width on all adapters (decision 143).
        let is_wide = facts.caps(process).atomics_64bit;
        require(is_wide == state.is_wide, "the adapters have different atomics")?;
        // The devices of a doomed process are lost one by one: what one no longer signals, another
        // would wait for.
        require(owner.fate == Fate::Steady, "its owner is doomed")?;
        let is_near = owner.adapter == facts.program.process(process).adapter;
        require(
            match state.sharing {
                Sharing::Private => false,
                Sharing::Shared => is_near,
                Sharing::Cross => true,
            },
            "the fence is not shared with the process",
        )?;
        require(
            is_near || surface == Surface::Raw || state.kind == facts.api_kind(process),
            "the adapters make fences of different kinds",
        )?;
        require(state.opened.insert((process, surface)), "the instance was opened before")?;
        state.instances.insert((process, surface));
        Ok(())
    }

    pub(super) fn drop_fence(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        fence: FenceId,
        surface: Surface,
    ) -> Result<(), Refusal> {
        let state = self.instance(thread, process, fence, surface)?;
        require(!state.is_closed, "the fence is closed")?;
        let is_foreign = |user: &(ProcessId, Surface, ThreadId)| {
            (user.0, user.1) == (process, surface) && user.2 != thread
        };
        let foreign = state.users.iter().any(is_foreign);
        require(!foreign, "a queue of another thread has used the fence")?;
        let uses = |queue: &QueueState| {
            !queue.dropped && queue.process == process && queue.fences.contains(&fence)
        };
        require(!self.queues.values().any(uses), "queued steps use the fence")?;
        let waits = self.waits.values().any(|wait| wait.fence == fence && !wait.is_over);
        require(!waits, "a registered wait uses the fence")?;
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        state.instances.remove(&(process, surface));
        Ok(())
    }

    pub(super) fn instance(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        fence: FenceId,
        surface: Surface,
    ) -> Result<&mut FenceState, Refusal> {
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(state.has(process, surface), "the process has no such instance")?;
        state.threads.insert(thread);
        Ok(state)
    }

    /// Whether a queue's waits and signals can name the fence.
    pub(super) fn can_use(
        &mut self,
        facts: &Facts<'_>,
        thread: ThreadId,
        queue: QueueId,
        fence: FenceId,
    ) -> Result<(), Refusal> {
        let (process, surface, model) = {
            let state = self.own_queue(thread, queue)?;
            (state.process, state.surface, state.model)
        };
        let state = self.instance(thread, process, fence, surface)?;
        state.users.insert((process, surface, thread));
        state.has_ring |= model == Submission::User;
        let needs_native = model == Submission::User;
        let is_native = state.kind == FenceKind::Native && facts.caps(process).native_fences;
        // The GPU would store to memory that the close may have freed.
        require(!(state.is_closed && needs_native), "a ring names a closed fence")?;
        require(!needs_native || is_native, "a user-mode queue needs a native fence")
    }

    pub(super) fn is_guaranteed(&self, fence: FenceId, value: u64) -> Result<(), Refusal> {
        let state = self.fences.get(&fence).ok_or("there is no such fence")?;
        require(!state.is_pulsed(), "the fence is pulsed")?;
        require(
            state.is_closed || value <= state.guaranteed(),
            "no earlier step guarantees the value",
        )
    }

    pub(super) fn signal(
        &mut self,
        facts: &Facts<'_>,
        process: ProcessId,
        fence: FenceId,
        by: Signaller,
        value: u64,
    ) -> Result<(), Refusal> {
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(!state.is_pulsed(), "the fence is pulsed")?;
        let is_doomed = facts.program.is_doomed(process);
        require(!is_doomed || state.owner == process, "a doomed process signals its own fences")?;
        require(value > state.highest, "signals of a fence rise")?;
        require(value < state.limit, "the value is too high for the adapter")?;
        state.highest = value;
        state.last.insert(by, value);
        Ok(())
    }

    /// Admits a pulse, of the wait of a ring or of another wait.
    pub(super) fn pulse(
        &mut self,
        facts: &Facts<'_>,
        thread: ThreadId,
        fence: FenceId,
        ring: Option<QueueId>,
        value: u64,
        low: u64,
    ) -> Result<(), Refusal> {
        let process = facts.program.process_of(thread);
        require(facts.caps(process).fence_history, "the hardware keeps no history")?;
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(!state.is_closed, "the fence is closed")?;
        require(state.last.is_empty(), "the fence has signals")?;
        require(state.sharing == Sharing::Private, "only private fences are pulsed")?;
        let waits = self.waits.values().any(|wait| wait.fence == fence);
        require(!waits, "waits are registered with the fence")?;
        require(state.threads.iter().all(|other| *other == thread), "another thread uses it")?;
        require(low < value && value < state.limit, "a pulse falls")?;
        state.pulsed_by = Some(thread);
        state.pulsed_rings.extend(ring);
        [value, low].into_iter().for_each(|value| state.history.store(value));
        if state.history.has_dropped && !state.pulsed_rings.is_empty() {
            // A ring that has not come to its wait yet may find it undecided (decision 50).
            let is_doomed = facts.program.is_doomed(process);
            require(is_doomed, "a ring of a steady process may lose its wait")?;
            // The engine of a fault without a name is reset, and what it ran meanwhile is lost.
            let is_named = adapter_of(facts, process).faults_name() != FaultNaming::Engine;
            require(
                is_named || facts.is_doomed_adapter(process),
                "the reset for a ring that lost its wait may cut off a steady process",
            )?;
            self.may_fault.extend(&state.pulsed_rings);
        }
        Ok(())
    }
}
