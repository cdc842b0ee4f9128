//! Measurements from the timeline: when each submission of a queue was queued, began and ended.
//!
//! Rooms: `metrics` (metrics that a workload can name) · `replay` (errors of a replay).
//!
//! An engine's lane has the commands with the queue of each, and a queue's lane has the command
//! buffers. Times assign commands to buffers, because a queue executes one buffer at a time.
//! User-mode queues put empty buffers without a name between the application's, for progress
//! values; they are left out.

pub(crate) mod metrics;
pub(crate) mod replay;

use std::collections::BTreeMap;

use tidegate_trace::{Kind, LaneId, LaneKind, NameId, Record, Trace};

/// A command buffer of a queue. Times in nanoseconds on the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) queued_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A command that an engine carried out for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandSpan {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Index into the queue's executions.
    pub(crate) execution: u32,
    pub(crate) name: NameId,
    pub(crate) kind: Kind,
    /// A later stretch of a command that was preempted.
    pub(crate) resumed: bool,
}

/// A queue on the timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueTimes {
    /// In the order of submission.
    pub(crate) executions: Vec<Execution>,
    /// In the order of time.
    pub(crate) commands: Vec<CommandSpan>,
    /// Engine that runs it.
    pub(crate) node: u32,
}

/// Facts about a queue that do not come from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOnTimeline {
    pub(crate) lane: LaneId,
    pub(crate) node: u32,
    /// Command buffers that the application handed to it.
    pub(crate) submissions: u64,
}

/// Sorts the records of a run by queue.
pub(crate) fn queue_times(trace: &Trace, queues: &[QueueOnTimeline]) -> Vec<QueueTimes> {
    let numbered = queues.iter().enumerate();
    let queue_of_lane: BTreeMap<LaneId, usize> =
        numbered.map(|(number, queue)| (queue.lane, number)).collect();
    let mut executes: Vec<Vec<&Record>> = vec![Vec::new(); queues.len()];
    let mut commands: Vec<Vec<&Record>> = vec![Vec::new(); queues.len()];
    for record in &trace.records {
        match queue_of_lane.get(&record.lane) {
            Some(queue) if record.kind == Kind::Execute => executes[*queue].push(record),
            Some(_) => {}
            None if trace.lanes[record.lane.0 as usize].kind == LaneKind::Engine => {
                if let Some(queue) = record.queue().and_then(|lane| queue_of_lane.get(&lane)) {
                    commands[*queue].push(record);
                }
            }
            None => {}
        }
    }
    let all = queues.iter().zip(executes).zip(commands);
    all.map(|((queue, executes), commands)| {
        let executions = own_buffers(executes, queue.submissions);
        let commands = attribute(&executions, &commands);
        QueueTimes { executions, commands, node: queue.node }
    })
    .collect()
}

/// The buffers of the application among all that ran: those with a name where any has one, else the
/// first so many.
fn own_buffers(mut records: Vec<&Record>, submissions: u64) -> Vec<Execution> {
    let wanted = usize::try_from(submissions).unwrap_or(usize::MAX);
    if records.len() > wanted && records.iter().any(|record| record.name != NameId::NONE) {
        records.retain(|record| record.name != NameId::NONE);
    }
    records.truncate(wanted);
    let execution = |record: &Record| Execution {
        queued_ns: record.queued_ns,
        start_ns: record.start_ns,
        end_ns: record.end_ns,
    };
    records.into_iter().map(execution).collect()
}

/// Every buffer that ran on a node, earliest first.
fn of_node(times: &[QueueTimes], node: u32) -> Vec<(usize, Execution)> {
    let queues = times.iter().enumerate().filter(|(_, queue)| queue.node == node);
    let each = |(queue, times)| {
        let QueueTimes { executions, .. }: &QueueTimes = times;
        executions.iter().map(move |execution| (queue, *execution))
    };
    let mut all: Vec<_> = queues.flat_map(each).collect();
    all.sort_by_key(|(_, execution)| execution.start_ns);
    all
}

/// Assigns each command of a queue to the last buffer that had begun. Commands of other buffers are
/// left out.
fn attribute(executions: &[Execution], commands: &[&Record]) -> Vec<CommandSpan> {
    let span = |command: &&Record| {
        let begun = executions.partition_point(|e| e.start_ns <= command.start_ns);
        let execution =
            begun.checked_sub(1).filter(|last| executions[*last].end_ns >= command.end_ns)?;
        Some(CommandSpan {
            execution: u32::try_from(execution).ok()?,
            kind: command.kind,
            name: command.name,
            resumed: command.queued_ns < command.start_ns,
            start_ns: command.start_ns,
            end_ns: command.end_ns,
        })
    };
    commands.iter().filter_map(span).collect()
}

/// Preemptions of running work for another queue of the same engine.
pub(crate) fn preemptions(times: &[QueueTimes]) -> u64 {
    let mut nodes: Vec<u32> = times.iter().map(|queue| queue.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut count = 0;
    for node in nodes {
        let mut open: Vec<(usize, Execution)> = Vec::new();
        for (queue, execution) in of_node(times, node) {
            open.retain(|(_, running)| running.end_ns > execution.start_ns);
            let interrupts = |(other, running): &(usize, Execution)| {
                *other != queue
                    && running.start_ns < execution.start_ns
                    && execution.end_ns <= running.end_ns
            };
            count += u64::from(open.iter().any(interrupts));
            open.push((queue, execution));
        }
    }
    count
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tidegate_trace::{ClockName, TraceBuilder};

    /// A trace of one engine and two queues; `urgent` interrupts `render`.
    pub(crate) fn sample() -> (Trace, Vec<QueueOnTimeline>) {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
        let render = b.add_lane(LaneKind::Queue, "app", "render");
        let urgent = b.add_lane(LaneKind::Queue, "app", "urgent");
        let (frame, answer) = (b.name("frame"), b.name("answer"));
        let execute = |lane, name, queued, start, end| {
            Record::span(lane, Kind::Execute, name, start, end).queued(queued)
        };
        b.append(vec![
            execute(render, frame, 5, 10, 100),
            Record::span(engine, Kind::Timed, frame, 12, 43).for_queue(render),
            Record::span(engine, Kind::Timed, frame, 49, 98).queued(12).for_queue(render),
            execute(urgent, answer, 40, 42, 50),
            Record::span(engine, Kind::Dispatch, answer, 43, 49).for_queue(urgent),
            execute(render, NameId::NONE, 101, 102, 103),
            Record::span(render, Kind::Wait, NameId::NONE, 103, 120),
            execute(render, frame, 20, 120, 200),
            Record::span(engine, Kind::Timed, frame, 121, 160).for_queue(render),
            Record::span(engine, Kind::Timed, frame, 161, 200).for_queue(render),
        ]);
        let queues = vec![
            QueueOnTimeline { lane: render, node: 0, submissions: 2 },
            QueueOnTimeline { lane: urgent, node: 0, submissions: 1 },
        ];
        (b.finish(), queues)
    }

    #[test]
    fn commands_belong_to_the_buffer_that_was_running() {
        let (trace, queues) = sample();
        let times = queue_times(&trace, &queues);
        assert_eq!(
            times[0].executions.len(),
            2,
            "the buffer without a name is not the application's"
        );
        let starts: Vec<(u32, u64, bool)> =
            times[0].commands.iter().map(|c| (c.execution, c.start_ns, c.resumed)).collect();
        assert_eq!(starts, [(0, 12, false), (0, 49, true), (1, 121, false), (1, 161, false)]);
        assert_eq!(times[1].commands.len(), 1);
        assert_eq!(times[1].commands[0].kind, Kind::Dispatch);
        assert_eq!(preemptions(&times), 1);
    }

    #[test]
    fn without_names_the_first_ones_are_the_applications() {
        let lane = LaneId(0);
        let records: Vec<Record> = (0..4u64)
            .map(|at| Record::span(lane, Kind::Execute, NameId::NONE, at, at + 1))
            .collect();
        let kept = own_buffers(records.iter().collect(), 3);
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[2].start_ns, 2);
    }

    #[test]
    fn work_beside_other_work_of_its_queue_preempts_nothing() {
        let execution = |start_ns, end_ns| Execution { queued_ns: 0, start_ns, end_ns };
        let queue = |executions| QueueTimes { executions, ..QueueTimes::default() };
        let beside = queue(vec![execution(0, 100), execution(10, 50)]);
        assert_eq!(preemptions(std::slice::from_ref(&beside)), 0);
        // It interrupts both of the other queue, which counts once.
        assert_eq!(preemptions(&[beside, queue(vec![execution(20, 30)])]), 1);
    }
}
