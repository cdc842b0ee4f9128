//! Tests of [`VidSch`]. The GPU is modelled as a list of submissions and a time.

use crate::*;
use std::collections::{BTreeMap, VecDeque};
use tidegate_calls::SignalFlags;
use tidegate_ddi::{EngineId, OsHandle, Priority, SubmitCommandFlags};
use tidegate_platform::CpuTime;

mod contexts;
mod hw_queues;
mod preemption;
mod reset;
mod starvation;

/// Fences, events and actions are plain names.
struct Names;

impl Payload for Names {
    type Fence = &'static str;
    type Event = &'static str;
    type Action = &'static str;
    type Kept = &'static str;
}

type Sched = VidSch<Names>;

/// A time at which no deadline expires.
const NOW: Now = Now { stamp_ns: 0, at: CpuTime(0) };
const CONFIG: Config = Config {
    nodes: 1,
    physical_adapters: 1,
    packet_cap: 1,
    preempts: true,
    quantum_ns: 10,
    timeout_ns: Some(1_000),
    fence_ids_ahead: 0,
};
const ENGINE: EngineId = EngineId::of_node(0);

const A: OsHandle = OsHandle(1);
const B: OsHandle = OsHandle(2);
const C: OsHandle = OsHandle(3);
const NONE: SignalFlags = SignalFlags::empty();

fn at(ns: u64) -> Now {
    Now { stamp_ns: ns, at: CpuTime(ns) }
}

/// Creates contexts 1, 2, ... with these priorities on one engine.
fn with_contexts(priorities: &[Priority], config: Config) -> Sched {
    let mut s = VidSch::new(config);
    for (context, priority) in (1..).map(OsHandle).zip(priorities) {
        s.add_context(context, ENGINE, *priority);
    }
    s
}

fn report(request: u32, last_completed: u32) -> PreemptionReport {
    PreemptionReport { request, last_completed }
}

fn command(gpu_va: u64) -> Command {
    of_kind(gpu_va, CommandKind::Render)
}

fn of_kind(gpu_va: u64, kind: CommandKind) -> Command {
    Command { gpu_va, bytes: 8, queued_ns: 0, link: 0, kind }
}

fn signal(fence: &'static str, flags: SignalFlags) -> Signal<Names> {
    Signal { effect: SignalEffect::Fences(vec![fence]), flags }
}

fn name(signal: &Signal<Names>) -> &'static str {
    match &signal.effect {
        SignalEffect::Fences(fences) => fences[0],
        SignalEffect::Event(name) | SignalEffect::Action(name) => name,
    }
}

fn submitted(sched: &mut Sched) -> Option<(u64, u32)> {
    match sched.next_effect(NOW)? {
        Effect::Submit(DuePacket { command, fence_id, .. }) => Some((command.gpu_va, fence_id)),
        _ => panic!("the next effect is not a packet"),
    }
}

/// Executes the next signal.
fn signalled(sched: &mut Sched) -> Option<&'static str> {
    match sched.next_effect(NOW)? {
        Effect::Signal { queues, signal } => {
            sched.signalled(&queues, NOW);
            Some(name(&signal))
        }
        _ => panic!("the next effect is not a signal"),
    }
}

/// An effect of the packets: (address, fence ID, flags), or its ID or name.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Packet(u64, u32, SubmitCommandFlags),
    Request(u32),
    Signalled(&'static str),
}

/// Returns every effect of the packets at this time, and executes signals.
fn next(s: &mut Sched, now: Now) -> Vec<Next> {
    let mut all = Vec::new();
    while let Some(effect) = s.next_effect(now) {
        all.push(match effect {
            Effect::Submit(DuePacket { command, fence_id, flags, .. }) => {
                Next::Packet(command.gpu_va, fence_id, flags)
            }
            Effect::Preempt { fence_id, .. } => Next::Request(fence_id),
            Effect::Signal { queues, signal } => {
                s.signalled(&queues, now);
                Next::Signalled(name(&signal))
            }
        });
    }
    all
}

/// Queues a command, and returns every effect of the packets at this time.
fn push(s: &mut Sched, context: OsHandle, command: Command, now: Now) -> Vec<Next> {
    s.push_command(context, command, now);
    next(s, now)
}

/// Completes a packet that is in flight, and returns every effect of the packets at this time.
fn complete(s: &mut Sched, id: u32, now: Now) -> Vec<Next> {
    assert!(s.completed(ENGINE, id, now).is_some());
    next(s, now)
}

fn new(gpu_va: u64, id: u32) -> Next {
    Next::Packet(gpu_va, id, SubmitCommandFlags::empty())
}

fn again(gpu_va: u64, id: u32) -> Next {
    Next::Packet(gpu_va, id, SubmitCommandFlags::RESUBMISSION)
}

fn answered(completed: &[u64], returned: usize) -> Preempted {
    Preempted::Answered { completed: completed.iter().map(|c| OsHandle(*c)).collect(), returned }
}

/// Makes fence IDs of the first engine follow `last`.
fn continue_ids_after(s: &mut Sched, last: u32) {
    s.engines[ENGINE].continue_ids_after(last);
}
