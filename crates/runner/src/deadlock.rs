//! Explains a deadlock: each waiting thread or queue, its fence, and the signaller of the fence.
//!
//! 1. Waiting parties: threads from where they were stopped, queues from the waits that the machine
//!    reports as parked.
//! 2. The party that would release each of them: from the signals queued behind a wait, or from the
//!    operations after it in the program.
//! 3. The shortest circle, or the longest chain that ends at a wait without a signal.
//!
//! Entry point: [`explain`], after a run.

use std::collections::BTreeMap;

use crate::queue_log::{Entry, QueueLog};
use crate::run_state::{Largest, Obstacle, StuckThread};
use tidegate_calls::PendingWait;
use tidegate_workload::model::{FenceId, FenceRef, Op, OpKind, QueueId, Span, Workload};

/// Links of a chain that are shown; a longer chain is shown without its middle.
const SHOWN_LINKS: usize = 8;
/// Waits beside the chain that are shown.
const SHOWN_OTHERS: usize = 5;

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

/// The release of a waiting party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// The operation at this place of another waiting party, by index.
    By { index: usize, span: Span },
    /// Progress of this queue, which gives the thread room.
    Room { index: usize },
    /// No party would signal it.
    Missing,
}

// spec: ME-051
/// The report: a first line, the circle or chain, other waiters, and the next step.
pub(crate) fn explain(standstill: &Standstill<'_>) -> Option<String> {
    let waiting = standstill.waiting();
    if waiting.is_empty() {
        return None;
    }
    let releases = standstill.releases(&waiting);
    let (chain, circle) = chain(&releases);
    let mut lines =
        vec![format!("{}: deadlock: nothing can move any more", standstill.workload.file)];
    let hidden = chain.len().saturating_sub(SHOWN_LINKS);
    for (number, index) in chain.iter().enumerate() {
        if hidden > 0 && (SHOWN_LINKS / 2..SHOWN_LINKS / 2 + hidden).contains(&number) {
            if number == SHOWN_LINKS / 2 {
                lines.push(format!("  … {hidden} more in the same way"));
            }
            continue;
        }
        lines.push(format!("  {}", standstill.describe(&waiting[*index])));
        lines.push(format!(
            "    {}",
            standstill.link(&waiting, *index, releases[*index], circle, number, &chain)
        ));
    }
    lines.extend(standstill.others(&waiting, &chain));
    lines.push(match circle {
        true => "  break the circle: let one of them signal before it waits".to_owned(),
        false => {
            "  add the signal that is missing, or wait for a value that is signalled".to_owned()
        }
    });
    Some(lines.join("\n"))
}

/// Returns the shortest circle, or else the longest chain that ends at a wait without a signal. The
/// second value is true for a circle.
fn chain(releases: &[Release]) -> (Vec<usize>, bool) {
    let next = |index: usize| match releases[index] {
        Release::By { index, .. } | Release::Room { index } => Some(index),
        Release::Missing => None,
    };
    // 0: not seen; otherwise the start from which it was seen first, plus one.
    let mut seen = vec![0usize; releases.len()];
    let mut circle: Option<Vec<usize>> = None;
    let mut length = vec![0usize; releases.len()];
    for start in 0..releases.len() {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(index) = at.filter(|index| seen[*index] == 0) {
            seen[index] = start + 1;
            path.push(index);
            at = next(index);
        }
        if let Some(index) = at.filter(|index| seen[*index] == start + 1)
            && let Some(from) = path.iter().position(|member| *member == index)
        {
            let found = path[from..].to_vec();
            if circle.as_ref().is_none_or(|known| found.len() < known.len()) {
                circle = Some(found);
            }
        }
        let mut behind = at.map_or(0, |index| length[index]);
        for index in path.into_iter().rev() {
            behind += 1;
            length[index] = behind;
        }
    }
    if let Some(circle) = circle {
        return (circle, true);
    }
    let longest =
        (0..releases.len()).max_by_key(|index| (length[*index], std::cmp::Reverse(*index)));
    let mut path = Vec::new();
    let mut at = longest;
    while let Some(index) = at {
        path.push(index);
        at = next(index);
    }
    (path, false)
}

impl Standstill<'_> {
    fn met(&self, (fence, value): (FenceId, u64)) -> bool {
        self.fences[fence.0 as usize] >= value
    }

    fn waiting(&self) -> Vec<Waiting> {
        let threads = self.stuck.iter().filter_map(|stuck| {
            let party = Party::Thread(stuck.thread);
            let nothing = Waiting { party, span: stuck.span, need: None, room: None, position: 0 };
            match &stuck.at {
                Obstacle::Fences { of, .. } => {
                    let need = of.iter().copied().find(|need| !self.met(*need))?;
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
            Entry::Wait { fence, value, span } if !self.met((*fence, *value)) => {
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
        if next_signal.is_some_and(|signal| self.met(signal)) {
            return None;
        }
        Some(Waiting { party: Party::Queue(queue), span, need: Some(need), room: None, position })
    }

    fn releases(&self, waiting: &[Waiting]) -> Vec<Release> {
        // Signals that stand behind the wait of a parked queue: fence → (value, index of the party,
        // place).
        let mut behind: BTreeMap<FenceId, Vec<(u64, usize, Span)>> = BTreeMap::new();
        for (index, party) in waiting.iter().enumerate() {
            let Party::Queue(queue) = party.party else { continue };
            for entry in self.logs[queue.0 as usize].entries.iter().skip(party.position) {
                if let Entry::Signal { fence, value, span } = entry {
                    behind.entry(*fence).or_default().push((*value, index, *span));
                }
            }
        }
        let release = |party: &Waiting| {
            if let Some(queue) = party.room {
                let index = waiting.iter().position(|other| other.party == Party::Queue(queue));
                return index.map_or(Release::Missing, |index| Release::Room { index });
            }
            let Some((fence, value)) = party.need else { return Release::Missing };
            let queued =
                behind.get(&fence).and_then(|all| all.iter().find(|(signal, ..)| *signal >= value));
            if let Some((_, index, span)) = queued {
                return Release::By { index: *index, span: *span };
            }
            let threads =
                waiting.iter().enumerate().filter_map(|(index, other)| match other.party {
                    Party::Thread(thread) => {
                        let span = self.would_signal(thread, other.span, fence, value)?;
                        Some(Release::By { index, span })
                    }
                    Party::Queue(_) => None,
                });
            threads.into_iter().next().unwrap_or(Release::Missing)
        };
        waiting.iter().map(release).collect()
    }

    /// The place after `at` at which a stopped thread would, or may, signal the fence to the value.
    fn would_signal(&self, thread: usize, at: Span, fence: FenceId, value: u64) -> Option<Span> {
        let mut ops = Vec::new();
        flatten(&self.workload.threads[thread].body, None, &mut ops);
        let here = ops
            .iter()
            .position(|(op, _)| op.span == at && !matches!(op.kind, OpKind::Loop { .. }))?;
        let this_loop = ops[here].1;
        let later = ops
            .iter()
            .enumerate()
            .filter(|(place, (_, of))| *place > here || (this_loop.is_some() && *of == this_loop));
        let signals = |op: &Op| {
            let (OpKind::Signal { fence: to, value: of, .. }
            | OpKind::CpuSignal { fence: to, value: of }) = &op.kind
            else {
                return false;
            };
            covers(to, fence) && of.constant().is_none_or(|constant| constant >= i128::from(value))
        };
        later.map(|(_, (op, _))| *op).find(|op| signals(op)).map(|op| op.span)
    }

    fn place(&self, span: Span) -> String {
        self.workload.place(span)
    }

    fn name(&self, party: Party) -> String {
        match party {
            Party::Thread(thread) => {
                let thread = &self.workload.threads[thread];
                let whose = if thread.queue.is_some() { "the program of queue" } else { "thread" };
                format!("{whose} '{}'", thread.name)
            }
            Party::Queue(queue) => format!("queue '{}'", self.workload.queue(queue).name),
        }
    }

    fn fence_name(&self, fence: FenceId) -> &str {
        &self.workload.fence(fence).name
    }

    fn describe(&self, waiting: &Waiting) -> String {
        let (place, name) = (self.place(waiting.span), self.name(waiting.party));
        match (waiting.need, waiting.room) {
            (Some((fence, value)), _) => {
                let now = self.fences[fence.0 as usize];
                format!(
                    "{place}: {name} waits for fence '{}' to reach {value}; it is at {now}",
                    self.fence_name(fence)
                )
            }
            (None, Some(queue)) => {
                let queue = &self.workload.queue(queue).name;
                format!("{place}: {name} waits for room in queue '{queue}', which is full")
            }
            (None, None) => format!("{place}: {name} waits for another thread of the recording"),
        }
    }

    fn link(
        &self,
        waiting: &[Waiting],
        index: usize,
        release: Release,
        circle: bool,
        number: usize,
        chain: &[usize],
    ) -> String {
        let closes =
            if circle && number + 1 == chain.len() { ": the circle is closed" } else { "" };
        match release {
            Release::By { index, span } => {
                let name = self.name(waiting[index].party);
                let own = if waiting[index].span == span { "" } else { ", after its own wait" };
                format!("{name} would signal it ({}){own}{closes}", self.place(span))
            }
            Release::Room { index } => {
                let name = self.name(waiting[index].party);
                format!("{name} cannot go on{closes}")
            }
            Release::Missing => match waiting[index].need {
                Some((fence, value)) => self.missing_signal(fence, value),
                None => "no party is left to do that".to_owned(),
            },
        }
    }

    fn missing_signal(&self, fence: FenceId, value: u64) -> String {
        let queued =
            self.logs.iter().flat_map(|log| log.entries.iter()).filter_map(|entry| match entry {
                Entry::Signal { fence: of, value, span } if *of == fence => Some((*value, *span)),
                _ => None,
            });
        let all = queued.chain(self.largest.get(&fence).copied());
        let name = self.fence_name(fence);
        match all.max_by_key(|(value, _)| *value) {
            Some((largest, span)) if largest >= value => {
                format!("it was signalled to {largest} ({}) and set back since", self.place(span))
            }
            Some((largest, span)) => format!(
                "no signal takes '{name}' to {value}; the largest signal is {largest} ({})",
                self.place(span)
            ),
            None => format!("no signal of '{name}' is left"),
        }
    }

    fn others(&self, waiting: &[Waiting], chain: &[usize]) -> Vec<String> {
        let others: Vec<&Waiting> = waiting
            .iter()
            .enumerate()
            .filter(|(index, _)| !chain.contains(index))
            .map(|(_, w)| w)
            .collect();
        let mut lines: Vec<String> = others
            .iter()
            .take(SHOWN_OTHERS)
            .map(|other| format!("  also: {}", self.describe(other)))
            .collect();
        if let Some(more) = others.len().checked_sub(SHOWN_OTHERS).filter(|more| *more > 0) {
            lines.push(format!("  also: {more} more"));
        }
        lines
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

/// Whether a reference may mean the fence.
fn covers(reference: &FenceRef, fence: FenceId) -> bool {
    match &reference.index {
        None => reference.first == fence,
        Some(_) => (reference.first.0..reference.first.0 + reference.count).contains(&fence.0),
    }
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
