//! Owns the reading of native fence logs, and when they change their places. A user-mode queue has
//! two, for waits and signals, and a third, verbose one for command buffers while that is switched
//! on. The GPU writes them; here they are read.
//!
//! Order of a reading, under the adapter's reading lock, for all queues at once: 1. the index word
//! of each log; 2. one UpdateNativeFenceLogs for the queues with news, by which the driver supplies
//! the barrier between index and entries, for all logs of each; 3. the entries; 4. the index word
//! again: what the GPU has run over meanwhile is lost. Losses are counted, and the reader falls
//! back to the fences' live values.
//!
//! Order of a change: 1. the new log is made and mapped; 2. the driver is told, and no operation
//! writes the old one any more;
//! 3. the old one is read a last time; 4. it is taken off the address space and the bus. Numbers of
//!    entries that are on their way in rings stay right: see `numbers_for`.
//!
//! A process can write everything in a log, the index included, so it is only a hint. An index is
//! bounded by the kernel's own capacity. A handle is looked up in the queue's own process alone.
//! CurrentValue decides. `log_place` owns the places, `log_timeline` the timeline.

use super::log_place::{Place, capacity_while_traced};
use super::{log_timeline, signaled};
use crate::adapter::Adapter;
use crate::device::Device;
use crate::hwqueue::HwQueue;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_calls::{LogDetail, ReadOnly, Status};
use tidegate_d3dukmdt::log::{LOG_ENTRY_BYTES, LogEntry, LogIndex, LogType};
use tidegate_ddi::{Dispatch, DriverHandle};
use tidegate_platform::{Mutex, Word};

/// Copies an entry out.
// spec: NF-208
fn read_entry(place: &Place, index: u64) -> LogEntry {
    let mut bytes = [0; LOG_ENTRY_BYTES];
    // The index is below the capacity that the bytes were made for.
    let _ = place.entries.read_once(index * LOG_ENTRY_BYTES as u64, &mut bytes);
    LogEntry::decode(&bytes)
}

/// What was new in a log.
#[derive(Default)]
pub(crate) struct LogNews {
    /// The entries that are still there, oldest first.
    pub(crate) entries: Vec<LogEntry>,
    /// Some were overwritten, or may have been while they were read: the entries do not tell all.
    pub(crate) overrun: bool,
}

/// A time in a log that is less than the one before it: the driver's fault, or that of a process
/// that wrote into its own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTimeFault {
    /// Number under which the queue's work is counted.
    pub tag: u32,
    /// Which of its logs.
    pub log_type: LogType,
    /// Index of the entry.
    pub entry: u32,
    /// The time before it, GPU ns.
    pub before_ns: u64,
    /// Its own time, GPU ns.
    pub end_ns: u64,
}

/// Faults that are kept; all are counted.
const FAULTS_KEPT: usize = 64;

/// How far a log was read.
#[derive(Clone, Copy, Default)]
struct Reader {
    /// The index word then.
    word: u64,
    /// The last time in it that was not 0.
    last_ns: u64,
}

/// One log.
pub(crate) struct FenceLog {
    log_type: LogType,
    place: Mutex<Option<Arc<Place>>>,
    reader: Mutex<Reader>,
}

/// The logs of a user-mode queue.
pub(crate) struct FenceLogs {
    waits: FenceLog,
    signals: FenceLog,
    /// In place while verbose logs are on.
    commands: FenceLog,
    /// Shown to the process: 1 while it is to number its command buffers for the verbose log.
    verbose: Word,
    device: Arc<Device>,
}

/// What logs are to be like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogMode {
    /// A timeline is recorded: logs are large.
    enlarged: bool,
    /// Command buffers are logged.
    verbose: bool,
}

/// How many numbers a user-mode driver counts through before it begins at 0 again. The GPU takes a
/// number modulo the entries of the log that is in place when the operation is carried out. All
/// capacities divide this count, so a number that was chosen before a log changed names the entry
/// behind the one before it, in the new log as in the old.
pub(crate) fn numbers_for(adapter: &Adapter) -> u32 {
    capacity_while_traced(adapter.config.log_entries)
}

impl FenceLogs {
    /// The logs of a queue of `device`, not yet told to the driver; `None` where the kernel is
    /// configured without.
    // spec: NF-173, NF-229
    pub(crate) fn new(
        adapter: &Arc<Adapter>,
        device: &Arc<Device>,
    ) -> Result<Option<FenceLogs>, Status> {
        if adapter.config.log_entries == 0 {
            return Ok(None);
        }
        let capacity = adapter.log_mode.lock().capacity(adapter);
        let platform = &adapter.platform;
        let log = |log_type, place| FenceLog {
            log_type,
            place: platform.mutex("place of a fence log", place),
            reader: platform.mutex("fence log reader", Reader::default()),
        };
        let made = |log_type| {
            Place::new(adapter, &device.space, log_type, capacity).map(Arc::new).map(Some)
        };
        Ok(Some(FenceLogs {
            waits: log(LogType::Waits, made(LogType::Waits)?),
            signals: log(LogType::Signals, made(LogType::Signals)?),
            commands: log(LogType::Commands, None),
            verbose: platform.page(1).word(0),
            device: device.clone(),
        }))
    }

    /// Tells the driver where the logs are.
    // spec: NF-176
    pub(crate) fn set(&self, adapter: &Adapter, queue: DriverHandle) {
        for log in [&self.waits, &self.signals] {
            if let Some(place) = log.place() {
                tell(adapter, queue, log.log_type, Some(&place));
            }
        }
    }

    /// D3DKMT_GETNATIVEFENCELOGDETAIL.
    pub(crate) fn detail(&self, adapter: &Adapter) -> LogDetail {
        let (waits, signals) = (self.waits.place(), self.signals.place());
        let entries = |place: &Option<Arc<Place>>| place.as_ref().map_or(0, |p| p.capacity);
        let address = |place: &Option<Arc<Place>>| place.as_ref().map_or(0, |p| p.gpu_va);
        LogDetail {
            wait_entries: entries(&waits),
            signal_entries: entries(&signals),
            wait_log_gpu_va: address(&waits),
            signal_log_gpu_va: address(&signals),
            numbers: numbers_for(adapter),
            verbose: Some(ReadOnly::new(self.verbose.clone())),
        }
    }

    fn all(&self) -> [&FenceLog; 3] {
        [&self.waits, &self.signals, &self.commands]
    }
}

fn tell(adapter: &Adapter, queue: DriverHandle, log_type: LogType, place: Option<&Place>) {
    let args = match place {
        Some(place) => place.set_args(queue, log_type, notify_every(adapter, place)),
        None => Place::taken_away(adapter, queue, log_type),
    };
    adapter.driver().set_native_fence_log_buffer(&Dispatch::enter(), args);
}

/// While a timeline is recorded a log is read at each half of it, so that nothing is lost while the
/// reader keeps up.
fn notify_every(adapter: &Adapter, place: &Place) -> u32 {
    if adapter.platform.tracing() { (place.capacity / 2).max(1) } else { 0 }
}

impl FenceLog {
    fn place(&self) -> Option<Arc<Place>> {
        self.place.lock().clone()
    }
}

impl LogMode {
    fn capacity(self, adapter: &Adapter) -> u32 {
        let standard = adapter.config.log_entries;
        let enlarged = self.enlarged || adapter.platform.tracing();
        if enlarged { capacity_while_traced(standard) } else { standard }
    }
}

/// News that a reading found: which log, from where to where.
struct Found<'a> {
    queue: usize,
    log: &'a FenceLog,
    place: Arc<Place>,
    from: u64,
    to: u64,
}

/// Reads what is new in the logs of `queues`, each by its number: the news of the signals. What the
/// other logs tell is for the timeline alone, and they are read while there is one.
pub(crate) fn read_news(
    adapter: &Adapter,
    level: &Dispatch,
    queues: &[Arc<HwQueue>],
) -> Vec<LogNews> {
    let _reading = adapter.log_reading.lock_device();
    let queues: Vec<&HwQueue> = queues.iter().map(|queue| &**queue).collect();
    read(adapter, Some(level), &queues)
}

/// The reading lock is held. `None` for a level where the driver knows the queues no more: it must
/// not be told of them.
fn read(adapter: &Adapter, level: Option<&Dispatch>, queues: &[&HwQueue]) -> Vec<LogNews> {
    let tracing = adapter.platform.tracing();
    // 1. The index of each log, as one word.
    let mut found = Vec::new();
    // spec: NF-214
    for (number, queue) in queues.iter().enumerate() {
        for log in queue.logs.iter().flat_map(FenceLogs::all) {
            if !tracing && log.log_type != LogType::Signals {
                continue;
            }
            let Some(place) = log.place() else { continue };
            let (from, to) = (log.reader.lock().word, place.header.load_once());
            if from != to {
                found.push(Found { queue: number, log, place, from, to });
            }
        }
    }
    let mut news: Vec<LogNews> = queues.iter().map(|_| LogNews::default()).collect();
    // 2. The driver's barrier, once for all.
    // spec: NF-215
    let mut with_news: Vec<DriverHandle> = found.iter().map(|f| queues[f.queue].driver).collect();
    // spec: NF-218
    with_news.dedup();
    if with_news.is_empty() {
        return news;
    }
    match level {
        Some(level) => adapter.driver().update_native_fence_logs(level, &with_news),
        None => adapter.platform.fence(),
    }
    // 3. and 4. for each.
    // spec: NF-217
    for found in found {
        let queue = queues[found.queue];
        let read = read_log(adapter, queue, &found);
        if found.log.log_type == LogType::Signals {
            news[found.queue] = read;
        }
    }
    news
}

fn read_log(adapter: &Adapter, queue: &HwQueue, found: &Found<'_>) -> LogNews {
    let Found { log, place, from, to, .. } = found;
    let capacity = u64::from(place.capacity);
    let written = LogIndex(*to).written_since(LogIndex(*from), place.capacity);
    let start = (from & 0xFFFF_FFFF).min(capacity);
    let oldest = written.saturating_sub(capacity);
    let mut entries: Vec<(u64, LogEntry)> = (oldest..written)
        .map(|nth| (nth, read_entry(place, (start + nth) % capacity)))
        // Nobody wrote a blank one: its number was left out.
        .filter(|(_, entry)| *entry != LogEntry::default())
        .collect();
    // What the GPU has begun another lap over since: its new entries are read the next time, the
    // old ones are gone. An entry that is just being written over is not counted yet, so a whole
    // lap is enough for doubt.
    adapter.platform.fence();
    let by_now = LogIndex(place.header.load_once()).written_since(LogIndex(*from), place.capacity);
    let lost = by_now.saturating_sub(capacity).min(written);
    entries.retain(|(nth, _)| *nth >= lost);
    adapter.stats.add(Count::log_entries_lost, lost);
    let before_ns = check_times(adapter, queue, found, start, &entries);
    let entries: Vec<LogEntry> = entries.into_iter().map(|(_, entry)| entry).collect();
    if adapter.platform.tracing() {
        log_timeline::record(adapter, queue, log.log_type, &entries, lost, before_ns);
    }
    LogNews { entries, overrun: by_now >= capacity }
}

/// Moves the reader on; returns the last time before these entries. A time that falls is reported,
/// unless it is 0 (an adapter that left it out): it is the driver's fault, and costs nobody
/// anything but a box on a timeline.
// spec: NF-209
fn check_times(
    adapter: &Adapter,
    queue: &HwQueue,
    found: &Found<'_>,
    start: u64,
    entries: &[(u64, LogEntry)],
) -> u64 {
    let mut faults = Vec::new();
    let before_ns = {
        let mut reader = found.log.reader.lock();
        let before_ns = reader.last_ns;
        reader.word = found.to;
        for (nth, entry) in entries.iter().filter(|(_, entry)| entry.end_ns != 0) {
            if entry.end_ns < reader.last_ns {
                faults.push(LogTimeFault {
                    tag: queue.tag,
                    log_type: found.log.log_type,
                    entry: ((start + nth) % u64::from(found.place.capacity)) as u32,
                    before_ns: reader.last_ns,
                    end_ns: entry.end_ns,
                });
            }
            reader.last_ns = entry.end_ns;
        }
        before_ns
    };
    if !faults.is_empty() {
        adapter.stats.add(Count::log_time_faults, faults.len() as u64);
        let mut kept = adapter.log_faults.lock();
        let room = FAULTS_KEPT.saturating_sub(kept.len());
        kept.extend(faults.into_iter().take(room));
    }
    before_ns
}

/// Puts a log of this capacity in the place of the present one, or none.
// spec: NF-190
fn replace(
    adapter: &Arc<Adapter>,
    queue: &HwQueue,
    logs: &FenceLogs,
    log: &FenceLog,
    capacity: u32,
) -> Result<(), Status> {
    // 1.
    let new = match capacity {
        0 => None,
        _ => Some(Arc::new(Place::new(adapter, &logs.device.space, log.log_type, capacity)?)),
    };
    let (old, news) = {
        let _reading = adapter.log_reading.lock_device();
        // 2.
        tell(adapter, queue.driver, log.log_type, new.as_deref());
        // 3.
        let news = read(adapter, Some(&Dispatch::enter()), &[queue]);
        let old = std::mem::replace(&mut *log.place.lock(), new);
        log.reader.lock().word = 0;
        (old, news)
    };
    // 4.
    drop(old);
    signaled::release_logged([queue], news);
    Ok(())
}

/// Brings the logs of a queue to what they are to be like now.
pub(crate) fn follow_mode(adapter: &Arc<Adapter>, queue: &HwQueue) -> Result<(), Status> {
    let Some(logs) = &queue.logs else { return Ok(()) };
    let mode = *adapter.log_mode.lock();
    let capacity = mode.capacity(adapter);
    // A process that is told to stop does so before there is no log, and is told to begin when
    // there is one.
    if !mode.verbose {
        logs.verbose.store(0);
    }
    let wanted = [capacity, capacity, if mode.verbose { capacity } else { 0 }];
    for (log, wanted) in logs.all().into_iter().zip(wanted) {
        if log.place().map_or(0, |place| place.capacity) != wanted {
            replace(adapter, queue, logs, log, wanted)?;
        }
    }
    if mode.verbose {
        logs.verbose.store(1);
    }
    Ok(())
}

/// The queue is about to be destroyed: its logs for the timeline, while the driver can still be
/// asked for its barrier.
pub(crate) fn read_before_end(adapter: &Adapter, queue: &HwQueue) {
    read_for_timeline(adapter, queue, Some(&Dispatch::enter()));
}

/// The queue is gone from the hardware, and from the driver: what it wrote until then, a last time.
pub(crate) fn read_last(adapter: &Adapter, queue: &HwQueue) {
    read_for_timeline(adapter, queue, None);
}

fn read_for_timeline(adapter: &Adapter, queue: &HwQueue, level: Option<&Dispatch>) {
    if queue.logs.is_some() && adapter.platform.tracing() {
        let _reading = adapter.log_reading.lock_device();
        let _signals = read(adapter, level, &[queue]);
    }
}

impl Adapter {
    /// A timeline is recorded from now on: the logs of all user-mode queues, and of those to come,
    /// double up to 64 KiB. Queues that are made while the platform traces have large logs from the
    /// start.
    ///
    /// # Errors
    /// No address space is left for a larger log; the other queues' are enlarged.
    // spec: NF-205, NF-206
    pub fn start_log_tracing(self: &Arc<Adapter>) -> Result<(), Status> {
        self.change_logs(|mode| mode.enlarged = true)
    }

    /// No timeline is recorded any more: logs are 4 KiB again, but for those of a platform that
    /// traces.
    ///
    /// # Errors
    /// As [`Adapter::start_log_tracing`].
    pub fn stop_log_tracing(self: &Arc<Adapter>) -> Result<(), Status> {
        self.change_logs(|mode| mode.enlarged = false)
    }

    // spec: NF-230
    /// Switches the verbose log of command buffers on or off, for the driver by
    /// SetNativeFenceLogBuffer and for user-mode drivers by the word that the log detail shows
    /// them, for all user-mode queues and those to come.
    ///
    /// # Errors
    /// As [`Adapter::start_log_tracing`].
    pub fn set_verbose_logs(self: &Arc<Adapter>, on: bool) -> Result<(), Status> {
        self.change_logs(|mode| mode.verbose = on)
    }

    fn change_logs(self: &Arc<Adapter>, change: impl FnOnce(&mut LogMode)) -> Result<(), Status> {
        change(&mut self.log_mode.lock());
        let queues = self.hw_queues_of(|queue| queue.logs.is_some());
        // Every queue is brought as far as it goes; the first refusal is told.
        let done: Vec<Result<(), Status>> =
            queues.iter().map(|queue| follow_mode(self, queue)).collect();
        done.into_iter().collect()
    }

    /// Reads all logs for the timeline, up to now: before a timeline is taken.
    pub fn read_fence_logs(&self) {
        if self.platform.tracing() {
            let queues = self.hw_queues_of(|queue| queue.logs.is_some());
            let _signals = read_news(self, &Dispatch::enter(), &queues);
        }
    }

    /// Times in fence logs that fell, the first 64 of them; [`crate::KernelStats::log_time_faults`]
    /// counts all.
    pub fn log_time_faults(&self) -> Vec<LogTimeFault> {
        self.log_faults.lock().clone()
    }
}
