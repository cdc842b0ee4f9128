//! Splits streams: the launches of a stream alternate between several streams.
//!
//! Invariants: a wait of a stream holds all of its parts. A signal of a stream follows all earlier
//! work of its parts. Only the order of launches between two waits or signals is lost. Entry point:
//! [`split_streams`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::expression::Expr;
use crate::model::{EngineKind, Fence, FenceId, Op, OpKind, Queue, QueueId, Ref, Span, Workload};

/// Most engines of a machine, of all kinds together.
const MOST_ENGINES: u32 = 48;

/// The parts of one stream.
struct Parts {
    /// The stream itself, then those that were added.
    queues: Vec<QueueId>,
    /// For each added part, the fence that it signals to the first part.
    joins: Vec<FenceId>,
    /// The value that the joins were signalled to last.
    joined: u64,
    /// The part that takes the next launch.
    next: usize,
}

/// Distributes the work of the streams `fed` over `streams` streams.
///
/// # Errors
/// A stream that several threads feed, or more streams than a machine has engines.
pub(super) fn split_streams(
    workload: &mut Workload,
    streams: u32,
    fed: &[QueueId],
) -> Result<(), String> {
    let have = u32::try_from(fed.len()).unwrap_or(u32::MAX).max(1);
    // Each added part has an engine of its own. The number comes from the command line, so it is
    // bounded before parts are made.
    let engines = engines(workload).saturating_add(streams.saturating_sub(have));
    if engines > MOST_ENGINES {
        return Err(format!(
            "{streams} streams need {engines} engines and a machine has {MOST_ENGINES}; give fewer"
        ));
    }
    let mut parts = BTreeMap::new();
    for (place, stream) in (0u32..).zip(fed) {
        let wanted = streams / have + u32::from(place < streams % have);
        if wanted > 1 && feeders(workload, *stream) > 1 {
            let name = &workload.queues[stream.0 as usize].name;
            return Err(format!(
                "several host threads feed '{name}', so its launches have no recorded order"
            ));
        }
        parts.insert(*stream, add_parts(workload, *stream, wanted));
    }
    for thread in &mut workload.threads {
        let mut body = Vec::with_capacity(thread.body.len());
        thread.body.iter().for_each(|op| spread(op, &mut parts, &mut body));
        thread.body = Arc::new(body);
    }
    Ok(())
}

fn feeders(workload: &Workload, stream: QueueId) -> usize {
    let feeds = |op: &Op| op.kind.queue().is_some_and(|queue| queue.first == stream);
    workload.threads.iter().filter(|thread| thread.body.iter().any(feeds)).count()
}

/// Engines of the machine that the workload needs: of each kind up to the highest number, and
/// one at least of the standard kinds.
fn engines(workload: &Workload) -> u32 {
    let of =
        |engine| workload.queues.iter().filter(|q| q.engine == engine).map(|q| q.node + 1).max();
    let least = |kind| u32::from(EngineKind::STANDARD.contains(kind));
    EngineKind::ALL.iter().map(|kind| of(*kind).unwrap_or(least(kind))).sum()
}

/// Makes `wanted` parts of a stream, each on an engine of its own.
fn add_parts(workload: &mut Workload, stream: QueueId, wanted: u32) -> Parts {
    let first = workload.queues[stream.0 as usize].clone();
    let mut parts = Parts { queues: vec![stream], joins: Vec::new(), joined: 0, next: 0 };
    for number in 2..=wanted {
        let of_kind = workload.queues.iter().filter(|queue| queue.engine == first.engine);
        let node = of_kind.map(|queue| queue.node + 1).max().unwrap_or(0);
        let name = format!("{} part {number}", first.name);
        parts.queues.push(QueueId(workload.queues.len() as u32));
        parts.joins.push(FenceId(workload.fences.len() as u32));
        workload.fences.push(Fence { name: name.clone(), initial: 0, span: Span::default() });
        workload.queues.push(Queue { name, node, ..first.clone() });
    }
    parts
}

/// Appends what an operation becomes.
fn spread(op: &Op, parts: &mut BTreeMap<QueueId, Parts>, body: &mut Vec<Op>) {
    let stream = op.kind.queue().map(|queue| queue.first);
    let Some(of) = stream.and_then(|stream| parts.get_mut(&stream)) else {
        body.push(op.clone());
        return;
    };
    let mut push = |kind| body.push(Op { kind, span: op.span });
    match &op.kind {
        OpKind::Submit { commands, .. } => {
            push(OpKind::Submit { queue: Ref::to(of.queues[of.next]), commands: commands.clone() });
            of.next = (of.next + 1) % of.queues.len();
        }
        OpKind::Wait { fence, value, .. } => {
            for queue in &of.queues {
                push(OpKind::Wait {
                    queue: Ref::to(*queue),
                    fence: fence.clone(),
                    value: value.clone(),
                });
            }
        }
        OpKind::Signal { fence, value, .. } => {
            of.joined += 1;
            let first = of.queues[0];
            for (queue, join) in of.queues[1..].iter().zip(&of.joins) {
                let (fence, value) = (Ref::to(*join), Expr::number(of.joined));
                push(OpKind::Signal {
                    queue: Ref::to(*queue),
                    fence: fence.clone(),
                    value: value.clone(),
                });
                push(OpKind::Wait { queue: Ref::to(first), fence, value });
            }
            push(OpKind::Signal {
                queue: Ref::to(first),
                fence: fence.clone(),
                value: value.clone(),
            });
        }
        _ => push(op.kind.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cpu_wait, signal, signal_of, submit, wait, wait_of};
    use super::*;
    use crate::load::{LoadOptions, load_bytes};

    fn recording(body: Vec<Op>) -> Workload {
        let text = "[[queue]]\nname = \"s\"\nengine = \"compute\"\n[[fence]]\nname = \"f\"\n\
                    [[thread]]\nname = \"t\"\nprogram = [{ sleep_ns = 1 }]\n";
        let mut workload =
            load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0;
        workload.threads[0].body = Arc::new(body);
        workload
    }

    #[test]
    fn launches_take_turns_and_signals_come_after_all_parts() {
        let body = vec![
            submit(0, &[1]),
            submit(0, &[2]),
            submit(0, &[3]),
            signal(0, 1),
            wait(0, 1),
            cpu_wait(1),
        ];
        let mut workload = recording(body);
        split_streams(&mut workload, 2, &[QueueId(0)]).unwrap();
        let wanted = [
            submit(0, &[1]),
            submit(1, &[2]),
            submit(0, &[3]),
            signal_of(1, 1, 1),
            wait_of(0, 1, 1),
            signal(0, 1),
            wait(0, 1),
            wait_of(1, 0, 1),
            cpu_wait(1),
        ];
        assert_eq!(*workload.threads[0].body, wanted);
        assert_eq!((workload.queues[1].name.as_str(), workload.queues[1].node), ("s part 2", 1));
        assert_eq!(workload.fences.len(), 2);
    }

    #[test]
    fn what_cannot_be_split_is_refused() {
        let mut shared = recording(vec![submit(0, &[1])]);
        let other = shared.threads[0].clone();
        shared.threads.push(other);
        let why = split_streams(&mut shared, 2, &[QueueId(0)]).unwrap_err();
        assert!(why.contains("several host threads feed 's'"), "{why}");
        let why =
            split_streams(&mut recording(vec![submit(0, &[1])]), 60, &[QueueId(0)]).unwrap_err();
        assert!(why.contains("62 engines and a machine has 48"), "{why}");
        let why = split_streams(&mut recording(vec![submit(0, &[1])]), u32::MAX, &[QueueId(0)])
            .unwrap_err();
        assert!(why.contains("a machine has 48"), "{why}");
    }
}
