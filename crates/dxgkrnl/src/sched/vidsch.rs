//! Owns VidSch's policy for the packet model: pure, no lock, no clock, no fence; times are arguments, decisions are returned.
//!
//! A context's queue is first in, first out over commands, waits and signals. A command goes to its engine when it heads the queue
//! and the engine has room; a wait holds what stands behind it; a signal is made when it heads the queue and every earlier
//! command is complete (a signal at submission does not ask for that), on every context that it was given to. Between contexts of an engine the higher priority goes first, and equal ones take turns.
//!
//! An engine is a node of a physical adapter; here it is a number (`AdapterCaps::engine_number`). Packets are numbered per engine.

use super::broadcast::{Broadcast, Standing};
use crate::memory::InUse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_calls::{Priority, SignalFlags};
use tidegate_ddi::{AdapterCaps, OsHandle};
use tidegate_platform::Event;

/// Packets that an engine holds at once when the driver states no cap.
const DEFAULT_PACKET_CAP: usize = 2;
const PRIORITIES: usize = 4;

/// A command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u32,
    pub(crate) queued_ns: u64,
}

/// What a context is given.
#[derive(Clone, Debug)]
pub(crate) enum Work<F> {
    Command(Command),
    Wait {
        fences: Vec<F>,
        remaining: usize,
    },
    /// The context's part in the signal of this ticket; see [`VidSch::push_signal`].
    Signal {
        at_submission: bool,
        reached: bool,
    },
}

/// What a signal packet does when every context has reached it.
#[derive(Clone, Debug)]
pub(crate) enum Effect<F> {
    /// Signals fences.
    Fences(Vec<F>),
    /// Sets an event and touches no fence.
    CpuEvent(Event),
    /// Says that what was queued before it is over, by being dropped.
    LastUse(Arc<InUse>),
}

/// A signal packet.
#[derive(Clone, Debug)]
pub(crate) struct Signal<F> {
    pub(crate) effect: Effect<F>,
    pub(crate) flags: SignalFlags,
}

/// A signal packet and the contexts in whose queues it stands.
struct QueuedSignal<F> {
    signal: Signal<F>,
    contexts: Broadcast,
}

/// What was queued on contexts that go away, to be dropped outside the lock.
pub(crate) struct GivenUp<F> {
    /// There are decisions now: somebody must run.
    pub(crate) news: bool,
    /// What each of the contexts waited for.
    pub(crate) waits: Vec<(OsHandle, F)>,
    /// Signals that are not made.
    pub(crate) abandoned: Vec<Signal<F>>,
}

struct Item<F> {
    ticket: u64,
    queued_ns: u64,
    /// When it came to the head of its queue.
    head_ns: Option<u64>,
    work: Work<F>,
}

struct ContextQueue<F> {
    engine: u32,
    priority: Priority,
    tag: u32,
    lane: u32,
    items: VecDeque<Item<F>>,
    in_flight: usize,
    signalling: bool,
    /// Stands in its engine's ready list.
    listed: bool,
}

struct Engine {
    cap: usize,
    in_flight: VecDeque<(u32, OsHandle)>,
    last_id: u32,
    ready: [VecDeque<OsHandle>; PRIORITIES],
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Decision<F> {
    /// Give a packet to the driver.
    Submit { context: OsHandle, engine: u32, command: Command, fence_id: u32 },
    /// Signal, then report [`VidSch::signalled`].
    Signal { contexts: Vec<OsHandle>, signal: Signal<F> },
}

/// A wait or signal that is over, for the timeline.
pub(crate) struct Finished<F> {
    pub(crate) lane: u32,
    pub(crate) wait: bool,
    pub(crate) fences: Vec<F>,
    pub(crate) queued_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// The scheduler of one adapter's packet contexts. `F` is a fence and a value; here it is only carried.
pub(crate) struct VidSch<F = super::FenceTarget> {
    engines: Vec<Engine>,
    contexts: BTreeMap<OsHandle, ContextQueue<F>>,
    signals: BTreeMap<u64, QueuedSignal<F>>,
    /// Signals that every context has reached, in that order.
    reached_signals: VecDeque<u64>,
    finished: Vec<Finished<F>>,
    next_ticket: u64,
    running: bool,
}

impl<F: Clone> VidSch<F> {
    pub(crate) fn new(caps: &AdapterCaps) -> VidSch<F> {
        let cap = match caps.hw_queue_packet_cap {
            0 => DEFAULT_PACKET_CAP,
            cap => cap as usize,
        };
        let engine = || Engine { cap, in_flight: VecDeque::new(), last_id: 0, ready: Default::default() };
        VidSch {
            // spec: NF-323
            engines: (0..caps.engine_count()).map(|_| engine()).collect(),
            contexts: BTreeMap::new(),
            signals: BTreeMap::new(),
            reached_signals: VecDeque::new(),
            finished: Vec::new(),
            next_ticket: 0,
            running: false,
        }
    }

    pub(crate) fn add_context(
        &mut self,
        context: OsHandle,
        engine: u32,
        priority: Priority,
        tag: u32,
        lane: u32,
    ) {
        let queue = ContextQueue {
            engine,
            priority,
            tag,
            lane,
            items: VecDeque::new(),
            in_flight: 0,
            signalling: false,
            listed: false,
        };
        self.contexts.insert(context, queue);
    }

    /// Forgets a context.
    pub(crate) fn remove_context(&mut self, context: OsHandle) -> GivenUp<F> {
        let given_up = self.clear_contexts(&[context]);
        self.contexts.remove(&context);
        given_up
    }

    /// Gives up everything that these contexts have queued, at once: their device is lost, and none of them makes a signal
    /// because another one went first.
    pub(crate) fn clear_contexts(&mut self, contexts: &[OsHandle]) -> GivenUp<F> {
        let mut given_up = GivenUp { news: false, waits: Vec::new(), abandoned: Vec::new() };
        let mut left = Vec::new();
        for context in contexts {
            let Some(queue) = self.contexts.get_mut(context) else { continue };
            for item in queue.items.drain(..) {
                match item.work {
                    Work::Command(_) => {}
                    Work::Wait { fences, .. } => {
                        given_up.waits.extend(fences.into_iter().map(|fence| (*context, fence)));
                    }
                    Work::Signal { .. } => left.push((item.ticket, *context)),
                }
            }
        }
        let mut complete = Vec::new();
        for (ticket, context) in left {
            let Some(queued) = self.signals.get_mut(&ticket) else { continue };
            match queued.contexts.leave(context) {
                Standing::Held => {}
                Standing::Complete => complete.push(ticket),
                // Nobody is left who could say that the event will not come: it comes.
                Standing::Abandoned if matches!(queued.signal.effect, Effect::CpuEvent(_)) => {
                    complete.push(ticket)
                }
                Standing::Abandoned => {
                    given_up.abandoned.extend(self.signals.remove(&ticket).map(|s| s.signal))
                }
            }
        }
        // One that was complete for a moment may have lost its last context after that.
        complete.retain(|ticket| self.signals.contains_key(ticket));
        given_up.news = !complete.is_empty();
        self.reached_signals.extend(complete);
        given_up
    }

    /// Appends work to a context; returns the ticket that names it.
    pub(crate) fn push(&mut self, context: OsHandle, work: Work<F>, now_ns: u64) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        if let Some(queue) = self.contexts.get_mut(&context) {
            let queued_ns = if let Work::Command(c) = &work { c.queued_ns } else { now_ns };
            // spec: MF-032
            queue.items.push_back(Item { ticket, queued_ns, head_ns: None, work });
        }
        self.touch(context, now_ns);
        ticket
    }

    /// Appends one signal packet to every one of `contexts`: made when all of them have reached it.
    pub(crate) fn push_signal(&mut self, contexts: &[OsHandle], signal: Signal<F>, now_ns: u64) {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        // spec: MF-064
        let at_submission = signal.flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION);
        self.signals.insert(ticket, QueuedSignal { signal, contexts: Broadcast::new(contexts) });
        for context in contexts {
            let Some(queue) = self.contexts.get_mut(context) else { continue };
            let work = Work::Signal { at_submission, reached: false };
            queue.items.push_back(Item { ticket, queued_ns: now_ns, head_ns: None, work });
        }
        for context in contexts {
            self.touch(*context, now_ns);
        }
    }

    /// One condition of the wait `ticket` came true.
    pub(crate) fn wait_satisfied(&mut self, context: OsHandle, ticket: u64, now_ns: u64) {
        let Some(queue) = self.contexts.get_mut(&context) else { return };
        if let Some(Item { work: Work::Wait { remaining, .. }, .. }) =
            queue.items.iter_mut().find(|i| i.ticket == ticket)
        {
            *remaining = remaining.saturating_sub(1);
        }
        self.touch(context, now_ns);
    }

    /// The signal that was decided is made: its contexts go on.
    pub(crate) fn signalled(&mut self, contexts: &[OsHandle], now_ns: u64) {
        for context in contexts {
            if let Some(queue) = self.contexts.get_mut(context) {
                queue.signalling = false;
            }
            self.touch(*context, now_ns);
        }
    }

    /// The contexts of all packets of `engine` that are in flight.
    pub(crate) fn in_flight_on(&self, engine: u32) -> Vec<OsHandle> {
        let packets = self.engines.get(engine as usize).into_iter().flat_map(|n| &n.in_flight);
        packets.map(|(_, context)| *context).collect()
    }

    /// The contexts of the packets of `engine` up to `fence_id` that are in flight.
    pub(crate) fn in_flight_up_to(&self, engine: u32, fence_id: u32) -> Vec<OsHandle> {
        let packets = self.engines.get(engine as usize).into_iter().flat_map(|n| &n.in_flight);
        packets.take_while(|(id, _)| fence_id.wrapping_sub(*id).cast_signed() >= 0).map(|(_, c)| *c).collect()
    }

    /// Packets of `engine` up to `fence_id` are complete. `false` when that packet is not in flight and was not just completed.
    pub(crate) fn completed(&mut self, engine: u32, fence_id: u32, now_ns: u64) -> bool {
        let Some(n) = self.engines.get_mut(engine as usize) else { return false };
        if fence_id.wrapping_sub(n.last_id).cast_signed() > 0 {
            return false;
        }
        let mut touched = Vec::new();
        while let Some(&(id, context)) = n.in_flight.front() {
            if fence_id.wrapping_sub(id).cast_signed() < 0 {
                break;
            }
            n.in_flight.pop_front();
            touched.push(context);
        }
        for context in touched {
            if let Some(queue) = self.contexts.get_mut(&context) {
                queue.in_flight -= 1;
            }
            self.touch(context, now_ns);
        }
        true
    }

    /// A packet did not reach the engine: nothing is left of it. The packets before it are where they were; they may be running.
    pub(crate) fn not_taken(&mut self, engine: u32, fence_id: u32, now_ns: u64) {
        let Some(e) = self.engines.get_mut(engine as usize) else { return };
        let Some(at) = e.in_flight.iter().position(|(id, _)| *id == fence_id) else { return };
        let Some((_, context)) = e.in_flight.remove(at) else { return };
        if let Some(queue) = self.contexts.get_mut(&context) {
            queue.in_flight -= 1;
        }
        self.touch(context, now_ns);
    }

    /// The context whose packet this is, while it is in flight.
    pub(crate) fn context_of_packet(&self, engine: u32, fence_id: u32) -> Option<OsHandle> {
        let engine = self.engines.get(engine as usize)?;
        engine.in_flight.iter().find(|(id, _)| *id == fence_id).map(|(_, c)| *c)
    }

    /// Takes the right to carry out decisions; `false` when somebody has it, who will see what was just entered.
    pub(crate) fn begin_run(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    /// The next decision; `None` gives the right back.
    pub(crate) fn next_decision(&mut self, now_ns: u64) -> Option<Decision<F>> {
        let decision = self.next_signal(now_ns).or_else(|| self.next_packet(now_ns));
        self.running = decision.is_some();
        decision
    }

    /// Waits and signals that are over since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<Finished<F>> {
        std::mem::take(&mut self.finished)
    }

    fn next_signal(&mut self, now_ns: u64) -> Option<Decision<F>> {
        while let Some(ticket) = self.reached_signals.pop_front() {
            // One whose contexts went away meanwhile is abandoned.
            let Some(QueuedSignal { signal, contexts }) = self.signals.remove(&ticket) else { continue };
            let contexts = contexts.queues();
            for context in &contexts {
                let Some(queue) = self.contexts.get_mut(context) else { continue };
                if queue.items.front().is_none_or(|head| head.ticket != ticket) {
                    continue;
                }
                let Some(item) = queue.items.pop_front() else { continue };
                queue.signalling = true;
                let Effect::Fences(fences) = &signal.effect else { continue };
                self.finished.push(Finished {
                    lane: queue.lane,
                    wait: false,
                    fences: fences.clone(),
                    queued_ns: item.queued_ns,
                    start_ns: item.head_ns.unwrap_or(now_ns),
                    end_ns: now_ns,
                });
            }
            return Some(Decision::Signal { contexts, signal });
        }
        None
    }

    fn next_packet(&mut self, now_ns: u64) -> Option<Decision<F>> {
        for index in 0..self.engines.len() {
            let engine = &mut self.engines[index];
            if engine.in_flight.len() >= engine.cap {
                continue;
            }
            let Some(context) = engine.ready.iter_mut().rev().find_map(VecDeque::pop_front) else { continue };
            let Some(queue) = self.contexts.get_mut(&context) else { continue };
            queue.listed = false;
            let Some(Item { work: Work::Command(command), .. }) = queue.items.front() else {
                self.touch(context, now_ns);
                continue;
            };
            let command = *command;
            queue.items.pop_front();
            queue.in_flight += 1;
            engine.last_id = engine.last_id.wrapping_add(1);
            let fence_id = engine.last_id;
            engine.in_flight.push_back((fence_id, context));
            self.touch(context, now_ns);
            return Some(Decision::Submit { context, engine: index as u32, command, fence_id });
        }
        None
    }

    /// Something about the context changed: takes satisfied waits off its head and lists it if its head can go.
    fn touch(&mut self, context: OsHandle, now_ns: u64) {
        let Some(queue) = self.contexts.get_mut(&context) else { return };
        while let Some(head) = queue.items.front_mut() {
            let start_ns = *head.head_ns.get_or_insert(now_ns);
            // spec: MF-031, MF-034
            let Work::Wait { fences, remaining: 0 } = &mut head.work else { break };
            let (fences, queued_ns) = (std::mem::take(fences), head.queued_ns);
            self.finished.push(Finished {
                lane: queue.lane,
                wait: true,
                fences,
                queued_ns,
                start_ns,
                end_ns: now_ns,
            });
            queue.items.pop_front();
        }
        if queue.listed || queue.signalling {
            return;
        }
        let idle = queue.in_flight == 0;
        match queue.items.front_mut() {
            Some(Item { work: Work::Command(_), .. }) => {
                queue.listed = true;
                self.engines[queue.engine as usize].ready[queue.priority as usize].push_back(context);
            }
            // spec: MF-023
            Some(Item { ticket, work: Work::Signal { at_submission, reached }, .. })
                if !*reached && (*at_submission || idle) =>
            {
                *reached = true;
                let ticket = *ticket;
                let signal = self.signals.get_mut(&ticket);
                if signal.is_some_and(|s| s.contexts.reach(context) == Standing::Complete) {
                    self.reached_signals.push_back(ticket);
                }
            }
            _ => {}
        }
    }
}

impl<F: Clone> VidSch<F> {
    /// Whether a context has nothing queued and nothing in flight.
    pub(crate) fn is_idle(&self, context: OsHandle) -> bool {
        self.contexts
            .get(&context)
            .is_none_or(|queue| queue.items.is_empty() && queue.in_flight == 0 && !queue.signalling)
    }
}

impl VidSch {
    /// Waits at the head of their queues.
    pub(crate) fn pending_waits(&self) -> Vec<crate::PendingWait> {
        let heads = self.contexts.values().filter_map(|q| Some((q.tag, &q.items.front()?.work)));
        let waits = heads.filter_map(|(tag, work)| match work {
            Work::Wait { fences, .. } => Some((tag, fences)),
            _ => None,
        });
        waits.flat_map(|(tag, fences)| fences.iter().filter_map(move |f| f.0.pending(tag, f.1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ddi::VidSchCaps;
    use tidegate_ddi::caps::{EngineType, NodeMetadata};
    use tidegate_ddi::{ComputePreemption, GraphicsPreemption, PreemptionCaps};

    fn sched() -> VidSch<&'static str> {
        VidSch::new(&caps())
    }

    fn caps() -> AdapterCaps {
        let node = NodeMetadata {
            engine_type: EngineType::ThreeD,
            friendly_name: "3D".to_owned(),
            context_scheduling: false,
            user_mode_submission: false,
            max_in_flight_hw_queue_buffers: 0,
            writes_fences: true,
            monitored_notification: tidegate_ddi::MonitoredNotification::Basic,
        };
        AdapterCaps {
            preemption: PreemptionCaps {
                graphics: GraphicsPreemption::None,
                compute: ComputePreemption::None,
            },
            per_engine_tdr: false,
            flip_on_vsync_mmio: false,
            description: String::new(),
            scheduling: VidSchCaps::MULTI_ENGINE_AWARE,
            hw_queue_packet_cap: 1,
            nodes: vec![node],
            physical_adapters: 1,
            signaled_hw_queue_array: false,
            fence_history: false,
            peer_signal: tidegate_ddi::PeerSignalCaps::default(),
            cache_coherent_memory: true,
            io_mmu: false,
        }
    }

    #[test]
    fn a_packet_that_was_not_taken_completes_nobody_else_s() {
        let mut sched = VidSch::<&'static str>::new(&AdapterCaps { hw_queue_packet_cap: 2, ..caps() });
        let (first, second) = (OsHandle(1), OsHandle(2));
        for context in [first, second] {
            sched.add_context(context, 0, Priority::Normal, 0, 0);
            sched.push(context, command(context.0), 0);
            sched.push_signal(&[context], signal("done", SignalFlags::empty()), 0);
        }
        let (one, two) = (submitted(&mut sched).unwrap(), submitted(&mut sched).unwrap());
        sched.not_taken(0, two.1, 0);
        let Some(Decision::Signal { contexts, .. }) = sched.next_decision(0) else {
            panic!("a signal is due")
        };
        assert_eq!(contexts, [second], "nothing of it is left to wait for");
        assert!(sched.next_decision(0).is_none(), "the packet before it still runs");
        assert!(sched.completed(0, one.1, 0));
        let Some(Decision::Signal { contexts, .. }) = sched.next_decision(0) else {
            panic!("a signal is due")
        };
        assert_eq!(contexts, [first]);
        // Once more, and one that nobody knows: nothing happens.
        sched.not_taken(0, two.1, 0);
        sched.not_taken(7, 7, 0);
    }

    fn command(gpu_va: u64) -> Work<&'static str> {
        Work::Command(Command { gpu_va, bytes: 8, queued_ns: 0 })
    }

    fn submitted(sched: &mut VidSch<&'static str>) -> Option<(u64, u32)> {
        match sched.next_decision(0) {
            Some(Decision::Submit { command, fence_id, .. }) => Some((command.gpu_va, fence_id)),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    fn signal(fence: &'static str, flags: SignalFlags) -> Signal<&'static str> {
        Signal { effect: Effect::Fences(vec![fence]), flags }
    }

    fn names(signal: &Signal<&'static str>) -> Vec<&'static str> {
        match &signal.effect {
            Effect::Fences(fences) => fences.clone(),
            Effect::CpuEvent(_) | Effect::LastUse(_) => vec!["event"],
        }
    }

    /// Makes the signal that is decided next.
    fn signalled(sched: &mut VidSch<&'static str>) -> Option<&'static str> {
        match sched.next_decision(0) {
            Some(Decision::Signal { contexts, signal }) => {
                sched.signalled(&contexts, 0);
                Some(names(&signal)[0])
            }
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    const A: OsHandle = OsHandle(1);
    const B: OsHandle = OsHandle(2);
    const NONE: SignalFlags = SignalFlags::empty();

    fn two_contexts() -> VidSch<&'static str> {
        let mut s = sched();
        for context in [A, B] {
            s.add_context(context, 0, Priority::Normal, 0, 0);
        }
        s
    }

    // spec: MF-027
    #[test]
    fn a_broadcast_is_made_when_every_context_has_reached_it_and_holds_those_that_have() {
        let mut s = two_contexts();
        s.push(B, command(1), 0);
        s.push_signal(&[A, B], signal("both", NONE), 0);
        s.push_signal(&[A], signal("after", NONE), 0);
        s.push(A, command(2), 0);
        assert_eq!(submitted(&mut s), Some((1, 1)));
        assert_eq!(signalled(&mut s), None, "A is there, and B's command is not complete");
        assert!(s.completed(0, 1, 0));
        assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("both"), Some("after")));
        assert_eq!(submitted(&mut s), Some((2, 2)));
        // Two that stand in the same order everywhere cannot hold each other.
        s.push_signal(&[B, A], signal("first", NONE), 0);
        s.push_signal(&[A, B], signal("second", NONE), 0);
        assert_eq!(signalled(&mut s), None);
        assert!(s.completed(0, 2, 0));
        assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("first"), Some("second")));
        assert!(s.signals.is_empty());
    }

    #[test]
    fn a_context_that_goes_away_does_not_hold_a_broadcast() {
        let mut s = two_contexts();
        s.push(B, Work::Wait { fences: vec!["never"], remaining: 1 }, 0);
        s.push_signal(&[A, B], signal("one", NONE), 0);
        s.push_signal(&[B, A], signal("two", NONE), 0);
        assert_eq!(signalled(&mut s), None);
        assert!(s.remove_context(B).news, "A has reached the first one");
        assert_eq!(
            (signalled(&mut s), signalled(&mut s), signalled(&mut s)),
            (Some("one"), Some("two"), None)
        );
        s.push_signal(&[A], signal("lost", NONE), 0);
        assert!(!s.remove_context(A).news);
        assert_eq!(signalled(&mut s), None, "a signal that its only context reached and nobody made");
        assert!(s.signals.is_empty());
    }

    #[test]
    fn contexts_that_are_given_up_together_make_no_signal() {
        let mut s = two_contexts();
        s.push(A, Work::Wait { fences: vec!["never"], remaining: 1 }, 0);
        s.push_signal(&[A, B], signal("both", NONE), 0);
        assert!(!s.clear_contexts(&[A, B]).news);
        assert_eq!(signalled(&mut s), None);
        assert!(s.signals.is_empty());
        s.push_signal(&[A, B], signal("later", NONE), 0);
        assert_eq!(signalled(&mut s), Some("later"), "the contexts are as they were");
    }

    #[test]
    fn a_signal_at_submission_does_not_wait_for_completion() {
        let mut s = two_contexts();
        let gate = s.push(A, Work::Wait { fences: vec!["gate"], remaining: 1 }, 0);
        s.push(A, command(1), 0);
        s.push_signal(&[A], signal("begun", SignalFlags::SIGNAL_AT_SUBMISSION), 0);
        s.push_signal(&[A], signal("done", NONE), 0);
        assert_eq!(signalled(&mut s), None, "a wait holds it");
        s.wait_satisfied(A, gate, 0);
        assert_eq!(submitted(&mut s), Some((1, 1)));
        assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("begun"), None));
        assert!(s.completed(0, 1, 0));
        assert_eq!(signalled(&mut s), Some("done"));
    }

    // spec: MF-031, MF-032
    #[test]
    fn a_context_is_first_in_first_out_over_commands_waits_and_signals() {
        let (a, mut s) = (OsHandle(1), sched());
        s.add_context(a, 0, Priority::Normal, 0, 0);
        s.push(a, command(1), 0);
        let wait = s.push(a, Work::Wait { fences: vec!["f"], remaining: 1 }, 0);
        s.push(a, command(2), 0);
        s.push_signal(&[a], signal("g", SignalFlags::empty()), 0);
        assert_eq!(submitted(&mut s), Some((1, 1)));
        assert_eq!(submitted(&mut s), None, "the wait holds what stands behind it");
        assert!(s.completed(0, 1, 0));
        assert_eq!(submitted(&mut s), None);
        s.wait_satisfied(a, wait, 0);
        assert_eq!(submitted(&mut s), Some((2, 2)));
        assert_eq!(submitted(&mut s), None, "the signal waits for the command before it");
        assert!(s.completed(0, 2, 0));
        assert!(
            matches!(s.next_decision(0), Some(Decision::Signal { signal, .. }) if names(&signal) == ["g"])
        );
        assert!(!s.completed(0, 3, 0), "a packet that was never submitted");
    }

    #[test]
    fn higher_priority_first_and_equals_take_turns() {
        let mut s = sched();
        for (handle, priority) in [(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)] {
            s.add_context(OsHandle(handle), 0, priority, 0, 0);
        }
        for handle in [1, 2, 3, 1, 2, 3] {
            s.push(OsHandle(handle), command(handle), 0);
        }
        let mut order = Vec::new();
        for id in 1..=6 {
            order.push(submitted(&mut s).unwrap().0);
            s.completed(0, id, 0);
        }
        assert_eq!(order, [3, 3, 1, 2, 1, 2]);
    }

    #[test]
    fn packet_ids_wrap() {
        let mut s = sched();
        s.add_context(OsHandle(1), 0, Priority::Normal, 0, 0);
        s.engines[0].last_id = u32::MAX - 1;
        for _ in 0..3 {
            s.push(OsHandle(1), command(7), 0);
        }
        for id in [u32::MAX, 0, 1] {
            assert_eq!(submitted(&mut s), Some((7, id)));
            assert!(s.completed(0, id, 0));
        }
    }
}
