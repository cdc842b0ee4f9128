//! A queue of the API: its part on its own node and, if its policy moves work to other engines, one
//! part on each of those.
//!
//! Invariant: the parts run in call order. All work is appended to one part, the tail, until a list
//! belongs to another engine. The tail then signals the hand-over fence, and the part of the other
//! engine waits for it and becomes the tail. The application's waits and signals go to the tail.
//!
//! Locks: the order lock comes before the submitter locks of the parts, and is held across a call.
//! A queue with one part has none (`decisions/0082`).

use crate::counters::{EngineStats, QueueStats};
use crate::model::{EnginePolicy, Submission};
use crate::umd::allocator::RunsLists;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::{CommandMemory, ReportedBuffer};
use crate::umd::engine_queue::EngineQueue;
use crate::umd::failure::{Failure, Why};
use crate::umd::fence::FenceObject;
use crate::umd::kernel_queue;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::tile_mappings::TileMappings;
use crate::umd::user_queue::Submitted;
use std::sync::Arc;
use tidegate_calls::{Handle, Present, PresentQueue, TileOperation, UpdateGpuVirtualAddress};
use tidegate_gpu_abi::EngineKind;
use tidegate_platform::planted;
use tidegate_platform::{CpuTime, Mutex, QueueNumber, Queued};
use tidegate_trace::{Kind, NameId, Record};

type Result<T = ()> = std::result::Result<T, Failure>;

pub(crate) struct UmdQueue {
    own: EngineQueue,
    /// `None` if all work runs on its own node.
    spread: Option<Spread>,
    /// Held across the calls of an update.
    pub(crate) tile_mappings: Mutex<TileMappings>,
    pub(crate) id: Arc<QueueIdentity>,
}

/// The parts of a queue on other engines.
struct Spread {
    /// Each part with the class of its work.
    others: Vec<(EngineKind, EngineQueue)>,
    /// Orders the parts.
    hand_over: Arc<FenceObject>,
    order: Mutex<Order>,
}

/// The index of a part: 0 is the queue's own, n is number n - 1 of the others.
type Part = usize;
const OWN: Part = 0;

struct Order {
    /// The part with the queue's last work.
    tail: Part,
    /// The hand-over value queued last.
    value: u64,
    /// For each part, the hand-over value that it signals after its work; 0 for none yet.
    handed: Vec<u64>,
    /// The failure to return from the next call.
    failed: Option<Failure>,
    /// Number of part executes beyond the first of each call.
    more_executes: u64,
    /// Number of changes of the tail.
    hand_overs: u64,
}

impl UmdQueue {
    pub(crate) fn new(
        id: QueueIdentity,
        submission: Submission,
        policy: EnginePolicy,
    ) -> Result<UmdQueue> {
        let id = Arc::new(id);
        let own = EngineQueue::new(Arc::clone(&id), submission)?;
        let spread = match policy {
            EnginePolicy::Own => None,
            EnginePolicy::ByCommands => Spread::new(&id, submission)?,
        };
        let tile_mappings = TileMappings::default();
        let tile_mappings = id.device.platform.mutex("tile mappings of a queue", tile_mappings);
        Ok(UmdQueue { own, spread, tile_mappings, id })
    }

    /// Returns the present submission model of its own part. A user-mode queue may have become a
    /// hardware queue.
    pub(crate) fn submission(&self) -> Submission {
        self.own.submission()
    }

    /// Returns whether it was created as a user-mode queue, which accepts native fences only.
    pub(crate) fn is_user_mode(&self) -> bool {
        self.own.is_user_mode()
    }

    /// Returns the number of ring slots of its own part; `None` without a ring.
    pub(crate) fn ring_slots(&self) -> Option<u64> {
        self.own.ring_slots()
    }

    fn parts(&self) -> impl Iterator<Item = &EngineQueue> {
        let others = self.spread.iter().flat_map(|spread| &spread.others);
        std::iter::once(&self.own).chain(others.map(|(_, queue)| queue))
    }

    pub(crate) fn policy(&self) -> EnginePolicy {
        match self.spread {
            None => EnginePolicy::Own,
            Some(_) => EnginePolicy::ByCommands,
        }
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let tiles = self.tile_mappings.lock_device();
        let mut stats = self.stats_of_parts();
        stats.signals = stats.signals.saturating_sub(tiles.signals);
        stats.waits = stats.waits.saturating_sub(tiles.waits);
        stats
    }

    fn stats_of_parts(&self) -> QueueStats {
        let Some(spread) = &self.spread else { return self.own.stats() };
        let order = spread.order.lock_device();
        let mut stats = self.own.stats();
        for (_, other) in &spread.others {
            let of_other = other.stats();
            stats += of_other;
            stats.submissions_elsewhere += of_other.submissions;
        }
        stats.executes = stats.executes.saturating_sub(order.more_executes);
        stats.waits = stats.waits.saturating_sub(order.hand_overs);
        stats.signals = stats.signals.saturating_sub(order.hand_overs);
        stats.hand_overs = order.hand_overs;
        stats
    }

    /// Returns the statistics of each engine that it drives, its own first.
    pub(crate) fn engines(&self) -> Vec<EngineStats> {
        let of_part = |part: &EngineQueue| {
            let node = part.id.node_ordinal;
            let name = part.id.device.info.nodes[node as usize].name.clone();
            EngineStats { node, name, submissions: part.stats().submissions }
        };
        self.parts().map(of_part).collect()
    }

    /// Returns the command buffer named in a report on one of the kernel's queues, if it is still
    /// known.
    pub(crate) fn reported(
        &self,
        number: QueueNumber,
        buffer: ReportedBuffer,
    ) -> Option<Arc<CommandMemory>> {
        self.parts().find_map(|part| part.reported(number, buffer))
    }

    /// Connects the doorbells of its user-mode parts.
    pub(crate) fn connect_doorbells(&self) -> Result {
        self.parts().try_for_each(EngineQueue::connect_doorbell)
    }

    /// Waits until all queued work is complete. Fails when the deadline `by` has passed.
    pub(crate) fn wait_idle(&self, by: Option<CpuTime>) -> Result {
        let Some(spread) = &self.spread else { return self.own.wait_idle(by) };
        let tail = self.in_order(spread, |order, _| Ok(order.tail))?;
        self.part(spread, tail).wait_idle(by)?;
        // The tail was ordered behind all other parts.
        let others = (OWN..=spread.others.len()).filter(|part| *part != tail);
        others.map(|part| self.part(spread, part)).try_for_each(EngineQueue::collect_idle)
    }

    /// Returns whether all queued work is complete, as far as user mode can see.
    pub(crate) fn is_known_idle(&self) -> bool {
        self.parts().all(EngineQueue::is_known_idle)
    }

    /// Returns whether queued work is incomplete.
    pub(crate) fn is_pending(&self) -> Result<bool> {
        self.parts().try_fold(false, |pending, part| Ok(part.is_pending()? || pending))
    }

    #[inline]
    pub(crate) fn execute(&self, lists: &[&ClosedList], queued: Queued) -> Result {
        match &self.spread {
            None => whole(self.own.execute(lists, queued)),
            Some(spread) => self.execute_on_parts(spread, lists, queued),
        }
    }

    #[inline(never)]
    fn execute_on_parts(&self, spread: &Spread, lists: &[&ClosedList], queued: Queued) -> Result {
        self.own.check_length(lists)?;
        self.in_order(spread, |order, earlier| {
            let mut begun = 0;
            spread.runs(lists).try_for_each(|(part, run)| {
                self.hand_over(spread, order, part, queued, earlier)?;
                order.more_executes += u64::from(begun > 0);
                begun += 1;
                keep(earlier, self.part(spread, part).execute(run, queued)?);
                Ok(())
            })
        })
    }

    #[inline]
    pub(crate) fn wait(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Result {
        match &self.spread {
            None => whole(self.own.wait(fence, value, queued)),
            Some(spread) => self.on_tail(spread, move |tail| tail.wait(fence, value, queued)),
        }
    }

    #[inline]
    pub(crate) fn signal(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Result {
        match &self.spread {
            None => whole(self.own.signal(fence, value, queued)),
            Some(spread) => self.on_tail(spread, move |tail| tail.signal(fence, value, queued)),
        }
    }

    /// Changes tile mappings in the queue's order: 1. the queue signals a fence behind all queued
    /// work; 2. at that value the kernel changes the mappings and signals the next value; 3. the
    /// queue waits for that value before later work. The signal and the wait are not counted as the
    /// application's.
    pub(crate) fn update_tile_mappings(
        &self,
        reserved: Handle,
        operations: &[TileOperation],
    ) -> Result {
        let device = &self.id.device;
        let mut state = self.tile_mappings.lock_device();
        let fence = match &state.fence {
            Some(fence) => Arc::clone(fence),
            None => {
                let fence = FenceObject::internal(device, &format!("{} tiles", self.id.name))?;
                Arc::clone(state.fence.insert(fence))
            }
        };
        let queued = Queued { at_ns: self.id.queued().at_ns, ..Queued::default() };
        // 1.
        let value = state.value + 1;
        self.signal(&fence, value, queued)?;
        (state.value, state.signals) = (value, state.signals + 1);
        // 2.
        let handle = fence.handle();
        let update = UpdateGpuVirtualAddress { reserved, operations, fence: handle, value };
        let updated = device.enter().update_gpu_virtual_address(update);
        updated.map_err(Why::of("D3DKMTUpdateGpuVirtualAddress"))?;
        // 3.
        (state.value, state.waits) = (value + 1, state.waits + 1);
        self.wait(&fence, value + 1, queued)
    }

    /// Queues a flip behind all queued work, on the queue's own engine.
    pub(crate) fn present(&self, args: impl FnOnce(PresentQueue) -> Present) -> Result {
        let Some(spread) = self.spread.as_ref().filter(|_| !self.is_user_mode()) else {
            return self.own.present(args);
        };
        self.in_order(spread, |order, earlier| {
            self.hand_over(spread, order, OWN, self.id.queued(), earlier)?;
            self.own.present(args)
        })
    }

    #[inline(never)]
    fn on_tail(&self, spread: &Spread, submit: impl FnOnce(&EngineQueue) -> Submitted) -> Result {
        self.in_order(spread, |order, earlier| {
            keep(earlier, submit(self.part(spread, order.tail))?);
            Ok(())
        })
    }

    fn part<'a>(&'a self, spread: &'a Spread, part: Part) -> &'a EngineQueue {
        match part.checked_sub(1) {
            None => &self.own,
            Some(other) => &spread.others[other].1,
        }
    }

    /// Makes a submission under the order lock. If it succeeds, returns the unreported failure of
    /// an earlier one, if any. Otherwise that failure is kept for the next call.
    fn in_order<T>(
        &self,
        spread: &Spread,
        submit: impl FnOnce(&mut Order, &mut Option<Failure>) -> Result<T>,
    ) -> Result<T> {
        let mut order = spread.order.lock_device();
        let mut earlier = order.failed.take();
        let done = self.check_doorbells(spread, &order).and_then(|failed| {
            keep(&mut earlier, failed);
            submit(&mut order, &mut earlier)
        });
        match done {
            Ok(done) => earlier.map_or(Ok(done), Err),
            Err(failure) => {
                order.failed = earlier;
                Err(failure)
            }
        }
    }

    /// Recreates the parts whose doorbell is lost while the tail waits for them. They have no later
    /// submission that would detect the loss.
    fn check_doorbells(&self, spread: &Spread, order: &Order) -> Submitted {
        let (mut failed, reached) = (None, spread.hand_over.value.load());
        for part in (OWN..=spread.others.len()).filter(|part| *part != order.tail) {
            if order.handed[part] > reached {
                keep(&mut failed, self.part(spread, part).check_doorbell()?);
            }
        }
        Ok(failed)
    }

    /// Makes `to` the tail, behind all queued work.
    fn hand_over(
        &self,
        spread: &Spread,
        order: &mut Order,
        to: Part,
        Queued { at_ns, .. }: Queued,
        earlier: &mut Option<Failure>,
    ) -> Result {
        let from = order.tail;
        if from == to {
            return Ok(());
        }
        let (fence, value) = (&spread.hand_over, order.value + 1);
        let queued = Queued { at_ns, ..Queued::default() };
        keep(earlier, self.part(spread, from).signal(fence, value, queued)?);
        (order.value, order.handed[from]) = (value, value);
        if !planted!(self.id.device.platform, NoHandoverBetweenEngines) {
            keep(earlier, self.part(spread, to).wait(fence, value, queued)?);
        }
        order.hand_overs += 1;
        order.tail = to;
        Ok(())
    }

    /// Records the command buffers that are queued, each under the name of its first list. Returns
    /// the time and name of the call for the records.
    #[inline]
    pub(crate) fn record_queued(&self, lists: &[&ClosedList]) -> Queued {
        let link = self.id.device.platform.new_link();
        let queued = Queued { link, ..self.id.queued() };
        if link.is_some() {
            self.record_lists(lists, queued);
        }
        queued
    }

    #[inline(never)]
    fn record_lists(&self, lists: &[&ClosedList], queued: Queued) {
        let platform = &self.id.device.platform;
        let record = |list: &ClosedList| {
            let lane = self.id.lane;
            let name = timeline_name(list);
            let record = Record::instant(lane, Kind::ExecuteQueued, name, queued.at_ns);
            platform.record(record.linked(queued.link));
        };
        let record_run = |run: &[&ClosedList]| match self.submission() {
            Submission::Packet => kernel_queue::packets(run).for_each(|packet| record(packet[0])),
            Submission::Hardware | Submission::User => run.iter().for_each(|list| record(list)),
        };
        match &self.spread {
            None => record_run(lists),
            Some(spread) => spread.runs(lists).for_each(|(_, run)| record_run(run)),
        }
    }
}

impl RunsLists for UmdQueue {
    fn release_finished(&self) {
        self.parts().for_each(EngineQueue::release_finished);
    }

    fn queue_name(&self) -> &str {
        &self.id.name
    }
}

impl Spread {
    /// Creates parts on the other engines that a queue of this type and model can drive. Returns
    /// `None` if the adapter has none.
    fn new(id: &Arc<QueueIdentity>, submission: Submission) -> Result<Option<Spread>> {
        let mut others = Vec::new();
        for class in [EngineKind::Compute, EngineKind::Copy] {
            let Some(node_ordinal) = id.other_node_for(class, submission) else { continue };
            let id = Arc::new(QueueIdentity { node_ordinal, ..QueueIdentity::clone(id) });
            others.push((class, EngineQueue::new(id, submission)?));
        }
        if others.is_empty() {
            return Ok(None);
        }
        let order = Order {
            tail: OWN,
            value: 0,
            handed: vec![0; 1 + others.len()],
            failed: None,
            more_executes: 0,
            hand_overs: 0,
        };
        let order = id.device.platform.mutex("order of a queue's engines", order);
        let name = format!("{} hand-over", id.name);
        Ok(Some(Spread { others, hand_over: FenceObject::internal(&id.device, &name)?, order }))
    }

    /// Returns the part that runs a list: the part of the engine class that its commands require,
    /// else the queue's own.
    fn part_for(&self, list: &ClosedList) -> Part {
        let other = self.others.iter().position(|(class, _)| list.memory.made_for == Some(*class));
        other.map_or(OWN, |other| other + 1)
    }

    /// Divides `lists`, in order, into runs for one part each.
    fn runs<'a>(
        &self,
        lists: &'a [&'a ClosedList],
    ) -> impl Iterator<Item = (Part, &'a [&'a ClosedList])> {
        let runs = lists.chunk_by(|one, next| self.part_for(one) == self.part_for(next));
        runs.map(|run| (self.part_for(run[0]), run))
    }
}

/// Keeps the first failure.
fn keep(earlier: &mut Option<Failure>, failure: Option<Failure>) {
    *earlier = earlier.take().or(failure);
}

/// Returns the result of a call that made one submission.
#[inline]
fn whole(submitted: Submitted) -> Result {
    submitted?.map_or(Ok(()), Err)
}

impl Drop for UmdQueue {
    fn drop(&mut self) {
        let stats = self.stats();
        let QueueIdentity { device, name, lane, .. } = &*self.id;
        *device.ended.lock() += stats;
        // A report on a lost device names the queue whose work was not complete. A queue whose work
        // was complete is in no report.
        if !self.parts().all(EngineQueue::has_completed) {
            let numbers = device.platform.queues_on(*lane);
            let named = numbers.into_iter().map(|number| (number, name.clone()));
            device.unfinished.lock().extend(named);
        }
    }
}

/// Returns the name of a list's box in the queue's timeline lane.
pub(crate) fn timeline_name(list: &ClosedList) -> NameId {
    NameId(list.memory.trace_name.saturating_sub(1))
}
