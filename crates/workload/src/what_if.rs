//! What-if changes of a recording, as pure functions of a workload.
//!
//! Each change keeps the dependencies, and all but a split keep the order of each stream. A change
//! that cannot keep them is refused with the reason. `decisions/0039` has their assumptions. Rooms:
//! `split` (more streams). Entry points: [`WhatIf::from_str`], [`WhatIf::apply`].

mod split;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::expression::Constants;
use crate::model::{
    CommandKind, EngineKind, FenceId, FenceWait, Op, OpKind, QueueId, Ref, Span, Thread, Workload,
};

/// A change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhatIf {
    /// Rings of user-mode queues have this many slots. The workload does not change.
    RingSlots(u64),
    /// The work of all streams runs on this many streams: merged to fewer, or split to more.
    Streams(u32),
    /// Each run of launches on one stream, with nothing but host time between them, is one launch.
    GraphsOn,
    /// Each piece of work has a launch of its own.
    GraphsOff,
    /// A wait of the host for work that its own thread launched becomes a wait of the streams that
    /// the thread feeds next.
    GpuWaits,
}

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let number = |value: &str| value.parse::<u64>().ok().filter(|n| *n > 0);
        let known = match word.split_once('=') {
            Some(("ring", slots)) => {
                number(slots).filter(|n| n.is_power_of_two()).map(Self::RingSlots)
            }
            Some(("streams", n)) => {
                number(n).and_then(|n| u32::try_from(n).ok()).map(Self::Streams)
            }
            Some(("graphs", "on")) => Some(Self::GraphsOn),
            Some(("graphs", "off")) => Some(Self::GraphsOff),
            Some(("sync", "gpu")) => Some(Self::GpuWaits),
            _ => None,
        };
        known.ok_or_else(|| {
            "use ring=N (a power of two), streams=N, graphs=on, graphs=off or sync=gpu".to_owned()
        })
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RingSlots(slots) => write!(f, "ring={slots}"),
            Self::Streams(streams) => write!(f, "streams={streams}"),
            Self::GraphsOn => f.write_str("graphs=on"),
            Self::GraphsOff => f.write_str("graphs=off"),
            Self::GpuWaits => f.write_str("sync=gpu"),
        }
    }
}

impl WhatIf {
    /// Changes a recording so. The result is compared with no recorded starts.
    ///
    /// # Errors
    /// Why the change cannot be made; a workload that is not a recording, unless the change is of
    /// the machine alone.
    pub fn apply(self, workload: &Workload) -> Result<Workload, String> {
        let mut changed = workload.clone();
        if let Self::RingSlots(_) = self {
            return Ok(changed);
        }
        let Some(recorded) = &mut changed.recorded else {
            return Err(format!(
                "{self}: '{}' is not a recording; change its file instead",
                workload.name
            ));
        };
        recorded.items.clear();
        if let Self::Streams(streams) = self {
            streams_of(&mut changed, streams).map_err(|why| format!("{self}: {why}"))?;
            return Ok(changed);
        }
        for thread in &mut changed.threads {
            let body = match self {
                Self::GraphsOn => merge_launches(&thread.body),
                Self::GraphsOff => split_launches(&thread.body),
                _ => wait_on_streams(&thread.body),
            };
            thread.body = Arc::new(body);
        }
        Ok(changed)
    }
}

/// Merges or splits the streams that have work, so that there are `streams` of them.
fn streams_of(workload: &mut Workload, streams: u32) -> Result<(), String> {
    let mut fed: Vec<QueueId> = Vec::new();
    let mut feeders = 0;
    for thread in &workload.threads {
        let mut feeds = false;
        for queue in thread.body.iter().filter_map(|op| op.kind.queue()) {
            feeds = true;
            if !fed.contains(&queue.first) {
                fed.push(queue.first);
            }
        }
        feeders += u32::from(feeds);
    }
    fed.sort_unstable();
    let have = u32::try_from(fed.len()).unwrap_or(u32::MAX);
    match streams.cmp(&have) {
        Ordering::Greater => split::split_streams(workload, streams, &fed),
        Ordering::Equal => {
            Err(format!("the recording has {have} streams already; give another number"))
        }
        Ordering::Less if feeders > 1 => Err(format!(
            "{feeders} host threads feed the streams, so a merged stream has no recorded order; this needs a recording with one"
        )),
        Ordering::Less => {
            merge_streams(workload, streams, &fed);
            Ok(())
        }
    }
}

/// Stream k becomes stream k modulo `streams` of those in `fed`. One thread feeds them all: its
/// order is then the order of each merged stream, and every wait is behind its signal.
fn merge_streams(workload: &mut Workload, streams: u32, fed: &[QueueId]) {
    let onto = |queue: QueueId| {
        let place = fed.iter().position(|fed| *fed == queue).unwrap_or(0);
        fed[place % streams as usize]
    };
    // A merged stream runs kernels and copies: its engine must take both.
    for queue in fed.iter().copied() {
        if workload.queues[queue.0 as usize].engine
            != workload.queues[onto(queue).0 as usize].engine
        {
            workload.queues[onto(queue).0 as usize].engine = EngineKind::Compute;
        }
    }
    for thread in &mut workload.threads {
        change_ops(thread, |op| match op {
            OpKind::Submit { queue, .. }
            | OpKind::Signal { queue, .. }
            | OpKind::Wait { queue, .. } => {
                *queue = Ref::to(onto(queue.first));
            }
            _ => {}
        });
    }
}

fn change_ops(thread: &mut Thread, change: impl Fn(&mut OpKind)) {
    let mut body = thread.body.as_ref().clone();
    body.iter_mut().for_each(|op| change(&mut op.kind));
    thread.body = Arc::new(body);
}

/// Launches of one stream with nothing but host time between them become one, at the place of the
/// first.
fn merge_launches(ops: &[Op]) -> Vec<Op> {
    let mut merged: Vec<Op> = Vec::with_capacity(ops.len());
    // The launch that further work of its stream may join.
    let mut open: Option<usize> = None;
    for op in ops {
        match (&op.kind, open) {
            (OpKind::Host { .. }, _) => {}
            (OpKind::Submit { queue, commands }, Some(place)) => {
                if let OpKind::Submit { queue: first, commands: all } = &mut merged[place].kind
                    && first == queue
                {
                    all.extend(commands.iter().cloned());
                    continue;
                }
                open = Some(merged.len());
            }
            (OpKind::Submit { .. }, None) => open = Some(merged.len()),
            _ => open = None,
        }
        merged.push(op.clone());
    }
    merged
}

/// Each command that is work becomes a launch of its own, with the delay before it.
fn split_launches(ops: &[Op]) -> Vec<Op> {
    let mut split = Vec::with_capacity(ops.len());
    for op in ops {
        let OpKind::Submit { queue, commands } = &op.kind else {
            split.push(op.clone());
            continue;
        };
        let mut launch = Vec::new();
        for command in commands {
            launch.push(command.clone());
            if matches!(command.kind, CommandKind::Work { .. }) {
                let kind =
                    OpKind::Submit { queue: queue.clone(), commands: std::mem::take(&mut launch) };
                split.push(Op { kind, span: op.span });
            }
        }
        if !launch.is_empty() {
            let kind = OpKind::Submit { queue: queue.clone(), commands: launch };
            split.push(Op { kind, span: op.span });
        }
    }
    split
}

/// Replaces waits of a thread for fences that its own queues signal by waits of the queues that it
/// feeds until its next wait. Other waits stay, because their signal could follow on the same
/// queue.
fn wait_on_streams(ops: &[Op]) -> Vec<Op> {
    let mut changed = Vec::with_capacity(ops.len());
    let mut signalled: Vec<(FenceId, u64)> = Vec::new();
    // Pending waits of each queue, before its next operation.
    let mut pending: Vec<FenceWait> = Vec::new();
    let mut waiting: Vec<QueueId> = Vec::new();
    for op in ops {
        if let OpKind::Signal { fence, value, .. } = &op.kind
            && let Ok(value) = value.evaluate_u64(&Constants)
        {
            signalled.push((fence.first, value));
        }
        let own = |of: &[FenceWait]| {
            of.iter().all(|wait| {
                let value = wait.value.evaluate_u64(&Constants).unwrap_or(u64::MAX);
                signalled
                    .iter()
                    .any(|(fence, reached)| *fence == wait.fence.first && *reached >= value)
            })
        };
        match &op.kind {
            OpKind::CpuWait { any: false, of, chosen: None } | OpKind::PollWait { of, .. }
                if own(of) =>
            {
                // A fence of a recording only rises, so its newest value is enough.
                pending.retain(|old| !of.iter().any(|new| new.fence == old.fence));
                pending.extend(of.iter().cloned());
                waiting.clear();
                continue;
            }
            kind => {
                if let Some(queue) = kind.queue().filter(|queue| !waiting.contains(&queue.first)) {
                    waiting.push(queue.first);
                    for wait in &pending {
                        let (fence, value) = (wait.fence.clone(), wait.value.clone());
                        let kind = OpKind::Wait { queue: queue.clone(), fence, value };
                        changed.push(Op { kind, span: op.span });
                    }
                }
            }
        }
        changed.push(op.clone());
    }
    // The thread ends when its work is done, as before.
    if !pending.is_empty() {
        let kind = OpKind::CpuWait { any: false, of: pending, chosen: None };
        changed.push(Op { kind, span: Span::default() });
    }
    changed
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::expression::Expr;
    use crate::model::Command;

    fn op(kind: OpKind) -> Op {
        Op { kind, span: Span::default() }
    }

    pub(super) fn submit(queue: u32, ns: &[u64]) -> Op {
        let work = |ns: &u64| Command {
            kind: CommandKind::Work { ns: Expr::number(*ns), label: None, recorded: None },
            span: Span::default(),
        };
        op(OpKind::Submit {
            queue: Ref::to(QueueId(queue)),
            commands: ns.iter().map(work).collect(),
        })
    }

    fn host(until_ns: u64) -> Op {
        op(OpKind::Host { until_ns, work_ns: 1 })
    }

    pub(super) fn signal_of(queue: u32, fence: u32, value: u64) -> Op {
        let (fence, value) = (Ref::to(FenceId(fence)), Expr::number(value));
        op(OpKind::Signal { queue: Ref::to(QueueId(queue)), fence, value })
    }

    pub(super) fn wait_of(queue: u32, fence: u32, value: u64) -> Op {
        let (fence, value) = (Ref::to(FenceId(fence)), Expr::number(value));
        op(OpKind::Wait { queue: Ref::to(QueueId(queue)), fence, value })
    }

    pub(super) fn signal(queue: u32, value: u64) -> Op {
        signal_of(queue, 0, value)
    }

    pub(super) fn wait(queue: u32, value: u64) -> Op {
        wait_of(queue, 0, value)
    }

    pub(super) fn cpu_wait(value: u64) -> Op {
        let of = vec![FenceWait { fence: Ref::to(FenceId(0)), value: Expr::number(value) }];
        op(OpKind::CpuWait { any: false, of, chosen: None })
    }

    #[test]
    fn questions_are_written_as_they_are_read() {
        for word in ["ring=4096", "streams=2", "graphs=on", "graphs=off", "sync=gpu"] {
            assert_eq!(word.parse::<WhatIf>().unwrap().to_string(), word);
        }
        for word in ["ring=3", "streams=0", "graphs", "sync=cpu", ""] {
            assert!(word.parse::<WhatIf>().unwrap_err().contains("streams=N"), "{word}");
        }
    }

    #[test]
    fn launches_are_merged_up_to_the_next_signal_wait_or_stream() {
        let ops = [
            host(1),
            submit(0, &[1]),
            host(2),
            submit(0, &[2]),
            signal(0, 1),
            submit(0, &[3]),
            submit(1, &[4]),
        ];
        let merged = merge_launches(&ops);
        let wanted =
            [host(1), submit(0, &[1, 2]), host(2), signal(0, 1), submit(0, &[3]), submit(1, &[4])];
        assert_eq!(merged, wanted);
        let apart = [submit(0, &[1]), submit(0, &[2])];
        assert_eq!(split_launches(&[submit(0, &[1, 2])]), apart);
        assert_eq!(split_launches(&merge_launches(&apart)), apart);
    }

    #[test]
    fn a_wait_for_own_work_becomes_a_wait_of_each_stream_that_is_fed_next() {
        let ops = [
            submit(0, &[1]),
            signal(0, 1),
            cpu_wait(1),
            submit(0, &[2]),
            submit(1, &[3]),
            submit(1, &[4]),
        ];
        let wanted = [
            submit(0, &[1]),
            signal(0, 1),
            wait(0, 1),
            submit(0, &[2]),
            wait(1, 1),
            submit(1, &[3]),
            submit(1, &[4]),
            cpu_wait(1),
        ];
        assert_eq!(wait_on_streams(&ops), wanted);
        let of_others = [cpu_wait(1), submit(0, &[1])];
        assert_eq!(wait_on_streams(&of_others), of_others, "the signal could come behind it");
    }
}
