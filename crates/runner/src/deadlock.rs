//! Explains a deadlock of a workload: its waiting threads and queues, with their lines.
//!
//! 1. Waiting parties: threads from where they were stopped, queues from the waits that the machine
//!    reports as parked.
//! 2. The signals behind each wait: queued ones, and the operations after it in the
//!    program.
//! 3. The search is the hazard check's ([`tidegate_platform::hazard::deadlock`]).
//!
//! Entry point: [`explain`], after a run.

use std::collections::BTreeMap;

use crate::queue_log::{Entry, QueueLog};
use crate::run_state::{Largest, Obstacle, StuckThread};
use tidegate_calls::PendingWait;
use tidegate_platform::hazard::deadlock::{
    Awaits, Deadlock, FenceState, Match, Place, QueuedSignal, Waiter, find,
};
use tidegate_workload::model::{FenceId, FenceRef, Op, OpKind, QueueId, Span, Workload};

/// The state of a run that stands still.
pub(crate) struct Standstill<'a> {
    pub(crate) workload: &'a Workload,
    /// Last value of each fence.
    pub(crate) fences: &'a [u64],
    pub(crate) stuck: &'a [StuckThread],
    /// Waits that queues are parked at.
    pub(crate) parked: Vec<(QueueId, PendingWait)>,
    pub(crate) logs: Vec<&'a QueueLog>,
    /// Largest values signalled by threads.
    pub(crate) largest: &'a Largest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    Thread(usize),
    Queue(QueueId),
}

/// A party that cannot go on.
#[derive(Clone, Debug)]
struct Waiting {
    party: Party,
    span: Span,
    /// The fence and value that it needs first; `None` if it waits for no fence.
    need: Option<(FenceId, u64)>,
    /// The queue in which it needs room.
    room: Option<QueueId>,
    /// Index of its wait in the log of a queue.
    position: usize,
}

/// The report: a first line, the circle or chain, other waiters, and the next step.
pub(crate) fn explain(standstill: &Standstill<'_>) -> Option<String> {
    let waiting = standstill.waiting();
    let waiters: Vec<Waiter<Span>> =
        waiting.iter().map(|party| standstill.waiter(party, &waiting)).collect();
    let place = |span: &Span| Place::Line(standstill.workload.place(*span));
    let mut found = find(&waiters, &standstill.fence_states(), Match::Reaches, place).into_iter();
    let mut worst: Deadlock = found.next()?;
    found.for_each(|other| worst.others.extend(other.chain.into_iter().chain(other.others)));
    let first = format!("{}: deadlock: nothing can move any more", standstill.workload.file);
    let lines = worst.lines().into_iter().map(|line| format!("  {line}"));
    Some(std::iter::once(first).chain(lines).collect::<Vec<_>>().join("\n"))
}

impl Standstill<'_> {
    fn met(&self, fence: FenceId, value: u64) -> bool {
        self.fences[fence.0 as usize] >= value
    }

    fn waiting(&self) -> Vec<Waiting> {
        let threads = self.stuck.iter().filter_map(|stuck| {
            let party = Party::Thread(stuck.thread);
            let nothing = Waiting { party, span: stuck.span, need: None, room: None, position: 0 };
            match &stuck.at {
                Obstacle::Fences { of, .. } => {
                    let need = of.iter().copied().find(|need| !self.met(need.0, need.1))?;
                    Some(Waiting { need: Some(need), ..nothing })
                }
                Obstacle::Room(queue) => Some(Waiting { room: Some(*queue), ..nothing }),
                Obstacle::Mark(_) => Some(nothing),
                Obstacle::Sleep => None,
            }
        });
        let fence_of: BTreeMap<&str, FenceId> = (0u32..)
            .zip(&self.workload.fences)
            .map(|(id, fence)| (fence.name.as_str(), FenceId(id)))
            .collect();
        let queues = self.parked.iter().filter_map(|(queue, pending)| {
            let fence = *fence_of.get(pending.fence.as_str())?;
            let need = (fence, pending.value);
            let entries = self.logs[queue.0 as usize].entries.iter();
            let found = entries.enumerate().find_map(|(position, entry)| match entry {
                Entry::Wait { fence, value, span } if (*fence, *value) == need => {
                    Some((position, *span))
                }
                _ => None,
            });
            let (position, span) = found.unwrap_or((0, self.workload.queue(*queue).span));
            Some(Waiting {
                party: Party::Queue(*queue),
                span,
                need: Some(need),
                room: None,
                position,
            })
        });
        let known: Vec<QueueId> = self.parked.iter().map(|(queue, _)| *queue).collect();
        let others = (0..self.workload.queues.len() as u32)
            .map(QueueId)
            .filter(|queue| !known.contains(queue));
        queues.chain(others.filter_map(|queue| self.parked_by_log(queue))).chain(threads).collect()
    }

    /// Where a queue is parked for which the machine reports no wait: at its first unmet wait. If
    /// the signal behind that wait was made, the wait was met once and its fence rewound since.
    fn parked_by_log(&self, queue: QueueId) -> Option<Waiting> {
        let entries = &self.logs[queue.0 as usize].entries;
        let unmet = |entry: &Entry| match entry {
            Entry::Wait { fence, value, span } if !self.met(*fence, *value) => {
                Some(((*fence, *value), *span))
            }
            _ => None,
        };
        let (position, (need, span)) = entries
            .iter()
            .enumerate()
            .find_map(|(position, entry)| Some((position, unmet(entry)?)))?;
        let next_signal = entries.iter().skip(position).find_map(|entry| match entry {
            Entry::Signal { fence, value, .. } => Some((*fence, *value)),
            _ => None,
        });
        if next_signal.is_some_and(|signal| self.met(signal.0, signal.1)) {
            return None;
        }
        Some(Waiting { party: Party::Queue(queue), span, need: Some(need), room: None, position })
    }

    /// Returns a party as the search takes it.
    fn waiter(&self, of: &Waiting, all: &[Waiting]) -> Waiter<Span> {
        let (noun, name) = match of.party {
            Party::Thread(thread) => {
                let thread = &self.workload.threads[thread];
                let noun = if thread.queue.is_some() { "the program of queue" } else { "thread" };
                (noun, &thread.name)
            }
            Party::Queue(queue) => ("queue", &self.workload.queue(queue).name),
        };
        let awaits = match (of.need, of.room) {
            (Some((fence, value)), _) => Awaits::Fence(fence.0 as usize, value),
            (None, Some(queue)) => Awaits::Progress {
                what: format!("room in queue '{}', which is full", self.workload.queue(queue).name),
                queue: all.iter().position(|other| other.party == Party::Queue(queue)),
            },
            (None, None) => Awaits::Other("another thread of the recording".to_owned()),
        };
        let signals = match of.party {
            Party::Thread(thread) => self.later_signals(thread, of.span),
            Party::Queue(queue) => {
                let behind = self.logs[queue.0 as usize].entries.iter().skip(of.position);
                let signal = |entry: &Entry| match entry {
                    Entry::Signal { fence, value, span } => Some(QueuedSignal {
                        fence: fence.0 as usize,
                        value: *value,
                        at: *span,
                        // A queue waits at an entry that waits.
                        is_the_wait: false,
                    }),
                    _ => None,
                };
                behind.filter_map(signal).collect()
            }
        };
        Waiter { noun, name: name.clone(), at: of.span, awaits, signals }
    }

    /// The signals that a stopped thread would, or may, make after `at`. One whose value or fence
    /// is not known counts as each that it may be.
    fn later_signals(&self, thread: usize, at: Span) -> Vec<QueuedSignal<Span>> {
        let mut ops = Vec::new();
        flatten(&self.workload.threads[thread].body, None, &mut ops);
        let here =
            ops.iter().position(|(op, _)| op.span == at && !matches!(op.kind, OpKind::Loop { .. }));
        let Some(here) = here else { return Vec::new() };
        let this_loop = ops[here].1;
        let later = ops
            .iter()
            .enumerate()
            .filter(|(place, (_, of))| *place > here || (this_loop.is_some() && *of == this_loop));
        let signals = |op: &Op| {
            let (OpKind::Signal { fence, value, .. } | OpKind::CpuSignal { fence, value }) =
                &op.kind
            else {
                return Vec::new();
            };
            let value =
                value.constant().map_or(u64::MAX, |value| u64::try_from(value).unwrap_or(0));
            let (at, is_the_wait) = (op.span, op.span == at);
            let signal = |fence| QueuedSignal { fence, value, at, is_the_wait };
            fences_of(fence).map(signal).collect()
        };
        later.flat_map(|(_, (op, _))| signals(op)).collect()
    }

    fn fence_states(&self) -> Vec<FenceState<Span>> {
        let mut highest = self.largest.clone();
        for entry in self.logs.iter().flat_map(|log| &log.entries) {
            let Entry::Signal { fence, value, span } = entry else { continue };
            let known = highest.entry(*fence).or_insert((*value, *span));
            if *value > known.0 {
                *known = (*value, *span);
            }
        }
        let state = |(id, fence): (u32, &tidegate_workload::model::Fence)| FenceState {
            name: fence.name.clone(),
            current: self.fences.get(id as usize).copied(),
            highest: highest.get(&FenceId(id)).copied(),
        };
        (0..).zip(&self.workload.fences).map(state).collect()
    }
}

/// Operations in the order of the file, each with its outermost loop.
fn flatten<'a>(ops: &'a [Op], outermost: Option<usize>, into: &mut Vec<(&'a Op, Option<usize>)>) {
    for op in ops {
        let place = into.len();
        into.push((op, outermost));
        match &op.kind {
            OpKind::Loop { body, .. } => flatten(body, outermost.or(Some(place)), into),
            OpKind::When { body, otherwise, .. } => {
                flatten(body, outermost, into);
                flatten(otherwise, outermost, into);
            }
            _ => {}
        }
    }
}

/// The fences that a reference may mean.
fn fences_of(reference: &FenceRef) -> impl Iterator<Item = usize> {
    let (first, count) =
        (reference.first.0, reference.index.as_ref().map_or(1, |_| reference.count));
    (first..first + count).map(|fence| fence as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::{LoadOptions, load_bytes};

    fn workload(text: &str) -> Workload {
        load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0
    }

    /// A queue's log from its own program, taken as written.
    fn log(workload: &Workload, queue: u32) -> QueueLog {
        let mut log = QueueLog::default();
        for op in workload.threads.iter().flat_map(|thread| thread.body.iter()) {
            match &op.kind {
                OpKind::Wait { queue: to, fence, value } if to.first.0 == queue => {
                    log.push(Entry::Wait {
                        fence: fence.first,
                        value: u64::try_from(value.constant().unwrap()).unwrap(),
                        span: op.span,
                    })
                }
                OpKind::Signal { queue: to, fence, value } if to.first.0 == queue => {
                    log.push(Entry::Signal {
                        fence: fence.first,
                        value: u64::try_from(value.constant().unwrap()).unwrap(),
                        span: op.span,
                    })
                }
                _ => {}
            }
        }
        log
    }

    fn stuck_at_first_wait(workload: &Workload, name: &str) -> StuckThread {
        let thread = workload.threads.iter().position(|thread| thread.name == name).unwrap();
        let mut ops = Vec::new();
        flatten(&workload.threads[thread].body, None, &mut ops);
        let wait = ops.iter().find_map(|(op, _)| match &op.kind {
            OpKind::CpuWait { any, of, .. } => Some((op.span, *any, of)),
            _ => None,
        });
        let (span, any, of) = wait.unwrap();
        let of = of.iter().map(|wait| {
            let value = u64::try_from(wait.value.constant().unwrap()).unwrap();
            (wait.fence.first, value)
        });
        StuckThread { thread, span, at: Obstacle::Fences { any, of: of.collect() } }
    }

    fn pending(fence: &str, value: u64) -> PendingWait {
        PendingWait {
            queue: tidegate_platform::QueueNumber::default(),
            fence: fence.into(),
            value,
            current: 0,
            lost: None,
        }
    }

    const CIRCLE: &str = "[[fence]]\nname = \"left_done\"\n[[fence]]\nname = \"right_done\"\n\
        [[queue]]\nname = \"left\"\nengine = \"copy\"\nprogram = [\n    { wait = \"right_done\", value = 1 },\n    \
        { signal = \"left_done\", value = 1 },\n]\n\
        [[queue]]\nname = \"right\"\nengine = \"compute\"\nprogram = [\n    { wait = \"left_done\", value = 1 },\n    \
        { signal = \"right_done\", value = 1 },\n]\n\
        [[thread]]\nname = \"application\"\nprogram = [{ cpu_wait = \"left_done\", value = 1 }]\n";

    #[test]
    fn a_circle_is_named_with_its_lines() {
        let workload = workload(CIRCLE);
        let logs = [log(&workload, 0), log(&workload, 1)];
        let stuck = [stuck_at_first_wait(&workload, "application")];
        let text = explain(&Standstill {
            workload: &workload,
            fences: &[0, 0],
            stuck: &stuck,
            parked: vec![
                (QueueId(0), pending("right_done", 1)),
                (QueueId(1), pending("left_done", 1)),
            ],
            logs: logs.iter().collect(),
            largest: &Largest::new(),
        });
        let expected = "w.toml: deadlock: nothing can move any more\n  \
            w.toml:9:5: queue 'left' waits for fence 'right_done' to reach 1; it is at 0\n    \
            queue 'right' would signal it (w.toml:17:5), after its own wait\n  \
            w.toml:16:5: queue 'right' waits for fence 'left_done' to reach 1; it is at 0\n    \
            queue 'left' would signal it (w.toml:10:5), after its own wait: the circle is closed\n  \
            also: w.toml:21:12: thread 'application' waits for fence 'left_done' to reach 1; it is at 0\n  \
            break the circle: let one of them signal before it waits";
        assert_eq!(text.unwrap(), expected);
    }

    #[test]
    fn queues_without_a_parked_wait_are_found_by_their_logs() {
        let workload = workload(CIRCLE);
        let logs = [log(&workload, 0), log(&workload, 1)];
        let standstill = |fences| Standstill {
            workload: &workload,
            fences,
            stuck: &[],
            parked: Vec::new(),
            logs: logs.iter().collect(),
            largest: const { &Largest::new() },
        };
        let text = explain(&standstill(&[0, 0])).unwrap();
        assert!(text.contains("the circle is closed"), "{text}");
        assert_eq!(explain(&standstill(&[1, 1])), None, "nothing waits");
        assert_eq!(
            explain(&standstill(&[0, 1])),
            None,
            "its signal shows that the wait was met, and set back since"
        );
    }

    #[test]
    fn a_value_without_a_signal_is_reported_with_the_largest() {
        let workload = workload(
            "[[fence]]\nname = \"done\"\n[[queue]]\nname = \"copy\"\nengine = \"copy\"\n\
             program = [{ signal = \"done\", value = 1 }]\n\
             [[thread]]\nname = \"application\"\nprogram = [{ cpu_wait = \"done\", value = 2 }]\n",
        );
        let logs = [log(&workload, 0)];
        let stuck = [stuck_at_first_wait(&workload, "application")];
        let largest = Largest::new();
        let standstill = |logs| Standstill {
            workload: &workload,
            fences: &[1],
            stuck: &stuck,
            parked: Vec::new(),
            logs,
            largest: &largest,
        };
        let text = explain(&standstill(logs.iter().collect())).unwrap();
        assert!(
            text.contains("no signal takes 'done' to 2; the largest signal is 1 (w.toml:6:12)"),
            "{text}"
        );
        let nothing = QueueLog::default();
        let text = explain(&standstill(vec![&nothing])).unwrap();
        assert!(text.contains("no signal of 'done' is left"), "{text}");
    }

    #[test]
    fn a_thread_that_waits_before_its_signal_is_part_of_the_chain() {
        let workload = workload(
            "[[fence]]\nname = \"go\"\n[[fence]]\nname = \"done\"\n[[queue]]\nname = \"copy\"\nengine = \"copy\"\n\
             program = [{ wait = \"go\", value = 1 }, { signal = \"done\", value = 1 }]\n\
             [[thread]]\nname = \"application\"\nprogram = [\n{ cpu_wait = \"done\", value = 1 },\n\
             { cpu_signal = \"go\", value = 1 },\n]\n",
        );
        let logs = [log(&workload, 0)];
        let stuck = [stuck_at_first_wait(&workload, "application")];
        let text = explain(&Standstill {
            workload: &workload,
            fences: &[0, 0],
            stuck: &stuck,
            parked: vec![(QueueId(0), pending("go", 1))],
            logs: logs.iter().collect(),
            largest: &Largest::new(),
        });
        let text = text.unwrap();
        assert!(
            text.contains("thread 'application' would signal it (w.toml:13:1), after its own wait"),
            "{text}"
        );
        assert!(text.contains("the circle is closed"), "{text}");
    }

    #[test]
    fn long_chains_fit_a_screen() {
        let mut text = String::new();
        for k in 0..40 {
            text += &format!("[[fence]]\nname = \"f{k}\"\n");
        }
        for k in 0..39 {
            text += &format!(
                "[[queue]]\nname = \"q{k}\"\nengine = \"copy\"\nprogram = [\n{{ wait = \"f{}\", value = 1 }},\n\
                 {{ signal = \"f{k}\", value = 1 }},\n]\n",
                k + 1
            );
        }
        let workload = workload(&text);
        let logs: Vec<QueueLog> = (0..39).map(|queue| log(&workload, queue)).collect();
        let text = explain(&Standstill {
            workload: &workload,
            fences: &[0; 40],
            stuck: &[],
            parked: (0..39u32).map(|k| (QueueId(k), pending(&format!("f{}", k + 1), 1))).collect(),
            logs: logs.iter().collect(),
            largest: &Largest::new(),
        });
        let text = text.unwrap();
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains("31 more in the same way"), "{text}");
        assert!(text.contains("no signal of 'f39' is left"), "{text}");
    }
}
