//! Reads native fence logs. A queue whose waits the hardware holds has a wait log, a signal log
//! and, while verbose logging is on, a command buffer log. The GPU writes them.
//!
//! Order of a reading, under the reading lock, for all queues together: 1. the index word of
//! each log; 2. one UpdateNativeFenceLogs for the queues with unread entries: the driver's
//! barrier between index and entries; 3. the entries; 4. the index word again: entries that the
//! GPU has overwritten meanwhile are lost. Losses are counted, and the caller falls back to the
//! fences' values.
//!
//! Invariant: a process can write everything in a log, so all of it is a hint. An index is bounded
//! by the kernel's own capacity, a handle is looked up in the queue's own process, and CurrentValue
//! decides.

use super::log_place::{LogBuffer, capacity_while_traced};
use super::log_timeline::{self, GpuClock, ReadEntries};
use super::object::Fence;
use crate::driver::{DriverPort, Powered};
use crate::memory::{AddressSpace, Memory};
use crate::stats::Count;
use std::sync::Arc;
use tidegate_calls::{LogDetail, ReadOnly, Status};
use tidegate_d3dukmdt::log::{LOG_ENTRY_BYTES, LogEntry, LogIndex, LogType};
use tidegate_ddi::{DriverHandle, Irql, Passive};
use tidegate_platform::{ClientAccess, Mutex, QueueNumber, Word};

/// A hardware queue as the fence room sees it.
pub(crate) trait LoggedQueue {
    /// The driver's handle.
    fn driver(&self) -> DriverHandle;

    /// The queue's logs; `None` for a queue whose waits and signals the scheduler carries out.
    fn logs(&self) -> Option<&FenceLogs>;

    /// The number under which its work is counted.
    /// Its number on the timeline.
    fn number(&self) -> QueueNumber;

    /// Its progress fence.
    fn progress(&self) -> &Arc<Fence>;

    /// The fence that a handle names in its process.
    fn fence_of_handle(&self, handle: u32) -> Option<Arc<Fence>>;

    /// The fences that are open on its device.
    fn fences_of_device(&self) -> Vec<Arc<Fence>>;
}

/// The new entries of a log.
#[derive(Default)]
pub(super) struct LogEntries {
    /// The entries that were not overwritten, oldest first.
    pub(super) entries: Vec<LogEntry>,
    /// Whether entries were overwritten, or may have been while they were read.
    pub(super) overrun: bool,
}

/// A log time that is less than its predecessor. Either the driver is at fault, or a process wrote
/// into its own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTimeFault {
    /// Number under which the queue's work is counted.
    pub queue: QueueNumber,
    /// The log in which the time fell.
    pub log_type: LogType,
    /// Index of the entry.
    pub entry: u32,
    /// The preceding entry's time, GPU ns.
    pub before_ns: u64,
    /// The entry's time, GPU ns.
    pub end_ns: u64,
}

/// Maximum number of faults kept. All faults are counted.
const FAULTS_KEPT: usize = 64;

/// Read position in a log.
#[derive(Clone, Copy, Default)]
pub(super) struct Position {
    /// The index word at the last reading.
    pub(super) word: u64,
    /// The last nonzero time read.
    last_ns: u64,
}

/// One log.
pub(super) struct FenceLog {
    pub(super) log_type: LogType,
    pub(super) place: Mutex<Option<Arc<LogBuffer>>>,
    pub(super) position: Mutex<Position>,
}

/// The logs of a queue whose waits the hardware holds.
pub(crate) struct FenceLogs {
    waits: FenceLog,
    signals: FenceLog,
    /// Allocated while verbose logging is on.
    commands: FenceLog,
    /// Readable by the process: 1 while it must number its command buffers for the verbose log.
    pub(super) verbose: Word,
    pub(super) space: Arc<AddressSpace>,
}

/// The mode of an adapter's logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogMode {
    /// Logs are enlarged because a timeline is being recorded.
    pub(crate) enlarged: bool,
    /// Command buffers are logged.
    pub(crate) verbose: bool,
}

/// Reads the fence logs of one adapter.
pub(crate) struct LogReader {
    pub(super) port: Arc<DriverPort>,
    /// Serialises readings and the ends of log relocations. A DPC takes it: a holder has entered
    /// the driver before, and waits for nothing.
    pub(super) reading: Mutex<()>,
    mode: Mutex<LogMode>,
    faults: Mutex<Vec<LogTimeFault>>,
    clock: GpuClock,
    memory: Arc<Memory>,
}

impl FenceLog {
    pub(super) fn place(&self) -> Option<Arc<LogBuffer>> {
        self.place.lock().clone()
    }

    /// Copies an entry out.
    // spec: NF-208
    fn entry(place: &LogBuffer, index: u64) -> LogEntry {
        let mut bytes = [0; LOG_ENTRY_BYTES];
        // The index is below the capacity that the buffer was allocated for.
        let _ = place.entries.read_once(index * LOG_ENTRY_BYTES as u64, &mut bytes);
        LogEntry::decode(&bytes)
    }
}

impl FenceLogs {
    pub(super) fn all(&self) -> [&FenceLog; 3] {
        [&self.waits, &self.signals, &self.commands]
    }
}

/// Unread entries of a log, between two values of its index word.
struct Unread<'a> {
    queue: usize,
    log: &'a FenceLog,
    place: Arc<LogBuffer>,
    from: u64,
    to: u64,
}

/// The barrier between reading the index and reading the entries.
#[derive(Clone, Copy)]
pub(super) enum Barrier<'a> {
    /// `None` in a DPC, which enters the driver without a wait.
    OfDriver(Option<&'a Powered<'a>>),
    /// The driver has destroyed the queue, which must not be named to it.
    OfCpu,
}

impl LogReader {
    pub(crate) fn new(memory: &Arc<Memory>) -> LogReader {
        let platform = &memory.driver.platform;
        let verbose = memory.driver.config.verbose_logs;
        let mode = LogMode { verbose, ..LogMode::default() };
        LogReader {
            reading: platform.mutex("reading of fence logs", ()),
            mode: platform.mutex("mode of fence logs", mode),
            faults: platform.mutex("faults in fence logs", Vec::new()),
            clock: GpuClock::default(),
            port: memory.driver.clone(),
            memory: memory.clone(),
        }
    }

    pub(crate) fn mode(&self) -> LogMode {
        *self.mode.lock()
    }

    /// Changes the mode. The logs of each queue follow by [`super::log_change::follow_mode`].
    pub(crate) fn change_mode(&self, change: impl FnOnce(&mut LogMode)) {
        change(&mut self.mode.lock());
    }

    /// Returns the first 64 log times that were less than their predecessors.
    pub(crate) fn time_faults(&self) -> Vec<LogTimeFault> {
        self.faults.lock().clone()
    }

    /// The capacity of a log in this mode.
    pub(super) fn capacity(&self, mode: LogMode) -> u32 {
        let standard = self.port.config.log_entries;
        let enlarged = mode.enlarged || self.port.platform.tracing();
        if enlarged { capacity_while_traced(standard) } else { standard }
    }

    pub(super) fn new_place(
        &self,
        level: &Passive,
        space: &Arc<AddressSpace>,
        log_type: LogType,
        capacity: u32,
    ) -> Result<Arc<LogBuffer>, Status> {
        LogBuffer::new(level, &self.memory, space, log_type, capacity).map(Arc::new)
    }

    /// Allocates a queue's logs in this address space, not yet named to the driver. Returns `None`
    /// if the kernel is configured without logs.
    // spec: NF-173, NF-229
    pub(crate) fn new_logs(
        &self,
        level: &Passive,
        space: &Arc<AddressSpace>,
    ) -> Result<Option<FenceLogs>, Status> {
        if self.port.config.log_entries == 0 {
            return Ok(None);
        }
        let capacity = self.capacity(self.mode());
        let platform = &self.port.platform;
        let log = |log_type, place| FenceLog {
            log_type,
            place: platform.mutex("place of a fence log", place),
            position: platform.mutex("fence log reader", Position::default()),
        };
        let made = |log_type| self.new_place(level, space, log_type, capacity).map(Some);
        Ok(Some(FenceLogs {
            waits: log(LogType::Waits, made(LogType::Waits)?),
            signals: log(LogType::Signals, made(LogType::Signals)?),
            commands: log(LogType::Commands, None),
            verbose: platform.client_page(1, ClientAccess::ReadOnly).word(0),
            space: space.clone(),
        }))
    }

    /// Gives the driver the addresses of a new queue's logs.
    // spec: NF-176
    pub(crate) fn set_buffers(&self, level: Irql<'_>, logs: &FenceLogs, queue: DriverHandle) {
        for log in [&logs.waits, &logs.signals] {
            if let Some(place) = log.place() {
                self.set_buffer(level, queue, log.log_type, Some(&place));
            }
        }
    }

    pub(super) fn set_buffer(
        &self,
        level: Irql<'_>,
        queue: DriverHandle,
        log_type: LogType,
        place: Option<&LogBuffer>,
    ) {
        let args = match place {
            Some(place) => place.set_args(queue, log_type, self.notify_every(place)),
            None => LogBuffer::none(&self.port, queue, log_type),
        };
        self.port.driver(level).set_native_fence_log_buffer(&level.raise(), args);
    }

    /// While a timeline is recorded, a log is read every half lap, so no entries are lost while the
    /// reader keeps up.
    fn notify_every(&self, place: &LogBuffer) -> u32 {
        if self.port.platform.tracing() { (place.capacity / 2).max(1) } else { 0 }
    }

    /// D3DKMT_GETNATIVEFENCELOGDETAIL.
    ///
    /// `numbers` is the count at which a user-mode driver's numbering wraps to 0. The GPU takes a
    /// number modulo the capacity of the log in place when the operation is carried out. All
    /// capacities divide this count, so a number chosen before a log changed names the same
    /// successor in the new log.
    pub(crate) fn detail(&self, logs: &FenceLogs) -> LogDetail {
        let (waits, signals) = (logs.waits.place(), logs.signals.place());
        let entries = |place: &Option<Arc<LogBuffer>>| place.as_ref().map_or(0, |p| p.capacity);
        let address = |place: &Option<Arc<LogBuffer>>| place.as_ref().map_or(0, |p| p.gpu_va);
        LogDetail {
            wait_entries: entries(&waits),
            signal_entries: entries(&signals),
            wait_log_gpu_va: address(&waits),
            signal_log_gpu_va: address(&signals),
            numbers: capacity_while_traced(self.port.config.log_entries),
            verbose: Some(ReadOnly::new(logs.verbose.clone())),
        }
    }

    /// Reads the new signals of each of `queues`. The other logs are read only for the timeline.
    pub(super) fn read_signals(
        &self,
        level: Irql<'_>,
        queues: &[&dyn LoggedQueue],
    ) -> Vec<LogEntries> {
        let driver = level.passive().map(|level| self.port.driver(level));
        let _reading = self.reading.lock_device();
        self.read(level, queues, Barrier::OfDriver(driver.as_ref()))
    }

    /// Reads all logs of `queues` for the timeline, up to now.
    pub(crate) fn read_for_timeline(&self, level: Irql<'_>, queues: &[&dyn LoggedQueue]) {
        if self.port.platform.tracing() {
            let _signals = self.read_signals(level, queues);
        }
    }

    /// Reads the logs of a queue that is about to be destroyed, for the timeline, while the driver
    /// can still supply its barrier.
    pub(crate) fn read_before_end(&self, level: &Passive, queue: &dyn LoggedQueue) {
        self.read_at_end(level, queue, true);
    }

    /// Reads, for the last time, the logs of a queue that the driver has destroyed.
    pub(crate) fn read_last(&self, level: &Passive, queue: &dyn LoggedQueue) {
        self.read_at_end(level, queue, false);
    }

    fn read_at_end(&self, level: &Passive, queue: &dyn LoggedQueue, is_with_driver: bool) {
        if queue.logs().is_some() && self.port.platform.tracing() {
            let driver = is_with_driver.then(|| self.port.driver(level));
            let barrier = driver.as_ref().map_or(Barrier::OfCpu, |d| Barrier::OfDriver(Some(d)));
            let _reading = self.reading.lock_device();
            let _signals = self.read(level.into(), &[queue], barrier);
        }
    }

    /// The reading lock is held.
    pub(super) fn read(
        &self,
        level: Irql<'_>,
        queues: &[&dyn LoggedQueue],
        barrier: Barrier<'_>,
    ) -> Vec<LogEntries> {
        let tracing = self.port.platform.tracing();
        // 1. The index of each log, as one word.
        let mut unread = Vec::new();
        // spec: NF-214
        for (number, queue) in queues.iter().enumerate() {
            for log in queue.logs().into_iter().flat_map(FenceLogs::all) {
                if !tracing && log.log_type != LogType::Signals {
                    continue;
                }
                let Some(place) = log.place() else { continue };
                let (from, to) = (log.position.lock().word, place.header.load_once());
                if from != to {
                    unread.push(Unread { queue: number, log, place, from, to });
                }
            }
        }
        let mut signals: Vec<LogEntries> = queues.iter().map(|_| LogEntries::default()).collect();
        // 2. The driver's barrier, once for all.
        // spec: NF-215
        let mut drivers: Vec<DriverHandle> =
            unread.iter().map(|log| queues[log.queue].driver()).collect();
        // spec: NF-218
        drivers.dedup();
        if drivers.is_empty() {
            return signals;
        }
        match barrier {
            Barrier::OfDriver(Some(driver)) => {
                driver.update_native_fence_logs(&level.raise(), &drivers);
            }
            Barrier::OfDriver(None) => {
                self.port.driver(level).update_native_fence_logs(&level.raise(), &drivers);
            }
            Barrier::OfCpu => self.port.platform.fence(),
        }
        // 3. and 4. for each.
        // spec: NF-217
        for unread in unread {
            let entries = self.read_log(level, queues[unread.queue], &unread);
            if unread.log.log_type == LogType::Signals {
                signals[unread.queue] = entries;
            }
        }
        signals
    }

    fn read_log(
        &self,
        level: Irql<'_>,
        queue: &dyn LoggedQueue,
        unread: &Unread<'_>,
    ) -> LogEntries {
        let Unread { log, place, from, to, .. } = unread;
        let capacity = u64::from(place.capacity);
        let written = LogIndex(*to).written_since(LogIndex(*from), place.capacity);
        let start = (from & 0xFFFF_FFFF).min(capacity);
        let oldest = written.saturating_sub(capacity);
        let mut entries: Vec<(u64, LogEntry)> = (oldest..written)
            .map(|nth| (nth, FenceLog::entry(place, (start + nth) % capacity)))
            // A blank entry was never written: its number was skipped.
            .filter(|(_, entry)| *entry != LogEntry::default())
            .collect();
        // Entries that the GPU has overwritten since are lost here, and the new ones are read next
        // time. An entry being overwritten is not counted yet, so a whole lap counts as an overrun.
        self.port.platform.fence();
        let index = LogIndex(place.header.load_once());
        let by_now = index.written_since(LogIndex(*from), place.capacity);
        let lost = by_now.saturating_sub(capacity).min(written);
        entries.retain(|(nth, _)| *nth >= lost);
        self.port.stats.add(Count::log_entries_lost, lost);
        let before_ns = self.check_times(queue.number(), unread, start, &entries);
        let entries: Vec<LogEntry> = entries.into_iter().map(|(_, entry)| entry).collect();
        if let Some(lane) = self.port.platform.traced_lane_of(queue.number()) {
            let read = ReadEntries { log_type: log.log_type, entries: &entries, lost, before_ns };
            let fence_of = |handle| queue.fence_of_handle(handle);
            log_timeline::record(level, &self.port, &self.clock, lane, &read, &fence_of);
        }
        LogEntries { entries, overrun: by_now >= capacity }
    }

    /// Advances the position. Returns the last time before these entries. A decreasing time is
    /// reported as the driver's fault, unless it is 0 (the adapter does not record it). Only the
    /// timeline is affected.
    // spec: NF-209
    fn check_times(
        &self,
        queue: QueueNumber,
        unread: &Unread<'_>,
        start: u64,
        entries: &[(u64, LogEntry)],
    ) -> u64 {
        let mut faults = Vec::new();
        let before_ns = {
            let mut position = unread.log.position.lock();
            let before_ns = position.last_ns;
            position.word = unread.to;
            for (nth, entry) in entries.iter().filter(|(_, entry)| entry.end_ns != 0) {
                if entry.end_ns < position.last_ns {
                    faults.push(LogTimeFault {
                        queue,
                        log_type: unread.log.log_type,
                        entry: ((start + nth) % u64::from(unread.place.capacity)) as u32,
                        before_ns: position.last_ns,
                        end_ns: entry.end_ns,
                    });
                }
                position.last_ns = entry.end_ns;
            }
            before_ns
        };
        if !faults.is_empty() {
            self.port.stats.add(Count::log_time_faults, faults.len() as u64);
            let mut kept = self.faults.lock();
            let room = FAULTS_KEPT.saturating_sub(kept.len());
            kept.extend(faults.into_iter().take(room));
        }
        before_ns
    }
}
