//! The present state of an adapter as rows, for a view of a machine that goes on.
//!
//! Invariants: a page is bounded in rows and bytes, and so is the number of objects that are
//! visited for it. Rows are read one by one, so a page is not an instant of the machine. Entry
//! points: [`MachineRow`], and [`Page`]s of the other rows.

use serde::{Deserialize, Serialize};

/// Objects that are visited for one page.
pub const PAGE_OBJECTS: usize = 512;
/// Rows from which on a page ends.
pub const PAGE_ROWS: usize = 512;
/// Waiters of one fence that a page lists, the smallest values first.
pub const WAITERS_OF_A_FENCE: usize = 64;
/// Bytes of a name that a row keeps.
pub const NAME_BYTES: usize = 64;
/// Bytes of a sentence that a row keeps.
pub const TEXT_BYTES: usize = 400;

/// Names the rows of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRequest {
    /// [`Page::next`] of the page before; 0 for the first one.
    pub after: u64,
    /// The process whose rows are wanted; `None` for all.
    pub process: Option<u32>,
}

impl PageRequest {
    /// Returns whether rows of this process are wanted.
    pub fn wants(&self, process: Option<u32>) -> bool {
        self.process.is_none() || self.process == process
    }
}

/// Rows of one table, in order of creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<R> {
    /// The rows; possibly none, also before the last page.
    pub rows: Vec<R>,
    /// [`PageRequest::after`] of the next page; `None` when this is the last one.
    pub next: Option<u64>,
}

impl<R> Page<R> {
    /// Makes a page of `objects`, which are the first [`PAGE_OBJECTS`] after the one that was
    /// named, or fewer when there are no more. `list` adds the rows of one.
    pub fn of<T>(objects: &[(u64, T)], mut list: impl FnMut(&T, &mut Vec<R>)) -> Page<R> {
        let mut page = Page { rows: Vec::new(), next: None };
        for (number, object) in objects {
            list(object, &mut page.rows);
            page.next = Some(*number);
            if page.rows.len() >= PAGE_ROWS {
                return page;
            }
        }
        page.next.take_if(|_| objects.len() < PAGE_OBJECTS);
        page
    }
}

/// Returns the start of `text`, at most `bytes` long, with `…` for the rest.
pub fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes - '…'.len_utf8());
    format!("{}…", &text[..end])
}

/// An adapter as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRow {
    /// Time since the machine's clock was 0, in nanoseconds.
    pub at_ns: u64,
    /// The adapter's name.
    pub adapter: String,
    /// Power state of the device: D0 or D3.
    pub power: String,
    /// Contexts for packets and hardware queues.
    pub queues: u64,
    /// Fences.
    pub fences: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// The engines, by number.
    pub engines: Vec<EngineRow>,
    /// Engines that were to be reset, so far.
    pub engine_timeouts: u64,
    /// Resets of the adapter so far.
    pub adapter_resets: u64,
    /// Devices that were lost so far.
    pub devices_lost: u64,
    /// The last recoveries, oldest first; at most 16.
    pub recoveries: Vec<RecoveryRow>,
}

/// An engine. Counts are since the machine started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRow {
    /// Its name.
    pub name: String,
    /// Power state: F0 or F1.
    pub power: String,
    /// Time for which it was busy, in nanoseconds, up to now.
    pub busy_ns: u64,
    /// Ring slots of work that it completed.
    pub packets: u64,
    /// Times that it switched from one context to another.
    pub context_switches: u64,
    /// Preemptions that were requested.
    pub preemptions_requested: u64,
    /// Preemptions that were answered.
    pub preemptions: u64,
}

/// A recovery from a timeout (TDR).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryRow {
    /// When it began, in nanoseconds of the machine's clock.
    pub at_ns: u64,
    /// The published code of the bug check.
    pub code: u32,
    /// The engine; `None` for the adapter.
    pub engine: Option<String>,
    /// Why.
    pub reason: String,
    /// What was done.
    pub outcome: String,
    /// Queues of devices that were lost.
    pub lost_queues: u32,
}

/// How work comes to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// A context for packets.
    Packet,
    /// A hardware queue that is fed by kernel calls.
    Hardware,
    /// A hardware queue with a ring and a doorbell.
    User,
}

/// A context for packets or a hardware queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    /// Its number on the adapter.
    pub queue: u64,
    /// Its process; `None` for the kernel's own.
    pub process: Option<u32>,
    /// How work comes to it.
    pub kind: QueueKind,
    /// Number of its engine.
    pub engine: u32,
    /// Packets queued so far; of a hardware queue, the progress value that was announced last.
    pub submitted: u64,
    /// Packets completed so far; of a hardware queue, its progress value.
    pub completed: u64,
    /// Its doorbell; `None` without one.
    pub doorbell: Option<DoorbellState>,
    /// Whether its device is lost.
    pub lost: bool,
}

/// The state that a process reads in a doorbell's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoorbellState {
    /// A store reaches the engine.
    Connected,
    /// A store reaches the engine, and the process notifies the driver of it.
    ConnectedNotify,
    /// The process is to connect it again.
    DisconnectedRetry,
    /// Permanent.
    DisconnectedAbort,
}

/// A doorbell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorbellRow {
    /// Its number on the adapter.
    pub doorbell: u64,
    /// Its queue.
    pub queue: u64,
    /// Its process.
    pub process: Option<u32>,
    /// Number of its engine.
    pub engine: u32,
    /// Its status.
    pub state: DoorbellState,
    /// The progress value that the process announced last.
    pub announced: u64,
    /// The queue's progress value.
    pub completed: u64,
}

/// The cells of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceKind {
    /// Only CurrentValue.
    Monitored,
    /// CurrentValue and MonitoredValue.
    Native,
    /// A native fence that no CPU reaches.
    IntraGpu,
}

/// A fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceRow {
    /// Its number on the adapter.
    pub fence: u64,
    /// Its name.
    pub name: String,
    /// The process of its oldest instance; `None` without one, and for the kernel's own.
    pub process: Option<u32>,
    /// Instances, of all processes.
    pub instances: u32,
    /// Its cells.
    pub kind: FenceKind,
    /// Whether it can be shared.
    pub shared: bool,
    /// CurrentValue; `None` where no CPU reaches it.
    pub value: Option<u64>,
    /// MonitoredValue of a native fence. `u64::MAX`: no waiter.
    pub monitored: Option<u64>,
    /// Waits that are registered with it.
    pub waiters: u32,
}

/// What waits for a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaiterKind {
    /// A CPU wait.
    Cpu,
    /// A queue that VidSch holds back.
    Queue,
    /// A queue that its engine holds back.
    Engine,
    /// The kernel, which follows the fence.
    Kernel,
}

/// A wait that is not satisfied, or is just being released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterRow {
    /// The fence.
    pub fence: u64,
    /// Its name.
    pub name: String,
    /// What waits.
    pub kind: WaiterKind,
    /// The queue that is held back.
    pub queue: Option<u64>,
    /// The process whose wait it is, if that is known.
    pub process: Option<u32>,
    /// The awaited value.
    pub awaited: u64,
    /// CurrentValue; `None` where no CPU reaches it.
    pub value: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_to_the_last_object() {
        let objects: Vec<(u64, u64)> = (1..=1_300).map(|number| (number, number)).collect();
        let (mut after, mut rows, mut pages) = (0, Vec::new(), 0);
        loop {
            let rest = &objects[after as usize..];
            let found = &rest[..rest.len().min(PAGE_OBJECTS)];
            // Every second object has a row, the others none.
            let page = Page::of(found, |n, rows| rows.extend((n % 2 == 0).then_some(*n)));
            pages += 1;
            rows.extend(page.rows);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!((rows.len(), pages), (650, 3));
        let full = Page::of(&objects[..PAGE_OBJECTS], |n, rows| rows.extend([*n; 64]));
        assert_eq!((full.rows.len(), full.next), (PAGE_ROWS, Some(8)), "a page ends early");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(shortened("short", 8), "short");
        assert_eq!(shortened("ünïcödé fence", 9), "ünïc…");
        assert!(shortened(&"é".repeat(100), NAME_BYTES).len() <= NAME_BYTES);
    }
}
