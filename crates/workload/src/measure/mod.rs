//! Numbers of a run that only its timeline knows: when each submission of a queue was queued, began and ended.
//!
//! Rooms: here, records → submissions of queues · `metrics` (the numbers that a workload can ask for) · `replay` (how
//! far recorded work is from where it was recorded).
//!
//! An engine records the commands that it carried out, a queue's lane the command buffers; which command belongs to
//! which buffer follows from the times, because an engine does one thing at a time. Queues of user mode put empty buffers
//! between those of the application (progress values need them); they have no name and are left out. Nothing here runs or
//! judges.

pub(crate) mod metrics;
pub(crate) mod replay;

use tidegate_trace::{Kind, LaneId, LaneKind, NameId, Record, Trace};

/// One command buffer of a queue. Times in nanoseconds on the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) queued_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// One command that an engine carried out for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandSpan {
    /// Index into the queue's executions.
    pub(crate) execution: usize,
    pub(crate) kind: Kind,
    /// Time that a replay lets pass where the recording says nothing: the engine stands still, whatever the timeline shows.
    pub(crate) gap: bool,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// The label of time that a replay lets pass.
pub(crate) const GAP_LABEL: &str = "gap";

/// What the timeline says about one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueTimes {
    /// In the order of submission.
    pub(crate) executions: Vec<Execution>,
    /// In the order of time.
    pub(crate) commands: Vec<CommandSpan>,
    /// How long its waits headed it before they were met.
    pub(crate) blocked_ns: u64,
    /// Engine that runs it.
    pub(crate) node: u32,
}

/// What is known about a queue before its records are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOnTimeline {
    pub(crate) lane: LaneId,
    pub(crate) node: u32,
    /// Command buffers that the application handed to it.
    pub(crate) submissions: u64,
}

/// Sorts the records of a run by queue.
pub(crate) fn queue_times(trace: &Trace, queues: &[QueueOnTimeline]) -> Vec<QueueTimes> {
    let mut queue_of_lane: Vec<Option<usize>> = vec![None; trace.lanes.len()];
    for (number, queue) in queues.iter().enumerate() {
        if let Some(slot) = queue_of_lane.get_mut(queue.lane.0 as usize) {
            *slot = Some(number);
        }
    }
    let engines: Vec<LaneId> =
        trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Engine).map(|lane| lane.id).collect();
    let mut node_of_lane: Vec<Option<usize>> = vec![None; trace.lanes.len()];
    for (node, lane) in engines.iter().enumerate() {
        node_of_lane[lane.0 as usize] = Some(node);
    }

    let mut executes: Vec<Vec<&Record>> = vec![Vec::new(); queues.len()];
    let mut commands: Vec<Vec<&Record>> = vec![Vec::new(); engines.len()];
    let mut blocked_ns = vec![0u64; queues.len()];
    for record in &trace.records {
        let lane = record.lane.0 as usize;
        match (queue_of_lane[lane], node_of_lane[lane]) {
            (Some(queue), _) if record.kind == Kind::Execute => executes[queue].push(record),
            (Some(queue), _) if record.kind == Kind::Wait => blocked_ns[queue] += record.duration_ns(),
            (None, Some(node)) => commands[node].push(record),
            _ => {}
        }
    }

    let own =
        executes.into_iter().zip(queues).map(|(records, queue)| own_buffers(records, queue.submissions));
    let mut times: Vec<QueueTimes> = own
        .zip(queues)
        .zip(blocked_ns)
        .map(|((executions, queue), blocked_ns)| QueueTimes {
            executions,
            commands: Vec::new(),
            blocked_ns,
            node: queue.node,
        })
        .collect();
    for (node, records) in commands.into_iter().enumerate() {
        attribute(trace, &mut times, node as u32, &records);
    }
    times
}

/// The buffers of the application among all that ran: those with a name where any has one, else the first so many.
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
fn of_node(times: &[QueueTimes], node: u32) -> Vec<(usize, usize, Execution)> {
    let queues = times.iter().enumerate().filter(|(_, queue)| queue.node == node);
    let each = |(queue, times): (usize, &QueueTimes)| {
        let numbered = times.executions.iter().copied().enumerate();
        numbered.map(move |(number, execution)| (queue, number, execution)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = queues.flat_map(each).collect();
    all.sort_by_key(|(_, _, execution)| execution.start_ns);
    all
}

/// Gives each command of an engine to the buffer that was running then: the one that began last, where one interrupted
/// another.
fn attribute(trace: &Trace, times: &mut [QueueTimes], node: u32, commands: &[&Record]) {
    let executions = of_node(times, node);
    let mut open: Vec<(usize, usize, Execution)> = Vec::new();
    let mut next = 0;
    for command in commands {
        while let Some(execution) = executions.get(next).filter(|(_, _, e)| e.start_ns <= command.start_ns) {
            open.push(*execution);
            next += 1;
        }
        open.retain(|(_, _, e)| e.end_ns >= command.start_ns);
        let Some((queue, execution, _)) = open.iter().rev().find(|(_, _, e)| e.end_ns >= command.end_ns)
        else {
            continue;
        };
        times[*queue].commands.push(CommandSpan {
            execution: *execution,
            kind: command.kind,
            gap: command.kind == Kind::Timed && trace.name_of(command) == GAP_LABEL,
            start_ns: command.start_ns,
            end_ns: command.end_ns,
        });
    }
}

/// How often running work of one queue was interrupted for another on the same engine.
pub(crate) fn preemptions(times: &[QueueTimes]) -> u64 {
    let mut nodes: Vec<u32> = times.iter().map(|queue| queue.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut count = 0;
    for node in nodes {
        let mut open: Vec<(usize, Execution)> = Vec::new();
        for (queue, _, execution) in of_node(times, node) {
            open.retain(|(_, running)| running.end_ns > execution.start_ns);
            let interrupts = |(other, running): &(usize, Execution)| {
                *other != queue && running.start_ns < execution.start_ns && execution.end_ns <= running.end_ns
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
            Record::span(engine, Kind::Timed, frame, 12, 98),
            execute(urgent, answer, 40, 42, 50),
            Record::span(engine, Kind::Dispatch, answer, 43, 49),
            execute(render, NameId::NONE, 101, 102, 103),
            Record::span(render, Kind::Wait, NameId::NONE, 103, 120),
            execute(render, frame, 20, 120, 200),
            Record::span(engine, Kind::Timed, frame, 121, 160),
            Record::span(engine, Kind::Timed, frame, 161, 200),
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
        assert_eq!(times[0].executions.len(), 2, "the buffer without a name is not the application's");
        assert_eq!(times[0].blocked_ns, 17);
        let starts: Vec<(usize, u64)> = times[0].commands.iter().map(|c| (c.execution, c.start_ns)).collect();
        assert_eq!(starts, [(0, 12), (1, 121), (1, 161)]);
        assert_eq!(times[1].commands.len(), 1);
        assert_eq!(times[1].commands[0].kind, Kind::Dispatch);
        assert_eq!(preemptions(&times), 1);
    }

    #[test]
    fn without_names_the_first_ones_are_the_applications() {
        let lane = LaneId(0);
        let records: Vec<Record> =
            (0..4u64).map(|at| Record::span(lane, Kind::Execute, NameId::NONE, at, at + 1)).collect();
        let kept = own_buffers(records.iter().collect(), 3);
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[2].start_ns, 2);
    }
}
