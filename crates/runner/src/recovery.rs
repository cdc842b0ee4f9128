//! Preemption and recovery in a report: preemption times of engines, hangs, recoveries, and the
//! fate of each queue, as data and as text. The runner replaces queue numbers by names.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tidegate_trace::{Durations, duration};

/// Serialises the four figures of duration statistics.
pub(crate) fn figures<S: Serializer>(durations: &Durations, out: S) -> Result<S::Ok, S::Error> {
    let mut fields = out.serialize_struct("Durations", 4)?;
    fields.serialize_field("count", &durations.count())?;
    fields.serialize_field("median_ns", &durations.median_ns())?;
    fields.serialize_field("p99_ns", &durations.p99_ns())?;
    fields.serialize_field("max_ns", &durations.max_ns())?;
    fields.end()
}

/// Preemptions of one engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineRow {
    /// Its name.
    pub engine: String,
    /// Preemption granularity of draws.
    pub graphics_preemption: String,
    /// Preemption granularity of all other work.
    pub compute_preemption: String,
    /// Preemption requests: for a queue of higher priority, or to return packets to the kernel.
    pub preemptions_requested: u64,
    /// Answered requests and their durations.
    #[serde(serialize_with = "figures")]
    pub preemptions: Durations,
}

/// Fate of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It ran to the end of the run.
    #[default]
    WentOn,
    /// Its device is lost because of its own work.
    Hung,
    /// Its device is lost because of another device's work.
    Lost,
}

impl Fate {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::WentOn => "went on",
            Self::Hung => "lost: it hung",
            Self::Lost => "lost",
        }
    }
}

/// A fence and a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FenceAt {
    /// Its name.
    pub fence: String,
    /// The value.
    pub value: u64,
}

/// Work that an engine had when it was recovered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkRow {
    /// Its queue.
    pub queue: String,
    /// The running or next command.
    pub command: String,
    /// The injected hang that is in it, as `hang:QUEUE@N`.
    pub injected: Option<String>,
    /// Number of the submission, from 1, and the label of its first command, if known.
    pub submission: Option<(u64, String)>,
    /// Signals queued behind it.
    pub signals: Vec<FenceAt>,
    /// Whether it is the reason for the recovery.
    pub guilty: bool,
}

/// Kinds of waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaiterKind {
    /// A queue, at a queued wait.
    Queue,
    /// A thread.
    Thread,
}

/// A waiter for that work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldBackRow {
    /// Whether it is a queue or a thread.
    pub kind: WaiterKind,
    /// Its name.
    pub waiter: String,
    /// The awaited fence and value.
    pub wait: FenceAt,
    /// The fence's value.
    pub current: u64,
    /// The queue that should have signalled it.
    pub signaller: String,
}

/// A recovery. Times in nanoseconds from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveryRow {
    /// When it began.
    pub at_ns: u64,
    /// Its published code: 0x141 for an engine, 0x117 for the adapter, 0x116 for a fatal one.
    pub code: u32,
    /// The engine; none for an adapter.
    pub engine: Option<String>,
    /// The detected symptom.
    pub noticed: String,
    /// The work of the engine.
    pub work: Vec<WorkRow>,
    /// Its waiters.
    pub held_back: Vec<HeldBackRow>,
    /// The action taken.
    pub outcome: String,
    /// The queues that were lost with their device.
    pub lost: Vec<LostRow>,
    /// The driver's debug text; may be empty.
    pub driver: String,
}

/// A queue lost in a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostRow {
    /// Its name.
    pub queue: String,
    /// Whether its own work was the reason.
    pub guilty: bool,
}

/// Signals that are listed.
const SIGNALS_LISTED: usize = 4;

fn signals_in_words(signals: &[FenceAt]) -> String {
    if signals.is_empty() {
        return String::new();
    }
    let listed =
        signals.iter().take(SIGNALS_LISTED).map(|at| format!("'{}' to {}", at.fence, at.value));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = match signals.len().saturating_sub(SIGNALS_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("; behind it are the signals of {listed}{more}")
}

impl EngineRow {
    /// Returns the report line; `None` without a preemption request.
    pub fn line(&self) -> Option<String> {
        let (engine, requests) = (&self.engine, self.preemptions_requested);
        let count = self.preemptions.count();
        let (graphics, compute) = (&self.graphics_preemption, &self.compute_preemption);
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let requested = |n: u64| {
            if n == 1 {
                "1 preemption request".to_owned()
            } else {
                format!("{n} preemption requests")
            }
        };
        (requests > 0).then(|| {
            let left = match (count, requests - count.min(requests)) {
                (0, _) => "did not leave its work".to_owned(),
                (_, 0) => format!("left its work {}", in_words(&self.preemptions)),
                (_, _) => format!("left its work {} {}", times(count), in_words(&self.preemptions)),
            };
            format!(
                "engine {engine} (preempted at {compute} and {graphics}) got {} and {left}",
                requested(requests)
            )
        })
    }
}

/// How long an engine took to leave its work.
fn in_words(durations: &Durations) -> String {
    match (durations.count(), durations.max_ns()) {
        (_, 0) => "at once".to_owned(),
        (1, max_ns) => format!("within {}", duration(max_ns)),
        (_, max_ns) => format!(
            "within {} (median), {} (p99), {} (longest)",
            duration(durations.median_ns()),
            duration(durations.p99_ns()),
            duration(max_ns)
        ),
    }
}

impl RecoveryRow {
    /// Returns the report lines: the timeout, the work, its waiters, the recovery, the lost queues.
    pub fn lines(&self) -> Vec<String> {
        let of =
            self.engine.as_ref().map_or_else(String::new, |engine| format!(" of engine {engine}"));
        let (code, at) = (self.code, duration(self.at_ns));
        let mut lines = vec![format!(
            "recovery {code:#x}{of} {at} after the start of the run: {}",
            self.noticed
        )];
        for work in &self.work {
            let (queue, command) = (&work.queue, &work.command);
            let verb = if work.guilty { "hangs in" } else { "was at" };
            let injected =
                work.injected.as_ref().map_or_else(String::new, |hang| format!(" ({hang})"));
            let submission = work.submission.as_ref();
            let submission = submission.map_or_else(String::new, |(number, label)| {
                format!("submission {number}, before '{label}': ")
            });
            let to_signal =
                if work.guilty { signals_in_words(&work.signals) } else { String::new() };
            lines.push(format!(
                "  queue '{queue}' {verb} {submission}{command}{injected}{to_signal}"
            ));
        }
        for held in &self.held_back {
            let (waiter, FenceAt { fence, value }) = (&held.waiter, &held.wait);
            let kind = match held.kind {
                WaiterKind::Queue => "queue",
                WaiterKind::Thread => "thread",
            };
            lines.push(format!(
                "  {kind} '{waiter}' waits for fence '{fence}' to reach {value} (it is at {}), which queue '{}' should have \
                 signalled",
                held.current, held.signaller
            ));
        }
        lines.extend(self.driver.lines().map(|line| format!("  driver: {line}")));
        lines.push(format!("  {}", self.outcome));
        for lost in &self.lost {
            let why =
                if lost.guilty { "its work was the reason (HUNG)" } else { "innocent (RESET)" };
            lines.push(format!("  the device of queue '{}' is lost: {why}", lost.queue));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(all_ns: &[u64]) -> Durations {
        let mut durations = Durations::default();
        all_ns.iter().for_each(|ns| durations.add(*ns));
        durations
    }

    #[test]
    fn an_engine_says_how_often_it_left_and_how_soon() {
        let row = |requests, times_ns: &[u64]| EngineRow {
            engine: "3D".into(),
            graphics_preemption: "triangle".into(),
            compute_preemption: "thread-group".into(),
            preemptions_requested: requests,
            preemptions: durations(times_ns),
        };
        let start = "engine 3D (preempted at thread-group and triangle) got ";
        assert_eq!(row(0, &[]).line(), None);
        let line =
            |requests, times_ns: &[u64]| row(requests, times_ns).line().unwrap().replace(start, "");
        assert_eq!(line(1, &[3_000_000]), "1 preemption request and left its work within 3.000 ms");
        assert_eq!(
            line(3, &[1_500, 20_000]),
            "3 preemption requests and left its work 2 times within 1.500 µs (median), 20.00 µs (p99), 20.00 µs (longest)"
        );
        assert_eq!(line(1, &[]), "1 preemption request and did not leave its work");
    }

    #[test]
    fn a_recovery_names_queue_command_fence_and_signaller() {
        let at = |value| FenceAt { fence: "rendered".into(), value };
        let row = RecoveryRow {
            at_ns: 2_000_000_000,
            code: 0x141,
            engine: Some("3D".into()),
            noticed: "the engine did not answer".into(),
            work: vec![WorkRow {
                queue: "render".into(),
                command: "a command buffer".into(),
                injected: Some("hang:render@2".into()),
                submission: Some((2, "draw".into())),
                signals: vec![at(2)],
                guilty: true,
            }],
            held_back: vec![HeldBackRow {
                kind: WaiterKind::Queue,
                waiter: "show".into(),
                wait: at(2),
                current: 1,
                signaller: "render".into(),
            }],
            outcome: "the engine was reset".into(),
            lost: vec![LostRow { queue: "render".into(), guilty: true }],
            driver: String::new(),
        };
        assert_eq!(
            row.lines(),
            [
                "recovery 0x141 of engine 3D 2.000 s after the start of the run: the engine did not answer",
                "  queue 'render' hangs in submission 2, before 'draw': a command buffer (hang:render@2); behind it are the signals of 'rendered' to 2",
                "  queue 'show' waits for fence 'rendered' to reach 2 (it is at 1), which queue 'render' should have signalled",
                "  the engine was reset",
                "  the device of queue 'render' is lost: its work was the reason (HUNG)",
            ]
        );
    }
}
